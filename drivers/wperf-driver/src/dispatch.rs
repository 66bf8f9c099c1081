//! From control code and bytes to one call, and from its answer to bytes.
//!
//! Everything in the input is checked, and room for the complete answer, before anything happens.

use crate::session::File;
use crate::tracing::IOCTL;
use crate::{WperfDriver, control, query, sampling, uncore};
use kernel::irp::Buffer;
use kernel::wait::ANSWER_BYTES;
use kernel::{NtStatus, Result};
use trace::{ControlCode, cold, hot_enter, hot_exit};
use wperf_abi::record::{AcquireReply, AssignReply, SampleAssignReply};
use wperf_abi::{Ioctl, Refusal, Request, Target};
use zerocopy::IntoBytes;

/// The status of a refusal.
pub(crate) const fn refuse(refusal: Refusal) -> NtStatus {
    NtStatus::from_u32(refusal.ntstatus())
}

/// Answers one device control.
///
/// IRQL: `PASSIVE_LEVEL`.
/// Errors: [`Refusal`].
pub(crate) fn ioctl(
    driver: &WperfDriver,
    file: &File,
    code: u32,
    buffer: &mut Buffer<'_>,
) -> Result<()> {
    hot_enter!(IOCTL, code: ControlCode = ControlCode(code));
    let result = answer(driver, file, code, buffer);
    if let Err(status) = result {
        cold!(Warning, IOCTL, "refused", code: ControlCode = ControlCode(code), status: NtStatus = status);
    }
    hot_exit!(IOCTL, code: ControlCode = ControlCode(code));
    result
}

fn answer(driver: &WperfDriver, file: &File, code: u32, buffer: &mut Buffer<'_>) -> Result<()> {
    let ioctl = Ioctl::from_code(code).ok_or(refuse(Refusal::UnknownCall))?;
    let count = match ioctl.target() {
        Target::Cores => driver.cores.count(),
        Target::Units => driver.units.count(),
    };
    let request =
        Request::parse(ioctl, buffer.input(), count).map_err(|error| refuse(error.into()))?;
    match request {
        Request::QueryVersion => query::version(buffer),
        Request::QueryConfig => query::config(driver, buffer),
        Request::QueryEvents(core) => query::events(driver, core, buffer),
        Request::QueryOwnership => query::ownership(driver, file, buffer),
        Request::Acquire(how, cores) => {
            buffer.check_room(size_of::<AcquireReply>())?;
            let (reply, outcome) = control::acquire(driver, file, cores, how)?;
            buffer.push(reply.as_bytes())?;
            outcome
        }
        Request::Assign(assignment) => {
            buffer.check_room(size_of::<AssignReply>())?;
            let reply = control::assign(driver, file, assignment)?;
            buffer.push(reply.as_bytes())
        }
        Request::Release(cores) => control::release(driver, file, cores),
        Request::Reset(cores) => control::reset(driver, file, cores),
        Request::Start(cores) => control::start(driver, file, cores),
        Request::Stop(cores) => control::stop(driver, file, cores),
        Request::Read(core) => control::read(driver, file, core, buffer),
        Request::QueryDpcTimes(core) => query::dpc_times(driver, core, buffer),
        Request::QueryIsrTimes(core) => query::isr_times(driver, core, buffer),
        Request::SampleAssign(sampling) => {
            buffer.check_room(size_of::<SampleAssignReply>())?;
            let reply = sampling::assign(driver, file, sampling)?;
            buffer.push(reply.as_bytes())
        }
        Request::SampleWait(timeout_ms, cores) => {
            buffer.check_room(ANSWER_BYTES)?;
            let (ticket, on_timeout) = sampling::wait(driver, file, timeout_ms, cores)?;
            buffer.wait_on(file.slot().clone(), ticket, timeout_ms, on_timeout);
            Ok(())
        }
        Request::SampleRead(cores) => {
            sampling::read(driver, file, cores, buffer.room())?.push(buffer)
        }
        Request::QueryUnits => uncore::units(driver, buffer),
        Request::QueryUnitOwnership => uncore::ownership(driver, file, buffer),
        Request::QueryUnitEvents(unit) => uncore::events(driver, unit, buffer),
        Request::QueryUnitTimes(unit) => uncore::times(driver, unit, buffer),
        Request::AcquireUnits(how, units) => {
            buffer.check_room(size_of::<AcquireReply>())?;
            let (reply, outcome) = uncore::acquire(driver, file, units, how)?;
            buffer.push(reply.as_bytes())?;
            outcome
        }
        Request::AssignUnits(assignment) => {
            buffer.check_room(size_of::<AssignReply>())?;
            let reply = uncore::assign(driver, file, assignment)?;
            buffer.push(reply.as_bytes())
        }
        Request::ReleaseUnits(units) => uncore::release(driver, file, units),
        Request::ResetUnits(units) => uncore::reset(driver, file, units),
        Request::StartUnits(units) => uncore::start(driver, file, units),
        Request::StopUnits(units) => uncore::stop(driver, file, units),
        Request::ReadUnit(unit) => uncore::read(driver, file, unit, buffer),
    }
}
