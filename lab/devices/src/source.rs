//! Where the counts of a virtual PMU come from.

/// The events that CPUID.0AH:EBX speaks of, in the order of its bits
/// (Intel SDM vol. 3 §20.2.1.2, table 20-1).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Architectural {
    /// Core cycles while not halted.
    Cycles,
    /// Instructions retired.
    Instructions,
    /// Cycles of the reference clock while not halted.
    ReferenceCycles,
    /// References to the last-level cache.
    CacheReferences,
    /// Misses of the last-level cache.
    CacheMisses,
    /// Branches retired.
    Branches,
    /// Mispredicted branches retired.
    BranchMisses,
    /// Issue slots.
    Slots,
}

impl Architectural {
    /// All, in the order of the bits.
    pub const ALL: [Self; 8] = [
        Self::Cycles,
        Self::Instructions,
        Self::ReferenceCycles,
        Self::CacheReferences,
        Self::CacheMisses,
        Self::Branches,
        Self::BranchMisses,
        Self::Slots,
    ];

    /// Unit mask and event select: `umask << 8 | event`.
    #[must_use]
    pub const fn code(self) -> u16 {
        match self {
            Self::Cycles => 0x003C,
            Self::Instructions => 0x00C0,
            Self::ReferenceCycles => 0x013C,
            Self::CacheReferences => 0x4F2E,
            Self::CacheMisses => 0x412E,
            Self::Branches => 0x00C4,
            Self::BranchMisses => 0x00C5,
            Self::Slots => 0x01A4,
        }
    }

    /// The event with this code.
    #[must_use]
    pub fn from_code(code: u16) -> Option<Self> {
        Self::ALL.into_iter().find(|event| event.code() == code)
    }
}

/// What a counter was programmed to count.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Event {
    /// `umask << 8 | event`.
    pub code: u16,
    /// In user mode (ring 3).
    pub user: bool,
    /// In kernel mode (ring 0).
    pub kernel: bool,
}

/// Where a processor was, and what it ran there.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Place {
    /// Address of the instruction that was next.
    pub pc: u64,
    /// Whether in user mode.
    pub user: bool,
    /// Process.
    pub process: u64,
    /// Its thread.
    pub thread: u64,
}

/// Whether a counter has counted enough to overflow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reached {
    /// It has: here.
    At(Place),
    /// Not before this time (ns).
    NotBefore(u64),
    /// As things are, it never will.
    Never,
}

/// A source of counts. Slots are numbered 0… per processor, general counters first.
pub trait Source {
    /// Its name, in one word.
    fn name(&self) -> &'static str;

    /// Whether it can count an architectural event.
    fn supports(&self, event: Architectural) -> bool;

    /// Starts counting from zero; with `after`, an interrupt is wanted when so many were counted.
    fn start(&self, cpu: usize, slot: usize, event: Event, after: Option<u64>, now_ns: u64);

    /// Whether a running counter has counted so many, for an interrupt. Asked until it has.
    fn reached(&self, cpu: usize, slot: usize, count: u64, now_ns: u64) -> Reached;

    /// Whether [`reached`](Self::reached) may change at any moment, not only when it says.
    fn is_live(&self) -> bool {
        false
    }

    /// Tells that a counter has no event any more.
    fn release(&self, cpu: usize, slot: usize) {
        let _ = (cpu, slot);
    }

    /// What was counted since the start.
    fn read(&self, cpu: usize, slot: usize, now_ns: u64) -> u64;

    /// Stops; gives what was counted.
    fn stop(&self, cpu: usize, slot: usize, now_ns: u64) -> u64;

    /// Tells that a processor executes this process of the host now.
    ///
    /// Errors: words for the user.
    fn attach(&self, cpu: usize, process: Option<u32>) -> Result<(), String>;
}
