//! Input buffers into typed requests.
//!
//! Whatever a caller can get wrong in a buffer is found here, before the driver changes anything;
//! what depends on who calls (ownership, state, free counters) is the PMU logic's to check.

use crate::core_set::{CoreSet, MAX_WORDS, WORD_BYTES};
use crate::record::{
    AcquireHeader, AcquireMode, AssignEvent, AssignHeader, CoreSetHeader, OneCore,
    SampleAssignHeader, SampleSource, SampleWaitHeader,
};
use crate::{
    Ioctl, MAX_EVENTS, MAX_SOURCES, PERIOD_DEFAULT_MS, PERIOD_MAX_MS, PERIOD_MIN_MS,
    RING_SAMPLES_DEFAULT, RING_SAMPLES_MAX, RING_SAMPLES_MIN, Refusal, SAMPLE_INTERVAL_DEFAULT,
    SAMPLE_INTERVAL_MAX, SAMPLE_INTERVAL_MIN, WAIT_MAX_MS,
};
use zerocopy::{FromBytes, Immutable, KnownLayout};

/// A checked request; borrows the caller's buffer.
#[derive(Clone, Copy, Debug)]
pub enum Request<'a> {
    /// [`Ioctl::QueryVersion`].
    QueryVersion,
    /// [`Ioctl::QueryConfig`].
    QueryConfig,
    /// [`Ioctl::QueryEvents`].
    QueryEvents(u32),
    /// [`Ioctl::QueryOwnership`].
    QueryOwnership,
    /// [`Ioctl::Acquire`].
    Acquire(AcquireHow, CoreSet<'a>),
    /// [`Ioctl::Release`].
    Release(CoreSet<'a>),
    /// [`Ioctl::Assign`].
    Assign(Assignment<'a>),
    /// [`Ioctl::Reset`].
    Reset(CoreSet<'a>),
    /// [`Ioctl::Start`].
    Start(CoreSet<'a>),
    /// [`Ioctl::Stop`].
    Stop(CoreSet<'a>),
    /// [`Ioctl::Read`].
    Read(u32),
    /// [`Ioctl::QueryDpcTimes`].
    QueryDpcTimes(u32),
    /// [`Ioctl::QueryUnits`].
    QueryUnits,
    /// [`Ioctl::QueryUnitOwnership`].
    QueryUnitOwnership,
    /// [`Ioctl::AcquireUnits`].
    AcquireUnits(AcquireHow, CoreSet<'a>),
    /// [`Ioctl::ReleaseUnits`].
    ReleaseUnits(CoreSet<'a>),
    /// [`Ioctl::AssignUnits`].
    AssignUnits(Assignment<'a>),
    /// [`Ioctl::ResetUnits`].
    ResetUnits(CoreSet<'a>),
    /// [`Ioctl::StartUnits`].
    StartUnits(CoreSet<'a>),
    /// [`Ioctl::StopUnits`].
    StopUnits(CoreSet<'a>),
    /// [`Ioctl::ReadUnit`].
    ReadUnit(u32),
    /// [`Ioctl::QueryUnitEvents`].
    QueryUnitEvents(u32),
    /// [`Ioctl::QueryUnitTimes`].
    QueryUnitTimes(u32),
    /// [`Ioctl::SampleAssign`].
    SampleAssign(Sampling<'a>),
    /// [`Ioctl::SampleWait`]: at most so long. Units: ms.
    SampleWait(u32, CoreSet<'a>),
    /// [`Ioctl::SampleRead`].
    SampleRead(CoreSet<'a>),
    /// [`Ioctl::QueryIsrTimes`].
    QueryIsrTimes(u32),
}

/// Checked form of [`AcquireMode`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcquireHow {
    /// Only what is free.
    Normal,
    /// Also what another holds.
    Force,
}

/// A checked assignment.
#[derive(Clone, Copy, Debug)]
pub struct Assignment<'a> {
    /// On which cores, or units.
    pub cores: CoreSet<'a>,
    /// How long each window counts, within the limits. Units: ms.
    pub period_ms: u32,
    events: &'a [u8],
}

impl<'a> Assignment<'a> {
    /// The events: 1 to [`MAX_EVENTS`], groups contiguous and numbered from 0, filters valid.
    pub fn events(self) -> impl Iterator<Item = AssignEvent> + Clone + 'a {
        records(self.events)
    }
}

/// A checked assignment of sources.
#[derive(Clone, Copy, Debug)]
pub struct Sampling<'a> {
    /// On which cores.
    pub cores: CoreSet<'a>,
    /// Samples that the ring of each core holds: a power of two within the limits.
    pub ring_samples: u32,
    sources: &'a [u8],
}

impl<'a> Sampling<'a> {
    /// The sources: 1 to [`MAX_SOURCES`], filters valid, intervals within the limits.
    pub fn sources(self) -> impl Iterator<Item = SampleSource> + Clone + 'a {
        records(self.sources).map(|source: SampleSource| SampleSource {
            interval: interval(source.interval),
            ..source
        })
    }
}

/// What is wrong with an input buffer: the field and its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestError {
    /// The buffer has another length than its contents ask for. Units: bytes.
    Length {
        /// What the fixed part and its counts ask for.
        expected: usize,
        /// What came.
        actual: usize,
    },
    /// A field has a value it may not have.
    Field {
        /// Name of the field.
        field: &'static str,
        /// Its value.
        value: u64,
    },
}

impl From<RequestError> for Refusal {
    fn from(error: RequestError) -> Self {
        match error {
            RequestError::Length { .. } => Self::BadInputLength,
            RequestError::Field { .. } => Self::BadRequest,
        }
    }
}

impl core::fmt::Display for RequestError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Length { expected, actual } => {
                write!(
                    f,
                    "input is {actual} bytes long, its contents ask for {expected}"
                )
            }
            Self::Field { field, value } => write!(f, "{field} may not be {value:#x}"),
        }
    }
}

type Result<T> = core::result::Result<T, RequestError>;

impl<'a> Request<'a> {
    /// Checks the input of a call; `count` is how many there are of what it names ([`Ioctl::target`]).
    ///
    /// Errors: the first thing wrong, from front to back.
    pub fn parse(ioctl: Ioctl, input: &'a [u8], count: usize) -> Result<Self> {
        Ok(match ioctl {
            Ioctl::QueryVersion => end(input, 0).map(|()| Self::QueryVersion)?,
            Ioctl::QueryConfig => end(input, 0).map(|()| Self::QueryConfig)?,
            Ioctl::QueryOwnership => end(input, 0).map(|()| Self::QueryOwnership)?,
            Ioctl::QueryEvents => Self::QueryEvents(one_core(input, count)?),
            Ioctl::Read => Self::Read(one_core(input, count)?),
            Ioctl::QueryDpcTimes => Self::QueryDpcTimes(one_core(input, count)?),
            Ioctl::Acquire => {
                let (how, cores) = acquire(input, count)?;
                Self::Acquire(how, cores)
            }
            Ioctl::Assign => Self::Assign(assignment(input, count)?),
            Ioctl::Release => Self::Release(core_set(input, count)?),
            Ioctl::Reset => Self::Reset(core_set(input, count)?),
            Ioctl::Start => Self::Start(core_set(input, count)?),
            Ioctl::Stop => Self::Stop(core_set(input, count)?),
            Ioctl::QueryUnits => end(input, 0).map(|()| Self::QueryUnits)?,
            Ioctl::QueryUnitOwnership => end(input, 0).map(|()| Self::QueryUnitOwnership)?,
            Ioctl::QueryUnitEvents => Self::QueryUnitEvents(one_core(input, count)?),
            Ioctl::QueryUnitTimes => Self::QueryUnitTimes(one_core(input, count)?),
            Ioctl::ReadUnit => Self::ReadUnit(one_core(input, count)?),
            Ioctl::AcquireUnits => {
                let (how, units) = acquire(input, count)?;
                Self::AcquireUnits(how, units)
            }
            Ioctl::AssignUnits => Self::AssignUnits(unfiltered(assignment(input, count)?)?),
            Ioctl::ReleaseUnits => Self::ReleaseUnits(core_set(input, count)?),
            Ioctl::ResetUnits => Self::ResetUnits(core_set(input, count)?),
            Ioctl::StartUnits => Self::StartUnits(core_set(input, count)?),
            Ioctl::StopUnits => Self::StopUnits(core_set(input, count)?),
            Ioctl::QueryIsrTimes => Self::QueryIsrTimes(one_core(input, count)?),
            Ioctl::SampleAssign => Self::SampleAssign(sampling(input, count)?),
            Ioctl::SampleWait => sample_wait(input, count)?,
            Ioctl::SampleRead => Self::SampleRead(core_set(input, count)?),
        })
    }
}

fn header<T: FromBytes + KnownLayout + Immutable>(input: &[u8]) -> Result<(T, &[u8])> {
    T::read_from_prefix(input).map_err(|_| RequestError::Length {
        expected: size_of::<T>(),
        actual: input.len(),
    })
}

/// Nothing may be left over.
fn end(input: &[u8], expected: usize) -> Result<()> {
    let actual = input.len();
    if actual == expected {
        Ok(())
    } else {
        Err(RequestError::Length { expected, actual })
    }
}

fn field(field: &'static str, value: impl Into<u64>, is_valid: bool) -> Result<()> {
    if is_valid {
        Ok(())
    } else {
        Err(RequestError::Field {
            field,
            value: value.into(),
        })
    }
}

fn one_core(input: &[u8], core_count: usize) -> Result<u32> {
    let (one, _): (OneCore, _) = header(input)?;
    end(input, size_of::<OneCore>())?;
    field("reserved", one.reserved, one.reserved == 0)?;
    field("core", one.core, (one.core as usize) < core_count)?;
    Ok(one.core)
}

fn words_bytes(word_count: u32) -> Result<usize> {
    field(
        "word_count",
        word_count,
        (1..=MAX_WORDS).contains(&(word_count as usize)),
    )?;
    Ok(word_count as usize * WORD_BYTES)
}

fn cores(words: &[u8], core_count: usize) -> Result<CoreSet<'_>> {
    CoreSet::parse(words, core_count).map_err(|bad| match bad {
        Some(core) => RequestError::Field {
            field: "core",
            value: core.into(),
        },
        None => RequestError::Field {
            field: "core set",
            value: 0,
        },
    })
}

fn core_set(input: &[u8], core_count: usize) -> Result<CoreSet<'_>> {
    let (set, words): (CoreSetHeader, _) = header(input)?;
    field("reserved", set.reserved, set.reserved == 0)?;
    end(
        input,
        size_of::<CoreSetHeader>() + words_bytes(set.word_count)?,
    )?;
    cores(words, core_count)
}

fn acquire(input: &[u8], core_count: usize) -> Result<(AcquireHow, CoreSet<'_>)> {
    let (set, words): (AcquireHeader, _) = header(input)?;
    let how = match set.mode {
        AcquireMode::NORMAL => AcquireHow::Normal,
        AcquireMode::FORCE => AcquireHow::Force,
        AcquireMode(mode) => {
            return Err(RequestError::Field {
                field: "mode",
                value: mode.into(),
            });
        }
    };
    end(
        input,
        size_of::<AcquireHeader>() + words_bytes(set.word_count)?,
    )?;
    Ok((how, cores(words, core_count)?))
}

fn assignment(input: &[u8], core_count: usize) -> Result<Assignment<'_>> {
    let (head, rest): (AssignHeader, _) = header(input)?;
    field("reserved", head.reserved, head.reserved == 0)?;
    let events_given = head.event_count as usize;
    field(
        "event_count",
        head.event_count,
        (1..=MAX_EVENTS).contains(&events_given),
    )?;
    let words_bytes = words_bytes(head.word_count)?;
    let events_bytes = events_given * size_of::<AssignEvent>();
    let expected = size_of::<AssignHeader>() + words_bytes + events_bytes;
    end(input, expected)?;
    let length_error = RequestError::Length {
        expected,
        actual: input.len(),
    };
    let (words, events) = rest.split_at_checked(words_bytes).ok_or(length_error)?;
    check_events(events)?;
    Ok(Assignment {
        cores: cores(words, core_count)?,
        period_ms: period(head.period_ms)?,
        events,
    })
}

/// A unit's counters know no modes.
fn unfiltered(assignment: Assignment<'_>) -> Result<Assignment<'_>> {
    assignment.events().try_for_each(|event| {
        let filter = event.filter;
        field("filter", filter.0, filter == crate::EventFilter::NONE)
    })?;
    Ok(assignment)
}

fn period(period_ms: u32) -> Result<u32> {
    match period_ms {
        0 => Ok(PERIOD_DEFAULT_MS),
        PERIOD_MIN_MS..=PERIOD_MAX_MS => Ok(period_ms),
        _ => Err(RequestError::Field {
            field: "period_ms",
            value: period_ms.into(),
        }),
    }
}

fn sample_wait(input: &[u8], core_count: usize) -> Result<Request<'_>> {
    let (head, words): (SampleWaitHeader, _) = header(input)?;
    field(
        "timeout_ms",
        head.timeout_ms,
        head.timeout_ms <= WAIT_MAX_MS,
    )?;
    end(
        input,
        size_of::<SampleWaitHeader>() + words_bytes(head.word_count)?,
    )?;
    Ok(Request::SampleWait(
        head.timeout_ms,
        cores(words, core_count)?,
    ))
}

fn sampling(input: &[u8], core_count: usize) -> Result<Sampling<'_>> {
    let (head, rest): (SampleAssignHeader, _) = header(input)?;
    field("reserved", head.reserved, head.reserved == 0)?;
    let sources_given = head.source_count as usize;
    field(
        "source_count",
        head.source_count,
        (1..=MAX_SOURCES).contains(&sources_given),
    )?;
    let words_bytes = words_bytes(head.word_count)?;
    let sources_bytes = sources_given * size_of::<SampleSource>();
    let expected = size_of::<SampleAssignHeader>() + words_bytes + sources_bytes;
    end(input, expected)?;
    let length_error = RequestError::Length {
        expected,
        actual: input.len(),
    };
    let (words, sources) = rest.split_at_checked(words_bytes).ok_or(length_error)?;
    records(sources).try_for_each(check_source)?;
    Ok(Sampling {
        cores: cores(words, core_count)?,
        ring_samples: ring_samples(head.ring_samples)?,
        sources,
    })
}

fn ring_samples(wish: u32) -> Result<u32> {
    match wish {
        0 => Ok(RING_SAMPLES_DEFAULT),
        RING_SAMPLES_MIN..=RING_SAMPLES_MAX => Ok(wish.next_power_of_two()),
        _ => Err(RequestError::Field {
            field: "ring_samples",
            value: wish.into(),
        }),
    }
}

const fn interval(wish: u64) -> u64 {
    match wish {
        0 => SAMPLE_INTERVAL_DEFAULT,
        interval => interval,
    }
}

fn check_source(source: SampleSource) -> Result<()> {
    field("filter", source.filter.0, source.filter.is_valid())?;
    field("reserved", source.reserved, source.reserved == 0)?;
    field("reserved2", source.reserved2, source.reserved2 == 0)?;
    let limits = SAMPLE_INTERVAL_MIN..=SAMPLE_INTERVAL_MAX;
    let is_valid = limits.contains(&interval(source.interval));
    field("interval", source.interval, is_valid)
}

/// The records that lie in a buffer, which need not be aligned.
fn records<'a, T: FromBytes + KnownLayout + Immutable + Clone + 'a>(
    bytes: &'a [u8],
) -> impl Iterator<Item = T> + Clone + 'a {
    bytes
        .chunks_exact(size_of::<T>())
        .flat_map(T::read_from_bytes)
}

fn check_events(events: &[u8]) -> Result<()> {
    let mut previous = None;
    for event in records::<AssignEvent>(events) {
        field("filter", event.filter.0, event.filter.is_valid())?;
        let may_follow = match previous {
            None => event.group == 0,
            Some(group) => event.group == group || Some(event.group) == group.checked_add(1),
        };
        field("group", event.group, may_follow)?;
        previous = Some(event.group);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
