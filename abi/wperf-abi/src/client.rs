//! The calls from the client's side: typed values in, typed values out.
//!
//! How bytes reach the driver is the [`Transport`]'s: `DeviceIoControl` on Windows, a socket to a
//! docked driver elsewhere.

use crate::core_set::MAX_WORDS;
use crate::record::{
    AcquireHeader, AcquireMode, AcquireReply, AssignEvent, AssignHeader, AssignReply, ConfigHeader,
    CoreConfig, CoreOwnership, CoreSetHeader, EventCount, EventsHeader, OneCore, OwnershipHeader,
    ReadHeader, RoutineTimes, Sample, SampleAssignHeader, SampleAssignReply, SampleCore,
    SampleReadHeader, SampleSource, SampleWaitHeader, SampleWaitReply, SupportedEvent, UnitConfig,
    UnitsHeader, Version,
};
use crate::{Ioctl, MAX_CORES, MAX_EVENTS, MAX_UNITS, Refusal};
use alloc::vec::Vec;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Carries one buffered call to the driver.
pub trait Transport {
    /// What may go wrong on the way.
    type Error;

    /// Calls; answers with the status and the number of bytes put into `output`.
    fn call(&mut self, code: u32, input: &[u8], output: &mut [u8]) -> Result<Reply, Self::Error>;
}

/// What the driver answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    /// `None` when the call succeeded; the refusal, or the status if it stands for none.
    pub refusal: Option<Result<Refusal, u32>>,
    /// Bytes of the output that are valid.
    pub bytes: usize,
}

impl Reply {
    /// From a status of the driver.
    #[must_use]
    pub fn from_ntstatus(status: u32, bytes: usize) -> Self {
        let refusal = (status >> 31 != 0).then(|| Refusal::from_ntstatus(status).ok_or(status));
        Self { refusal, bytes }
    }

    /// From a Win32 error code; 0 is success.
    #[must_use]
    pub fn from_win32(error: u32, bytes: usize) -> Self {
        let refusal = (error != 0).then(|| Refusal::from_win32(error).ok_or(error));
        Self { refusal, bytes }
    }
}

/// Why a call did not give its answer.
#[derive(Debug)]
pub enum CallError<E> {
    /// It never reached the driver.
    Transport(E),
    /// The driver refused it.
    Refused(Ioctl, Refusal),
    /// It failed with a status that is not in the contract.
    Status(Ioctl, u32),
    /// The answer is not as long as it says.
    Malformed(Ioctl, usize),
}

impl<E: core::fmt::Display> core::fmt::Display for CallError<E> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Transport(error) => write!(f, "cannot reach the driver: {error}"),
            Self::Refused(ioctl, refusal) => write!(f, "{}: {}", ioctl.name(), refusal.words()),
            Self::Status(ioctl, status) => write!(f, "{}: status {status:#010x}", ioctl.name()),
            Self::Malformed(ioctl, bytes) => {
                write!(
                    f,
                    "{}: the answer of {bytes} bytes is malformed",
                    ioctl.name()
                )
            }
        }
    }
}

impl<E: core::fmt::Debug + core::fmt::Display> core::error::Error for CallError<E> {}

type CallResult<T, E> = Result<T, CallError<E>>;

/// The driver, as a client sees it.
#[derive(Debug)]
pub struct Client<T> {
    transport: T,
    output: Vec<u8>,
}

impl<T: Transport> Client<T> {
    /// Over an open device.
    pub fn new(transport: T) -> Self {
        Self {
            transport,
            output: Vec::new(),
        }
    }

    /// [`Ioctl::QueryVersion`].
    pub fn query_version(&mut self) -> CallResult<Version, T::Error> {
        self.one(Ioctl::QueryVersion, &[])
    }

    /// [`Ioctl::QueryConfig`].
    pub fn query_config(&mut self) -> CallResult<(ConfigHeader, Vec<CoreConfig>), T::Error> {
        self.list(Ioctl::QueryConfig, &[], MAX_CORES, |head: &ConfigHeader| {
            head.core_count
        })
    }

    /// [`Ioctl::QueryEvents`].
    pub fn query_events(&mut self, core: u32) -> CallResult<Vec<SupportedEvent>, T::Error> {
        self.events_of(Ioctl::QueryEvents, core)
    }

    /// [`Ioctl::QueryOwnership`].
    pub fn query_ownership(&mut self) -> CallResult<Vec<CoreOwnership>, T::Error> {
        self.list(
            Ioctl::QueryOwnership,
            &[],
            MAX_CORES,
            |head: &OwnershipHeader| head.core_count,
        )
        .map(|(_, cores)| cores)
    }

    /// [`Ioctl::Acquire`]. Busy is an answer, not an error: see [`AcquireReply::outcome`].
    pub fn acquire(
        &mut self,
        mode: AcquireMode,
        cores: &[u32],
    ) -> CallResult<AcquireReply, T::Error> {
        self.acquire_by(Ioctl::Acquire, mode, cores)
    }

    /// [`Ioctl::Release`].
    pub fn release(&mut self, cores: &[u32]) -> CallResult<(), T::Error> {
        self.on_cores(Ioctl::Release, cores)
    }

    /// [`Ioctl::Reset`].
    pub fn reset(&mut self, cores: &[u32]) -> CallResult<(), T::Error> {
        self.on_cores(Ioctl::Reset, cores)
    }

    /// [`Ioctl::Start`].
    pub fn start(&mut self, cores: &[u32]) -> CallResult<(), T::Error> {
        self.on_cores(Ioctl::Start, cores)
    }

    /// [`Ioctl::Stop`].
    pub fn stop(&mut self, cores: &[u32]) -> CallResult<(), T::Error> {
        self.on_cores(Ioctl::Stop, cores)
    }

    /// [`Ioctl::Assign`].
    pub fn assign(
        &mut self,
        cores: &[u32],
        events: &[AssignEvent],
        period_ms: u32,
    ) -> CallResult<AssignReply, T::Error> {
        self.one(Ioctl::Assign, &encode_assign(cores, events, period_ms))
    }

    /// [`Ioctl::QueryUnits`]: from contract 1.3 on.
    pub fn query_units(&mut self) -> CallResult<Vec<UnitConfig>, T::Error> {
        self.list(Ioctl::QueryUnits, &[], MAX_UNITS, |head: &UnitsHeader| {
            head.unit_count
        })
        .map(|(_, units)| units)
    }

    /// [`Ioctl::QueryUnitOwnership`].
    pub fn query_unit_ownership(&mut self) -> CallResult<Vec<CoreOwnership>, T::Error> {
        self.list(
            Ioctl::QueryUnitOwnership,
            &[],
            MAX_UNITS,
            |head: &OwnershipHeader| head.core_count,
        )
        .map(|(_, units)| units)
    }

    /// [`Ioctl::QueryUnitEvents`].
    pub fn query_unit_events(&mut self, unit: u32) -> CallResult<Vec<SupportedEvent>, T::Error> {
        self.events_of(Ioctl::QueryUnitEvents, unit)
    }

    /// [`Ioctl::QueryUnitTimes`].
    pub fn query_unit_times(&mut self, unit: u32) -> CallResult<RoutineTimes, T::Error> {
        self.one(Ioctl::QueryUnitTimes, one(unit).as_bytes())
    }

    /// [`Ioctl::AcquireUnits`]. Busy is an answer, not an error, as of [`acquire`](Self::acquire).
    pub fn acquire_units(
        &mut self,
        mode: AcquireMode,
        units: &[u32],
    ) -> CallResult<AcquireReply, T::Error> {
        self.acquire_by(Ioctl::AcquireUnits, mode, units)
    }

    /// [`Ioctl::ReleaseUnits`].
    pub fn release_units(&mut self, units: &[u32]) -> CallResult<(), T::Error> {
        self.on_cores(Ioctl::ReleaseUnits, units)
    }

    /// [`Ioctl::AssignUnits`].
    pub fn assign_units(
        &mut self,
        units: &[u32],
        events: &[AssignEvent],
        period_ms: u32,
    ) -> CallResult<AssignReply, T::Error> {
        let input = encode_assign(units, events, period_ms);
        self.one(Ioctl::AssignUnits, &input)
    }

    /// [`Ioctl::ResetUnits`].
    pub fn reset_units(&mut self, units: &[u32]) -> CallResult<(), T::Error> {
        self.on_cores(Ioctl::ResetUnits, units)
    }

    /// [`Ioctl::StartUnits`].
    pub fn start_units(&mut self, units: &[u32]) -> CallResult<(), T::Error> {
        self.on_cores(Ioctl::StartUnits, units)
    }

    /// [`Ioctl::StopUnits`].
    pub fn stop_units(&mut self, units: &[u32]) -> CallResult<(), T::Error> {
        self.on_cores(Ioctl::StopUnits, units)
    }

    /// [`Ioctl::ReadUnit`].
    pub fn read_unit(&mut self, unit: u32) -> CallResult<(ReadHeader, Vec<EventCount>), T::Error> {
        self.totals_of(Ioctl::ReadUnit, unit)
    }

    /// [`Ioctl::Read`].
    pub fn read(&mut self, core: u32) -> CallResult<(ReadHeader, Vec<EventCount>), T::Error> {
        self.totals_of(Ioctl::Read, core)
    }

    /// [`Ioctl::QueryDpcTimes`]: from contract 1.1 on.
    pub fn query_dpc_times(&mut self, core: u32) -> CallResult<RoutineTimes, T::Error> {
        self.one(Ioctl::QueryDpcTimes, one(core).as_bytes())
    }

    fn totals_of(
        &mut self,
        ioctl: Ioctl,
        number: u32,
    ) -> CallResult<(ReadHeader, Vec<EventCount>), T::Error> {
        self.list(
            ioctl,
            one(number).as_bytes(),
            MAX_EVENTS,
            |head: &ReadHeader| head.event_count,
        )
    }

    fn events_of(
        &mut self,
        ioctl: Ioctl,
        number: u32,
    ) -> CallResult<Vec<SupportedEvent>, T::Error> {
        // PMCEID announces 128 events at most; named codes come on top.
        self.list(ioctl, one(number).as_bytes(), 256, |head: &EventsHeader| {
            head.event_count
        })
        .map(|(_, events)| events)
    }

    fn acquire_by(
        &mut self,
        ioctl: Ioctl,
        mode: AcquireMode,
        numbers: &[u32],
    ) -> CallResult<AcquireReply, T::Error> {
        let words = core_words(numbers);
        let head = AcquireHeader {
            word_count: word_count(&words),
            mode,
        };
        let input = [head.as_bytes(), words.as_bytes()].concat();
        match self.one(ioctl, &input) {
            Err(CallError::Refused(ioctl, Refusal::Busy)) => {
                AcquireReply::read_from_bytes(&self.output)
                    .map_err(|_| CallError::Malformed(ioctl, self.output.len()))
            }
            other => other,
        }
    }

    /// [`Ioctl::QueryIsrTimes`]: from contract 1.2 on.
    pub fn query_isr_times(&mut self, core: u32) -> CallResult<RoutineTimes, T::Error> {
        let input = OneCore { core, reserved: 0 };
        self.one(Ioctl::QueryIsrTimes, input.as_bytes())
    }

    /// [`Ioctl::SampleAssign`]: from contract 1.2 on.
    pub fn sample_assign(
        &mut self,
        cores: &[u32],
        sources: &[SampleSource],
        ring_samples: u32,
    ) -> CallResult<SampleAssignReply, T::Error> {
        let input = encode_sample_assign(cores, sources, ring_samples);
        self.one(Ioctl::SampleAssign, &input)
    }

    /// [`Ioctl::SampleWait`]: blocks until there is something to read, or the time is up. Units: ms.
    pub fn sample_wait(
        &mut self,
        cores: &[u32],
        timeout_ms: u32,
    ) -> CallResult<SampleWaitReply, T::Error> {
        self.one(Ioctl::SampleWait, &encode_sample_wait(cores, timeout_ms))
    }

    /// [`Ioctl::SampleRead`]: at most `most` samples. Never waits.
    pub fn sample_read(&mut self, cores: &[u32], most: usize) -> CallResult<SampleBatch, T::Error> {
        let ioctl = Ioctl::SampleRead;
        let most = most.min(MAX_SAMPLES_PER_READ);
        let room = size_of::<SampleReadHeader>()
            + cores.len() * size_of::<SampleCore>()
            + most * size_of::<Sample>();
        self.call(ioctl, &encode_core_set(cores), room)?;
        SampleBatch::parse(&self.output).ok_or(CallError::Malformed(ioctl, self.output.len()))
    }

    fn on_cores(&mut self, ioctl: Ioctl, cores: &[u32]) -> CallResult<(), T::Error> {
        self.call(ioctl, &encode_core_set(cores), 0)
    }

    fn one<R>(&mut self, ioctl: Ioctl, input: &[u8]) -> CallResult<R, T::Error>
    where
        R: FromBytes + Immutable + KnownLayout,
    {
        self.call(ioctl, input, size_of::<R>())?;
        R::read_from_bytes(&self.output).map_err(|_| CallError::Malformed(ioctl, self.output.len()))
    }

    fn list<H, R>(
        &mut self,
        ioctl: Ioctl,
        input: &[u8],
        most: usize,
        count: fn(&H) -> u32,
    ) -> CallResult<(H, Vec<R>), T::Error>
    where
        H: FromBytes + Immutable + KnownLayout,
        R: FromBytes + Immutable + KnownLayout,
    {
        self.call(ioctl, input, size_of::<H>() + most * size_of::<R>())?;
        let bytes = self.output.len();
        let malformed = || CallError::Malformed(ioctl, bytes);
        let (head, tail) = H::read_from_prefix(&self.output).map_err(|_| malformed())?;
        let records: Vec<R> = records(tail);
        let is_whole = tail.len() == records.len() * size_of::<R>();
        if is_whole && records.len() == count(&head) as usize {
            Ok((head, records))
        } else {
            Err(malformed())
        }
    }

    fn call(&mut self, ioctl: Ioctl, input: &[u8], room: usize) -> CallResult<(), T::Error> {
        self.output.clear();
        self.output.resize(room, 0);
        let reply = self
            .transport
            .call(ioctl.code(), input, &mut self.output)
            .map_err(CallError::Transport)?;
        self.output.truncate(reply.bytes);
        match reply.refusal {
            None => Ok(()),
            Some(Ok(refusal)) => Err(CallError::Refused(ioctl, refusal)),
            Some(Err(status)) => Err(CallError::Status(ioctl, status)),
        }
    }
}

/// Most samples that one [`Client::sample_read`] asks for: an answer of 768 KiB.
pub const MAX_SAMPLES_PER_READ: usize = 1 << 14;

/// What one [`Ioctl::SampleRead`] took out of the rings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SampleBatch {
    /// The cores, in rising order.
    pub cores: Vec<SampleCore>,
    /// The samples, core after core, each core's in the order they were taken.
    pub samples: Vec<Sample>,
    /// Bits of [`crate::record::read_flags`].
    pub flags: u32,
}

impl SampleBatch {
    /// From the output of the call; `None` if it is not as long as it says.
    #[must_use]
    pub fn parse(output: &[u8]) -> Option<Self> {
        let (head, rest) = SampleReadHeader::read_from_prefix(output).ok()?;
        let cores_bytes = (head.core_count as usize).checked_mul(size_of::<SampleCore>())?;
        let (cores, samples) = rest.split_at_checked(cores_bytes)?;
        let samples_bytes = (head.sample_count as usize).checked_mul(size_of::<Sample>())?;
        (samples.len() == samples_bytes).then(|| Self {
            cores: records(cores),
            samples: records(samples),
            flags: head.flags,
        })
    }
}

/// Whole records of a buffer, which need not be aligned.
fn records<R: FromBytes + Immutable + KnownLayout>(bytes: &[u8]) -> Vec<R> {
    bytes
        .chunks_exact(size_of::<R>())
        .flat_map(R::read_from_bytes)
        .collect()
}

/// Input of a call that takes a core set only.
#[must_use]
pub fn encode_core_set(cores: &[u32]) -> Vec<u8> {
    let words = core_words(cores);
    let head = CoreSetHeader {
        word_count: word_count(&words),
        reserved: 0,
    };
    [head.as_bytes(), words.as_bytes()].concat()
}

/// Input of [`Ioctl::Assign`].
#[must_use]
pub fn encode_assign(cores: &[u32], events: &[AssignEvent], period_ms: u32) -> Vec<u8> {
    let words = core_words(cores);
    let event_count = u32::try_from(events.len()).unwrap_or(u32::MAX);
    let head = AssignHeader {
        word_count: word_count(&words),
        event_count,
        period_ms,
        reserved: 0,
    };
    [head.as_bytes(), words.as_bytes(), events.as_bytes()].concat()
}

const fn one(core: u32) -> OneCore {
    OneCore { core, reserved: 0 }
}

/// Input of [`Ioctl::SampleAssign`].
#[must_use]
pub fn encode_sample_assign(cores: &[u32], sources: &[SampleSource], ring_samples: u32) -> Vec<u8> {
    let words = core_words(cores);
    let head = SampleAssignHeader {
        word_count: word_count(&words),
        source_count: u32::try_from(sources.len()).unwrap_or(u32::MAX),
        ring_samples,
        reserved: 0,
    };
    [head.as_bytes(), words.as_bytes(), sources.as_bytes()].concat()
}

/// Input of [`Ioctl::SampleWait`].
#[must_use]
pub fn encode_sample_wait(cores: &[u32], timeout_ms: u32) -> Vec<u8> {
    let words = core_words(cores);
    let head = SampleWaitHeader {
        word_count: word_count(&words),
        timeout_ms,
    };
    [head.as_bytes(), words.as_bytes()].concat()
}

/// The bitmap of a list of cores. A core past the limit makes it too long, which the driver refuses.
fn core_words(cores: &[u32]) -> Vec<u64> {
    let highest = cores.iter().max().map_or(0, |&core| core as usize / 64);
    let mut words = alloc::vec![0u64; highest.min(MAX_WORDS) + 1];
    for &core in cores {
        if let Some(word) = words.get_mut(core as usize / 64) {
            *word |= 1 << (core % 64);
        }
    }
    words
}

fn word_count(words: &[u64]) -> u32 {
    u32::try_from(words.len()).unwrap_or(u32::MAX)
}
