//! The machine as the driver describes it.

use crate::{
    catalog::{Architecture, Product},
    device::Host,
    failure::{Failure, Result},
    plan::Counters,
    session::Driver,
};
use wperf_abi::record::{ConfigHeader, CoreConfig, PmuKind};

/// Cores and what their PMUs are.
#[derive(Clone, Debug)]
pub struct Machine {
    /// What holds for all cores.
    pub head: ConfigHeader,
    /// Core by core, in rising order.
    pub cores: Vec<CoreConfig>,
}

/// Implementers of Arm cores, as MIDR_EL1 gives them.
///
/// Source: Arm ARM DDI 0487 D24.2 (MIDR_EL1, table of implementer codes), and Linux's list for those after it.
const IMPLEMENTERS: [(u64, &str); 8] = [
    (0x41, "Arm Limited"),
    (0x42, "Broadcom Corporation"),
    (0x43, "Cavium Inc."),
    (0x46, "Fujitsu Ltd."),
    (0x4E, "NVIDIA Corporation"),
    (0x51, "Qualcomm Inc."),
    (0x6D, "Microsoft Corporation"),
    (0xC0, "Ampere Computing"),
];

impl Machine {
    /// Asks the driver.
    ///
    /// Errors: the driver's; a machine without cores.
    pub fn query(driver: &mut Driver) -> Result<Self> {
        let (head, cores) = driver.query_config()?;
        if cores.is_empty() {
            return Err(Failure::other(
                "wperf-driver describes a machine without cores",
            ));
        }
        Ok(Self { head, cores })
    }

    /// How many cores.
    #[must_use]
    pub fn core_count(&self) -> u32 {
        self.head.core_count
    }

    /// A core's description.
    #[must_use]
    pub fn core(&self, core: u32) -> &CoreConfig {
        let found = self.cores.iter().find(|config| config.core == core);
        // `-c` was checked against the number of cores; the driver lists each of them.
        found.unwrap_or(&self.cores[0])
    }

    /// The product whose tables hold for a core.
    #[must_use]
    pub fn product(&self, core: u32, host: &dyn Host) -> Product {
        let config = self.core(core);
        let product = match config.pmu {
            PmuKind::ARM_PMUV3 => Product::from_midr(config.identification),
            PmuKind::X86_ARCHITECTURAL => Product::generic(Architecture::X86),
            _ => Product::generic(Architecture::Software),
        };
        if host.counts_host_events() {
            product.counting_host()
        } else {
            product
        }
    }

    /// Vendor of the processors.
    #[must_use]
    pub fn vendor(&self) -> String {
        let text = ascii(&self.head.vendor);
        let code = text
            .strip_prefix("0x")
            .map(|hex| u64::from_str_radix(hex, 16));
        match code {
            Some(Ok(code)) => IMPLEMENTERS
                .iter()
                .find(|(known, _)| *known == code)
                .map_or(text, |(_, name)| (*name).to_owned()),
            _ => text,
        }
    }

    /// The hypervisor's signature, if one shows itself.
    #[must_use]
    pub fn hypervisor(&self) -> Option<String> {
        Some(ascii(&self.head.hypervisor)).filter(|text| !text.is_empty())
    }

    /// A core's counters, given how many are free.
    ///
    /// Errors: the driver's.
    pub fn counters(&self, driver: &mut Driver, core: u32, free: usize) -> Result<Counters> {
        let config = self.core(core);
        let total = match config.pmu {
            PmuKind::SOFTWARE => None,
            _ => Some(config.counters_total.into()),
        };
        Ok(Counters::new(total, free, &driver.query_events(core)?))
    }
}

/// Text of a field filled up with zeros.
#[must_use]
pub fn ascii(field: &[u8]) -> String {
    let end = field.iter().position(|&byte| byte == 0);
    String::from_utf8_lossy(&field[..end.unwrap_or(field.len())]).into_owned()
}

/// A PMU's kind in words.
#[must_use]
pub fn pmu_text(kind: PmuKind) -> String {
    match kind {
        PmuKind::ARM_PMUV3 => "Arm PMUv3".to_owned(),
        PmuKind::X86_ARCHITECTURAL => "x86 architectural".to_owned(),
        PmuKind::SOFTWARE => "software".to_owned(),
        PmuKind(other) => format!("kind {other}"),
    }
}
