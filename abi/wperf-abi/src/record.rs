//! What lies in the buffers. Every record is plain bytes without gaps; sizes are asserted below.

use crate::{DURATION_RANGES, EventCode, EventFilter, MAX_CORES};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

macro_rules! records {
    ($( $(#[doc = $doc:literal])+ $name:ident: $bytes:literal {
        $( $(#[doc = $field_doc:literal])+ $field:ident: $type:ty, )* } )*) => {
        $(
            $(#[doc = $doc])+
            #[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
            #[repr(C)]
            pub struct $name { $( $(#[doc = $field_doc])+ pub $field: $type, )* }

            const _: () = assert!(size_of::<$name>() == $bytes);
        )*

        /// One row of the documentation per record.
        pub(crate) const RECORDS: &[RecordDoc] = &[$( RecordDoc {
            name: stringify!($name),
            about: concat!($($doc, "\n"),+),
            bytes: $bytes,
            fields: &[$( FieldDoc {
                name: stringify!($field),
                offset: core::mem::offset_of!($name, $field),
                type_name: stringify!($type),
                about: concat!($($field_doc),+),
            } ),*],
        } ),*];
    };
}

/// A record as the documentation shows it.
pub(crate) struct RecordDoc {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) bytes: usize,
    pub(crate) fields: &'static [FieldDoc],
}

/// A field as the documentation shows it.
pub(crate) struct FieldDoc {
    pub(crate) name: &'static str,
    pub(crate) offset: usize,
    pub(crate) type_name: &'static str,
    pub(crate) about: &'static str,
}

records! {
    /// Versions of the contract and of the driver.
    Version: 48 {
        /// Differs: do not talk to each other.
        abi_major: u16,
        /// Greater in the driver: it can do more than the client knows.
        abi_minor: u16,
        /// Version of the driver.
        driver_major: u16,
        /// Version of the driver.
        driver_minor: u16,
        /// Version of the driver.
        driver_patch: u16,
        /// Zero.
        reserved: [u8; 6],
        /// Build identification, ASCII, filled with zeros.
        build: [u8; 32],
    }

    /// The machine. `core_count` records of [`CoreConfig`] follow.
    ConfigHeader: 56 {
        /// Number of cores, and of records that follow.
        core_count: u32,
        /// Length of each; a later driver may append fields.
        core_bytes: u32,
        /// Shortest multiplex period. Units: ms.
        period_min_ms: u32,
        /// Longest multiplex period. Units: ms.
        period_max_ms: u32,
        /// Multiplex period used when a client asks for 0. Units: ms.
        period_default_ms: u32,
        /// Bits of [`config_flags`].
        flags: u32,
        /// Vendor of the processor, ASCII, filled with zeros: CPUID leaf 0, or the Arm implementer code in hexadecimal.
        vendor: [u8; 16],
        /// Hypervisor signature, CPUID leaf 0x4000_0000; zeros if none shows itself.
        hypervisor: [u8; 12],
        /// Zero.
        reserved: u32,
    }

    /// One core and its PMU.
    CoreConfig: 48 {
        /// System-wide processor index.
        core: u32,
        /// One of [`PmuKind`].
        pmu: PmuKind,
        /// Processor group.
        group: u16,
        /// Number within the group.
        number: u16,
        /// General-purpose counters that the PMU has.
        counters_total: u16,
        /// Those of them that could be reserved; what is missing somebody else holds. See [`config_flags::FREE_IS_CURRENT`].
        counters_free: u16,
        /// Fixed-function counters.
        fixed_counters: u16,
        /// Width of a general-purpose counter. Units: bits.
        counter_bits: u16,
        /// Width of a fixed counter. Units: bits.
        fixed_bits: u16,
        /// Version: CPUID.0AH: EAX bits 7:0, or ID_AA64DFR0_EL1.PMUVer.
        pmu_version: u16,
        /// Bit n: general-purpose counter n is free.
        counter_map: u64,
        /// MIDR_EL1, or CPUID leaf 1 EAX.
        identification: u64,
        /// ID_AA64DFR0_EL1, or CPUID.0AH: EBX in the low, EDX in the high half.
        features: u64,
    }

    /// A call about one core, or one unit.
    OneCore: 8 {
        /// System-wide processor index; of a unit, its number.
        core: u32,
        /// Zero.
        reserved: u32,
    }

    /// `event_count` records of [`SupportedEvent`] follow.
    EventsHeader: 8 {
        /// System-wide processor index; of a unit, its number.
        core: u32,
        /// Number of records that follow.
        event_count: u32,
    }

    /// An event that a core says it has. Others may exist: only architectural ones announce themselves.
    SupportedEvent: 8 {
        /// The code that [`AssignEvent`] takes.
        code: EventCode,
        /// Bits of [`count_flags`]: on what kind of counter it would be counted.
        flags: u32,
    }

    /// `core_count` records of [`CoreOwnership`] follow.
    OwnershipHeader: 8 {
        /// Number of records that follow.
        core_count: u32,
        /// Length of each; a later driver may append fields.
        core_bytes: u32,
    }

    /// Who holds a core, or a unit.
    CoreOwnership: 32 {
        /// System-wide processor index; of a unit, its number.
        core: u32,
        /// One of [`Holding`].
        holding: Holding,
        /// Process that acquired it; 0 if nobody holds it.
        pid: u32,
        /// One of [`crate::State`], as a number.
        state: u32,
        /// Number of the holder's session, never used twice; 0 if nobody holds it.
        session: u64,
        /// When it was acquired. Units: 100 ns since 1601, UTC (FILETIME); 0 if nobody holds it.
        since: u64,
    }

    /// `word_count` 64-bit words of a set of cores, or of units, follow.
    CoreSetHeader: 8 {
        /// Number of words that follow, 1 to 32.
        word_count: u32,
        /// Zero.
        reserved: u32,
    }

    /// `word_count` 64-bit words of a set of cores, or of units, follow.
    AcquireHeader: 8 {
        /// Number of words that follow, 1 to 32.
        word_count: u32,
        /// One of [`AcquireMode`].
        mode: AcquireMode,
    }

    /// What became of an acquisition; also returned with the status *busy*.
    AcquireReply: 32 {
        /// One of [`AcquireOutcome`].
        outcome: AcquireOutcome,
        /// Busy or forced: first core, or unit, of the set that another holds (held).
        core: u32,
        /// That other's process; 0 if the set was free.
        holder_pid: u32,
        /// Free counters of the core, or unit, that has fewest; the client may have to multiplex more.
        counters_free_min: u32,
        /// That other's session; 0 if the set was free.
        holder_session: u64,
        /// When that other acquired it. Units: 100 ns since 1601, UTC (FILETIME).
        holder_since: u64,
    }

    /// `word_count` 64-bit words of a set of cores, or of units, follow, then `event_count` records of [`AssignEvent`].
    AssignHeader: 16 {
        /// Number of words that follow, 1 to 32.
        word_count: u32,
        /// Number of events after them, 1 to 128.
        event_count: u32,
        /// How long each window of a multiplexed set counts, and how often counters are looked at, 10 to 100; 0 for the default. Units: ms.
        period_ms: u32,
        /// Zero.
        reserved: u32,
    }

    /// An event to count. On a unit the filter is 0: its counters know no modes.
    AssignEvent: 8 {
        /// What.
        code: EventCode,
        /// Group: 0 for the first event, then the same or one more. Events of one group are counted at the same time.
        group: u16,
        /// Modes in which it is not counted.
        filter: EventFilter,
    }

    /// How the events were laid out.
    AssignReply: 8 {
        /// Windows that take turns on the core that needs most; 1: no multiplexing.
        windows: u32,
        /// How long each counts. Units: ms.
        period_ms: u32,
    }

    /// Totals of a core, or of a unit. `event_count` records of [`EventCount`] follow, in the order of the assignment.
    ReadHeader: 40 {
        /// System-wide processor index; of a unit, its number.
        core: u32,
        /// Number of records that follow.
        event_count: u32,
        /// Number of the run the totals belong to: grows with every assignment and reset of the core.
        generation: u64,
        /// One of [`crate::State`], as a number.
        state: u32,
        /// Windows that take turns; 1: no multiplexing.
        windows: u32,
        /// How long the core counted. Units: ns.
        enabled_ns: u64,
        /// Turns of the windows so far.
        rotations: u64,
    }

    /// Total of one event.
    EventCount: 32 {
        /// The event, as assigned.
        code: EventCode,
        /// Its group, as assigned.
        group: u16,
        /// Bits of [`count_flags`].
        flags: u16,
        /// Total while it was on a counter; scale by `enabled_ns / running_ns`.
        value: u64,
        /// How long the core counted. Units: ns.
        enabled_ns: u64,
        /// How long of that the event was on a counter. Units: ns.
        running_ns: u64,
    }

    /// How long a routine of the driver took on one core: its DPCs (ticks, starts, stops, resets,
    /// reads, wake-ups), or its interrupt routine.
    RoutineTimes: 224 {
        /// System-wide processor index; of a unit, its number.
        core: u32,
        /// Zero.
        reserved: u32,
        /// Calls so far.
        count: u64,
        /// All of them together. Units: ns.
        total_ns: u64,
        /// The longest. Units: ns.
        longest_ns: u64,
        /// Range n: calls that took 2^n ns or more and less than 2^(n+1); range 0 from 0, the last without end.
        ranges: [u64; DURATION_RANGES],
    }

    /// `word_count` 64-bit words of a core set follow, then `source_count` records of [`SampleSource`].
    SampleAssignHeader: 16 {
        /// Number of words that follow, 1 to 32.
        word_count: u32,
        /// Number of sources after them, 1 to 32.
        source_count: u32,
        /// Samples that the ring of each core holds, 64 to 65536, rounded up to a power of two; 0 for the default.
        ring_samples: u32,
        /// Zero.
        reserved: u32,
    }

    /// What samples are taken of.
    SampleSource: 24 {
        /// The event.
        code: EventCode,
        /// Modes in which it is not counted.
        filter: EventFilter,
        /// Zero.
        reserved: u16,
        /// A sample each time so many events have happened, 1000 to 2^56; 0 for the default (0x4000000).
        interval: u64,
        /// Samples of this process only; 0: of every process.
        pid: u32,
        /// Zero.
        reserved2: u32,
    }

    /// How the sources were laid out.
    SampleAssignReply: 8 {
        /// Samples that the ring of each core holds.
        ring_samples: u32,
        /// Zero.
        reserved: u32,
    }

    /// `word_count` 64-bit words of a core set follow.
    SampleWaitHeader: 8 {
        /// Number of words that follow, 1 to 32.
        word_count: u32,
        /// How long to wait at most, 0 to 10000. Units: ms.
        timeout_ms: u32,
    }

    /// Why the wait ended.
    SampleWaitReply: 8 {
        /// One of [`WaitOutcome`].
        outcome: WaitOutcome,
        /// The core that it is about.
        core: u32,
    }

    /// `core_count` records of [`SampleCore`] follow, then `sample_count` records of [`Sample`].
    SampleReadHeader: 16 {
        /// Number of cores, in rising order.
        core_count: u32,
        /// Number of samples: those of one core in the order they were taken, one core after the other.
        sample_count: u32,
        /// Bits of [`read_flags`].
        flags: u32,
        /// Zero.
        reserved: u32,
    }

    /// The samples of a core, in numbers: always `generated = delivered + waiting + lost`.
    SampleCore: 56 {
        /// System-wide processor index.
        core: u32,
        /// One of [`crate::State`], as a number.
        state: u32,
        /// What the numbers belong to: grows with every assignment and reset of the core.
        generation: u64,
        /// Samples that were due.
        generated: u64,
        /// Those that were read, with those of this answer.
        delivered: u64,
        /// Those still in the ring.
        waiting: u64,
        /// Those that nobody will see: the ring was full, or they were late.
        lost: u64,
        /// Those of them that were late: due again before the interrupt for the one before was served.
        late: u64,
    }

    /// One sample: where a processor was when a counter had counted so many events.
    Sample: 48 {
        /// When: a clock that goes on steadily from an arbitrary start, the same on all cores. Units: ns.
        time_ns: u64,
        /// Address of the instruction that was next.
        pc: u64,
        /// What it belongs to: as in [`SampleCore`].
        generation: u64,
        /// System-wide processor index.
        core: u32,
        /// Process that ran there; 0 if none did.
        pid: u32,
        /// Its thread.
        tid: u32,
        /// The event.
        code: EventCode,
        /// Place of the source in the assignment.
        source: u16,
        /// Bits of [`sample_flags`].
        flags: u16,
        /// Zero.
        reserved: u32,
    }

    /// The uncore units. `unit_count` records of [`UnitConfig`] follow; none where the driver found none.
    UnitsHeader: 8 {
        /// Number of records that follow.
        unit_count: u32,
        /// Length of each; a later driver may append fields.
        unit_bytes: u32,
    }

    /// A PMU that belongs to no core.
    UnitConfig: 320 {
        /// Its number, from 0, in the order of the records.
        unit: u32,
        /// One of [`UnitKind`].
        kind: UnitKind,
        /// Its number among those of its kind, from 0.
        number: u32,
        /// CoreSight PMU: what it is of ([`UnitOf`]); else 0.
        of: UnitOf,
        /// Name, ASCII, filled with zeros.
        name: [u8; 16],
        /// General-purpose counters. DMC-620: those of the halved clock, then those of the full clock; else the second is 0.
        counters_total: [u16; 2],
        /// Those of them that nobody outside the driver had running at the last acquisition.
        counters_free: [u16; 2],
        /// Fixed-function counters: a cycle counter.
        fixed_counters: u16,
        /// Width of a general-purpose counter. Units: bits.
        counter_bits: u16,
        /// Width of a fixed counter. Units: bits.
        fixed_bits: u16,
        /// Zero.
        reserved: u16,
        /// CoreSight PMU: PMIIDR, or what the firmware says in its place; else 0.
        identification: u64,
        /// What tells it from others of its kind: instance of the APMT node, DSU: affinity of its cluster.
        instance: u64,
        /// The cores whose unit it is, as a core set; all zeros: of the machine.
        cores: [u64; MAX_CORES / 64],
    }
}

macro_rules! open_enum {
    ($( #[doc = $doc:literal] $name:ident { $( #[doc = $value_doc:literal] $value:ident = $number:literal, )* } )*) => { $(
        #[doc = $doc]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
        #[repr(transparent)]
        pub struct $name(pub u32);
        impl $name { $( #[doc = $value_doc] pub const $value: Self = Self($number); )* }
    )* };
}

open_enum! {
    /// What kind of PMU a core has.
    PmuKind {
        /// Arm PMUv3, by system registers.
        ARM_PMUV3 = 1,
        /// x86 architectural performance monitoring (CPUID leaf 0x0A).
        X86_ARCHITECTURAL = 2,
        /// None that can be used: time and time-stamp ticks only.
        SOFTWARE = 3,
    }
    /// What kind of PMU an uncore unit has.
    UnitKind {
        /// DynamIQ Shared Unit, by system registers of its cluster's cores.
        DSU = 1,
        /// DMC-620 memory controller.
        DMC_620 = 2,
        /// Arm CoreSight PMU, from the ACPI table APMT.
        CORESIGHT = 3,
    }
    /// What a CoreSight PMU is of: the type of its APMT node.
    UnitOf {
        /// Memory controller; also of other kinds of units: nothing said.
        MEMORY_CONTROLLER = 0,
        /// SMMU.
        SMMU = 1,
        /// PCIe root complex.
        PCIE_ROOT = 2,
        /// A device that has an ACPI name.
        ACPI_DEVICE = 3,
        /// Cache of processors.
        CPU_CACHE = 4,
    }
    /// Who holds a core, as seen by the caller.
    Holding {
        /// Nobody.
        IDLE = 0,
        /// The caller.
        YOURS = 1,
        /// Somebody else.
        BUSY = 2,
    }
    /// How to acquire.
    AcquireMode {
        /// Only if every core of the set is free, or the caller's already.
        NORMAL = 0,
        /// Also from another, who is told at its next call.
        FORCE = 1,
    }
    /// Why a wait for samples ended.
    WaitOutcome {
        /// The ring of a core is half full.
        HALF_FULL = 1,
        /// The time is up.
        TIME_UP = 2,
        /// A core stands still: read what is left.
        STOPPED = 3,
    }
    /// What became of an acquisition.
    AcquireOutcome {
        /// The caller holds every core of the set.
        ACQUIRED = 1,
        /// So too, and another lost at least one.
        FORCED = 2,
        /// Nothing changed: another holds a core of the set.
        BUSY = 3,
    }
}

/// Bits of [`ConfigHeader::flags`].
pub mod config_flags {
    /// Counters are reserved at this moment, so `counters_free` is exact; otherwise it is from the last reservation.
    pub const FREE_IS_CURRENT: u32 = 1;
    /// The system lends hardware counters (`HalAllocateHardwareCounters`); without, only the software PMU is used.
    pub const HARDWARE_LENT: u32 = 2;
}

/// Bits of [`SampleReadHeader::flags`].
pub mod read_flags {
    /// There was no room for all samples: read again.
    pub const MORE: u32 = 1;
}

/// Bits of [`Sample::flags`].
pub mod sample_flags {
    /// The processor was in user mode.
    pub const USER: u16 = 1;
}

/// Bits of [`EventCount::flags`] and [`SupportedEvent::flags`].
pub mod count_flags {
    /// Counted by a fixed-function counter.
    pub const FIXED: u16 = 1;
    /// Derived from time, not from events: of the software PMU.
    pub const TIME_BASED: u16 = 2;
    /// The mode filter had no effect: the counter cannot tell modes apart.
    pub const UNFILTERED: u16 = 4;
    /// The core has no counter left for it: never counted.
    pub const NO_COUNTER: u16 = 8;
}
