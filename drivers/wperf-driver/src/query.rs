//! What anybody may ask: nothing here changes what a core does or who holds it.

use crate::WperfDriver;
use crate::control::core_of;
use crate::core_state::Description;
use crate::session::File;
use kernel::irp::Buffer;
use kernel::processor::{self, CoreId};
use kernel::{Result, counters};
use wperf_abi::record::{
    ConfigHeader, CoreConfig, CoreOwnership, EventsHeader, Holding, OwnershipHeader,
    SupportedEvent, Version, config_flags, count_flags,
};
use wperf_abi::{ABI_MAJOR, ABI_MINOR, PERIOD_DEFAULT_MS, PERIOD_MAX_MS, PERIOD_MIN_MS, State};
use zerocopy::IntoBytes;

/// A number of the package version, read at compile time.
const fn number(text: &str) -> u16 {
    match u16::from_str_radix(text, 10) {
        Ok(number) => number,
        Err(_) => 0,
    }
}

const BUILD: &str = if cfg!(debug_assertions) {
    "debug"
} else {
    "release"
};

const VERSION: Version = Version {
    abi_major: ABI_MAJOR,
    abi_minor: ABI_MINOR,
    driver_major: number(env!("CARGO_PKG_VERSION_MAJOR")),
    driver_minor: number(env!("CARGO_PKG_VERSION_MINOR")),
    driver_patch: number(env!("CARGO_PKG_VERSION_PATCH")),
    reserved: [0; 6],
    build: padded(BUILD.as_bytes()),
};

const fn padded(mut text: &[u8]) -> [u8; 32] {
    let mut field = [0; 32];
    let mut rest = field.as_mut_slice();
    while let ([first, text_rest @ ..], [place, places @ ..]) = (text, rest) {
        *place = *first;
        text = text_rest;
        rest = places;
    }
    field
}

/// Takes no lock: this is also how a client measures the way to the driver and back.
pub(crate) fn version(buffer: &mut Buffer<'_>) -> Result<()> {
    buffer.push(VERSION.as_bytes())
}

/// A number of things as the contract carries it.
pub(crate) fn count(things: usize) -> u32 {
    u32::try_from(things).unwrap_or(u32::MAX)
}

pub(crate) const fn bytes_of<T>() -> u32 {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "records have a few dozen bytes"
    )]
    let bytes = size_of::<T>() as u32;
    bytes
}

pub(crate) fn config(driver: &WperfDriver, buffer: &mut Buffer<'_>) -> Result<()> {
    let cores = driver.cores.count();
    buffer.check_room(size_of::<ConfigHeader>() + cores * size_of::<CoreConfig>())?;
    let reserved = driver.control.lock().detect(driver).reserved();
    let current = if reserved.is_some() {
        config_flags::FREE_IS_CURRENT
    } else {
        0
    };
    let lent = if counters::are_lent() {
        config_flags::HARDWARE_LENT
    } else {
        0
    };
    let first = driver
        .cores
        .get(CoreId(0))
        .and_then(|core| core.describe().processor);
    let header = ConfigHeader {
        core_count: count(cores),
        core_bytes: bytes_of::<CoreConfig>(),
        period_min_ms: PERIOD_MIN_MS,
        period_max_ms: PERIOD_MAX_MS,
        period_default_ms: PERIOD_DEFAULT_MS,
        flags: current | lent,
        vendor: first.map_or([0; 16], |processor| processor.vendor),
        hypervisor: first.map_or([0; 12], |processor| processor.hypervisor),
        reserved: 0,
    };
    buffer.push(header.as_bytes())?;
    driver.cores.iter().try_for_each(|(id, core)| {
        buffer.push(core_config(id, &core.describe(), reserved).as_bytes())
    })
}

fn core_config(id: CoreId, core: &Description, reserved: Option<u64>) -> CoreConfig {
    let Description {
        processor,
        model,
        free,
    } = core;
    let place = processor::number(id);
    // A core that nobody holds yet has not been told what is reserved.
    let counter_map = free.general & reserved.unwrap_or(u64::MAX);
    let free_count = u16::try_from(counter_map.count_ones()).unwrap_or(u16::MAX);
    CoreConfig {
        core: id.0,
        pmu: model.kind(),
        group: place.Group,
        number: place.Number.into(),
        counters_total: model.general_counters().into(),
        counters_free: free_count,
        fixed_counters: model.fixed_counters().into(),
        counter_bits: model.general_bits().into(),
        fixed_bits: model.fixed_bits().into(),
        pmu_version: model.version(),
        counter_map,
        identification: processor.map_or(0, |processor| processor.identification),
        features: processor.map_or(0, |processor| processor.features),
    }
}

pub(crate) fn events(driver: &WperfDriver, core: u32, buffer: &mut Buffer<'_>) -> Result<()> {
    driver.control.lock().detect(driver);
    let model = core_of(driver, core)?.describe().model;
    let events = model.supported().count();
    buffer.check_room(size_of::<EventsHeader>() + events * size_of::<SupportedEvent>())?;
    buffer.push(
        EventsHeader {
            core,
            event_count: count(events),
        }
        .as_bytes(),
    )?;
    model.supported().try_for_each(|code| {
        let placement = model.placement(code);
        let fixed = placement
            .and_then(|place| place.fixed)
            .map_or(0, |_| count_flags::FIXED);
        let time = placement
            .filter(|place| place.shared)
            .map_or(0, |_| count_flags::TIME_BASED);
        buffer.push(
            SupportedEvent {
                code,
                flags: (fixed | time).into(),
            }
            .as_bytes(),
        )
    })
}

pub(crate) fn ownership(driver: &WperfDriver, file: &File, buffer: &mut Buffer<'_>) -> Result<()> {
    let cores = driver.cores.count();
    buffer.check_room(size_of::<OwnershipHeader>() + cores * size_of::<CoreOwnership>())?;
    let control = driver.control.lock();
    let own = file.with(|session| session.id())?;
    let header = OwnershipHeader {
        core_count: count(cores),
        core_bytes: bytes_of::<CoreOwnership>(),
    };
    buffer.push(header.as_bytes())?;
    driver.cores.iter().try_for_each(|(id, core)| {
        let holder = control.holder(id);
        let record = CoreOwnership {
            core: id.0,
            holding: match holder {
                None => Holding::IDLE,
                Some(holder) if holder.session == own => Holding::YOURS,
                Some(_) => Holding::BUSY,
            },
            pid: holder.map_or(0, |holder| holder.pid),
            state: holder.map_or(State::Free, |_| core.state()) as u32,
            session: holder.map_or(0, |holder| holder.session.get()),
            since: holder.map_or(0, |holder| holder.since),
        };
        buffer.push(record.as_bytes())
    })
}

pub(crate) fn dpc_times(driver: &WperfDriver, core: u32, buffer: &mut Buffer<'_>) -> Result<()> {
    let times = core_of(driver, core)?.dpc_times();
    buffer.push(times.record(core).as_bytes())
}

pub(crate) fn isr_times(driver: &WperfDriver, core: u32, buffer: &mut Buffer<'_>) -> Result<()> {
    let times = core_of(driver, core)?.isr_times();
    buffer.push(times.record(core).as_bytes())
}
