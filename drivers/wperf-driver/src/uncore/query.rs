//! What anybody may ask of units: nothing here changes what one does or who holds it.

use super::unit::{About, Unit};
use crate::WperfDriver;
use crate::query::{bytes_of, count};
use crate::session::File;
use kernel::Result;
use kernel::irp::Buffer;
use kernel::ticker::Ticker;
use wperf_abi::State;
use wperf_abi::record::{
    CoreOwnership, EventsHeader, Holding, OwnershipHeader, SupportedEvent, UnitConfig, UnitKind,
    UnitsHeader, count_flags,
};
use zerocopy::IntoBytes;

pub(crate) fn units(driver: &WperfDriver, buffer: &mut Buffer<'_>) -> Result<()> {
    let units = &driver.units;
    buffer.check_room(size_of::<UnitsHeader>() + units.count() * size_of::<UnitConfig>())?;
    let _control = units.control.lock();
    // What is not known yet is asked for before anything is answered.
    for (_, unit) in units.iter() {
        unit.value().describe(&driver.cores)?;
    }
    let header = UnitsHeader {
        unit_count: count(units.count()),
        unit_bytes: bytes_of::<UnitConfig>(),
    };
    buffer.push(header.as_bytes())?;
    units
        .iter()
        .try_for_each(|(number, unit)| buffer.push(unit_config(driver, number, unit)?.as_bytes()))
}

fn unit_config(driver: &WperfDriver, number: u32, unit: &Ticker<Unit>) -> Result<UnitConfig> {
    use pmu::Slot::{Fixed, General};
    let unit = unit.value();
    let description = unit.describe(&driver.cores)?;
    let (about, model) = (&unit.about, description.model);
    Ok(UnitConfig {
        unit: number,
        kind: about.kind,
        number: about.number,
        of: about.of,
        name: name(about),
        counters_total: model.general_counters().map(u16::from),
        counters_free: model.by_domain(description.free),
        fixed_counters: model.fixed_counters().into(),
        counter_bits: model.bits(General(0)).into(),
        fixed_bits: model.bits(Fixed(0)).into(),
        reserved: 0,
        identification: description.identification.into(),
        instance: about.instance,
        cores: about.cores,
    })
}

/// `dsu_0`, `dmc_0`, `cspmu_0`.
fn name(about: &About) -> [u8; 16] {
    let word: &[u8] = match about.kind {
        UnitKind::DSU => b"dsu_",
        UnitKind::DMC_620 => b"dmc_",
        _ => b"cspmu_",
    };
    let mut name = [0; 16];
    let mut places = name.iter_mut();
    // In this order: the letters end first, and no place is lost.
    for (letter, place) in word.iter().zip(places.by_ref()) {
        *place = *letter;
    }
    let mut power = 1u32;
    while about.number / power >= 10 {
        power *= 10;
    }
    for place in places {
        // A digit fits in a byte.
        *place = b'0' + u8::try_from(about.number / power % 10).unwrap_or(0);
        if power == 1 {
            break;
        }
        power /= 10;
    }
    name
}

pub(crate) fn ownership(driver: &WperfDriver, file: &File, buffer: &mut Buffer<'_>) -> Result<()> {
    let units = &driver.units;
    buffer.check_room(size_of::<OwnershipHeader>() + units.count() * size_of::<CoreOwnership>())?;
    let control = units.control.lock();
    let own = file.with_units(|session| session.id())?;
    let header = OwnershipHeader {
        core_count: count(units.count()),
        core_bytes: bytes_of::<CoreOwnership>(),
    };
    buffer.push(header.as_bytes())?;
    units.iter().try_for_each(|(number, unit)| {
        let holder = control.holder(number);
        let record = CoreOwnership {
            core: number,
            holding: match holder {
                None => Holding::IDLE,
                Some(holder) if holder.session == own => Holding::YOURS,
                Some(_) => Holding::BUSY,
            },
            pid: holder.map_or(0, |holder| holder.pid),
            state: holder.map_or(State::Free, |_| unit.value().state()) as u32,
            session: holder.map_or(0, |holder| holder.session.get()),
            since: holder.map_or(0, |holder| holder.since),
        };
        buffer.push(record.as_bytes())
    })
}

pub(crate) fn events(driver: &WperfDriver, unit: u32, buffer: &mut Buffer<'_>) -> Result<()> {
    let _control = driver.units.control.lock();
    let model = driver
        .units
        .get(unit)?
        .value()
        .describe(&driver.cores)?
        .model;
    let events = model.supported().count();
    buffer.check_room(size_of::<EventsHeader>() + events * size_of::<SupportedEvent>())?;
    let header = EventsHeader {
        core: unit,
        event_count: count(events),
    };
    buffer.push(header.as_bytes())?;
    model.supported().try_for_each(|code| {
        let flags = if model.is_fixed(code) {
            count_flags::FIXED
        } else {
            0
        };
        let event = SupportedEvent {
            code,
            flags: flags.into(),
        };
        buffer.push(event.as_bytes())
    })
}

pub(crate) fn times(driver: &WperfDriver, unit: u32, buffer: &mut Buffer<'_>) -> Result<()> {
    let times = driver.units.get(unit)?.value().times();
    buffer.push(times.record(unit).as_bytes())
}
