//! Owning cores of the driver: acquire, assign, start, stop, read, release.

mod sampling;

pub use sampling::SampleTotals;

use crate::{
    device::{Device, DeviceError},
    exit::Outcome,
    failure::{Failure, Result},
    ownership::{self, Holder},
    plan::{Counters, Plan},
    process,
};
use wperf_abi::{
    ABI_MAJOR, EventCode, EventFilter, Refusal,
    client::{CallError, Client},
    record::{
        AcquireMode, AcquireOutcome, AssignReply, CoreOwnership, EventCount, Holding, ReadHeader,
        RoutineTimes,
    },
};

/// The driver's typed calls over whatever reaches it.
pub type Driver = Client<Box<dyn Device>>;

/// Checks that driver and client keep to the same contract.
///
/// Errors: the driver's major version is another.
pub fn check_version(driver: &mut Driver) -> Result<()> {
    let version = driver.query_version()?;
    if version.abi_major == ABI_MAJOR {
        return Ok(());
    }
    Err(Failure::other(format!(
        "wperf-driver keeps to version {} of the contract, this program to {ABI_MAJOR}: install the same version of both",
        version.abi_major
    )))
}

/// How long the interrupt routine of a core took; `None` of a driver of contract 1.1, which has none.
///
/// Errors: the driver's.
pub fn isr_times(driver: &mut Driver, core: u32) -> Result<Option<RoutineTimes>> {
    match driver.query_isr_times(core) {
        Err(CallError::Refused(_, Refusal::UnknownCall)) => Ok(None),
        other => Ok(Some(other?)),
    }
}

/// What a core has counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// Totals of the core.
    pub head: ReadHeader,
    /// Totals of the events, in the order of the plan.
    pub events: Vec<EventCount>,
}

impl Reading {
    /// What was counted since an earlier reading of the same run.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let since = |(now, before): (&EventCount, &EventCount)| EventCount {
            value: now.value.saturating_sub(before.value),
            enabled_ns: now.enabled_ns.saturating_sub(before.enabled_ns),
            running_ns: now.running_ns.saturating_sub(before.running_ns),
            ..*now
        };
        Self {
            head: ReadHeader {
                enabled_ns: self.head.enabled_ns.saturating_sub(earlier.head.enabled_ns),
                rotations: self.head.rotations.saturating_sub(earlier.head.rotations),
                ..self.head
            },
            events: self.events.iter().zip(&earlier.events).map(since).collect(),
        }
    }
}

/// Cores that are ours until this is dropped.
pub struct Session<'d> {
    driver: &'d mut Driver,
    cores: Vec<u32>,
    /// Whether another took a core over: there is then nothing left to release.
    is_lost: bool,
    /// Free counters of the core that has fewest.
    pub counters_free: usize,
}

/// How to acquire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Take {
    /// Only what is free.
    Free,
    /// By force too.
    Forced,
}

impl<'d> Session<'d> {
    /// Acquires cores.
    ///
    /// Errors: [`Outcome::Busy`], naming the holders.
    pub fn acquire(driver: &'d mut Driver, cores: &[u32], take: Take) -> Result<Self> {
        let mode = match take {
            Take::Free => AcquireMode::NORMAL,
            Take::Forced => AcquireMode::FORCE,
        };
        let reply = driver.acquire(mode, cores)?;
        if reply.outcome == AcquireOutcome::BUSY {
            let mut holders = ownership::holders(&driver.query_ownership()?, cores);
            if holders.is_empty() {
                // Released in the meantime; the answer still names who it was.
                holders.push(Holder {
                    cores: vec![reply.core],
                    pid: reply.holder_pid,
                    since: reply.holder_since,
                });
            }
            return Err(busy(&holders));
        }
        Ok(Self {
            driver,
            cores: cores.to_vec(),
            is_lost: false,
            counters_free: usize::try_from(reply.counters_free_min)?,
        })
    }

    /// The driver, for calls about something else.
    pub fn driver(&mut self) -> &mut Driver {
        self.driver
    }

    /// The cores.
    #[must_use]
    pub fn cores(&self) -> &[u32] {
        &self.cores
    }

    /// Programs a plan. `period_ms` of 0 is the driver's default.
    ///
    /// Errors: the driver's; an unsupported event is named as well as it can be.
    pub fn assign(
        &mut self,
        plan: &Plan,
        filter: EventFilter,
        period_ms: u32,
        counters: &Counters,
    ) -> Result<AssignReply> {
        let events = plan.assignment(filter);
        match self.driver.assign(&self.cores, &events, period_ms) {
            Err(CallError::Refused(_, Refusal::UnsupportedEvent)) => {
                Err(unsupported(plan, counters))
            }
            other => self.note_loss(other),
        }
    }

    /// Sets totals to zero and starts counting.
    ///
    /// Errors: the driver's.
    pub fn start(&mut self) -> Result<()> {
        let reset = self.driver.reset(&self.cores);
        self.note_loss(reset)?;
        let started = self.driver.start(&self.cores);
        self.note_loss(started)
    }

    /// Stops counting.
    ///
    /// Errors: the driver's.
    pub fn stop(&mut self) -> Result<()> {
        let stopped = self.driver.stop(&self.cores);
        self.note_loss(stopped)
    }

    /// Whether the cores are still ours.
    ///
    /// Errors: [`Outcome::ForcedOut`] when another took one by force.
    pub fn check_still_ours(&mut self) -> Result<()> {
        let records = self.driver.query_ownership()?;
        let is_gone = |record: &CoreOwnership| {
            self.cores.contains(&record.core) && record.holding != Holding::YOURS
        };
        self.is_lost |= records.iter().any(is_gone);
        if self.is_lost {
            return Err(Failure::forced_out());
        }
        Ok(())
    }

    /// Totals of every core.
    ///
    /// Errors: the driver's.
    pub fn read(&mut self, plan: &Plan) -> Result<Vec<Reading>> {
        let expected = plan.events().count();
        let mut readings = Vec::with_capacity(self.cores.len());
        for core in self.cores.clone() {
            let read = self.driver.read(core);
            let (head, events) = self.note_loss(read)?;
            if events.len() != expected {
                return Err(Failure::other(format!(
                    "wperf-driver returned {} counts of core {core}, {expected} were assigned",
                    events.len()
                )));
            }
            readings.push(Reading { head, events });
        }
        Ok(readings)
    }

    /// What the driver's DPCs and interrupt routines have taken of the cores since it was loaded. Units: ns.
    ///
    /// Errors: the driver's.
    pub fn routines_ns(&mut self) -> Result<u64> {
        let mut sum = 0_u64;
        for &core in &self.cores {
            sum = sum.saturating_add(self.driver.query_dpc_times(core)?.total_ns);
            let interrupts = isr_times(self.driver, core)?;
            sum = sum.saturating_add(interrupts.map_or(0, |times| times.total_ns));
        }
        Ok(sum)
    }

    fn note_loss<T>(
        &mut self,
        result: std::result::Result<T, CallError<DeviceError>>,
    ) -> Result<T> {
        let refusal = result.as_ref().err();
        self.is_lost |= matches!(
            refusal,
            Some(CallError::Refused(
                _,
                Refusal::ForcedOut | Refusal::NotOwner
            ))
        );
        Ok(result?)
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        if !self.is_lost {
            // Closing the device, which follows, releases too.
            let _ = self.driver.release(&self.cores);
        }
    }
}

fn busy(holders: &[Holder]) -> Failure {
    let mut message =
        String::from("warning: other WindowsPerf process acquired the wperf-driver.\n");
    for holder in holders {
        message.push_str(&holder.sentence(process::name(holder.pid).as_deref()));
        message.push('\n');
    }
    message.push_str("Operation cancelled!");
    Failure::new(Outcome::Busy, message)
}

fn unsupported(plan: &Plan, counters: &Counters) -> Failure {
    let mut names: Vec<&str> = plan
        .events()
        .filter(|(_, event)| !counters.announces(EventCode(event.code)))
        .map(|(_, event)| event.name.as_str())
        .collect();
    names.dedup();
    Failure::other(format!(
        "the PMU of a core does not have all of these events: {}",
        names.join(", ")
    ))
}
