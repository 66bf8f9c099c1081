//! `test`: the configuration of driver and hardware, in WindowsPerf's rows where ours has such a thing.

use super::{World, catalog_of, cores_of, period_of, plan_of};
use crate::{
    failure::Result,
    grammar::events::Class,
    machine::{Machine, pmu_text},
    options::Options,
    plan::{self, Slot},
    report::{
        output::Console,
        table::{Cell, Table},
    },
    session,
    uncore::{self, Unit},
};
use serde_json::json;
use std::collections::HashSet;
use wperf_abi::record::{CoreConfig, PmuKind, RoutineTimes};

/// Runs `test`.
///
/// Errors: the driver's; names and groups as for `stat`.
pub fn run(options: &Options, console: &mut Console<'_>, world: &World<'_>) -> Result<()> {
    let mut opened = world.open(options)?;
    let driver = &mut opened.client;
    let machine = Machine::query(driver)?;
    let core = *machine.core(cores_of(options, &machine)?[0]);
    let product = machine.product(core.core, opened.host.as_ref());
    let mut rows = Rows(Table::new(&["Test Name", "Result"]));
    if !options.events.is_empty() || !options.metrics.is_empty() {
        let catalog = catalog_of(options, &product)?;
        let free = usize::from(core.counters_free);
        let counters = machine.counters(driver, core.core, free)?;
        let slots = plan::schedule(&plan_of(options, &catalog, &counters)?, free);
        rows.schedule(&slots);
    }
    rows.push("pmu_device.vendor_name", machine.vendor());
    rows.push("pmu_device.product_name", product.name());
    let extended = format!("{} ({})", product.name(), product.architecture_version());
    rows.push("pmu_device.product_name(extended)", extended);
    let known = driver.query_events(core.core)?.len();
    rows.push(
        "pmu_device.events_query(events) [EVT_CORE]",
        known.to_string(),
    );
    rows.push("pmu_device.version_name", version_name(&core));
    rows.hardware(&machine, &core);
    rows.push("gpc_nums[EVT_CORE]", core.counters_free.to_string());
    rows.push("fpc_nums[EVT_CORE]", core.fixed_counters.to_string());
    let period = match period_of(options, &machine, console)? {
        0 => machine.head.period_default_ms,
        period => period,
    };
    rows.push("config.count.period", period.to_string());
    rows.push(
        "config.count.period_max",
        machine.head.period_max_ms.to_string(),
    );
    rows.push(
        "config.count.period_min",
        machine.head.period_min_ms.to_string(),
    );
    rows.cores(&machine);
    let units = uncore::query(driver)?;
    rows.units(&units);
    for core in &machine.cores {
        rows.times("dpc", "DPCs", &driver.query_dpc_times(core.core)?);
        if let Some(interrupts) = session::isr_times(driver, core.core)? {
            rows.times("isr", "interrupts", &interrupts);
        }
    }
    for unit in &units {
        let times = driver.query_unit_times(unit.config.unit)?;
        rows.times("unit_dpc", "looks", &times);
    }
    console.answer(&rows.0.to_text())?;
    console.json(&json!({ "Test_Results": rows.0.to_json() }), options)
}

struct Rows(Table);

impl Rows {
    fn push(&mut self, name: impl Into<String>, result: impl Into<String>) {
        self.0.push(vec![Cell::text(name), Cell::text(result)]);
    }

    fn schedule(&mut self, slots: &[Slot]) {
        let join = |of: fn(&Slot) -> String| slots.iter().map(of).collect::<Vec<_>>().join(",");
        self.push(
            "ioctl_events[EVT_CORE].index",
            join(|slot| slot.code.to_string()),
        );
        self.push(
            "ioctl_events[EVT_CORE].note",
            join(|slot| slot.note.clone()),
        );
    }

    fn hardware(&mut self, machine: &Machine, core: &CoreConfig) {
        let mut config = |name: &str, value: String| {
            self.push(format!("PMU_CTL_QUERY_HW_CFG [{name}]"), value);
        };
        config("core_num", format!("{:#06x}", machine.core_count()));
        config("fpc_num", format!("{:#06x}", core.fixed_counters));
        config("gpc_num", format!("{:#06x}", core.counters_free));
        config("total_gpc_num", format!("{:#06x}", core.counters_total));
        config("pmu_ver", format!("{:#06x}", core.pmu_version));
        if core.pmu == PmuKind::ARM_PMUV3 {
            let field =
                |shift: u32, mask: u64| format!("{:#06x}", core.identification >> shift & mask);
            config("vendor_id", field(24, 0xFF));
            config("variant_id", field(20, 0xF));
            config("arch_id", field(16, 0xF));
            config("part_id", field(4, 0xFFF));
            config("rev_id", field(0, 0xF));
            config("midr_value", format!("{:#018x}", core.identification));
            config("id_aa64dfr0_value", format!("{:#018x}", core.features));
        } else {
            config("cpuid_signature", format!("{:#018x}", core.identification));
        }
        let free = (0..64).filter(|bit| core.counter_map >> bit & 1 == 1);
        let map: Vec<String> = free.map(|bit: u32| bit.to_string()).collect();
        config("counter_idx_map", map.join(","));
        if let Some(hypervisor) = machine.hypervisor() {
            self.push("hypervisor", hypervisor);
        }
    }

    /// Classes and functions that this driver has, and what each unit is.
    fn units(&mut self, units: &[Unit]) {
        let classes: HashSet<_> = units.iter().flat_map(Unit::classes).collect();
        let mut functions = vec!["core.stat=core"];
        for (class, function) in [
            (Class::Dsu, "dsu.stat=dsu"),
            (Class::DmcClk, "dmc.stat=dmc_clk,dmc_clkdiv2"),
        ] {
            functions.extend(classes.contains(&class).then_some(function));
        }
        self.push("PMU_CTL_QUERY_HW_CFG [device_id_str]", functions.join(";"));
        for (class, name) in [
            (Class::Dsu, "EVT_DSU"),
            (Class::DmcClk, "EVT_DMC_CLK"),
            (Class::DmcClkdiv2, "EVT_DMC_CLKDIV2"),
        ] {
            let Some(unit) = units.iter().find(|unit| unit.classes().contains(&class)) else {
                continue;
            };
            self.push(
                format!("gpc_nums[{name}]"),
                unit.counters(class).to_string(),
            );
            let fixed = unit.config.fixed_counters.to_string();
            self.push(format!("fpc_nums[{name}]"), fixed);
        }
        if units.is_empty() {
            self.push("units", "the driver found no uncore unit");
        }
        for unit in units {
            let config = &unit.config;
            let [first, second] = config.counters_total;
            let text = format!(
                "{}, {} counters of {} bits, {} fixed, identification {:#x}",
                unit.describe(),
                first + second,
                config.counter_bits,
                config.fixed_counters,
                config.identification
            );
            self.push(format!("unit[{}]", unit.name), text);
        }
    }

    /// Beyond WindowsPerf: cores need not be alike.
    fn cores(&mut self, machine: &Machine) {
        for core in &machine.cores {
            let text = format!(
                "{}, {} of {} counters free, {} fixed, {} bits, identification {:#x}",
                pmu_text(core.pmu),
                core.counters_free,
                core.counters_total,
                core.fixed_counters,
                core.counter_bits,
                core.identification
            );
            self.push(format!("core[{}]", core.core), text);
        }
    }

    /// Beyond WindowsPerf: how long the driver keeps a core busy at DISPATCH_LEVEL and above.
    fn times(&mut self, name: &str, what: &str, times: &RoutineTimes) {
        let mean = times.total_ns.checked_div(times.count).unwrap_or(0);
        let longest = times.longest_ns;
        let ranges = times
            .ranges
            .iter()
            .enumerate()
            .filter(|(_, count)| **count > 0);
        let ranges: Vec<String> = ranges
            .map(|(range, count)| format!("{count} from 2^{range} ns"))
            .collect();
        let text = format!(
            "{} {what}, mean {mean} ns, longest {longest} ns: {}",
            times.count,
            ranges.join(", ")
        );
        self.push(
            format!("{name}[{}]", times.core),
            text.trim_end_matches(": "),
        );
    }
}

/// The PMU's version by the name of the architecture's feature.
///
/// Source: Arm ARM DDI 0487 D24.2 (ID_AA64DFR0_EL1.PMUVer).
fn version_name(core: &CoreConfig) -> String {
    let known = match (core.pmu, core.pmu_version) {
        (PmuKind::ARM_PMUV3, 1) => "FEAT_PMUv3",
        (PmuKind::ARM_PMUV3, 4) => "FEAT_PMUv3p1",
        (PmuKind::ARM_PMUV3, 5) => "FEAT_PMUv3p4",
        (PmuKind::ARM_PMUV3, 6) => "FEAT_PMUv3p5",
        (PmuKind::ARM_PMUV3, 7) => "FEAT_PMUv3p7",
        (PmuKind::ARM_PMUV3, 8) => "FEAT_PMUv3p8",
        (PmuKind::ARM_PMUV3, 9) => "FEAT_PMUv3p9",
        (kind, version) => return format!("{} version {version}", pmu_text(kind)),
    };
    known.to_owned()
}
