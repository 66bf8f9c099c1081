//! What must hold when IRPs are passed on, completed, and come back.

use lab_verifier::RuleId;
use nt::NTSTATUS;
use nt::irp::{DEVICE_OBJECT, IO_STACK_LOCATION, IRP, SL_PENDING_RETURNED};
use nt::status::STATUS_PENDING;

use super::store::{Asked, MAX_STACK};
use super::{IrpBlock, Origin, Phase, block_of};
use crate::guest::{self, field, get, set};
use crate::machine::Machine;

/// What an uninitialised status variable often holds.
const MINUS_ONE: u32 = u32::MAX;

impl Machine {
    /// The lab's record of an IRP that a driver passed; stops when it is none.
    pub(crate) fn irp_block(&self, irp: *mut IRP) -> *mut IrpBlock {
        let known = self.irps.borrow().is_place(irp as u64);
        let block = block_of(irp);
        if !known || get!(block, phase) == Phase::Free {
            self.violate(
                RuleId::IrpInvalid,
                [0, irp as u64, 0, 0],
                format!("{:#x} is not an IRP, or one that was freed", irp as u64),
            );
        }
        block
    }

    /// Parameters of the I/O manager's rules: code address, IRP, device.
    fn irp_parameters(&self, code: u64, irp: *mut IRP) -> [u64; 4] {
        let device = match get!(irp, CurrentLocation) <= get!(irp, StackCount) {
            true => get!(get!(irp, CurrentStackLocation), DeviceObject) as u64,
            false => 0,
        };
        [0, code, irp as u64, device]
    }

    fn report_irp(&self, rule: RuleId, irp: *mut IRP, what: &str) {
        let parameters = self.irp_parameters(self.call_site(), irp);
        self.report(rule, parameters, what.into());
    }

    /// Checks an IRP that a driver passes to another device.
    pub(super) fn check_forwarding(&self, block: *mut IrpBlock) {
        if self.call_site() == 0 {
            return;
        }
        let irp = field!(block, irp);
        if get!(irp, CancelRoutine).is_some() {
            let what = "an IRP was passed on while its cancel routine is set";
            self.report_irp(RuleId::IrpForwardedCancelable, irp, what);
        }
        let next = get!(irp, CurrentStackLocation).wrapping_sub(1);
        if get!(block, depth) == 0 {
            return;
        }
        let location = get!(irp, CurrentLocation) - 1;
        if location != get!(block, owned) {
            return self.check_prepared(irp, next);
        }
        // IoSkipCurrentIrpStackLocation: the driver below gets the location of this one.
        let at = usize::try_from(location).unwrap_or(0).min(MAX_STACK);
        if get!(block, asked[at]) != asked_in(next) {
            let what = "an IRP was passed on after IoSkipCurrentIrpStackLocation with a completion routine set: it replaced that of the driver above";
            self.report_irp(RuleId::IrpSkipCompletion, irp, what);
        }
    }

    /// The next location, which no driver has seen yet, says what is asked for.
    fn check_prepared(&self, irp: *mut IRP, next: *mut IO_STACK_LOCATION) {
        let current = get!(irp, CurrentStackLocation);
        if get!(next, MajorFunction) == 0 && get!(current, MajorFunction) != 0 {
            let what = "an IRP was passed on whose next stack location was not set up: it would arrive as IRP_MJ_CREATE";
            self.report_irp(RuleId::IrpUnprepared, irp, what);
        }
    }

    /// Remembers what a location asks for as it is handed to its driver.
    pub(super) fn note_asked(block: *mut IrpBlock, location: i8, stack: *mut IO_STACK_LOCATION) {
        let at = usize::try_from(location).unwrap_or(0).min(MAX_STACK);
        guest::write(field!(block, asked[at]), asked_in(stack));
    }

    /// What must hold when a dispatch routine returns.
    pub(super) fn check_dispatch(&self, block: *mut IrpBlock, routine: u64, status: NTSTATUS) {
        let depth = get!(block, depth) - 1;
        set!(block, depth = depth);
        if depth > 0 || get!(block, phase) == Phase::Free {
            return;
        }
        if get!(block, taken_back) {
            // A completion routine kept it: what it is by now is its driver's business.
            set!(block, taken_back = false);
            return;
        }
        let (completed, marked) = progress(block);
        let irp: *mut IRP = field!(block, irp);
        let parameters = [0, routine, irp as u64, 0];
        let report = |rule, what| self.report_at(rule, parameters, what, routine + 1);
        if status.to_u32() == MINUS_ONE {
            report(RuleId::IrpBadReturn, "dispatch returned 0xFFFFFFFF".into());
        }
        let name = format!("dispatch returned {status}");
        match (completed, marked, status == STATUS_PENDING) {
            (_, true, false) => report(
                RuleId::IrpMarkedNotPending,
                format!("{name} for an IRP that is marked pending"),
            ),
            (_, false, true) => report(
                RuleId::IrpPendingNotMarked,
                format!("{name} for an IRP that is not marked pending"),
            ),
            (true, false, false) if status != get!(block, outcome).Status => report(
                RuleId::IrpStatusMismatch,
                format!(
                    "{name}, the IRP was completed with {} at {}",
                    get!(block, outcome).Status,
                    self.site_in_words(get!(block, completed_at))
                ),
            ),
            (false, false, false) => {
                report(
                    RuleId::IrpNeverCompleted,
                    format!("{name} for an IRP that is not completed"),
                );
                self.fail_irp(irp, status);
            }
            _ => {}
        }
    }

    /// Checks what an IRP is completed with; false if it is complete already.
    pub(super) fn check_completion(&self, irp: *mut IRP) -> bool {
        let block = block_of(irp);
        let known = self.irps.borrow().is_place(irp as u64);
        if known && get!(block, completed_at) != 0 && get!(block, phase) != Phase::Active {
            let what = format!(
                "the IRP at {:#x} was completed, and is complete since {}",
                irp as u64,
                self.site_in_words(get!(block, completed_at))
            );
            self.report(RuleId::IrpCompletedTwice, [irp as u64, 0, 0, 0], what);
            return false;
        }
        let block = self.irp_block(irp);
        let status = get!(irp, IoStatus.Status);
        if status == STATUS_PENDING || status.to_u32() == MINUS_ONE {
            self.report(
                RuleId::IrpBadStatus,
                [0, u64::from(status.to_u32()), irp as u64, 0],
                format!("an IRP was completed with {status}"),
            );
        }
        if let Some(routine) = get!(irp, CancelRoutine) {
            self.report(
                RuleId::IrpCancelRoutineLeft,
                [0, routine as usize as u64, irp as u64, 0],
                "an IRP was completed whose cancel routine is still set".into(),
            );
            set!(irp, CancelRoutine = None);
        }
        if get!(block, origin) == Origin::Request {
            self.check_information(block);
        }
        true
    }

    /// A completion routine that lets an IRP go on hands the pending mark up.
    pub(super) fn check_pending_propagated(&self, irp: *mut IRP, routine: u64) {
        let has_upper = get!(irp, CurrentLocation) <= get!(irp, StackCount);
        if !has_upper || get!(irp, PendingReturned) == 0 {
            return;
        }
        if get!(get!(irp, CurrentStackLocation), Control) & SL_PENDING_RETURNED == 0 {
            self.report_at(
                RuleId::IrpPendingNotPropagated,
                self.irp_parameters(routine, irp),
                "a completion routine did not mark the IRP pending, and PendingReturned was set"
                    .into(),
                routine + 1,
            );
        }
    }

    /// `IoFreeIrp`.
    pub(crate) fn free_driver_irp(&self, irp: *mut IRP) {
        let block = self.irp_block(irp);
        let site = self.site_in_words(get!(block, allocated_at));
        if get!(block, origin) != Origin::Driver {
            let what = format!("IoFreeIrp of an IRP that the I/O manager frees, made at {site}");
            self.report_irp(RuleId::IrpFreeThreaded, irp, &what);
        } else if get!(block, in_flight) {
            let what = format!("IoFreeIrp of an IRP that is under way, allocated at {site}");
            self.report_irp(RuleId::IrpFreedInFlight, irp, &what);
        } else {
            self.drop_threaded_buffer(irp);
            self.free_irp(irp);
        }
    }

    /// Reports that the driver wrote to an IRP that was not its own any more.
    pub(super) fn report_touched(&self, block: *mut IrpBlock) {
        let irp: *mut IRP = field!(block, irp);
        let site = get!(block, completed_at);
        self.report_at(
            RuleId::IrpTouched,
            [irp as u64, 1, 0, 0],
            format!(
                "the IRP at {:#x} was written to after it was completed or freed",
                irp as u64
            ),
            site,
        );
    }

    /// Dispatch to a device whose driver is the default routine or none.
    pub(super) fn check_location(&self, device: *mut DEVICE_OBJECT, irp: *mut IRP, location: i8) {
        if location <= 0 {
            self.violate(
                RuleId::IrpStack,
                [irp as u64, device as u64, 0, 0],
                "an IRP was passed on with no stack location left".into(),
            );
        }
    }
}

/// Whether an IRP is complete, and whether it was marked pending.
fn progress(block: *mut IrpBlock) -> (bool, bool) {
    if get!(block, phase) == Phase::Completed {
        return (true, get!(block, pending_returned));
    }
    let stack = get!(field!(block, irp), CurrentStackLocation);
    (false, get!(stack, Control) & SL_PENDING_RETURNED != 0)
}

fn asked_in(stack: *mut IO_STACK_LOCATION) -> Asked {
    Asked {
        routine: get!(stack, CompletionRoutine).map_or(0, |routine| routine as usize as u64),
        context: get!(stack, Context) as u64,
    }
}
