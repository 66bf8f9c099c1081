//! The samples of one core: its interrupt routine, its ring, and who is woken.
//!
//! ```text
//!  overflow (PROFILE_LEVEL) ─▶ ring ─ half full, and somebody waits ─▶ woken (DPC) ─▶ WaitSlot
//! ```
//! What the interrupt routine touches is behind a lock at `HIGH_LEVEL`; the ring has none; the rest is
//! looked at in DPCs and by requests.

use crate::TAG;
use crate::backend::{self, Before};
use crate::tracing::SAMPLING;
use core::sync::atomic::{AtomicU64, Ordering};
use kernel::Result;
use kernel::pool::{PoolArc, PoolBox};
use kernel::processor::{CoreId, CurrentCore, Processor};
use kernel::status::STATUS_INVALID_PARAMETER;
use kernel::sync::{HighLock, SpinLock};
use kernel::time::monotonic_ns;
use kernel::wait::{Answer, Ticket, WaitSlot};
use pmu::{Durations, Interrupted, Model, Ring, RingPlace, Sampler, Source};
use trace::{Hex, hot};
use wperf_abi::record::{SampleWaitReply, WaitOutcome};
use wperf_abi::{EventCode, MAX_SOURCES};
use zerocopy::IntoBytes;

/// Storage of sources.
pub(crate) type Sources = PoolBox<[Source]>;
/// The ring of a core.
pub(crate) type SampleRing = Ring<PoolBox<[RingPlace]>>;

/// What a session assigns to a core that is to sample.
pub(crate) struct Assignment {
    pub(crate) sources: Sources,
    pub(crate) ring: PoolArc<SampleRing>,
    pub(crate) slot: PoolArc<WaitSlot>,
}

impl Assignment {
    /// Errors: `STATUS_INSUFFICIENT_RESOURCES`.
    pub(crate) fn try_new(
        sources: Sources,
        ring_samples: u32,
        slot: PoolArc<WaitSlot>,
    ) -> Result<Self> {
        let places = ring_samples as usize;
        let places = PoolBox::try_from_fn(TAG, places, |_| Ok(RingPlace::new()))?;
        let ring = Ring::new(places).ok_or(STATUS_INVALID_PARAMETER)?;
        Ok(Self {
            sources,
            ring: PoolArc::try_new(TAG, ring)?,
            slot,
        })
    }
}

/// The sampling half of a core.
pub(crate) struct CoreSampler {
    high: HighLock<High>,
    shared: SpinLock<Shared>,
    /// Ticket of the wait that wants to know when the ring is half full; 0: nobody does.
    wanted: AtomicU64,
    /// Ticket of the wait that the interrupt routine has found.
    found: AtomicU64,
}

/// What the interrupt routine touches.
struct High {
    sampler: Sampler<Sources>,
    ring: Option<PoolArc<SampleRing>>,
    processor: Option<Processor>,
    model: Model,
    before: Before,
    times: Durations,
}

/// What readers and DPCs share.
struct Shared {
    ring: Option<PoolArc<SampleRing>>,
    slot: Option<PoolArc<WaitSlot>>,
}

/// The answer of a wait.
pub(crate) fn answer(outcome: WaitOutcome, core: CoreId) -> Answer {
    let reply = SampleWaitReply {
        outcome,
        core: core.0,
    };
    let mut answer = Answer::default();
    answer
        .iter_mut()
        .zip(reply.as_bytes())
        .for_each(|(to, from)| *to = *from);
    answer
}

impl CoreSampler {
    pub(crate) const fn new() -> Self {
        Self {
            high: HighLock::new(High {
                sampler: Sampler::new(),
                ring: None,
                processor: None,
                model: Model::Software,
                before: Before::NONE,
                times: Durations::NONE,
            }),
            shared: SpinLock::new(Shared {
                ring: None,
                slot: None,
            }),
            wanted: AtomicU64::new(0),
            found: AtomicU64::new(0),
        }
    }

    /// Puts sources in; what was there before is freed. Not while it runs.
    ///
    /// IRQL: `<= DISPATCH_LEVEL`.
    pub(crate) fn assign(
        &self,
        (processor, model): (Option<Processor>, Model),
        assignment: Assignment,
        generation: u64,
    ) {
        let Assignment {
            sources,
            ring,
            slot,
        } = assignment;
        self.share(Some(ring.clone()), Some(slot));
        let mut high = self.high.lock();
        high.processor = processor;
        high.model = model;
        let former = (
            high.sampler.assign(sources, generation),
            high.ring.replace(ring),
        );
        // Memory is freed below HIGH_LEVEL.
        drop(high);
        drop(former);
    }

    /// Forgets what was assigned. Not while it runs.
    ///
    /// IRQL: `<= DISPATCH_LEVEL`.
    pub(crate) fn clear(&self) {
        self.want(None);
        self.share(None, None);
        let mut high = self.high.lock();
        let former = (high.sampler.clear(), high.ring.take());
        drop(high);
        drop(former);
    }

    fn share(&self, ring: Option<PoolArc<SampleRing>>, slot: Option<PoolArc<WaitSlot>>) {
        let former = core::mem::replace(&mut *self.shared.lock(), Shared { ring, slot });
        drop(former);
    }

    /// Starts, if something is assigned. On the core itself.
    pub(crate) fn start(&self, here: &CurrentCore) -> bool {
        self.with(here, |sampler, pmu, _| sampler.start(pmu));
        self.high.lock().sampler.is_running()
    }

    /// Stops. On the core itself.
    pub(crate) fn stop(&self, here: &CurrentCore) {
        self.with(here, |sampler, pmu, ring| sampler.stop(pmu, ring));
    }

    /// Begins a new generation. On the core itself; nobody reads meanwhile.
    pub(crate) fn reset(&self, here: &CurrentCore, generation: u64) {
        self.with(here, |sampler, pmu, ring| {
            sampler.reset(pmu, ring, generation);
        });
    }

    /// Acts on the counters, if this core has any that interrupt and something is assigned.
    fn with<R>(
        &self,
        here: &CurrentCore,
        act: impl FnOnce(&mut Sampler<Sources>, &mut backend::Hardware<'_>, &SampleRing) -> R,
    ) -> Option<R> {
        self.high.lock().with(here, act)
    }

    /// The interrupt routine; true if somebody is to be woken.
    ///
    /// IRQL: `PROFILE_LEVEL`, on the core itself.
    pub(crate) fn overflow(&self, here: &CurrentCore, at: &Interrupted) -> bool {
        let mut high = self.high.lock();
        let served = high.with(here, |sampler, pmu, ring| {
            (sampler.interrupt(pmu, ring, at), ring.is_half_full())
        });
        let (served, is_half_full) = served.unwrap_or_default();
        hot!(
            Verbose, SAMPLING, "overflow",
            pc: Hex = Hex(at.pc), counters: u32 = served.overflowed, samples: u32 = served.samples,
        );
        let ticket = if is_half_full {
            self.wanted.swap(0, Ordering::AcqRel)
        } else {
            0
        };
        if ticket != 0 {
            self.found.store(ticket, Ordering::Release);
        }
        high.times.add(monotonic_ns().saturating_sub(at.time_ns));
        ticket != 0
    }

    /// What the interrupt routine asked for. In a DPC of the core.
    pub(crate) fn woken(&self, core: CoreId) {
        let ticket = self.found.swap(0, Ordering::AcqRel);
        self.signal(ticket, WaitOutcome::HALF_FULL, core);
    }

    /// Tells whoever waits that the core stands still.
    pub(crate) fn wake_stopped(&self, core: CoreId) {
        let ticket = self.wanted.swap(0, Ordering::AcqRel);
        self.signal(ticket, WaitOutcome::STOPPED, core);
    }

    fn signal(&self, ticket: u64, outcome: WaitOutcome, core: CoreId) {
        if ticket == 0 {
            return;
        }
        let slot = self.shared.lock().slot.clone();
        if let Some(slot) = slot {
            hot!(Verbose, SAMPLING, "wake", core: u32 = core.0, outcome: u32 = outcome.0);
            slot.signal(Ticket::from_number(ticket), answer(outcome, core));
        }
    }

    /// Which wait wants to know when the ring is half full.
    pub(crate) fn want(&self, ticket: Option<Ticket>) {
        let number = ticket.map_or(0, Ticket::get);
        self.wanted.store(number, Ordering::Release);
    }

    /// The ring, while something is assigned.
    pub(crate) fn ring(&self) -> Option<PoolArc<SampleRing>> {
        self.shared.lock().ring.clone()
    }

    /// The sources' events, in the order of the assignment.
    pub(crate) fn codes(&self) -> [EventCode; MAX_SOURCES] {
        self.high.lock().sampler.codes()
    }

    /// How long the interrupt routine took.
    pub(crate) fn times(&self) -> Durations {
        self.high.lock().times
    }
}

impl High {
    fn with<R>(
        &mut self,
        here: &CurrentCore,
        act: impl FnOnce(&mut Sampler<Sources>, &mut backend::Hardware<'_>, &SampleRing) -> R,
    ) -> Option<R> {
        let registers = here.registers(self.processor.as_ref()?)?;
        let mut pmu = backend::hardware(self.model, registers, &mut self.before)?;
        Some(act(&mut self.sampler, &mut pmu, self.ring.as_ref()?))
    }
}
