//! I/O request packets: allocation, dispatch, completion.
//!
//! An IRP lies in a block of the lab's own, with the lab's record of it in
//! front, where no driver looks. Blocks are recycled: an IOCTL costs no
//! allocation.
#![expect(unsafe_code, reason = "allocates the memory that IRPs live in")]

use std::ptr;

use lab_verifier::RuleId;
use nt::NTSTATUS;
use nt::io::{DO_BUFFERED_IO, DO_DIRECT_IO};
use nt::irp::{
    DEVICE_OBJECT, IO_STACK_LOCATION, IO_TYPE_IRP, IRP, SL_INVOKE_ON_CANCEL, SL_INVOKE_ON_ERROR,
    SL_INVOKE_ON_SUCCESS, SL_PENDING_RETURNED,
};
use nt::status::{STATUS_INVALID_DEVICE_REQUEST, STATUS_MORE_PROCESSING_REQUIRED, STATUS_PENDING};

use crate::guest::{self, field, get, set};
use crate::machine::Machine;

/// Stack locations of an IRP, at most.
const MAX_STACK: usize = 16;
const MAGIC: u64 = 0x4B43_4F44_5952_4431;

/// Where an IRP is in its life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    Free,
    /// Belongs to the driver.
    Active,
    /// Belongs to the I/O manager again.
    Completed,
}

/// Who made an IRP, and so who frees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Origin {
    /// The lab, for a request of a client.
    Request,
    /// The driver, with `IoAllocateIrp`.
    Driver,
    /// The driver, with `IoBuild…Request`: freed at completion.
    Threaded,
}

/// An IRP and the lab's record of it.
#[repr(C)]
pub(crate) struct IrpBlock {
    magic: u64,
    pub(crate) phase: Phase,
    pub(crate) origin: Origin,
    /// Dispatch calls into drivers under way for it.
    pub(crate) depth: u32,
    /// A completion routine has taken it back: it may be anything by now.
    pub(crate) taken_back: bool,
    /// Where it was allocated, and where completed.
    pub(crate) allocated_at: u64,
    pub(crate) completed_at: u64,
    pub(crate) irp: IRP,
    stack: [IO_STACK_LOCATION; MAX_STACK],
}

/// All IRPs of a machine.
#[derive(Default)]
pub(crate) struct Irps {
    free: Vec<*mut IrpBlock>,
    all: Vec<*mut IrpBlock>,
}

impl Irps {
    fn take(&mut self) -> *mut IrpBlock {
        if let Some(block) = self.free.pop() {
            return block;
        }
        // SAFETY: every field of the block is an integer, a nullable pointer or a plain enum whose first variant is 0.
        let block: Box<IrpBlock> = Box::new(unsafe { std::mem::zeroed() });
        let block = Box::into_raw(block);
        self.all.push(block);
        block
    }

    pub(crate) fn live(&self, origin: Origin) -> impl Iterator<Item = *mut IrpBlock> {
        self.all.iter().copied().filter(move |block| {
            get!(*block, phase) != Phase::Free && get!(*block, origin) == origin
        })
    }
}

impl Drop for Irps {
    fn drop(&mut self) {
        for block in self.all.drain(..) {
            // SAFETY: it came from `Box::into_raw` in `take` and is freed only here.
            drop(unsafe { Box::from_raw(block) });
        }
    }
}

/// The block an IRP lies in.
pub(crate) fn block_of(irp: *mut IRP) -> *mut IrpBlock {
    irp.wrapping_byte_sub(std::mem::offset_of!(IrpBlock, irp))
        .cast()
}

impl Machine {
    /// An initialised IRP with room for `stack_size` locations, or null when that is too many.
    pub(crate) fn allocate_irp(&self, stack_size: i8, origin: Origin, site: u64) -> *mut IRP {
        let count = usize::try_from(stack_size).unwrap_or(0);
        if count == 0 || count > MAX_STACK {
            return ptr::null_mut();
        }
        let block = self.irps.borrow_mut().take();
        set!(block, magic = MAGIC);
        set!(block, phase = Phase::Active);
        set!(block, origin = origin);
        set!(block, depth = 0);
        set!(block, taken_back = false);
        set!(block, allocated_at = site);
        set!(block, completed_at = 0);
        let irp = field!(block, irp);
        set!(irp, StackCount = stack_size);
        self.reset_irp(irp);
        irp
    }

    /// Makes an IRP as new, with as many stack locations as it has.
    pub(crate) fn reset_irp(&self, irp: *mut IRP) {
        let block = block_of(irp);
        let stack_size = get!(irp, StackCount);
        let count = usize::try_from(stack_size).unwrap_or(0);
        set!(block, phase = Phase::Active);
        let bytes = size_of::<IRP>() + count * size_of::<IO_STACK_LOCATION>();
        guest::set_bytes(irp.cast(), 0, bytes);
        set!(irp, Type = IO_TYPE_IRP);
        set!(irp, Size = u16::try_from(bytes).unwrap_or(u16::MAX));
        set!(irp, StackCount = stack_size);
        set!(irp, CurrentLocation = stack_size + 1);
        let list = field!(irp, ThreadListEntry);
        set!(list, Flink = list);
        set!(list, Blink = list);
        set!(
            irp,
            CurrentStackLocation = field!(block, stack)
                .cast::<IO_STACK_LOCATION>()
                .wrapping_add(count)
        );
    }

    /// Gives an IRP's block back.
    pub(crate) fn free_irp(&self, irp: *mut IRP) {
        let block = block_of(irp);
        set!(block, phase = Phase::Free);
        set!(block, magic = 0);
        self.irps.borrow_mut().free.push(block);
    }

    /// The lab's record of an IRP that a driver passed; stops when it is none.
    pub(crate) fn irp_block(&self, irp: *mut IRP) -> *mut IrpBlock {
        let block = block_of(irp);
        if irp.is_null() || get!(block, magic) != MAGIC {
            self.violate(
                RuleId::BadObject,
                [irp as u64, 0, 0, 0],
                format!("{:#x} is not an IRP, or one that was freed", irp as u64),
            );
        }
        block
    }

    /// `IoCallDriver`: moves to the next stack location and calls the device's driver.
    pub(crate) fn call_device(&self, device: *mut DEVICE_OBJECT, irp: *mut IRP) -> NTSTATUS {
        let block = self.irp_block(irp);
        let location = get!(irp, CurrentLocation) - 1;
        if location <= 0 {
            self.violate(
                RuleId::IrpStack,
                [irp as u64, device as u64, 0, 0],
                "an IRP was passed on with no stack location left".into(),
            );
        }
        let stack = get!(irp, CurrentStackLocation).wrapping_sub(1);
        set!(irp, CurrentLocation = location);
        set!(irp, CurrentStackLocation = stack);
        set!(stack, DeviceObject = device);
        let driver = get!(device, DriverObject);
        let major = usize::from(get!(stack, MajorFunction).min(nt::irp::IRP_MJ_MAXIMUM_FUNCTION));
        let dispatch =
            get!(driver, MajorFunction)[major].map_or(0, |routine| routine as usize as u64);
        if dispatch == crate::pnp::bus_routine() {
            return self.bus_dispatch(device, irp);
        }
        if dispatch == 0 || dispatch == crate::exports::io::invalid_device_request() as usize as u64
        {
            return self.fail_irp(irp, STATUS_INVALID_DEVICE_REQUEST);
        }
        if get!(block, depth) == 0 {
            set!(block, taken_back = false);
        }
        set!(block, depth = get!(block, depth) + 1);
        let result = self.call(dispatch, [device as u64, irp as u64, 0, 0]);
        #[expect(
            clippy::cast_possible_truncation,
            reason = "an NTSTATUS is the low half of rax"
        )]
        let status = NTSTATUS::from_u32(result as u32);
        self.check_dispatch(block, status);
        status
    }

    /// What must hold when a dispatch routine returns.
    fn check_dispatch(&self, block: *mut IrpBlock, status: NTSTATUS) {
        let irp = field!(block, irp);
        let depth = get!(block, depth) - 1;
        set!(block, depth = depth);
        if depth > 0 || get!(block, phase) == Phase::Free {
            return;
        }
        if get!(block, taken_back) {
            set!(block, taken_back = false);
            return;
        }
        let completed = get!(block, phase) == Phase::Completed;
        if completed && status != STATUS_PENDING && status != get!(irp, IoStatus.Status) {
            self.violate(
                RuleId::IrpStatusMismatch,
                [irp as u64, u64::from(status.to_u32()), 0, 0],
                format!(
                    "dispatch returned {status}, the IRP was completed with {}",
                    get!(irp, IoStatus.Status)
                ),
            );
        }
        if !completed && status != STATUS_PENDING {
            self.violate(
                RuleId::IrpNeverCompleted,
                [irp as u64, u64::from(status.to_u32()), 0, 0],
                format!("dispatch returned {status} for an IRP that is not completed"),
            );
        }
        self.check_pending(irp, status, completed);
    }

    fn check_pending(&self, irp: *mut IRP, status: NTSTATUS, completed: bool) {
        let marked = if completed {
            get!(irp, PendingReturned) != 0
        } else {
            get!(get!(irp, CurrentStackLocation), Control) & SL_PENDING_RETURNED != 0
        };
        if marked != (status == STATUS_PENDING) {
            let how = if marked {
                "marked pending"
            } else {
                "not marked pending"
            };
            self.violate(
                RuleId::IrpPendingMismatch,
                [irp as u64, u64::from(status.to_u32()), 0, 0],
                format!("dispatch returned {status} for an IRP that is {how}"),
            );
        }
    }

    /// Completes an IRP on behalf of a driver that has no routine for it.
    fn fail_irp(&self, irp: *mut IRP, status: NTSTATUS) -> NTSTATUS {
        set!(irp, IoStatus.Status = status);
        set!(irp, IoStatus.Information = 0);
        self.complete_irp(irp);
        status
    }

    /// `IoCompleteRequest`: walks the completion routines, then ends the request.
    pub(crate) fn complete_irp(&self, irp: *mut IRP) {
        let block = self.irp_block(irp);
        self.check_completion(block);
        let count = get!(irp, StackCount);
        while get!(irp, CurrentLocation) <= count {
            let stack = get!(irp, CurrentStackLocation);
            set!(
                irp,
                PendingReturned = u8::from(get!(stack, Control) & SL_PENDING_RETURNED != 0)
            );
            set!(irp, CurrentLocation = get!(irp, CurrentLocation) + 1);
            set!(irp, CurrentStackLocation = stack.wrapping_add(1));
            if self.completion_routine(irp, stack) == STATUS_MORE_PROCESSING_REQUIRED {
                // The block outlives an IRP that was freed.
                set!(block, taken_back = true);
                return;
            }
        }
        set!(block, phase = Phase::Completed);
        set!(block, completed_at = self.call_site());
        self.end_request(block);
    }

    /// Calls the completion routine of the location that was just left, if it is asked for.
    fn completion_routine(&self, irp: *mut IRP, stack: *mut IO_STACK_LOCATION) -> NTSTATUS {
        let status = get!(irp, IoStatus.Status);
        let control = get!(stack, Control);
        let wanted = (status.is_success() && control & SL_INVOKE_ON_SUCCESS != 0)
            || (!status.is_success() && control & SL_INVOKE_ON_ERROR != 0)
            || (get!(irp, Cancel) != 0 && control & SL_INVOKE_ON_CANCEL != 0);
        let Some(routine) = get!(stack, CompletionRoutine).filter(|_| wanted) else {
            return nt::status::STATUS_SUCCESS;
        };
        let above = get!(irp, CurrentStackLocation);
        let device = if get!(irp, CurrentLocation) > get!(irp, StackCount) {
            ptr::null_mut()
        } else {
            get!(above, DeviceObject)
        };
        let context = get!(stack, Context);
        let result = self.call(
            routine as usize as u64,
            [device as u64, irp as u64, context as u64, 0],
        );
        #[expect(
            clippy::cast_possible_truncation,
            reason = "an NTSTATUS is the low half of rax"
        )]
        let status = NTSTATUS::from_u32(result as u32);
        status
    }

    fn check_completion(&self, block: *mut IrpBlock) {
        let irp = field!(block, irp);
        let status = get!(irp, IoStatus.Status);
        if get!(block, phase) == Phase::Completed {
            self.violate(
                RuleId::IrpCompletedTwice,
                [irp as u64, get!(block, completed_at), 0, 0],
                "an IRP was completed that is completed already".into(),
            );
        }
        if status == STATUS_PENDING || status.to_u32() == u32::MAX {
            self.violate(
                RuleId::IrpBadStatus,
                [irp as u64, u64::from(status.to_u32()), 0, 0],
                format!("an IRP was completed with {status}"),
            );
        }
        if get!(irp, CancelRoutine).is_some() {
            self.violate(
                RuleId::IrpCancelRoutineLeft,
                [irp as u64, 0, 0, 0],
                "an IRP was completed whose cancel routine is still set".into(),
            );
        }
    }
}

/// How a device wants the buffers of reads and writes.
pub(crate) fn transfer(device: *mut DEVICE_OBJECT) -> u32 {
    get!(device, Flags) & (DO_BUFFERED_IO | DO_DIRECT_IO)
}
