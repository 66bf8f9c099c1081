//! Uncore units: which there are, what to count on them, and holding them.
//!
//! All events of a unit count at the same time: there are no windows that take turns, so more events than counters are
//! an error that says how many would fit.

use crate::{
    catalog::{
        CatalogError,
        uncore::{driver_code, resolve},
    },
    exit::Outcome,
    failure::{Failure, Result},
    grammar::{
        events::{Class, EventSpec, Item, Selector},
        extra::ExtraEvent,
    },
    machine::ascii,
    options::Options,
    ownership::{process_text, since_text},
    process,
    session::{Driver, Reading, Take},
};
use jiff::tz::TimeZone;
use wperf_abi::{
    EventCode, EventFilter, Refusal,
    client::CallError,
    record::{
        AcquireMode, AcquireOutcome, AssignEvent, CoreOwnership, Holding, UnitConfig, UnitKind,
        UnitOf,
    },
};

/// A unit as the driver describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unit {
    /// What it is and has.
    pub config: UnitConfig,
    /// Its name.
    pub name: String,
}

/// Asks the driver; one that keeps to an older contract has none.
///
/// Errors: the driver's.
pub fn query(driver: &mut Driver) -> Result<Vec<Unit>> {
    let units = match driver.query_units() {
        Err(CallError::Refused(_, Refusal::UnknownCall)) => Vec::new(),
        other => other?,
    };
    Ok(units
        .into_iter()
        .map(|config| Unit {
            name: ascii(&config.name),
            config,
        })
        .collect())
}

impl Unit {
    /// The classes of its events.
    #[must_use]
    pub fn classes(&self) -> Vec<Class> {
        match self.config.kind {
            UnitKind::DSU => vec![Class::Dsu],
            UnitKind::DMC_620 => vec![Class::DmcClk, Class::DmcClkdiv2],
            UnitKind::CORESIGHT => vec![Class::CsPmu(self.config.number)],
            _ => Vec::new(),
        }
    }

    /// General-purpose counters for events of a class.
    #[must_use]
    pub fn counters(&self, class: Class) -> usize {
        let [first, second] = self.config.counters_total;
        usize::from(if class == Class::DmcClk {
            second
        } else {
            first
        })
    }

    /// What it is, in words.
    #[must_use]
    pub fn describe(&self) -> String {
        let of = match self.config.of {
            UnitOf::MEMORY_CONTROLLER => "a memory controller",
            UnitOf::SMMU => "an SMMU",
            UnitOf::PCIE_ROOT => "a PCIe root complex",
            UnitOf::ACPI_DEVICE => "a device",
            UnitOf::CPU_CACHE => "a processor cache",
            _ => "something",
        };
        match self.config.kind {
            UnitKind::DSU => format!("DynamIQ Shared Unit of cores {}", self.cores_text()),
            UnitKind::DMC_620 => "DMC-620 memory controller".to_owned(),
            UnitKind::CORESIGHT => format!("CoreSight PMU of {of}"),
            UnitKind(other) => format!("kind {other}"),
        }
    }

    /// The cores whose unit it is.
    #[must_use]
    pub fn cores_text(&self) -> String {
        let words = (0u32..).zip(self.config.cores);
        let cores = words.flat_map(|(index, word)| {
            let bits = (0..64).filter(move |bit| word >> bit & 1 != 0);
            bits.map(move |bit| index * 64 + bit)
        });
        crate::ownership::ranges(&cores.collect::<Vec<_>>())
    }

    /// Who holds it, if that is another.
    fn held(&self, records: &[CoreOwnership]) -> Option<String> {
        let record = records
            .iter()
            .find(|record| record.core == self.config.unit && record.holding == Holding::BUSY)?;
        Some(format!(
            "{} held by {} since {}",
            self.name,
            process_text(record.pid, process::name(record.pid).as_deref()),
            since_text(record.since, &TimeZone::system())
        ))
    }
}

/// An event on a unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitEvent {
    /// Its class.
    pub class: Class,
    /// As printed.
    pub name: String,
    /// The number, as typed.
    pub code: u32,
    /// The note behind it in tables.
    pub note: String,
}

/// A metric of uncore units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnitMetric {
    /// Bandwidth and miss rate of the L3 cache of a DSU.
    L3Cache,
    /// Bandwidth of a memory controller.
    DdrBandwidth,
}

impl UnitMetric {
    /// All of them, with class and events.
    pub const ALL: [(Self, &str, Class, &[&str]); 2] = [
        (
            Self::L3Cache,
            "l3_cache",
            Class::Dsu,
            &["l3d_cache", "l3d_cache_refill"],
        ),
        (Self::DdrBandwidth, "ddr_bw", Class::DmcClkdiv2, &["rdwr"]),
    ];

    /// The metric of that name.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        let same = |known: &str| known.eq_ignore_ascii_case(&name.replace('-', "_"));
        let found = Self::ALL.iter().find(|(_, known, ..)| same(known));
        found.map(|(metric, ..)| *metric)
    }
}

/// What to count on which unit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnitPlan {
    /// Units in the driver's order, each with its events.
    pub units: Vec<(Unit, Vec<UnitEvent>)>,
    /// In the order asked for.
    pub metrics: Vec<UnitMetric>,
}

/// Plans the events of `-e` and metrics of `-m` that are not of cores.
///
/// Errors: an unknown name, a class without a unit, more events than counters, `--dmc` without that controller.
pub fn plan(
    options: &Options,
    items: &[Item],
    extra: &[ExtraEvent],
    units: &[Unit],
) -> Result<UnitPlan> {
    let mut wanted = Vec::new();
    let mut groups = 0..;
    for item in items {
        let (specs, note) = match item {
            Item::Loose(spec) => (std::slice::from_ref(spec), "e".to_owned()),
            Item::Group(specs) => (specs.as_slice(), format!("g{}", groups.next().unwrap_or(0))),
        };
        for spec in specs.iter().filter(|spec| spec.class != Class::Core) {
            wanted.push(event(spec, extra, note.clone())?);
        }
    }
    let names = options.metrics.iter().flat_map(|list| list.split(','));
    let metrics: Vec<UnitMetric> = names.filter_map(UnitMetric::by_name).collect();
    for metric in &metrics {
        let known = UnitMetric::ALL.iter().find(|(known, ..)| known == metric);
        let Some((_, name, class, events)) = known else {
            continue;
        };
        for event_name in *events {
            let spec = EventSpec {
                class: *class,
                selector: Selector::Name((*event_name).to_owned()),
            };
            wanted.push(event(&spec, extra, format!("e,{name}"))?);
        }
    }
    let mut plan = UnitPlan {
        units: Vec::new(),
        metrics,
    };
    for unit in chosen(options, units)? {
        let classes = unit.classes();
        let own = wanted.iter().filter(|event| classes.contains(&event.class));
        let own: Vec<UnitEvent> = own.cloned().collect();
        if !own.is_empty() {
            fits(unit, &own)?;
            plan.units.push((unit.clone(), own));
        }
    }
    let is_counted = |event: &&UnitEvent| {
        let mut units = plan.units.iter();
        units.any(|(unit, _)| unit.classes().contains(&event.class))
    };
    match wanted.iter().find(|event| !is_counted(event)) {
        Some(event) => Err(CatalogError::NoDevice {
            event: event.name.clone(),
            class: event.class,
        }
        .into()),
        None => Ok(plan),
    }
}

fn event(spec: &EventSpec, extra: &[ExtraEvent], note: String) -> Result<UnitEvent> {
    let (name, code) = resolve(spec, extra)?;
    Ok(UnitEvent {
        class: spec.class,
        name,
        code,
        note,
    })
}

/// All units, of the memory controllers only that of `--dmc`.
fn chosen<'u>(options: &Options, units: &'u [Unit]) -> Result<Vec<&'u Unit>> {
    let is_controller = |unit: &&Unit| unit.config.kind == UnitKind::DMC_620;
    if let Some(channel) = options.dmc {
        let found = units.iter().filter(is_controller).count();
        if usize::try_from(channel).map_or(true, |channel| channel >= found) {
            let words = match found {
                0 => "no memory controller".to_owned(),
                1 => "1 memory controller".to_owned(),
                _ => format!("{found} memory controllers"),
            };
            return Err(Failure::other(format!(
                "--dmc {channel}: the driver found {words}"
            )));
        }
    }
    let is_wanted = |unit: &&Unit| {
        !is_controller(unit)
            || options
                .dmc
                .is_none_or(|channel| channel == unit.config.number)
    };
    Ok(units.iter().filter(is_wanted).collect())
}

/// Whether the event is counted by a cycle counter of its own.
fn is_fixed(event: &UnitEvent) -> bool {
    /// The DSU's number of the event of its cycle counter.
    const DSU_CYCLES: u32 = 0x11;
    event.code == EventCode::CYCLES.0 || event.class == Class::Dsu && event.code == DSU_CYCLES
}

fn fits(unit: &Unit, events: &[UnitEvent]) -> Result<()> {
    for class in unit.classes() {
        let of_class = || events.iter().filter(|event| event.class == class);
        let needed = of_class().filter(|event| !is_fixed(event)).count();
        let room = unit.counters(class);
        if needed > room {
            return Err(Failure::other(format!(
                "/{}/: {needed} events are more than the {room} that fit on {}",
                class.word(),
                unit.name
            )));
        }
        if of_class().filter(|event| is_fixed(event)).count()
            > usize::from(unit.config.fixed_counters)
        {
            return Err(Failure::other(format!(
                "/{}/: {} has {} cycle counters",
                class.word(),
                unit.name,
                unit.config.fixed_counters
            )));
        }
    }
    Ok(())
}

/// Units that are ours, with what is counted on them. Closing the device gives them back.
#[derive(Debug, Default)]
pub struct UnitSession {
    plan: UnitPlan,
}

impl UnitSession {
    /// Takes the units of a plan, and assigns its events. `period_ms` of 0 is the driver's default.
    ///
    /// Errors: [`Outcome::Busy`], naming the holders; the driver's.
    pub fn acquire(
        driver: &mut Driver,
        plan: UnitPlan,
        take: Take,
        period_ms: u32,
    ) -> Result<Self> {
        let session = Self { plan };
        if session.is_empty() {
            return Ok(session);
        }
        let mode = match take {
            Take::Free => AcquireMode::NORMAL,
            Take::Forced => AcquireMode::FORCE,
        };
        let reply = driver.acquire_units(mode, &session.numbers())?;
        if reply.outcome == AcquireOutcome::BUSY {
            return Err(session.busy(&driver.query_unit_ownership()?));
        }
        for (unit, events) in &session.plan.units {
            let numbered = (0..).zip(events);
            let events: Vec<AssignEvent> = numbered
                .map(|(group, event)| AssignEvent {
                    code: driver_code(event.class, event.code),
                    group,
                    filter: EventFilter::NONE,
                })
                .collect();
            match driver.assign_units(&[unit.config.unit], &events, period_ms) {
                Err(CallError::Refused(_, Refusal::UnsupportedEvent)) => {
                    return Err(Failure::other(format!(
                        "{} does not have all of these events: {}",
                        unit.name,
                        session.names(unit)
                    )));
                }
                Err(CallError::Refused(_, Refusal::GroupTooLarge)) => {
                    return Err(Failure::other(format!(
                        "somebody else has counters of {} running: only {} are free",
                        unit.name, reply.counters_free_min
                    )));
                }
                other => other?,
            };
        }
        Ok(session)
    }

    /// Whether nothing is counted on units.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.plan.units.is_empty()
    }

    /// What is counted.
    #[must_use]
    pub fn plan(&self) -> &UnitPlan {
        &self.plan
    }

    fn numbers(&self) -> Vec<u32> {
        let units = self.plan.units.iter();
        units.map(|(unit, _)| unit.config.unit).collect()
    }

    fn names(&self, of: &Unit) -> String {
        let units = self.plan.units.iter().filter(|(unit, _)| unit == of);
        let names = units.flat_map(|(_, events)| events.iter().map(|event| event.name.as_str()));
        names.collect::<Vec<_>>().join(", ")
    }

    fn busy(&self, records: &[CoreOwnership]) -> Failure {
        let mut message =
            String::from("warning: other WindowsPerf process acquired the wperf-driver.\n");
        for (unit, _) in &self.plan.units {
            if let Some(words) = unit.held(records) {
                message.push_str(&words);
                message.push('\n');
            }
        }
        message.push_str("Operation cancelled!");
        Failure::new(Outcome::Busy, message)
    }

    /// Sets totals to zero and starts counting.
    ///
    /// Errors: the driver's.
    pub fn start(&self, driver: &mut Driver) -> Result<()> {
        if self.is_empty() {
            return Ok(());
        }
        driver.reset_units(&self.numbers())?;
        Ok(driver.start_units(&self.numbers())?)
    }

    /// Stops counting.
    ///
    /// Errors: the driver's.
    pub fn stop(&self, driver: &mut Driver) -> Result<()> {
        if self.is_empty() {
            return Ok(());
        }
        Ok(driver.stop_units(&self.numbers())?)
    }

    /// Totals of every unit.
    ///
    /// Errors: the driver's.
    pub fn read(&self, driver: &mut Driver) -> Result<Vec<Reading>> {
        let mut readings = Vec::new();
        for unit in self.numbers() {
            let (head, events) = driver.read_unit(unit)?;
            readings.push(Reading { head, events });
        }
        Ok(readings)
    }

    /// How long the driver was busy with the units since it was loaded. Units: ns.
    ///
    /// Errors: the driver's.
    pub fn routines_ns(&self, driver: &mut Driver) -> Result<u64> {
        let mut sum = 0_u64;
        for unit in self.numbers() {
            sum = sum.saturating_add(driver.query_unit_times(unit)?.total_ns);
        }
        Ok(sum)
    }

    /// Whether the units are still ours.
    ///
    /// Errors: [`Outcome::ForcedOut`] when another took one by force.
    pub fn check_still_ours(&self, driver: &mut Driver) -> Result<()> {
        if self.is_empty() {
            return Ok(());
        }
        let records = driver.query_unit_ownership()?;
        let numbers = self.numbers();
        let is_gone = |record: &CoreOwnership| {
            numbers.contains(&record.core) && record.holding != Holding::YOURS
        };
        if records.iter().any(is_gone) {
            return Err(Failure::forced_out());
        }
        Ok(())
    }
}
