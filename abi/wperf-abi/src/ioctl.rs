//! The table of calls. Dispatch, client and documentation derive from it.

use crate::record::{
    AcquireHeader, AcquireReply, AssignEvent, AssignHeader, AssignReply, ConfigHeader, CoreConfig,
    CoreOwnership, CoreSetHeader, EventCount, EventsHeader, OneCore, OwnershipHeader, ReadHeader,
    RoutineTimes, Sample, SampleAssignHeader, SampleAssignReply, SampleCore, SampleReadHeader,
    SampleSource, SampleWaitHeader, SampleWaitReply, SupportedEvent, UnitConfig, UnitsHeader,
    Version,
};

/// Device type of the codes: a private one (`0x8000` and above), so that no inbox driver shares them.
pub const DEVICE_TYPE: u32 = 0x8D77;
const METHOD_BUFFERED: u32 = 0;

/// Rights on the handle that the I/O manager checks before the driver sees the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// `FILE_READ_DATA`: looks, changes nothing.
    Read = 1,
    /// `FILE_READ_DATA | FILE_WRITE_DATA`.
    ReadWrite = 3,
}

/// Who may call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caller {
    /// Whoever could open the device.
    Anyone,
    /// The file object that acquired every core, or unit, the call names.
    Owner,
}

/// What the numbers in a call are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// Cores.
    Cores,
    /// Uncore units, by their numbers in [`Ioctl::QueryUnits`].
    Units,
}

/// First function of the calls about units, and how many are kept for them.
const UNIT_FUNCTIONS: (u32, u32) = (0x810, 0x10);

/// State of one core, or of one uncore unit.
///
/// ```text
///        Acquire          Assign            Start
///  Free ────────▶ Acquired ─────▶ Assigned ──────▶ Counting
///   ▲                │               ▲ ◀── Stop ─────┘ │
///   │                │ SampleAssign                    │
///   │                └────────────▶ Armed ───────▶ Sampling
///   │                                ▲ ◀── Stop ─────┘ │
///   └── Release, last handle closed ─┴─────────────────┘
/// ```
/// A core that stands still can be assigned anew, either way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Nobody holds it; its PMU is not touched.
    Free = 1,
    /// Held; nothing programmed.
    Acquired = 2,
    /// Held; events assigned, counters standing still.
    Assigned = 4,
    /// Held; counting.
    Counting = 8,
    /// Held; sources of samples assigned, counters standing still. Samples may still be in the ring.
    Armed = 16,
    /// Held; sampling.
    Sampling = 32,
}

impl State {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Free,
        Self::Acquired,
        Self::Assigned,
        Self::Counting,
        Self::Armed,
        Self::Sampling,
    ];

    /// Whether counters of the core are running.
    #[must_use]
    pub const fn is_running(self) -> bool {
        matches!(self, Self::Counting | Self::Sampling)
    }
}

/// Shape of a buffer: a fixed part, then any number of equal elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Name of the record the buffer starts with; empty if the buffer is not used.
    pub fixed: &'static str,
    /// Its length in bytes.
    pub fixed_bytes: usize,
    /// What follows, each repeated as often as the record says: name and length in bytes.
    pub tails: &'static [(&'static str, usize)],
}

macro_rules! layout {
    () => { Layout { fixed: "", fixed_bytes: 0, tails: &[] } };
    ($fixed:ident $(+ $tail:ident)*) => {
        Layout {
            fixed: stringify!($fixed),
            fixed_bytes: size_of::<$fixed>(),
            tails: &[$((stringify!($tail), size_of::<$tail>())),*],
        }
    };
}

macro_rules! ioctls {
    ($( #[doc = $doc:literal]
        $name:ident = $function:literal, $access:ident, $caller:ident, [$($state:ident),+],
        ($($input:tt)*) -> ($($output:tt)*); )*) => {
        /// A call the driver answers.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Ioctl { $( #[doc = $doc] $name, )* }

        impl Ioctl {
            /// All calls, in the order of their codes.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// The call with this control code.
            #[must_use]
            pub const fn from_code(code: u32) -> Option<Self> {
                let ioctl = match (code >> 2) & 0xFFF { $( $function => Self::$name, )* _ => return None };
                if ioctl.code() == code { Some(ioctl) } else { None }
            }
            /// The control code.
            #[must_use]
            pub const fn code(self) -> u32 {
                match self { $( Self::$name => ctl_code($function, Access::$access), )* }
            }
            /// Name of the call.
            #[must_use]
            pub const fn name(self) -> &'static str { match self { $(Self::$name => stringify!($name),)* } }
            /// What the call does, in a sentence.
            #[must_use]
            pub const fn summary(self) -> &'static str { match self { $(Self::$name => $doc,)* } }
            /// Rights on the handle.
            #[must_use]
            pub const fn access(self) -> Access { match self { $(Self::$name => Access::$access,)* } }
            /// Who may call.
            #[must_use]
            pub const fn caller(self) -> Caller { match self { $(Self::$name => Caller::$caller,)* } }
            /// What the numbers in the call are of.
            #[must_use]
            pub const fn target(self) -> Target {
                let (first, count) = UNIT_FUNCTIONS;
                let function = self.code() >> 2 & 0xFFF;
                if function >= first && function < first + count { Target::Units } else { Target::Cores }
            }
            /// States of a core, or unit, in which the call may name it.
            #[must_use]
            pub const fn states(self) -> &'static [State] {
                match self { $(Self::$name => &[$(State::$state),+],)* }
            }
            /// Whether a core, or unit, in `state` may be named.
            #[must_use]
            pub const fn permits(self, state: State) -> bool {
                let mask = match self { $(Self::$name => 0 $(| State::$state as u8)+,)* };
                mask & state as u8 != 0
            }
            /// What the input buffer holds.
            #[must_use]
            pub const fn input(self) -> Layout { match self { $(Self::$name => layout!($($input)*),)* } }
            /// What the output buffer holds.
            #[must_use]
            pub const fn output(self) -> Layout { match self { $(Self::$name => layout!($($output)*),)* } }
        }
    };
}

/// `CTL_CODE` of devioctl.h.
const fn ctl_code(function: u32, access: Access) -> u32 {
    DEVICE_TYPE << 16 | (access as u32) << 14 | function << 2 | METHOD_BUFFERED
}

ioctls! {
    /// Versions of the contract and of the driver.
    QueryVersion = 0x800, Read, Anyone, [Free, Acquired, Assigned, Counting, Armed, Sampling], () -> (Version);
    /// The machine and, core by core, its PMU.
    QueryConfig = 0x801, Read, Anyone, [Free, Acquired, Assigned, Counting, Armed, Sampling], () -> (ConfigHeader + CoreConfig);
    /// The events that one core says it supports.
    QueryEvents = 0x802, Read, Anyone, [Free, Acquired, Assigned, Counting, Armed, Sampling], (OneCore) -> (EventsHeader + SupportedEvent);
    /// Who holds which core, and since when.
    QueryOwnership = 0x803, Read, Anyone, [Free, Acquired, Assigned, Counting, Armed, Sampling], () -> (OwnershipHeader + CoreOwnership);
    /// Takes a set of cores, all or none; by force also from another.
    Acquire = 0x804, ReadWrite, Anyone, [Free, Acquired, Assigned, Counting, Armed, Sampling], (AcquireHeader + u64) -> (AcquireReply);
    /// Gives a set of cores back: counting and sampling stop, counters are freed.
    Release = 0x805, ReadWrite, Owner, [Acquired, Assigned, Counting, Armed, Sampling], (CoreSetHeader + u64) -> ();
    /// Programs groups of events on a set of cores; what was counted before is gone.
    Assign = 0x806, ReadWrite, Owner, [Acquired, Assigned, Armed], (AssignHeader + u64 + AssignEvent) -> (AssignReply);
    /// Sets totals to zero, empties rings, begins a new generation; a running core goes on.
    Reset = 0x807, ReadWrite, Owner, [Assigned, Counting, Armed, Sampling], (CoreSetHeader + u64) -> ();
    /// Starts counting, or sampling; totals continue.
    Start = 0x808, ReadWrite, Owner, [Assigned, Armed], (CoreSetHeader + u64) -> ();
    /// Stops counting or sampling and harvests the counters; a core that stands still already is left alone.
    Stop = 0x809, ReadWrite, Owner, [Assigned, Counting, Armed, Sampling], (CoreSetHeader + u64) -> ();
    /// Totals of one core up to this moment.
    Read = 0x80A, ReadWrite, Owner, [Assigned, Counting], (OneCore) -> (ReadHeader + EventCount);
    /// How long the DPCs of one core took, since the driver was loaded.
    QueryDpcTimes = 0x80B, Read, Anyone, [Free, Acquired, Assigned, Counting, Armed, Sampling], (OneCore) -> (RoutineTimes);
    /// Programs sources of samples on a set of cores; what was assigned or sampled before is gone.
    SampleAssign = 0x80C, ReadWrite, Owner, [Acquired, Assigned, Armed], (SampleAssignHeader + u64 + SampleSource) -> (SampleAssignReply);
    /// Waits until the ring of a core of the set is half full, a core of the set stands still, or the time is up.
    SampleWait = 0x80D, ReadWrite, Owner, [Armed, Sampling], (SampleWaitHeader + u64) -> (SampleWaitReply);
    /// Takes samples out of the rings of a set of cores, as many as there are and as there is room for.
    SampleRead = 0x80E, ReadWrite, Owner, [Armed, Sampling], (CoreSetHeader + u64) -> (SampleReadHeader + SampleCore + Sample);
    /// How long the interrupt routine of one core took, since the driver was loaded.
    QueryIsrTimes = 0x80F, Read, Anyone, [Free, Acquired, Assigned, Counting, Armed, Sampling], (OneCore) -> (RoutineTimes);
    /// The uncore units that the driver found.
    QueryUnits = 0x810, Read, Anyone, [Free, Acquired, Assigned, Counting], () -> (UnitsHeader + UnitConfig);
    /// Who holds which unit, and since when.
    QueryUnitOwnership = 0x811, Read, Anyone, [Free, Acquired, Assigned, Counting], () -> (OwnershipHeader + CoreOwnership);
    /// Takes a set of units, all or none; by force also from another.
    AcquireUnits = 0x812, ReadWrite, Anyone, [Free, Acquired, Assigned, Counting], (AcquireHeader + u64) -> (AcquireReply);
    /// Gives a set of units back: counting stops, registers are unmapped.
    ReleaseUnits = 0x813, ReadWrite, Owner, [Acquired, Assigned, Counting], (CoreSetHeader + u64) -> ();
    /// Puts events on the counters of each unit of a set, all at the same time; what was counted before is gone.
    AssignUnits = 0x814, ReadWrite, Owner, [Acquired, Assigned], (AssignHeader + u64 + AssignEvent) -> (AssignReply);
    /// Sets the totals of units to zero and begins a new generation; a counting unit goes on counting.
    ResetUnits = 0x815, ReadWrite, Owner, [Assigned, Counting], (CoreSetHeader + u64) -> ();
    /// Starts counting on units; totals continue.
    StartUnits = 0x816, ReadWrite, Owner, [Assigned], (CoreSetHeader + u64) -> ();
    /// Stops counting on units and harvests the counters; a unit that stands still already is left alone.
    StopUnits = 0x817, ReadWrite, Owner, [Assigned, Counting], (CoreSetHeader + u64) -> ();
    /// Totals of one unit up to this moment.
    ReadUnit = 0x818, ReadWrite, Owner, [Assigned, Counting], (OneCore) -> (ReadHeader + EventCount);
    /// The events that one unit says it has.
    QueryUnitEvents = 0x819, Read, Anyone, [Free, Acquired, Assigned, Counting], (OneCore) -> (EventsHeader + SupportedEvent);
    /// How long one unit was looked at each time, ticks included, since the driver was loaded.
    QueryUnitTimes = 0x81A, Read, Anyone, [Free, Acquired, Assigned, Counting], (OneCore) -> (RoutineTimes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_leads_back_to_its_call_and_no_other_does() {
        for &ioctl in Ioctl::ALL {
            assert_eq!(Ioctl::from_code(ioctl.code()), Some(ioctl));
            for bit in 0..32 {
                let other = Ioctl::from_code(ioctl.code() ^ (1 << bit));
                assert_ne!(other, Some(ioctl), "bit {bit}");
            }
        }
    }

    #[test]
    fn what_changes_something_needs_write_access() {
        for &ioctl in Ioctl::ALL {
            let acquires = matches!(ioctl, Ioctl::Acquire | Ioctl::AcquireUnits);
            let changes = ioctl.caller() == Caller::Owner || acquires;
            assert_eq!(ioctl.access() == Access::ReadWrite, changes, "{ioctl:?}");
        }
    }

    #[test]
    fn an_owners_call_never_names_a_free_core() {
        for ioctl in Ioctl::ALL
            .iter()
            .filter(|ioctl| ioctl.caller() == Caller::Owner)
        {
            assert!(!ioctl.permits(State::Free), "{ioctl:?}");
        }
    }

    #[test]
    fn the_calls_about_units_are_told_from_those_about_cores() {
        for &ioctl in Ioctl::ALL {
            let is_about_units = ioctl.target() == Target::Units;
            assert_eq!(is_about_units, ioctl.name().contains("Unit"), "{ioctl:?}");
        }
    }

    #[test]
    fn permits_agrees_with_states() {
        for &ioctl in Ioctl::ALL {
            for state in State::ALL {
                assert_eq!(ioctl.permits(state), ioctl.states().contains(&state));
            }
        }
    }
}
