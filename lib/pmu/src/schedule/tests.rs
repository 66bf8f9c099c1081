use super::*;
use crate::{ArmModel, X86Model};
use proptest::prelude::*;
use std::vec;
use std::vec::Vec;

fn arm(counters: u8) -> (Model, Free) {
    let model = ArmModel {
        version: 4,
        counters,
        announced: [u64::MAX; 2],
    };
    (
        Model::Arm(model),
        SlotSet {
            general: (1 << counters) - 1,
            fixed: 1,
        },
    )
}

fn x86() -> (Model, Free) {
    let model = X86Model::from_cpuid(0x0830_0404, 0, 0x0000_0603).unwrap();
    (
        Model::X86(model),
        SlotSet {
            general: 0b1111,
            fixed: 0b111,
        },
    )
}

fn event(code: u32, group: u16) -> AssignEvent {
    AssignEvent {
        code: EventCode(code),
        group,
        filter: EventFilter::NONE,
    }
}

fn places(
    (model, free): (Model, Free),
    events: &[AssignEvent],
) -> Result<(u16, Vec<Place>), ScheduleError> {
    let mut storage = vec![ScheduledEvent::UNUSED; events.len()];
    let schedule = schedule(&model, free, events.iter().copied(), &mut storage)?;
    Ok((
        schedule.windows,
        storage.iter().map(|event| event.place).collect(),
    ))
}

use Place::{Always, Nowhere, Window};
use Slot::{Fixed, General};

#[test]
fn what_fits_counts_in_one_window() {
    let cycles = EventCode::CYCLES.0;
    let (windows, places) = places(arm(2), &[event(cycles, 0), event(1, 1), event(2, 2)]).unwrap();
    assert_eq!(windows, 1);
    assert_eq!(
        places,
        [
            Always(Fixed(0)),
            Window(0, General(0)),
            Window(0, General(1))
        ]
    );
}

#[test]
fn a_group_is_never_split_and_holes_are_filled() {
    let events = [event(1, 0), event(2, 1), event(3, 1), event(4, 2)];
    let (windows, places) = places(arm(2), &events).unwrap();
    assert_eq!(windows, 2);
    let expected = [
        Window(0, General(0)),
        Window(1, General(0)),
        Window(1, General(1)),
        Window(0, General(1)),
    ];
    assert_eq!(places, expected);
}

#[test]
fn a_counter_that_another_holds_is_left_alone() {
    let (model, mut free) = arm(4);
    free.remove(General(0));
    free.remove(General(2));
    let (windows, places) =
        places((model, free), &[event(1, 0), event(2, 1), event(3, 2)]).unwrap();
    assert_eq!(windows, 2);
    assert_eq!(
        places,
        [
            Window(0, General(1)),
            Window(0, General(3)),
            Window(1, General(1))
        ]
    );
}

#[test]
fn with_no_counter_left_cycles_still_count() {
    let (model, _) = arm(4);
    let free = SlotSet {
        general: 0,
        fixed: 1,
    };
    let events = [event(EventCode::CYCLES.0, 0), event(1, 1), event(2, 1)];
    let (windows, places) = places((model, free), &events).unwrap();
    assert_eq!(
        (windows, places),
        (1, vec![Always(Fixed(0)), Nowhere, Nowhere])
    );
}

#[test]
fn with_no_counter_left_two_groups_do_not_share_the_fixed_one() {
    let (model, _) = arm(4);
    let free = SlotSet {
        general: 0,
        fixed: 1,
    };
    let cycles = EventCode::CYCLES.0;
    let events = [event(cycles, 0), event(1, 0), event(cycles, 1), event(2, 1)];
    let (_, places) = places((model, free), &events).unwrap();
    assert_eq!(places, [Window(0, Fixed(0)), Nowhere, Nowhere, Nowhere]);
}

#[test]
fn a_group_larger_than_the_free_counters_is_named() {
    let events = [event(1, 0), event(2, 1), event(3, 1), event(4, 1)];
    assert_eq!(
        places(arm(2), &events),
        Err(ScheduleError::GroupTooLarge { group: 1 })
    );
}

#[test]
fn an_event_the_core_does_not_have_is_named() {
    let error = Err(ScheduleError::Unsupported(EventCode(0x1_0000)));
    assert_eq!(places(x86(), &[event(0xC0, 0), event(0x1_0000, 1)]), error);
}

#[test]
fn the_second_of_two_equal_events_gets_a_general_counter() {
    let (windows, places) = places(x86(), &[event(0xC0, 0), event(0xC0, 1)]).unwrap();
    assert_eq!(
        (windows, places),
        (1, vec![Always(Fixed(0)), Window(0, General(0))])
    );
}

#[test]
fn software_events_share_their_source() {
    let free = SlotSet {
        general: 0,
        fixed: 0b11,
    };
    let events = [
        event(EventCode::CYCLES.0, 0),
        event(EventCode::TIMESTAMP_TICKS.0, 1),
    ];
    let (_, places) = places((Model::Software, free), &events).unwrap();
    assert_eq!(places, [Always(Fixed(0)), Always(Fixed(0))]);
}

const EVENTS: usize = if cfg!(miri) { 5 } else { 60 };

fn cases() -> ProptestConfig {
    let cases = if cfg!(miri) { 1 } else { 512 };
    ProptestConfig {
        cases,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

/// Codes with and without fixed counters.
fn code() -> impl Strategy<Value = u32> {
    prop_oneof![
        Just(EventCode::CYCLES.0),
        Just(0xC0),
        Just(0x3C),
        0x100..0x200u32
    ]
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn no_window_uses_a_counter_twice_or_splits_a_group_or_takes_what_is_not_free(
        raw in prop::collection::vec((code(), any::<bool>()), 1..EVENTS),
        general in 1..16u64, fixed in 0..8u32,
    ) {
        let mut group = 0;
        let events: Vec<_> = raw.iter().enumerate().map(|(i, &(code, new))| {
            group += u16::from(new && i > 0);
            event(code, group)
        }).collect();
        let (model, _) = x86();
        let free = SlotSet { general, fixed };
        let mut storage = vec![ScheduledEvent::UNUSED; events.len()];
        let Ok(schedule) = schedule(&model, free, events.into_iter(), &mut storage) else {
            return Ok(());
        };
        for window in 0..schedule.windows {
            let mut left = free;
            for slot in storage.iter().filter_map(|event| event.slot_in(window)) {
                prop_assert!(left.contains(slot), "{slot:?} in window {window} twice or not free");
                left.remove(slot);
            }
        }
        for group in storage.chunk_by(|a, b| a.group == b.group) {
            let when = |event: &ScheduledEvent| match event.place {
                Window(window, _) => Some(window),
                Always(_) | Nowhere => None,
            };
            prop_assert!(group.iter().all(|event| when(event) == when(&group[0])));
            prop_assert!(group.iter().all(|event| event.place != Nowhere));
        }
    }
}
