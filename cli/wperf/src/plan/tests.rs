use super::*;
use crate::{
    catalog::Product,
    grammar::{events, metrics},
};
use proptest::prelude::*;

fn counters(total: usize, free: usize) -> Counters {
    let cycle = SupportedEvent {
        code: EventCode::CYCLES,
        flags: count_flags::FIXED.into(),
    };
    Counters::new(Some(total), free, &[cycle])
}

fn catalog(user: &str) -> Catalog {
    let product = Product::by_name("neoverse-n1").unwrap();
    Catalog::new(&product, &[], metrics::parse(user).unwrap())
}

fn planned(list: &str, names: &str, counters: &Counters) -> Result<Plan, PlanError> {
    let catalog = catalog("");
    let items = match list {
        "" => Vec::new(),
        list => events::parse(list).unwrap(),
    };
    let metrics = match names {
        "" => Vec::new(),
        names => catalog.expand_metrics(names)?,
    };
    plan(&items, &metrics, &catalog, counters)
}

fn notes(plan: &Plan) -> Vec<String> {
    plan.events()
        .map(|(group, event)| format!("{} {}", event.name, group.kind.note()))
        .collect()
}

#[test]
fn groups_and_metrics_are_numbered_on_and_the_cycle_counter_comes_first() {
    let plan = planned("ld_spec,{vfp_spec,st_spec}", "branch_mpki", &counters(6, 6)).unwrap();
    insta::assert_snapshot!(notes(&plan).join("\n"), @r"
    cycle e
    ld_spec e
    vfp_spec g0
    st_spec g0
    br_mis_pred_retired g1,branch_mpki
    inst_retired g1,branch_mpki
    ");
    let groups: Vec<u16> = plan
        .assignment(EventFilter::EXCLUDE_KERNEL)
        .iter()
        .map(|event| event.group)
        .collect();
    assert_eq!(groups, [0, 1, 2, 2, 3, 3]);
    assert_eq!(plan.first_event_of(plan.metrics[0].group), 4);
}

#[test]
fn a_metric_takes_cycles_from_the_cycle_counter() {
    let plan = planned("", "ipc", &counters(1, 1)).unwrap();
    let codes: Vec<u32> = plan.groups[1].events.iter().map(|e| e.code).collect();
    assert!(codes.contains(&EventCode::CYCLES.0), "{codes:x?}");
    assert!(!codes.contains(&0x11));
}

#[test]
fn what_does_not_fit_is_an_error_that_says_whether_it_ever_could() {
    let list = "{ld_spec,st_spec,vfp_spec}";
    insta::assert_snapshot!(planned(list, "", &counters(2, 2)).unwrap_err(), @"group {ld_spec,st_spec,vfp_spec} needs 3 counters at the same time, but the PMU has only 2");
    insta::assert_snapshot!(planned(list, "", &counters(6, 2)).unwrap_err(), @"group {ld_spec,st_spec,vfp_spec} needs 3 counters at the same time, but only 2 of the PMU's 6 are free now");
    insta::assert_snapshot!(planned("", "imix", &counters(6, 5)).unwrap_err(), @"metric imix needs 6 counters at the same time, but only 5 of the PMU's 6 are free now");
    assert!(planned(list, "", &counters(6, 3)).is_ok());
}

#[test]
fn nothing_too_much_and_the_unknown_are_errors() {
    let six = counters(6, 6);
    assert_eq!(planned("", "", &six).unwrap_err(), PlanError::NoEvent);
    let many = vec!["ld_spec"; MAX_EVENTS].join(",");
    assert_eq!(
        planned(&many, "", &six).unwrap_err(),
        PlanError::TooManyEvents(MAX_EVENTS + 1)
    );
    assert_eq!(
        planned("ld_spec,nonsense", "", &six)
            .unwrap_err()
            .to_string(),
        "unknown event name: nonsense"
    );
}

fn scheduled(list: &str, free: usize) -> (String, String) {
    let slots = schedule(&planned(list, "", &counters(6, 6)).unwrap(), free);
    let join = |of: fn(&Slot) -> String| slots.iter().map(of).collect::<Vec<_>>().join(",");
    (join(|s| s.code.to_string()), join(|s| s.note.clone()))
}

#[test]
fn the_schedule_is_shown_as_windowsperf_shows_it() {
    assert_eq!(
        scheduled("{crypto_spec,vfp_spec}", 3),
        ("119,117,27".into(), "(g0),(g0),(p)".into())
    );
    assert_eq!(scheduled("ld_spec,st_spec", 6).1, "(e),(e)", "no padding");
    let (codes, notes) = scheduled("{ld_spec,st_spec},{vfp_spec,ase_spec,dp_spec},inst_spec", 4);
    assert_eq!(codes, "112,113,27,27,117,116,115,27");
    assert_eq!(notes, "(g0),(g0),(e),(p),(g1),(g1),(g1),(p)");
}

proptest! {
    #[test]
    fn no_group_straddles_a_window_and_nothing_is_lost(sizes in prop::collection::vec(1_usize..5, 1..8), free in 4_usize..7) {
        let group = |n: &usize| format!("{{{}}}", vec!["ld_spec"; *n].join(","));
        let list = sizes.iter().map(group).collect::<Vec<_>>().join(",");
        let slots = schedule(&planned(&list, "", &counters(6, 6)).unwrap(), free);
        let real = slots.iter().filter(|slot| slot.note != "(p)").count();
        prop_assert_eq!(real, sizes.iter().sum::<usize>());
        if slots.iter().any(|slot| slot.note.starts_with("(g")) {
            prop_assert_eq!(slots.len() % free, 0);
            for (number, size) in sizes.iter().filter(|n| **n > 1).enumerate() {
                let note = format!("(g{number})");
                let windows: Vec<usize> = (0..slots.len()).filter(|&i| slots[i].note == note).map(|i| i / free).collect();
                prop_assert_eq!(windows.len(), *size);
                prop_assert!(windows.windows(2).all(|w| w[0] == w[1]));
            }
        }
    }
}
