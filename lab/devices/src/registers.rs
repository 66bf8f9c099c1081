//! What a virtual processor answers when a driver asks for its registers.

use crate::source::Place;

/// A counter that interrupts has overflowed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Overflow {
    /// On this processor.
    pub cpu: usize,
    /// Which was here.
    pub at: Place,
}

/// What is to be known of counters that interrupt.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Overflows {
    /// Those that have overflowed, each once.
    pub now: Vec<Overflow>,
    /// When to ask again (ns); `None`: when a register was written.
    pub next_ns: Option<u64>,
    /// Ask again whenever there is time.
    pub is_live: bool,
}

/// The model-specific registers of the virtual processors of one machine.
///
/// `now_ns` is the machine's time; a device that counts something per time
/// derives its counts from it.
pub trait Registers {
    /// `cpuid`; `host` is what the host's processor answers.
    fn cpuid(&self, cpu: usize, leaf: u32, subleaf: u32, host: [u32; 4]) -> [u32; 4];

    /// `rdmsr`; `None` raises #GP, as for a register that does not exist.
    fn rdmsr(&self, cpu: usize, register: u32, now_ns: u64) -> Option<u64>;

    /// `wrmsr`; `false` raises #GP, as for a value that is not legal.
    fn wrmsr(&self, cpu: usize, register: u32, value: u64, now_ns: u64) -> bool;

    /// `rdpmc`; `None` raises #GP.
    fn rdpmc(&self, cpu: usize, counter: u32, now_ns: u64) -> Option<u64>;

    /// Which counters that interrupt have overflowed by now.
    fn overflows(&self, now_ns: u64) -> Overflows {
        let _ = now_ns;
        Overflows::default()
    }

    /// Has a fixed counter run for somebody else, on every processor; false if there is none.
    fn take_fixed_counter(&self, counter: u32) -> bool {
        let _ = counter;
        false
    }

    /// General-purpose performance counters per processor, 0 without a PMU.
    fn counters(&self) -> u32;

    /// Tells that a virtual processor executes this host process now.
    ///
    /// Errors: words for the user, when the source can't observe processes.
    fn attach(&self, cpu: usize, process: Option<u32>) -> Result<(), String>;

    /// What the counts come from, in one word.
    fn source(&self) -> &'static str;
}

/// A machine without a performance-monitoring unit.
#[derive(Debug, Default)]
pub struct NoPmu;

impl Registers for NoPmu {
    fn cpuid(&self, _cpu: usize, leaf: u32, _subleaf: u32, host: [u32; 4]) -> [u32; 4] {
        if leaf == 0xA { [0; 4] } else { host }
    }

    fn rdmsr(&self, _cpu: usize, _register: u32, _now_ns: u64) -> Option<u64> {
        None
    }

    fn wrmsr(&self, _cpu: usize, _register: u32, _value: u64, _now_ns: u64) -> bool {
        false
    }

    fn rdpmc(&self, _cpu: usize, _counter: u32, _now_ns: u64) -> Option<u64> {
        None
    }

    fn counters(&self) -> u32 {
        0
    }

    fn attach(&self, _cpu: usize, _process: Option<u32>) -> Result<(), String> {
        Err("this machine has no performance-monitoring unit".into())
    }

    fn source(&self) -> &'static str {
        "none"
    }
}
