//! I/O request packets: allocation, dispatch, completion.

mod check;
mod store;

use std::ptr;

use nt::NTSTATUS;
use nt::io::{DO_BUFFERED_IO, DO_DIRECT_IO};
use nt::irp::{
    DEVICE_OBJECT, IO_STACK_LOCATION, IO_TYPE_IRP, IRP, SL_INVOKE_ON_CANCEL, SL_INVOKE_ON_ERROR,
    SL_INVOKE_ON_SUCCESS, SL_PENDING_RETURNED,
};
use nt::status::{STATUS_INVALID_DEVICE_REQUEST, STATUS_MORE_PROCESSING_REQUIRED};
use store::MAX_STACK;
pub(crate) use store::{IrpBlock, Irps, block_of};

use crate::guest::{self, field, get, set};
use crate::locks::returned::Called;
use crate::machine::Machine;

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

impl Machine {
    /// An initialised IRP with room for `stack_size` locations, or null when that is too many.
    pub(crate) fn allocate_irp(&self, stack_size: i8, origin: Origin, site: u64) -> *mut IRP {
        let count = usize::try_from(stack_size).unwrap_or(0);
        if count == 0 || count > MAX_STACK {
            return ptr::null_mut();
        }
        let taken = self.irps.borrow_mut().take();
        let Ok((block, touched)) = taken else {
            return ptr::null_mut();
        };
        if touched {
            self.report_touched(block);
        }
        set!(block, phase = Phase::Active);
        set!(block, origin = origin);
        set!(block, depth = 0);
        set!(block, in_flight = false);
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
        self.irps.borrow_mut().put(block);
    }

    /// `IoCallDriver`: moves to the next stack location and calls the device's driver.
    pub(crate) fn call_device(&self, device: *mut DEVICE_OBJECT, irp: *mut IRP) -> NTSTATUS {
        let block = self.irp_block(irp);
        let location = get!(irp, CurrentLocation) - 1;
        self.check_location(device, irp, location);
        self.check_forwarding(block);
        let stack = get!(irp, CurrentStackLocation).wrapping_sub(1);
        set!(irp, CurrentLocation = location);
        set!(irp, CurrentStackLocation = stack);
        set!(stack, DeviceObject = device);
        if !get!(block, in_flight) {
            set!(block, sent_from = location + 1);
        }
        set!(block, in_flight = true);
        set!(block, owned = location);
        Self::note_asked(block, location, stack);
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
        set!(block, dispatch = dispatch);
        let arguments = [device as u64, irp as u64, 0, 0];
        let called = Called::Dispatch(device as u64);
        let result = self.call_as(called, dispatch, arguments, self.irql());
        let status = status_of(result);
        self.check_dispatch(block, dispatch, status);
        status
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
        if !self.check_completion(irp) {
            return;
        }
        let block = block_of(irp);
        let count = get!(irp, StackCount);
        while get!(irp, CurrentLocation) <= count {
            let stack = get!(irp, CurrentStackLocation);
            set!(
                irp,
                PendingReturned = u8::from(get!(stack, Control) & SL_PENDING_RETURNED != 0)
            );
            set!(irp, CurrentLocation = get!(irp, CurrentLocation) + 1);
            set!(irp, CurrentStackLocation = stack.wrapping_add(1));
            set!(block, owned = get!(irp, CurrentLocation));
            // Where it was sent from it belongs to whoever made it, who may free it now.
            let is_below = get!(irp, CurrentLocation) < get!(block, sent_from);
            set!(block, in_flight = is_below);
            if self.completion_routine(irp, stack) == STATUS_MORE_PROCESSING_REQUIRED {
                // The block outlives an IRP that was freed.
                set!(block, taken_back = true);
                return;
            }
        }
        // Completed by the kernel itself: anything but zero will do.
        set!(block, completed_at = self.call_site().max(1));
        set!(block, outcome = get!(irp, IoStatus));
        set!(block, pending_returned = get!(irp, PendingReturned) != 0);
        set!(block, mdl = get!(irp, MdlAddress));
        set!(block, phase = Phase::Completed);
        self.end_request(block);
        if get!(block, origin) == Origin::Request {
            self.irps.borrow().seal(block);
        }
    }

    /// Calls the completion routine of the location that was just left, if it is asked for.
    fn completion_routine(&self, irp: *mut IRP, stack: *mut IO_STACK_LOCATION) -> NTSTATUS {
        let status = get!(irp, IoStatus.Status);
        let control = get!(stack, Control);
        let wanted = (status.is_success() && control & SL_INVOKE_ON_SUCCESS != 0)
            || (!status.is_success() && control & SL_INVOKE_ON_ERROR != 0)
            || (get!(irp, Cancel) != 0 && control & SL_INVOKE_ON_CANCEL != 0);
        let Some(routine) = get!(stack, CompletionRoutine).filter(|_| wanted) else {
            return self.no_completion_routine(irp);
        };
        let above = get!(irp, CurrentStackLocation);
        let device = if get!(irp, CurrentLocation) > get!(irp, StackCount) {
            ptr::null_mut()
        } else {
            get!(above, DeviceObject)
        };
        let context = get!(stack, Context);
        let routine = routine as usize as u64;
        let arguments = [device as u64, irp as u64, context as u64, 0];
        let result = self.call_as(Called::Completion, routine, arguments, self.irql());
        let status = status_of(result);
        if status != STATUS_MORE_PROCESSING_REQUIRED {
            self.check_pending_propagated(irp, routine);
        }
        status
    }

    /// Without a routine, the I/O manager hands the pending mark up.
    fn no_completion_routine(&self, irp: *mut IRP) -> NTSTATUS {
        let has_upper = get!(irp, CurrentLocation) <= get!(irp, StackCount);
        if has_upper && get!(irp, PendingReturned) != 0 {
            let stack = get!(irp, CurrentStackLocation);
            set!(stack, Control = get!(stack, Control) | SL_PENDING_RETURNED);
        }
        nt::status::STATUS_SUCCESS
    }
}

/// The location that an IRP came to its first driver with.
pub(crate) fn first_location(irp: *mut IRP) -> *mut IO_STACK_LOCATION {
    let ahead = i16::from(get!(irp, StackCount)) - i16::from(get!(irp, CurrentLocation));
    get!(irp, CurrentStackLocation).wrapping_offset(isize::from(ahead))
}

fn status_of(result: u64) -> NTSTATUS {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "an NTSTATUS is the low half of rax"
    )]
    NTSTATUS::from_u32(result as u32)
}

/// How a device wants the buffers of reads and writes.
pub(crate) fn transfer(device: *mut DEVICE_OBJECT) -> u32 {
    get!(device, Flags) & (DO_BUFFERED_IO | DO_DIRECT_IO)
}
