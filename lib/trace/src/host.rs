//! A thread of Linux as a processor, for tests and benchmarks: sites run as they do in a kernel.
#![expect(unsafe_code, reason = "points gs at a block, lends memory to rings")]

use crate::AtDispatch;
use crate::recorder::{self, Lane, MOST_PROCESSORS, Place, Ring};
use core::marker::PhantomData;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

extern crate std;
use std::boxed::Box;

/// Part of the KPCR that sites look at.
#[repr(C, align(64))]
struct Block {
    _before: [u8; 0x1A4],
    number: u32,
}

static TAKEN: [AtomicBool; MOST_PROCESSORS] = [const { AtomicBool::new(false) }; MOST_PROCESSORS];

/// This thread is a processor; nothing interrupts it but signals.
///
/// Its rings stay for good: a signal handler may be in one.
#[derive(Debug)]
pub struct Processor {
    rings: [&'static Ring; 2],
    _here: PhantomData<*const ()>,
}

// SAFETY: one thread is this processor, and a value of the type stays on it; what interrupts it, signal
// handlers, returns before it goes on.
unsafe impl AtDispatch for Processor {}

impl Processor {
    /// Makes the calling thread a processor with rings of so many slots.
    ///
    /// `None` if another one was it, if there is no such number, unless `slots` is a power of two, or if
    /// the system refuses.
    #[must_use]
    pub fn become_one(number: usize, slots: usize) -> Option<Self> {
        if TAKEN.get(number)?.swap(true, Ordering::AcqRel) {
            return None;
        }
        let block = Box::leak(Box::new(Block {
            _before: [0; 0x1A4],
            number: u32::try_from(number).ok()?,
        }));
        set_gs(block).then_some(())?;
        let mut rings = [Self::ring(slots)?, Self::ring(slots)?];
        for (lane, ring) in [Lane::Any, Lane::Dispatch].into_iter().zip(&mut rings) {
            // SAFETY: the ring lives for good.
            unsafe { recorder::publish(number, lane, NonNull::from(*ring)) }.then_some(())?;
        }
        Some(Self {
            rings,
            _here: PhantomData,
        })
    }

    /// Lets the calling thread be the processor of another thread, too, for events at any IRQL: as if it
    /// had been interrupted there, and the other one went on.
    pub fn share(number: u32) -> bool {
        set_gs(Box::leak(Box::new(Block {
            _before: [0; 0x1A4],
            number,
        })))
    }

    fn ring(slots: usize) -> Option<&'static Ring> {
        let places = (0..slots).map(|_| [const { AtomicU64::new(0) }; 4]);
        let places: &'static mut [Place] = Box::leak(places.collect());
        let first = NonNull::from(places).cast();
        // SAFETY: the places live for good.
        let ring = unsafe { Ring::new(first, slots) }?;
        Some(Box::leak(Box::new(ring)))
    }

    /// A ring of it.
    #[must_use]
    pub fn lane(&self, lane: Lane) -> &'static Ring {
        let [any, dispatch] = self.rings;
        match lane {
            Lane::Any => any,
            Lane::Dispatch => dispatch,
        }
    }
}

/// Points this thread's gs at a block, which stays.
///
/// Source: arch_prctl(2), `ARCH_SET_GS`.
fn set_gs(block: &'static Block) -> bool {
    const ARCH_PRCTL: u64 = 158;
    const ARCH_SET_GS: u64 = 0x1001;
    let result: u64;
    // SAFETY: nothing on Linux uses gs but sites, and the block stays.
    unsafe {
        core::arch::asm!(
            "syscall",
            inout("rax") ARCH_PRCTL => result,
            in("rdi") ARCH_SET_GS,
            in("rsi") &raw const *block,
            out("rcx") _,
            out("r11") _,
            options(nostack),
        );
    }
    result == 0
}
