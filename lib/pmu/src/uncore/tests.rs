//! What units have, and how events get their counters.

use super::*;
use crate::Core;
use std::vec;
use std::vec::Vec;
use wperf_abi::EventFilter;

/// Assigns events, one group each; gives the storage of the former ones.
pub(crate) fn assigned(
    core: &mut Core<Vec<ScheduledEvent>>,
    model: &UnitModel,
    free: SlotSet,
    events: &[u32],
) -> Option<Vec<ScheduledEvent>> {
    let (storage, schedule) = placed(model, free, events).unwrap();
    core.assign(storage, schedule)
}

fn placed(
    model: &UnitModel,
    free: SlotSet,
    events: &[u32],
) -> Result<(Vec<ScheduledEvent>, Schedule), ScheduleError> {
    let mut storage = vec![ScheduledEvent::UNUSED; events.len()];
    let events = (0u16..).zip(events).map(|(group, &code)| AssignEvent {
        code: EventCode(code),
        group,
        filter: EventFilter::NONE,
    });
    let schedule = model.place(free, events, &mut storage)?;
    Ok((storage, schedule))
}

const CLK: u32 = EventCode::DMC_CLK;

#[test]
fn each_clock_of_a_dmc_has_counters_of_its_own() {
    let model = UnitModel::Dmc620;
    let all = model.counters();
    assert_eq!(model.by_domain(all), [8, 2]);
    let (storage, _) = placed(&model, all, &[CLK, 0x12, CLK | 1]).unwrap();
    let slots: Vec<_> = storage.iter().map(|event| event.slot_in(0)).collect();
    let general = |n| Some(Slot::General(n));
    assert_eq!(slots, [general(8), general(0), general(9)]);
    let too_many = placed(&model, all, &[CLK, CLK | 1, 0x12, CLK | 2]).unwrap_err();
    assert_eq!(too_many, ScheduleError::GroupTooLarge { group: 3 });
    assert!(placed(&model, all, &[0; 8]).is_ok());
    let too_many = placed(&model, all, &[0; 9]).unwrap_err();
    assert_eq!(too_many, ScheduleError::GroupTooLarge { group: 8 });
}

#[test]
fn events_that_a_unit_does_not_have_are_refused() {
    let all = UnitModel::Dmc620.counters();
    for code in [
        0x1A,
        CLK | 3,
        2 * CLK,
        EventCode::CYCLES.0,
        EventCode::ELAPSED_NS.0,
    ] {
        assert_eq!(
            placed(&UnitModel::Dmc620, all, &[code]).unwrap_err(),
            ScheduleError::Unsupported(EventCode(code))
        );
    }
    let unit = UnitModel::CoreSight(CoreSightModel::from_configuration(0x1F03));
    assert!(placed(&unit, unit.counters(), &[0xFFFF]).is_ok());
    assert!(placed(&unit, unit.counters(), &[0x1_0000]).is_err());
    assert!(placed(&unit, unit.counters(), &[EventCode::CYCLES.0]).is_err());
}

#[test]
fn a_dmc_announces_26_events_of_one_clock_and_3_of_the_other() {
    let supported: Vec<_> = UnitModel::Dmc620.supported().map(|code| code.0).collect();
    assert_eq!(supported.len(), 29);
    assert_eq!((supported[0], supported[25]), (0, 0x19));
    assert_eq!(supported[26..], [CLK, CLK | 1, CLK | 2]);
}
