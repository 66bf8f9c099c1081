//! A driver for tests: keeps to the contract, and panics where a client does not.
//!
//! Stricter than the real one: a call in a state in which the table does not allow it, or a malformed input, is a defect of
//! the client under test and ends the test; the real driver would refuse it.

mod answers;

use super::{Device, DeviceError, Host, Opened};
use answers::{dpc_times, version};
use std::{
    cell::RefCell,
    collections::{BTreeMap, HashSet},
    rc::Rc,
};
use wperf_abi::{
    CoreSet, EventCode, Ioctl, Refusal, Request, State, Target,
    client::{Client, Reply},
    record::{
        AcquireOutcome, AcquireReply, AssignEvent, AssignReply, Holding, PmuKind, Sample,
        SupportedEvent, UnitConfig, count_flags,
    },
    request::AcquireHow,
};
use zerocopy::IntoBytes;

/// When the fake's cores are acquired: 2026-03-01 12:00:00 UTC as FILETIME.
pub(crate) const SINCE: u64 = 134_168_400_000_000_000;
/// How long the fake's runs last, whatever the clock says.
pub(crate) const RUN_NS: u64 = 1_000_000_000;

/// A machine with the driver loaded.
#[derive(Clone)]
pub(crate) struct FakeDriver(Rc<RefCell<Machine>>);

struct Machine {
    cores: Vec<Core>,
    /// Uncore units, which are held and count as cores do.
    units: Vec<Core>,
    unit_configs: Vec<UnitConfig>,
    kind: PmuKind,
    identification: u64,
    counters: u16,
    supported: Vec<SupportedEvent>,
    next_session: u64,
    forced_out: HashSet<u64>,
    attached: BTreeMap<u32, u32>,
    isolates: bool,
    /// What the cores sample once they are started.
    samples: Vec<Sample>,
    /// Samples that every core loses.
    lost: u64,
}

struct Core {
    holder: Option<(u64, u32)>,
    state: State,
    generation: u64,
    events: Vec<AssignEvent>,
    ran_ns: u64,
    delivered: u64,
    starts: u32,
}

impl FakeDriver {
    /// Arm Neoverse N1 with `cores` cores and `counters` free counters.
    pub(crate) fn arm(cores: usize, counters: u16) -> Self {
        let fixed = SupportedEvent {
            code: EventCode::CYCLES,
            flags: count_flags::FIXED.into(),
        };
        Self::new(
            cores,
            counters,
            PmuKind::ARM_PMUV3,
            0x413F_D0C1,
            vec![fixed],
        )
    }

    /// An x86 machine with fixed counters for instructions and cycles.
    pub(crate) fn x86(cores: usize, counters: u16) -> Self {
        let fixed = |code| SupportedEvent {
            code,
            flags: count_flags::FIXED.into(),
        };
        let supported = vec![fixed(EventCode(0xC0)), fixed(EventCode(0x3C))];
        Self::new(
            cores,
            counters,
            PmuKind::X86_ARCHITECTURAL,
            0x806F8,
            supported,
        )
    }

    fn new(
        cores: usize,
        counters: u16,
        kind: PmuKind,
        identification: u64,
        supported: Vec<SupportedEvent>,
    ) -> Self {
        Self(Rc::new(RefCell::new(Machine {
            cores: (0..cores).map(|_| Core::new()).collect(),
            units: Vec::new(),
            unit_configs: Vec::new(),
            kind,
            identification,
            counters,
            supported,
            next_session: 1,
            forced_out: HashSet::new(),
            attached: BTreeMap::new(),
            isolates: true,
            samples: Vec::new(),
            lost: 0,
        })))
    }

    /// Samples these, each on its core, and loses `lost` on every core.
    #[cfg(unix)]
    pub(crate) fn sampling(self, samples: Vec<Sample>, lost: u64) -> Self {
        {
            let mut machine = self.0.borrow_mut();
            machine.samples = samples;
            machine.lost = lost;
        }
        self
    }

    /// The same machine with units, numbered in their order.
    pub(crate) fn with_units(self, configs: &[UnitConfig]) -> Self {
        {
            let mut machine = self.0.borrow_mut();
            machine.units = configs.iter().map(|_| Core::new()).collect();
            machine.unit_configs = configs.to_vec();
        }
        self
    }

    /// Sees whatever runs on a core, as a real PMU does.
    #[cfg(unix)]
    pub(crate) fn seeing_all(self) -> Self {
        self.0.borrow_mut().isolates = false;
        self
    }

    /// Opens the device as process `pid`.
    pub(crate) fn open(&self, pid: u32) -> Opened {
        let mut machine = self.0.borrow_mut();
        let session = machine.next_session;
        machine.next_session += 1;
        let device: Box<dyn Device> = Box::new(FakeDevice {
            driver: self.clone(),
            session,
            pid,
        });
        Opened {
            client: Client::new(device),
            host: Box::new(FakeHost(self.clone())),
        }
    }

    /// How often cores were started.
    pub(crate) fn starts(&self) -> u32 {
        self.0.borrow().cores.iter().map(|core| core.starts).sum()
    }

    /// State of a core.
    pub(crate) fn state(&self, core: usize) -> State {
        self.0.borrow().cores[core].state
    }

    /// Which process each core was told to count.
    #[cfg(unix)]
    pub(crate) fn attached(&self) -> BTreeMap<u32, u32> {
        self.0.borrow().attached.clone()
    }
}

struct FakeDevice {
    driver: FakeDriver,
    session: u64,
    pid: u32,
}

impl Drop for FakeDevice {
    fn drop(&mut self) {
        let machine = &mut *self.driver.0.borrow_mut();
        for core in machine.cores.iter_mut().chain(&mut machine.units) {
            if core
                .holder
                .is_some_and(|(session, _)| session == self.session)
            {
                core.free();
            }
        }
    }
}

impl Core {
    fn new() -> Self {
        Self {
            holder: None,
            state: State::Free,
            generation: 0,
            events: Vec::new(),
            ran_ns: 0,
            delivered: 0,
            starts: 0,
        }
    }

    fn free(&mut self) {
        self.holder = None;
        self.state = State::Free;
        self.events.clear();
    }

    fn holding(&self, session: u64) -> Holding {
        match self.holder {
            None => Holding::IDLE,
            Some((holder, _)) if holder == session => Holding::YOURS,
            Some(_) => Holding::BUSY,
        }
    }
}

type Answer = Result<Vec<u8>, Refusal>;

impl Device for FakeDevice {
    fn ioctl(&mut self, code: u32, input: &[u8], output: &mut [u8]) -> Result<Reply, DeviceError> {
        let ioctl = Ioctl::from_code(code).expect("a code of the table");
        let machine = &mut *self.driver.0.borrow_mut();
        if ioctl.target() == Target::Cores {
            return Ok(machine.call(self, ioctl, input, output));
        }
        // Units take the place of cores for the length of the call.
        std::mem::swap(&mut machine.cores, &mut machine.units);
        let reply = machine.call(self, ioctl, input, output);
        std::mem::swap(&mut machine.cores, &mut machine.units);
        Ok(reply)
    }
}

/// A request about units as the same request about cores.
fn as_of_cores(request: Request<'_>) -> Request<'_> {
    match request {
        Request::QueryUnitOwnership => Request::QueryOwnership,
        Request::QueryUnitEvents(unit) => Request::QueryEvents(unit),
        Request::QueryUnitTimes(unit) => Request::QueryDpcTimes(unit),
        Request::AcquireUnits(how, set) => Request::Acquire(how, set),
        Request::AssignUnits(assignment) => Request::Assign(assignment),
        Request::ReleaseUnits(set) => Request::Release(set),
        Request::ResetUnits(set) => Request::Reset(set),
        Request::StartUnits(set) => Request::Start(set),
        Request::StopUnits(set) => Request::Stop(set),
        Request::ReadUnit(unit) => Request::Read(unit),
        other => other,
    }
}

impl Machine {
    fn call(
        &mut self,
        device: &FakeDevice,
        ioctl: Ioctl,
        input: &[u8],
        output: &mut [u8],
    ) -> Reply {
        let request = Request::parse(ioctl, input, self.cores.len())
            .unwrap_or_else(|error| panic!("{}: {error}", ioctl.name()));
        let request = as_of_cores(request);
        if matches!(request, Request::Acquire(..)) {
            return self.acquire(device, request, output);
        }
        let answer = self.answer(ioctl, request, device.session);
        match answer {
            Ok(bytes) => {
                output[..bytes.len()].copy_from_slice(&bytes);
                Reply::from_ntstatus(0, bytes.len())
            }
            Err(refusal) => Reply::from_ntstatus(refusal.ntstatus(), 0),
        }
    }
}

impl Machine {
    fn acquire(&mut self, device: &FakeDevice, request: Request<'_>, output: &mut [u8]) -> Reply {
        let Request::Acquire(how, set) = request else {
            unreachable!("matched by the caller");
        };
        let busy = set.iter().find_map(|core| {
            let (session, pid) = self.cores[core as usize].holder?;
            (session != device.session).then_some((core, session, pid))
        });
        let (core, session, pid) = busy.unwrap_or_default();
        let outcome = match (busy, how) {
            (Some(_), AcquireHow::Normal) => AcquireOutcome::BUSY,
            (Some(_), AcquireHow::Force) => AcquireOutcome::FORCED,
            (None, _) => AcquireOutcome::ACQUIRED,
        };
        if outcome != AcquireOutcome::BUSY {
            for core in set.iter() {
                let core = &mut self.cores[core as usize];
                if let Some((former, _)) = core.holder.filter(|(s, _)| *s != device.session) {
                    self.forced_out.insert(former);
                }
                core.free();
                core.holder = Some((device.session, device.pid));
                core.state = State::Acquired;
            }
        }
        let reply = AcquireReply {
            outcome,
            core,
            holder_pid: pid,
            counters_free_min: self.counters.into(),
            holder_session: session,
            holder_since: if busy.is_some() { SINCE } else { 0 },
        };
        output[..reply.as_bytes().len()].copy_from_slice(reply.as_bytes());
        let refused = outcome == AcquireOutcome::BUSY;
        let status = if refused { Refusal::Busy.ntstatus() } else { 0 };
        Reply::from_ntstatus(status, size_of::<AcquireReply>())
    }

    fn answer(&mut self, ioctl: Ioctl, request: Request<'_>, session: u64) -> Answer {
        match request {
            Request::QueryVersion => Ok(version().as_bytes().to_vec()),
            Request::QueryConfig => Ok(self.config()),
            Request::QueryUnits => Ok(self.unit_configs()),
            Request::QueryEvents(core) => Ok(self.events(core)),
            Request::QueryOwnership => Ok(self.ownership(session)),
            Request::QueryDpcTimes(core) | Request::QueryIsrTimes(core) => {
                Ok(dpc_times(core).as_bytes().to_vec())
            }
            Request::SampleAssign(sampling) => {
                self.owned(ioctl, session, sampling.cores)?;
                self.sample_assign(sampling)
            }
            Request::SampleWait(timeout_ms, cores) => {
                self.owned(ioctl, session, cores)?;
                Ok(answers::waited(timeout_ms))
            }
            Request::SampleRead(cores) => {
                self.owned(ioctl, session, cores)?;
                Ok(self.sample_read(cores))
            }
            Request::Acquire(..) => unreachable!("answered by `acquire`"),
            Request::QueryUnitOwnership
            | Request::QueryUnitEvents(_)
            | Request::QueryUnitTimes(_)
            | Request::AcquireUnits(..)
            | Request::AssignUnits(_)
            | Request::ReleaseUnits(_)
            | Request::ResetUnits(_)
            | Request::StartUnits(_)
            | Request::StopUnits(_)
            | Request::ReadUnit(_) => unreachable!("made one about cores by `as_of_cores`"),
            Request::Assign(assignment) => {
                self.owned(ioctl, session, assignment.cores)?;
                self.assign(assignment.cores, &assignment.events().collect::<Vec<_>>())
            }
            Request::Read(core) => {
                self.owned_core(ioctl, session, core)?;
                let counting = &mut self.cores[core as usize];
                if counting.state == State::Counting {
                    counting.ran_ns += RUN_NS;
                }
                Ok(self.read(core))
            }
            Request::Release(set) => self.each(ioctl, session, set, Core::free),
            Request::Reset(set) => self.each(ioctl, session, set, |core| {
                core.generation += 1;
                core.ran_ns = 0;
                core.delivered = 0;
            }),
            Request::Start(set) => self.each(ioctl, session, set, |core| {
                core.starts += 1;
                core.state = match core.state {
                    State::Armed => State::Sampling,
                    _ => State::Counting,
                };
            }),
            Request::Stop(set) => self.each(ioctl, session, set, |core| {
                if core.state == State::Counting {
                    core.ran_ns += RUN_NS;
                }
                core.state = match core.state {
                    State::Armed | State::Sampling => State::Armed,
                    _ => State::Assigned,
                };
            }),
        }
    }

    fn owned_core(&mut self, ioctl: Ioctl, session: u64, core: u32) -> Result<(), Refusal> {
        if self.forced_out.remove(&session) {
            return Err(Refusal::ForcedOut);
        }
        let core = &self.cores[core as usize];
        assert_eq!(
            core.holding(session),
            Holding::YOURS,
            "{ioctl:?} without ownership"
        );
        assert!(ioctl.permits(core.state), "{ioctl:?} in {:?}", core.state);
        Ok(())
    }

    fn owned(&mut self, ioctl: Ioctl, session: u64, set: CoreSet<'_>) -> Result<(), Refusal> {
        set.iter()
            .try_for_each(|core| self.owned_core(ioctl, session, core))
    }

    fn each(
        &mut self,
        ioctl: Ioctl,
        session: u64,
        set: CoreSet<'_>,
        act: impl Fn(&mut Core),
    ) -> Answer {
        self.owned(ioctl, session, set)?;
        for core in set.iter() {
            act(&mut self.cores[core as usize]);
        }
        Ok(Vec::new())
    }

    fn is_fixed(&self, code: EventCode) -> bool {
        let code = match (self.kind, code) {
            (PmuKind::X86_ARCHITECTURAL, EventCode::CYCLES) => EventCode(0x3C),
            _ => code,
        };
        self.supported.iter().any(|event| event.code == code)
    }

    fn windows(&self, events: &[AssignEvent]) -> u32 {
        let general = events.iter().filter(|e| !self.is_fixed(e.code)).count();
        let windows = general.div_ceil(usize::from(self.counters.max(1)));
        u32::try_from(windows.max(1)).unwrap()
    }

    fn assign(&mut self, set: CoreSet<'_>, events: &[AssignEvent]) -> Answer {
        if events.iter().any(|event| event.code.0 == 0xDEAD) {
            return Err(Refusal::UnsupportedEvent);
        }
        for core in set.iter() {
            let core = &mut self.cores[core as usize];
            core.events = events.to_vec();
            core.state = State::Assigned;
            core.generation += 1;
            core.ran_ns = 0;
        }
        let reply = AssignReply {
            windows: self.windows(events),
            period_ms: 100,
        };
        Ok(reply.as_bytes().to_vec())
    }
}

struct FakeHost(FakeDriver);

impl Host for FakeHost {
    fn describe(&self) -> Option<String> {
        Some("fake driver".into())
    }

    fn caveat(&self) -> Option<&'static str> {
        Some("warning: the PMU is a model, its counts are not the program's")
    }

    fn counts_host_events(&self) -> bool {
        false
    }

    fn samples_only_attached(&self) -> bool {
        self.0.0.borrow().isolates
    }

    fn attach(&mut self, core: u32, pid: u32) -> Result<(), DeviceError> {
        self.0.0.borrow_mut().attached.insert(core, pid);
        Ok(())
    }

    fn detach(&mut self, core: u32) -> Result<(), DeviceError> {
        let removed = self.0.0.borrow_mut().attached.remove(&core);
        assert!(removed.is_some(), "core {core} was not attached");
        Ok(())
    }
}
