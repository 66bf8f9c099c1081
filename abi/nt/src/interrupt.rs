//! Interrupts: connecting to them, and running in step with them.

use core::ffi::c_void;

use crate::base::BOOLEAN;
use crate::irp::DEVICE_OBJECT;
use crate::ke::{KAFFINITY, KIRQL, KSPIN_LOCK};
use crate::status::NTSTATUS;

pub type KSERVICE_ROUTINE =
    unsafe extern "efiapi" fn(Interrupt: *mut c_void, ServiceContext: *mut c_void) -> BOOLEAN;
pub type KSYNCHRONIZE_ROUTINE = unsafe extern "efiapi" fn(Context: *mut c_void) -> BOOLEAN;

/// `KINTERRUPT_MODE`.
pub const LevelSensitive: i32 = 0;
pub const Latched: i32 = 1;

/// `IO_CONNECT_INTERRUPT_PARAMETERS.Version`.
pub const CONNECT_FULLY_SPECIFIED: u32 = 1;
pub const CONNECT_LINE_BASED: u32 = 2;
pub const CONNECT_MESSAGE_BASED: u32 = 3;
pub const CONNECT_FULLY_SPECIFIED_GROUP: u32 = 4;

/// `IO_CONNECT_INTERRUPT_PARAMETERS`: its fully specified arm, the first
/// fields of which are those of the line-based arm.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct IO_CONNECT_INTERRUPT_PARAMETERS {
    pub Version: u32,
    pub PhysicalDeviceObject: *mut DEVICE_OBJECT,
    pub InterruptObject: *mut *mut c_void,
    pub ServiceRoutine: Option<KSERVICE_ROUTINE>,
    pub ServiceContext: *mut c_void,
    pub SpinLock: *mut KSPIN_LOCK,
    pub SynchronizeIrql: KIRQL,
    pub FloatingSave: BOOLEAN,
    pub ShareVector: BOOLEAN,
    pub Vector: u32,
    pub Irql: KIRQL,
    pub InterruptMode: i32,
    pub ProcessorEnableMask: KAFFINITY,
    pub Group: u16,
}
layout!(IO_CONNECT_INTERRUPT_PARAMETERS, 0x50, PhysicalDeviceObject @ 8, SynchronizeIrql @ 0x30, Vector @ 0x34, Irql @ 0x38, InterruptMode @ 0x3C, ProcessorEnableMask @ 0x40, Group @ 0x48);

#[repr(C)]
#[derive(Clone, Copy)]
pub struct IO_DISCONNECT_INTERRUPT_PARAMETERS {
    pub Version: u32,
    /// `ConnectionContext.InterruptObject`.
    pub InterruptObject: *mut c_void,
}
layout!(IO_DISCONNECT_INTERRUPT_PARAMETERS, 0x10, InterruptObject @ 8);

image! {
    /// Connects a routine to an interrupt vector.
    fn IoConnectInterrupt(InterruptObject: *mut *mut c_void, ServiceRoutine: KSERVICE_ROUTINE, ServiceContext: *mut c_void, SpinLock: *mut KSPIN_LOCK, Vector: u32, Irql: KIRQL, SynchronizeIrql: KIRQL, InterruptMode: i32, ShareVector: BOOLEAN, ProcessorEnableMask: KAFFINITY, FloatingSave: BOOLEAN) -> NTSTATUS where irql == PASSIVE_LEVEL, FAILS, ACQUIRES;
    /// Connects a routine to a vector, or to the interrupts of an enumerated device.
    fn IoConnectInterruptEx(Parameters: *mut IO_CONNECT_INTERRUPT_PARAMETERS) -> NTSTATUS where irql == PASSIVE_LEVEL, FAILS, ACQUIRES;
    /// Disconnects an interrupt.
    fn IoDisconnectInterrupt(InterruptObject: *mut c_void) where irql == PASSIVE_LEVEL, RELEASES;
    /// Disconnects what `IoConnectInterruptEx` connected.
    fn IoDisconnectInterruptEx(Parameters: *mut IO_DISCONNECT_INTERRUPT_PARAMETERS) where irql == PASSIVE_LEVEL, RELEASES;
    /// Runs a routine at an interrupt's IRQL with its lock held.
    fn KeSynchronizeExecution(Interrupt: *mut c_void, SynchronizeRoutine: KSYNCHRONIZE_ROUTINE, SynchronizeContext: *mut c_void) -> BOOLEAN where irql <= HIGH_LEVEL;
    /// Raises to an interrupt's IRQL and takes its lock; returns the old IRQL.
    fn KeAcquireInterruptSpinLock(Interrupt: *mut c_void) -> KIRQL where irql <= HIGH_LEVEL, ACQUIRES;
    /// Releases an interrupt's lock and lowers the IRQL to `OldIrql`.
    fn KeReleaseInterruptSpinLock(Interrupt: *mut c_void, OldIrql: KIRQL) where irql <= HIGH_LEVEL, RELEASES;
}
