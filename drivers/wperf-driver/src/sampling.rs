//! The calls that sample: sources on cores, waits, reads. One at a time, as all that `control` does.

use crate::control::{Control, core_of};
use crate::core_state::CoreState;
use crate::dispatch::refuse;
use crate::sampler::{Assignment, SampleRing, Sources, answer};
use crate::session::File;
use crate::tracing::SAMPLING;
use crate::{TAG, WperfDriver};
use kernel::Result;
use kernel::irp::Buffer;
use kernel::pool::{PoolArc, PoolBox};
use kernel::processor::CoreId;
use kernel::profile::ProfileHook;
use kernel::status::STATUS_INVALID_PARAMETER;
use kernel::sync::MutexGuard;
use kernel::wait::{Answer, Ticket};
use pmu::{RawSample, Source, place_sources};
use trace::{cold, hot};
use wperf_abi::record::{
    Sample, SampleAssignReply, SampleCore, SampleReadHeader, WaitOutcome, read_flags, sample_flags,
};
use wperf_abi::request::Sampling;
use wperf_abi::{CoreSet, EventCode, Ioctl, MAX_SOURCES, Refusal, State};
use zerocopy::IntoBytes;

pub(crate) fn assign(
    driver: &WperfDriver,
    file: &File,
    sampling: Sampling<'_>,
) -> Result<SampleAssignReply> {
    let cores = sampling.cores;
    let control = driver.control.lock();
    control.check(driver, file, Ioctl::SampleAssign, cores)?;
    if !ProfileHook::<CoreState>::is_lent() {
        return Err(refuse(Refusal::NoInterrupt));
    }
    let mut next = cores.iter();
    let mut plans = PoolBox::try_from_fn(TAG, cores.len(), |_| {
        let core = next.next().ok_or(STATUS_INVALID_PARAMETER)?;
        let sources = place(core_of(driver, core)?, sampling)?;
        Assignment::try_new(sources, sampling.ring_samples, file.slot().clone()).map(Some)
    })?;
    cold!(Information, SAMPLING, "assign", cores: usize = cores.len(), ring: u32 = sampling.ring_samples);
    // From here on nothing can fail.
    for (core, plan) in cores.iter().zip(plans.iter_mut().map(Option::take)) {
        if let (Ok(core), Some(plan)) = (core_of(driver, core), plan) {
            drop(core.arm(plan));
        }
    }
    Ok(SampleAssignReply {
        ring_samples: sampling.ring_samples,
        reserved: 0,
    })
}

fn place(core: &CoreState, sampling: Sampling<'_>) -> Result<Sources> {
    let core = core.describe();
    let count = sampling.sources().count();
    let mut sources = PoolBox::try_from_fn(TAG, count, |_| Ok(Source::UNUSED))?;
    place_sources(&core.model, core.free, sampling.sources(), &mut sources)
        .map_err(|error| refuse(error.into()))?;
    Ok(sources)
}

/// Begins a wait; gives its answer for when the time is up. What there is to say already is said.
pub(crate) fn wait(
    driver: &WperfDriver,
    file: &File,
    timeout_ms: u32,
    cores: CoreSet<'_>,
) -> Result<(Ticket, Answer)> {
    let control = driver.control.lock();
    control.check(driver, file, Ioctl::SampleWait, cores)?;
    let first = CoreId(cores.iter().next().ok_or(STATUS_INVALID_PARAMETER)?);
    let own = file.with(|session| session.id())?;
    let slot = file.slot();
    let ticket = slot.open().ok_or(refuse(Refusal::Waiting))?;
    for (id, core) in driver.cores.iter() {
        if control.is_held_by(id, own) {
            core.sampler
                .want(Some(ticket).filter(|_| cores.contains(id.0)));
        }
    }
    let late = (timeout_ms == 0).then_some((WaitOutcome::TIME_UP, first));
    // After `want`: an interrupt that comes in between signals, too, and the first one counts.
    if let Some((outcome, core)) = present(driver, cores).or(late) {
        slot.signal(ticket, answer(outcome, core));
    }
    Ok((ticket, answer(WaitOutcome::TIME_UP, first)))
}

/// What a wait for these cores would be told at once.
fn present(driver: &WperfDriver, cores: CoreSet<'_>) -> Option<(WaitOutcome, CoreId)> {
    let mut states = cores
        .iter()
        .flat_map(|core| core_of(driver, core).map(|state| (CoreId(core), state)));
    let stopped = states
        .clone()
        .find(|(_, core)| core.state() == State::Armed)
        .map(|(id, _)| (WaitOutcome::STOPPED, id));
    let is_half_full =
        |core: &CoreState| core.sampler.ring().is_some_and(|ring| ring.is_half_full());
    stopped.or_else(|| {
        let full = states.find(|(_, core)| is_half_full(core))?;
        Some((WaitOutcome::HALF_FULL, full.0))
    })
}

/// Looks into the rings of cores, for an answer of so many bytes. Room is shared evenly: what one core
/// does not need is the next one's.
pub(crate) fn read<'d>(
    driver: &'d WperfDriver,
    file: &File,
    cores: CoreSet<'_>,
    room: usize,
) -> Result<Reading<'d>> {
    let control = driver.control.lock();
    control.check(driver, file, Ioctl::SampleRead, cores)?;
    let head = size_of::<SampleReadHeader>() + cores.len() * size_of::<SampleCore>();
    let for_samples = room
        .checked_sub(head)
        .ok_or(refuse(Refusal::OutputTooSmall))?;
    let mut next = cores.iter();
    let mut left = Share {
        room: for_samples / size_of::<Sample>(),
        cores: cores.len(),
    };
    let parts = PoolBox::try_from_fn(TAG, cores.len(), |_| {
        let core = next.next().ok_or(STATUS_INVALID_PARAMETER)?;
        Part::new(driver, core, &mut left)
    })?;
    Ok(Reading {
        parts,
        _control: control,
    })
}

/// What is about to be read.
pub(crate) struct Reading<'d> {
    parts: PoolBox<[Part]>,
    /// Nobody else reads, or does anything to the cores, meanwhile.
    _control: MutexGuard<'d, Control>,
}

impl Reading<'_> {
    /// Takes the samples out of the rings.
    pub(crate) fn push(&self, buffer: &mut Buffer<'_>) -> Result<()> {
        let taken: u64 = self.parts.iter().map(|part| part.take).sum();
        let is_rest = self.parts.iter().any(|part| part.record.waiting > 0);
        let header = SampleReadHeader {
            core_count: u32::try_from(self.parts.len()).unwrap_or(u32::MAX),
            sample_count: u32::try_from(taken).unwrap_or(u32::MAX),
            flags: if is_rest { read_flags::MORE } else { 0 },
            reserved: 0,
        };
        hot!(Verbose, SAMPLING, "read", samples: u64 = taken);
        buffer.push(header.as_bytes())?;
        self.parts
            .iter()
            .try_for_each(|part| buffer.push(part.record.as_bytes()))?;
        self.parts.iter().try_for_each(|part| part.push(buffer))
    }
}

/// Room that is left for the samples of the cores that are left.
struct Share {
    room: usize,
    cores: usize,
}

/// What is read from one core.
struct Part {
    record: SampleCore,
    ring: PoolArc<SampleRing>,
    codes: [EventCode; MAX_SOURCES],
    take: u64,
}

impl Part {
    fn new(driver: &WperfDriver, id: u32, left: &mut Share) -> Result<Self> {
        let core = core_of(driver, id)?;
        let ring = core.sampler.ring().ok_or(refuse(Refusal::WrongState))?;
        let counts = ring.counts();
        let most = left.room.checked_div(left.cores).unwrap_or(0);
        let take = counts.waiting.min(most as u64);
        left.cores = left.cores.saturating_sub(1);
        left.room = left.room.saturating_sub(usize::try_from(take).unwrap_or(0));
        let record = SampleCore {
            core: id,
            state: core.state() as u32,
            generation: core.generation(),
            generated: counts.generated(),
            delivered: counts.taken + take,
            waiting: counts.waiting - take,
            lost: counts.full + counts.late,
            late: counts.late,
        };
        Ok(Self {
            record,
            ring,
            codes: core.sampler.codes(),
            take,
        })
    }

    /// Takes the samples out of the ring. So many are there: nobody else takes any.
    fn push(&self, buffer: &mut Buffer<'_>) -> Result<()> {
        let take = usize::try_from(self.take).unwrap_or(usize::MAX);
        core::iter::from_fn(|| self.ring.take())
            .take(take)
            .try_for_each(|sample| buffer.push(self.record_of(&sample).as_bytes()))
    }

    fn record_of(&self, sample: &RawSample) -> Sample {
        let code = self.codes.get(usize::from(sample.source));
        Sample {
            time_ns: sample.time_ns,
            pc: sample.pc,
            generation: sample.generation,
            core: self.record.core,
            pid: sample.pid,
            tid: sample.tid,
            code: code.copied().unwrap_or_default(),
            source: sample.source,
            flags: if sample.user { sample_flags::USER } else { 0 },
            reserved: 0,
        }
    }
}
