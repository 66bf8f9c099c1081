//! Connecting to interrupts, and running in step with them.
#![expect(
    unsafe_code,
    non_snake_case,
    non_upper_case_globals,
    reason = "exports have foreign signatures and the names of the WDK"
)]

use std::ffi::c_void;
use std::ptr;

use lab_verifier::RuleId;
use nt::NTSTATUS;
use nt::interrupt::{
    CONNECT_FULLY_SPECIFIED, CONNECT_FULLY_SPECIFIED_GROUP, CONNECT_LINE_BASED,
    CONNECT_MESSAGE_BASED, IO_CONNECT_INTERRUPT_PARAMETERS, IO_DISCONNECT_INTERRUPT_PARAMETERS,
    KSERVICE_ROUTINE, KSYNCHRONIZE_ROUTINE, Latched, LevelSensitive,
};
use nt::ke::{HIGH_LEVEL, KIRQL, KSPIN_LOCK};
use nt::status::{
    STATUS_INSUFFICIENT_RESOURCES, STATUS_INVALID_PARAMETER, STATUS_NOT_FOUND,
    STATUS_NOT_SUPPORTED, STATUS_SUCCESS,
};

use super::exports;
use crate::guest::{self, get};
use crate::interrupt::Connection;
use crate::machine::{Machine, current};

/// What a driver asks to be connected to.
struct Wish {
    routine: u64,
    context: u64,
    lock: u64,
    vector: u32,
    irql: KIRQL,
    synchronize_irql: KIRQL,
    mode: i32,
    shared: bool,
    group: u16,
    mask: usize,
}

exports! {
    interrupt;

    fn IoConnectInterrupt(InterruptObject: *mut *mut c_void, ServiceRoutine: KSERVICE_ROUTINE, ServiceContext: *mut c_void, SpinLock: *mut KSPIN_LOCK, Vector: u32, Irql: u8, SynchronizeIrql: u8, InterruptMode: i32, ShareVector: u8, ProcessorEnableMask: usize, _FloatingSave: u8) -> NTSTATUS {
        let wish = Wish {
            routine: ServiceRoutine as usize as u64,
            context: ServiceContext as u64,
            lock: SpinLock as u64,
            vector: Vector,
            irql: Irql,
            synchronize_irql: SynchronizeIrql,
            mode: InterruptMode,
            shared: ShareVector != 0,
            group: 0,
            mask: ProcessorEnableMask,
        };
        connect(InterruptObject, &wish)
    }
    fn IoConnectInterruptEx(Parameters: *mut IO_CONNECT_INTERRUPT_PARAMETERS) -> NTSTATUS {
        let asked = match get!(Parameters, Version) {
            version @ (CONNECT_FULLY_SPECIFIED | CONNECT_FULLY_SPECIFIED_GROUP) => version,
            // No device here was given lines or messages by a bus.
            CONNECT_LINE_BASED | CONNECT_MESSAGE_BASED => {
                current().check_device(get!(Parameters, PhysicalDeviceObject));
                return STATUS_NOT_FOUND;
            }
            _ => {
                guest::write(Parameters.cast(), CONNECT_FULLY_SPECIFIED_GROUP);
                return STATUS_NOT_SUPPORTED;
            }
        };
        let wish = Wish {
            routine: get!(Parameters, ServiceRoutine).map_or(0, |routine| routine as usize as u64),
            context: get!(Parameters, ServiceContext) as u64,
            lock: get!(Parameters, SpinLock) as u64,
            vector: get!(Parameters, Vector),
            irql: get!(Parameters, Irql),
            synchronize_irql: get!(Parameters, SynchronizeIrql),
            mode: get!(Parameters, InterruptMode),
            shared: get!(Parameters, ShareVector) != 0,
            group: if asked == CONNECT_FULLY_SPECIFIED_GROUP { get!(Parameters, Group) } else { 0 },
            mask: get!(Parameters, ProcessorEnableMask),
        };
        connect(get!(Parameters, InterruptObject), &wish)
    }
    fn IoDisconnectInterrupt(InterruptObject: *mut c_void) { current().disconnect(InterruptObject as u64) }
    fn IoDisconnectInterruptEx(Parameters: *mut IO_DISCONNECT_INTERRUPT_PARAMETERS) {
        current().disconnect(get!(Parameters, InterruptObject) as u64)
    }
    fn KeSynchronizeExecution(Interrupt: *mut c_void, SynchronizeRoutine: KSYNCHRONIZE_ROUTINE, SynchronizeContext: *mut c_void) -> u8 {
        let machine = current();
        let old = machine.enter_interrupt(Interrupt as u64);
        let result = machine.call(SynchronizeRoutine as usize as u64, [SynchronizeContext as u64, 0, 0, 0]);
        machine.leave_interrupt(Interrupt as u64, old);
        u8::try_from(result & 0xFF).unwrap_or(0)
    }
    fn KeAcquireInterruptSpinLock(Interrupt: *mut c_void) -> KIRQL { current().enter_interrupt(Interrupt as u64) }
    fn KeReleaseInterruptSpinLock(Interrupt: *mut c_void, OldIrql: KIRQL) {
        current().leave_interrupt(Interrupt as u64, OldIrql)
    }
}

fn connect(object: *mut *mut c_void, wish: &Wish) -> NTSTATUS {
    guest::write(object, ptr::null_mut());
    match current().grant(wish) {
        Ok(interrupt) => {
            guest::write(object, interrupt as *mut c_void);
            STATUS_SUCCESS
        }
        Err(status) => status,
    }
}

impl Machine {
    fn grant(&self, wish: &Wish) -> Result<u64, NTSTATUS> {
        let irql = self
            .line_irql(wish.vector)
            .ok_or(STATUS_INVALID_PARAMETER)?;
        let synchronize_irql = wish.synchronize_irql.max(irql);
        let legal = wish.irql == irql
            && synchronize_irql < HIGH_LEVEL
            && matches!(wish.mode, LevelSensitive | Latched)
            && self.line_is_free(wish.vector, wish.shared);
        let mask = wish.mask as u64 & self.group_mask(wish.group) as u64;
        if !legal || mask == 0 || wish.routine == 0 {
            return Err(STATUS_INVALID_PARAMETER);
        }
        if self.must_fail() {
            return Err(STATUS_INSUFFICIENT_RESOURCES);
        }
        let mut cpus = vec![0; usize::from(wish.group) + 1];
        cpus[usize::from(wish.group)] = mask;
        let connection = Connection {
            object: 0,
            routine: wish.routine,
            context: wish.context,
            lock: wish.lock,
            vector: wish.vector,
            synchronize_irql,
            mode: wish.mode,
            shared: wish.shared,
            cpus,
            taken_at: self.call_site(),
        };
        self.connect(connection)
            .ok_or(STATUS_INSUFFICIENT_RESOURCES)
    }

    /// Raises to an interrupt's IRQL and takes its lock.
    fn enter_interrupt(&self, object: u64) -> KIRQL {
        let connection = self.connection(object);
        let old = self.raise(connection.synchronize_irql);
        self.acquire(connection.lock as *mut KSPIN_LOCK);
        old
    }

    fn leave_interrupt(&self, object: u64, irql: KIRQL) {
        let connection = self.connection(object);
        if self.irql() != connection.synchronize_irql {
            self.violate(
                RuleId::IrqlContract,
                [object, u64::from(self.irql()), 0, 0],
                format!(
                    "an interrupt's spin lock was released at IRQL {}",
                    self.irql()
                ),
            );
        }
        self.release_lock(connection.lock as *mut KSPIN_LOCK);
        self.lower(irql);
    }
}
