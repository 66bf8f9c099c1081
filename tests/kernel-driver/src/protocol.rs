//! What the test asks of the driver. All numbers are little-endian.

use kernel::ioctl::{RequiredAccess, buffered};

/// Device that user programs open.
pub const DEVICE: &str = r"\\.\KernelTest";

macro_rules! calls {
    ($($(#[$doc:meta])* $name:ident = $function:literal;)*) => { $(
        $(#[$doc])*
        pub const $name: u32 = buffered($function, RequiredAccess::Write);
    )* };
}

calls! {
    /// u32 rounds → u64: increments under a spin lock, by DPCs, ticks and the caller together.
    SPIN_LOCK = 0x800;
    /// u32 core, u32 n → u32: ticks that had come when they were stopped, at least n.
    TICKS = 0x801;
    /// u32 core → u32: ticks that have come so far.
    TICK_COUNT = 0x802;
    /// u32 rounds → u32 runs, u32 process: a work item, queued and waited for in each round.
    WORK = 0x803;
    /// u32 core → u32: runs of a work item that a tick on that core queued.
    WORK_FROM_DPC = 0x804;
    /// Lets a work item be queued at unload, just before it is dropped.
    WORK_AT_UNLOAD = 0x805;
    /// u32 n → u64: the sum of the squares below n, by way of a box, a slice and a vector.
    POOL = 0x806;
    /// → u32 per processor: the processor that said so, of a set made for this call.
    PER_CPU = 0x807;
    /// u32 ms → u64 ns, u32: how long a wait for an event that nobody sets took; 1 if timed out.
    EVENT_TIMEOUT = 0x808;
    /// → u64 × 3: counters there are, what a counter read after it was written, what one that does
    /// not exist read.
    MSR = 0x809;
    /// u32 counters → u64 × 3: counters of a first reservation, of one beside it, of one after it.
    COUNTERS = 0x80A;
    /// Panics.
    PANIC = 0x80B;
    /// Forgets a work item.
    FORGET_WORK = 0x80C;
    /// Forgets a set of processors whose ticks go on.
    FORGET_TICKS = 0x80D;
    /// → u32 × 3: files opened, cleaned up, dropped.
    FILES = 0x80E;
    /// Fails with `STATUS_PENDING`, which is no error.
    WRONG_ERROR = 0x80F;
    /// u32 core → u32 × 2: ticks that had come when they were stopped, just as one came; ticks later.
    TICK_RACE = 0x810;
    /// u32 ms: queues a work item whose run takes that long, and does not wait for it.
    LONG_WORK = 0x811;
    /// u32 core: drops a set of processors just as a tick comes.
    DROP_TICKING = 0x812;
    /// Makes a recorder, and lets its events go out through ETW.
    RECORD = 0x813;
}

/// u64, then any bytes: events of every kind, made of them.
pub const TRACE_KINDS: u32 = buffered(0x814, RequiredAccess::Write);

/// What a work item prints when it is dropped, with the number of its runs.
pub const DROPPED_AFTER: &str = "work dropped after runs:";

/// What the driver panics with.
pub const PANIC_MESSAGE: &str = "asked to panic";
