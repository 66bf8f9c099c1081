//! The instructions. Only registers that the processor's own description promises are touched.
#![expect(unsafe_code, reason = "privileged instructions, kernel calls")]

use super::{CoreId, CurrentCore, NumberFromIndex, Processor};
use crate::routine::Routine;
use core::marker::PhantomData;
use nt::base::PROCESSOR_NUMBER;

#[cfg(target_arch = "aarch64")]
mod arm;
#[cfg(target_arch = "x86_64")]
mod x86;

#[cfg(target_arch = "aarch64")]
use arm as here;
#[cfg(target_arch = "x86_64")]
use x86 as here;

/// The PMU registers of the current processor.
#[derive(Debug)]
pub struct PmuRegisters<'a> {
    limits: here::Limits,
    _core: PhantomData<&'a CurrentCore>,
}

impl<'a> PmuRegisters<'a> {
    pub(super) fn new(_: &'a CurrentCore, processor: &Processor) -> Self {
        Self {
            limits: here::Limits::of(processor),
            _core: PhantomData,
        }
    }
}

pub(super) fn detect(core: &CurrentCore) -> Processor {
    here::detect(core.id())
}

pub(super) fn active_count(group: u16) -> u32 {
    // SAFETY: takes a number and may be called anywhere.
    unsafe { nt::ke::KeQueryActiveProcessorCountEx(group) }
}

pub(super) const fn number_routine(name: &'static [u16]) -> Routine<NumberFromIndex> {
    // SAFETY: the type is that of wdm.h, as `nt::ke` declares it.
    unsafe { Routine::new(name) }
}

pub(super) fn number_of(routine: NumberFromIndex, core: CoreId) -> Option<PROCESSOR_NUMBER> {
    let mut number = PROCESSOR_NUMBER::default();
    // SAFETY: `number` is a valid place for the answer.
    let status = unsafe { routine(core.0, &raw mut number) };
    status.is_success().then_some(number)
}
