//! What the tests ask of the faulty driver: to break a rule, or a fault by its code.
#![no_std]

use nt::io::{FILE_ANY_ACCESS, FILE_WRITE_DATA, METHOD_BUFFERED, ctl_code};

/// Device that user programs open.
pub const DEVICE: &str = r"\\.\Faulty";

/// Breaks the rule whose name is in the input.
pub const BREAK: u32 = code(0x900);
/// Comes close to breaking the rule whose name is in the input.
pub const NEAR_MISS: u32 = code(0x901);

/// As [`NEAR_MISS`], for those who may write.
pub const NEAR_MISS_WRITE: u32 = ctl_code(
    nt::io::FILE_DEVICE_UNKNOWN,
    0x901,
    METHOD_BUFFERED,
    FILE_WRITE_DATA,
);
/// Does something unusual and right, whose name is in the input.
pub const CORRECT: u32 = code(0x902);

/// What [`CORRECT`] can do: things that break no rule, and that correct drivers do.
pub const CORRECT_WAYS: &[&str] = &[
    "completion-resends",
    "pending-before-passed-on",
    "waits-for-completion",
    "own-location-below",
    "completed-by-work-item",
    "completed-by-timer",
    "built-request",
    "remove-lock-until-completion",
    "spin-locks-handed-over",
    "spin-locks-in-one-order",
    "resource-nested",
    "mutex-nested",
    "event-on-stack",
    "timer-set-again",
    "work-item-again",
];

const fn code(function: u32) -> u32 {
    ctl_code(
        nt::io::FILE_DEVICE_UNKNOWN,
        function,
        METHOD_BUFFERED,
        FILE_ANY_ACCESS,
    )
}

macro_rules! faults {
    ($($(#[$doc:meta])* $name:ident = $function:literal),* $(,)?) => {
        /// Something to do wrong, or to measure.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Fault { $(
            #[doc = stringify!($name)]
            $(#[$doc])*
            $name,
        )* }

        impl Fault {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// Control code that asks for it.
            #[must_use]
            pub const fn code(self) -> u32 {
                let function = match self { $(Self::$name => $function),* };
                code(function)
            }

            /// What a control code asks for.
            #[must_use]
            pub fn from_code(code: u32) -> Option<Self> {
                Self::ALL.iter().copied().find(|fault| fault.code() == code)
            }
        }
    };
}

faults! {
    Echo = 0x800,
    NullWrite = 0x801,
    WildRead = 0x802,
    CallNull = 0x803,
    DivideByZero = 0x804,
    StackOverflow = 0x805,
    Breakpoint = 0x806,
    WriteToConstant = 0x807,
    PoolOverrun = 0x808,
    PoolUseAfterFree = 0x809,
    PoolDoubleFree = 0x80A,
    PoolWrongTag = 0x80B,
    PoolSlop = 0x80C,
    BadFree = 0x80D,
    ZeroBytes = 0x80E,
    RecursiveSpinLock = 0x80F,
    UnownedSpinLock = 0x810,
    IrqlLeftRaised = 0x811,
    LowerAbove = 0x812,
    WrongIrqlForApi = 0x813,
    WaitAtDispatch = 0x814,
    WaitForever = 0x815,
    CompleteTwice = 0x816,
    NotCompleted = 0x817,
    TooMuchInformation = 0x818,
    BadMsr = 0x819,
    FastFail = 0x81A,
    BugCheck = 0x81B,
    LeakPool = 0x81C,
    LeakTimer = 0x81D,
    UnknownImport = 0x81E,
    FreeQueuedTimer = 0x81F,
    BadPointerToKernel = 0x820,
    SystemCall = 0x821,
    /// Loops of counter reads, with the number of reads in the input.
    ReadCounter = 0x822,
    Spin = 0x823,
    /// What drivers do all day, and nothing wrong: eight blocks of pool, each used under a spin lock.
    Work = 0x824,
    /// Stays pending, whoever cancels it.
    PendsForever = 0x825,
    /// Stays pending until it is cancelled.
    PendsUntilCancelled = 0x826,
}
