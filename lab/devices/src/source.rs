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

/// A source of counts. Slots are numbered 0… per processor, general counters first.
pub trait Source {
    /// Its name, in one word.
    fn name(&self) -> &'static str;

    /// Whether it can count an architectural event.
    fn supports(&self, event: Architectural) -> bool;

    /// Starts counting from zero.
    fn start(&self, cpu: usize, slot: usize, event: Event, now_ns: u64);

    /// What was counted since the start.
    fn read(&self, cpu: usize, slot: usize, now_ns: u64) -> u64;

    /// Stops; gives what was counted.
    fn stop(&self, cpu: usize, slot: usize, now_ns: u64) -> u64;

    /// Tells that a processor executes this process of the host now.
    ///
    /// Errors: words for the user.
    fn attach(&self, cpu: usize, process: Option<u32>) -> Result<(), String>;
}
