//! The driver in each of its states, with one client that holds cores and uncore units and one that does not.

use lab_devices::Architectural::{self, Branches, CacheMisses, Cycles};
use lab_devices::Devices;
use lab_devices::platform::Kind;
use lab_dock::{Dock, Options};
use lab_ntos::Machine;
use wperf_abi::client::{encode_assign, encode_core_set, encode_sample_assign, encode_sample_wait};
use wperf_abi::record::{AcquireMode, AssignEvent, SampleSource};
use wperf_abi::{Caller, EventCode, EventFilter, Ioctl, Refusal, State, Target};

use crate::wperf::{Handle, OWNER, STRANGER, dock, expected, unload_cleanly};

/// Every state of a core.
pub const STATES: [State; 6] = State::ALL;
/// The cores that the owner holds. The machine has more.
pub const CORES: [u32; 2] = [0, 2];
/// The units that the owner holds: a memory controller and a CoreSight PMU, with the numbers of the cores.
pub const UNITS: [u32; 2] = CORES;
/// Processors of the machine, and its units.
pub const CPUS: usize = 4;
/// Longer than any answer of the driver on this machine.
pub const ROOM: usize = 16 * 1024;

/// Which client calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Actor {
    /// The one that holds the cores, except in [`State::Free`].
    Owner,
    /// The other.
    Stranger,
}

/// A machine whose cores are in a known state.
pub struct Scene {
    dock: Dock,
    owner: lab_ntos::FileId,
    stranger: lab_ntos::FileId,
}

/// What must not change when a call is refused.
#[derive(Debug, PartialEq, Eq)]
pub struct Snapshot {
    config: Vec<u8>,
    ownership: Vec<u8>,
    /// Header and counts of each core of the owner; none while nothing is assigned.
    totals: Vec<(u32, Vec<u8>)>,
    /// The same of units.
    units: [Vec<u8>; 2],
    unit_totals: Vec<(u32, Vec<u8>)>,
}

impl Scene {
    /// Brings the owner's cores into `state`.
    #[must_use]
    pub fn new(state: State) -> Self {
        let options = Options {
            cpus: CPUS,
            devices: devices(),
            ..Options::default()
        };
        let dock = dock(options);
        let owner = Handle::open(dock.machine(), OWNER).file;
        let stranger = Handle::open(dock.machine(), STRANGER).file;
        let scene = Self {
            dock,
            owner,
            stranger,
        };
        let calls: &[Ioctl] = match state {
            State::Free => &[],
            State::Acquired => &[Ioctl::Acquire],
            State::Assigned => &[Ioctl::Acquire, Ioctl::Assign],
            State::Counting => &[Ioctl::Acquire, Ioctl::Assign, Ioctl::Start],
            State::Armed => &[Ioctl::Acquire, Ioctl::SampleAssign],
            State::Sampling => &[Ioctl::Acquire, Ioctl::SampleAssign, Ioctl::Start],
        };
        let of_units: &[Ioctl] = match unit_state(state) {
            State::Acquired => &[Ioctl::AcquireUnits],
            State::Assigned => &[Ioctl::AcquireUnits, Ioctl::AssignUnits],
            State::Counting => &[Ioctl::AcquireUnits, Ioctl::AssignUnits, Ioctl::StartUnits],
            _ => &[],
        };
        for call in calls.iter().chain(of_units) {
            let owner = scene.handle(Actor::Owner);
            let (status, _) = owner.call(call.code(), &valid_input(*call), ROOM);
            assert_eq!(status, 0, "{call:?}");
        }
        scene
    }

    /// The machine.
    #[must_use]
    pub fn machine(&self) -> &Machine {
        self.dock.machine()
    }

    /// A client's handle.
    #[must_use]
    pub fn handle(&self, actor: Actor) -> Handle<'_> {
        let file = match actor {
            Actor::Owner => self.owner,
            Actor::Stranger => self.stranger,
        };
        let machine = self.machine();
        Handle { machine, file }
    }

    /// Looks at everything that a client can see. Counting is held still for the look: virtual time
    /// passes only while the driver reads the clock, so a second look differs by that alone.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let owner = self.handle(Actor::Owner);
        let look = |ioctl: Ioctl, input: &[u8]| owner.call(ioctl.code(), input, ROOM);
        let totals_of = |ioctl: Ioctl, number: u32| {
            let input = [number.to_le_bytes(), [0; 4]].concat();
            let (status, mut totals) = look(ioctl, &input);
            mask_moving(&mut totals);
            (status, totals)
        };
        let totals = CORES.map(|core| totals_of(Ioctl::Read, core));
        let unit_totals = UNITS.map(|unit| totals_of(Ioctl::ReadUnit, unit));
        Snapshot {
            units: [Ioctl::QueryUnits, Ioctl::QueryUnitOwnership].map(|ioctl| look(ioctl, &[]).1),
            unit_totals: unit_totals.to_vec(),
            config: look(Ioctl::QueryConfig, &[]).1,
            ownership: look(Ioctl::QueryOwnership, &[]).1,
            totals: totals.to_vec(),
        }
    }

    /// Every core counts as if nobody had called: value and time since the start agree.
    pub fn assert_counts_are_whole(&self, state: State) {
        if state != State::Counting {
            return;
        }
        let mut client = self.handle(Actor::Owner).client();
        for core in CORES {
            let (head, counts) = client.read(core).expect("counting");
            for (count, event) in counts.iter().zip(EVENTS) {
                let rate = expected(core, &event, 0, count.running_ns);
                assert!(
                    count.value.abs_diff(rate) <= 1 && count.running_ns == head.enabled_ns,
                    "core {core}: {count:?}, not {rate}"
                );
            }
        }
        for (unit, total) in UNITS.into_iter().zip([controller as Total, pmu]) {
            let (head, counts) = client.read_unit(unit).expect("counting");
            for (count, event) in counts.iter().zip(UNIT_EVENTS) {
                let rate = total(event.code, count.running_ns);
                assert!(
                    count.value.abs_diff(rate) <= 1 && count.running_ns == head.enabled_ns,
                    "unit {unit}: {count:?}, not {rate}"
                );
            }
        }
    }

    /// Ends the scene: the driver unloads cleanly, with handles closed first.
    pub fn end(self) {
        self.handle(Actor::Owner).close();
        self.handle(Actor::Stranger).close();
        unload_cleanly(self.dock);
    }
}

/// Counts move while a core counts: keep generation, state, windows and what is counted.
fn mask_moving(totals: &mut [u8]) {
    const ENABLED: std::ops::Range<usize> = 24..32;
    const HEADER: usize = 40;
    const COUNT: usize = 32;
    const VALUES: std::ops::Range<usize> = 8..32;
    if totals.is_empty() {
        return;
    }
    totals[ENABLED].fill(0);
    for count in totals[HEADER..].chunks_exact_mut(COUNT) {
        count[VALUES].fill(0);
    }
}

/// What the owner counts: as many events as fit at once.
pub const EVENTS: [AssignEvent; 3] = [
    counted(Cycles, 0),
    counted(Branches, 1),
    counted(CacheMisses, 1),
];

/// Sources of samples on the owner's cores: so rare that none is due while a test looks.
pub const SOURCES: [SampleSource; 2] = [source(Cycles, 1 << 40), source(Branches, 1 << 40)];

/// A sample each so many events, whatever mode and process they happen in.
#[must_use]
pub const fn source(code: Architectural, interval: u64) -> SampleSource {
    SampleSource {
        code: EventCode(code.code() as u32),
        filter: EventFilter::NONE,
        reserved: 0,
        interval,
        pid: 0,
        reserved2: 0,
    }
}

/// What the owner counts on units: events that both have.
pub const UNIT_EVENTS: [AssignEvent; 3] = [of_unit(0x12, 0), of_unit(0x01, 1), of_unit(0x05, 1)];

const fn of_unit(code: u32, group: u16) -> AssignEvent {
    AssignEvent {
        code: EventCode(code),
        filter: EventFilter::NONE,
        group,
    }
}

/// As many units as processors.
fn devices() -> Devices {
    [Kind::Dmc620, Kind::Dmc620, Kind::CsPmu, Kind::CsPmu64]
        .into_iter()
        .collect()
}

/// What an event comes to by a time. Units: ns.
type Total = fn(EventCode, u64) -> u64;

/// What unit 0, the first memory controller, comes to.
fn controller(code: EventCode, ns: u64) -> u64 {
    lab_devices::platform::Dmc620::total(0, false, code.0.into(), ns)
}

/// What unit 2, the first CoreSight PMU, comes to.
fn pmu(code: EventCode, ns: u64) -> u64 {
    lab_devices::platform::CoreSight::total(0, Some(code.0), ns)
}

/// The state of the owner's units while its cores are in a state: units do not sample.
#[must_use]
pub const fn unit_state(state: State) -> State {
    match state {
        State::Armed => State::Assigned,
        State::Sampling => State::Counting,
        other => other,
    }
}

const fn counted(code: Architectural, group: u16) -> AssignEvent {
    AssignEvent {
        code: EventCode(code.code() as u32),
        filter: EventFilter::NONE,
        group,
    }
}

/// A valid input of a call, as the owner would make it.
#[must_use]
pub fn valid_input(ioctl: Ioctl) -> Vec<u8> {
    match ioctl {
        Ioctl::QueryVersion
        | Ioctl::QueryConfig
        | Ioctl::QueryOwnership
        | Ioctl::QueryUnits
        | Ioctl::QueryUnitOwnership => Vec::new(),
        Ioctl::QueryUnitEvents | Ioctl::QueryUnitTimes | Ioctl::ReadUnit => {
            [UNITS[0].to_le_bytes(), [0; 4]].concat()
        }
        Ioctl::AcquireUnits => acquire_input(AcquireMode::NORMAL, &UNITS),
        Ioctl::AssignUnits => encode_assign(&UNITS, &UNIT_EVENTS, 10),
        Ioctl::ReleaseUnits | Ioctl::ResetUnits | Ioctl::StartUnits | Ioctl::StopUnits => {
            encode_core_set(&UNITS)
        }
        Ioctl::QueryEvents | Ioctl::QueryDpcTimes | Ioctl::QueryIsrTimes | Ioctl::Read => {
            [CORES[0].to_le_bytes(), [0; 4]].concat()
        }
        Ioctl::SampleAssign => encode_sample_assign(&CORES, &SOURCES, 0),
        Ioctl::SampleWait => encode_sample_wait(&CORES, 0),
        Ioctl::SampleRead => encode_core_set(&CORES),
        Ioctl::Acquire => acquire_input(AcquireMode::NORMAL, &CORES),
        Ioctl::Assign => encode_assign(&CORES, &EVENTS, 10),
        Ioctl::Release | Ioctl::Reset | Ioctl::Start | Ioctl::Stop => encode_core_set(&CORES),
    }
}

/// Input of [`Ioctl::Acquire`]: a core set whose reserved field is the mode.
#[must_use]
pub fn acquire_input(mode: AcquireMode, cores: &[u32]) -> Vec<u8> {
    let mut input = encode_core_set(cores);
    input[4..8].copy_from_slice(&mode.0.to_le_bytes());
    input
}

/// What the table of calls says about a valid call.
#[must_use]
pub fn expected_refusal(ioctl: Ioctl, state: State, actor: Actor) -> Option<Refusal> {
    let owns = actor == Actor::Owner && state != State::Free;
    let state = match ioctl.target() {
        Target::Cores => state,
        Target::Units => unit_state(state),
    };
    match (ioctl.caller(), ioctl) {
        (Caller::Owner, _) if !owns => Some(Refusal::NotOwner),
        (Caller::Owner, _) if !ioctl.permits(state) => Some(Refusal::WrongState),
        (_, Ioctl::Acquire | Ioctl::AcquireUnits)
            if actor == Actor::Stranger && state != State::Free =>
        {
            Some(Refusal::Busy)
        }
        _ => None,
    }
}
