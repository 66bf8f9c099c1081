use super::*;
use crate::client::{encode_assign, encode_core_set, encode_sample_assign, encode_sample_wait};
use crate::{EventCode, EventFilter};
use alloc::vec::Vec;
use proptest::prelude::*;
use zerocopy::IntoBytes;

const CORES: usize = 130;

fn event(code: u32, group: u16) -> AssignEvent {
    AssignEvent {
        code: EventCode(code),
        group,
        filter: EventFilter::NONE,
    }
}

fn source(code: u32, interval: u64) -> SampleSource {
    SampleSource {
        code: EventCode(code),
        filter: EventFilter::NONE,
        reserved: 0,
        interval,
        pid: 0,
        reserved2: 0,
    }
}

fn sample_error(cores: &[u32], sources: &[SampleSource], ring_samples: u32) -> RequestError {
    let input = encode_sample_assign(cores, sources, ring_samples);
    parse(Ioctl::SampleAssign, &input).unwrap_err()
}

fn parse(ioctl: Ioctl, input: &[u8]) -> Result<Request<'_>> {
    Request::parse(ioctl, input, CORES)
}

fn assign_error(cores: &[u32], events: &[AssignEvent], period_ms: u32) -> RequestError {
    parse(Ioctl::Assign, &encode_assign(cores, events, period_ms)).unwrap_err()
}

#[test]
fn a_query_with_input_is_refused() {
    let error = parse(Ioctl::QueryVersion, &[0]).unwrap_err();
    assert_eq!(
        error,
        RequestError::Length {
            expected: 0,
            actual: 1
        }
    );
}

#[test]
fn a_core_that_does_not_exist_is_refused_wherever_it_is_named() {
    let error = RequestError::Field {
        field: "core",
        value: 130,
    };
    for ioctl in [Ioctl::Release, Ioctl::Reset, Ioctl::Start, Ioctl::Stop] {
        assert_eq!(
            parse(ioctl, &encode_core_set(&[0, 130])).unwrap_err(),
            error
        );
    }
    for ioctl in [Ioctl::Read, Ioctl::QueryEvents] {
        let input = OneCore {
            core: 130,
            reserved: 0,
        };
        assert_eq!(parse(ioctl, input.as_bytes()).unwrap_err(), error);
    }
    assert_eq!(assign_error(&[130], &[event(1, 0)], 0), error);
}

#[test]
fn calls_about_units_are_checked_against_the_number_of_units() {
    let error = RequestError::Field {
        field: "core",
        value: 2,
    };
    for ioctl in [
        Ioctl::ReleaseUnits,
        Ioctl::ResetUnits,
        Ioctl::StartUnits,
        Ioctl::StopUnits,
    ] {
        let input = encode_core_set(&[0, 2]);
        assert_eq!(Request::parse(ioctl, &input, 2).unwrap_err(), error);
        assert!(Request::parse(ioctl, &input, 3).is_ok());
        assert!(Request::parse(ioctl, &encode_core_set(&[0]), 0).is_err());
    }
    for ioctl in [
        Ioctl::ReadUnit,
        Ioctl::QueryUnitEvents,
        Ioctl::QueryUnitTimes,
    ] {
        let input = OneCore {
            core: 2,
            reserved: 0,
        };
        assert_eq!(
            Request::parse(ioctl, input.as_bytes(), 2).unwrap_err(),
            error
        );
    }
}

#[test]
fn a_unit_has_no_modes_to_filter_by() {
    let mut filtered = event(0x12, 0);
    filtered.filter = EventFilter::EXCLUDE_KERNEL;
    let error = RequestError::Field {
        field: "filter",
        value: 2,
    };
    let input = encode_assign(&[0], &[event(0x12, 0), filtered], 0);
    assert_eq!(
        Request::parse(Ioctl::AssignUnits, &input, 1).unwrap_err(),
        error
    );
    assert!(Request::parse(Ioctl::Assign, &input, 1).is_ok());
}

#[test]
fn a_count_that_disagrees_with_the_length_is_refused() {
    let mut input = encode_core_set(&[1]);
    input.push(0);
    let error = parse(Ioctl::Start, &input).unwrap_err();
    assert_eq!(
        error,
        RequestError::Length {
            expected: 16,
            actual: 17
        }
    );
    input[0] = 33;
    let error = parse(Ioctl::Start, &input).unwrap_err();
    assert_eq!(
        error,
        RequestError::Field {
            field: "word_count",
            value: 33
        }
    );
}

#[test]
fn groups_are_numbered_from_zero_without_holes() {
    let group = |value| RequestError::Field {
        field: "group",
        value,
    };
    assert_eq!(assign_error(&[0], &[event(1, 1)], 0), group(1));
    assert_eq!(assign_error(&[0], &[event(1, 0), event(2, 2)], 0), group(2));
    let back = [event(1, 0), event(2, 1), event(3, 0)];
    assert_eq!(assign_error(&[0], &back, 0), group(0));
}

#[test]
fn a_filter_that_leaves_nothing_to_count_is_refused() {
    let nowhere = AssignEvent {
        filter: EventFilter(3),
        ..event(1, 0)
    };
    let error = RequestError::Field {
        field: "filter",
        value: 3,
    };
    assert_eq!(assign_error(&[0], &[nowhere], 0), error);
}

#[test]
fn a_period_outside_the_limits_is_refused_and_zero_is_the_default() {
    let error = |value| RequestError::Field {
        field: "period_ms",
        value,
    };
    assert_eq!(assign_error(&[0], &[event(1, 0)], 9), error(9));
    assert_eq!(assign_error(&[0], &[event(1, 0)], 101), error(101));
    let input = encode_assign(&[0], &[event(1, 0)], 0);
    let Ok(Request::Assign(assignment)) = parse(Ioctl::Assign, &input) else {
        panic!()
    };
    assert_eq!(assignment.period_ms, PERIOD_DEFAULT_MS);
}

#[test]
fn an_assignment_without_or_with_too_many_events_is_refused() {
    let error = |value| RequestError::Field {
        field: "event_count",
        value,
    };
    assert_eq!(assign_error(&[0], &[], 0), error(0));
    assert_eq!(assign_error(&[0], &[event(1, 0); 129], 0), error(129));
}

#[test]
fn an_unknown_mode_is_refused() {
    let input = [
        AcquireHeader {
            word_count: 1,
            mode: AcquireMode(2),
        }
        .as_bytes(),
        &[1; 8],
    ]
    .concat();
    let error = parse(Ioctl::Acquire, &input).unwrap_err();
    assert_eq!(
        error,
        RequestError::Field {
            field: "mode",
            value: 2
        }
    );
}

#[test]
fn what_a_source_may_not_be_is_refused_by_name() {
    let error = |field, value| RequestError::Field { field, value };
    let good = source(1, 5000);
    assert_eq!(sample_error(&[0], &[], 0), error("source_count", 0));
    assert_eq!(
        sample_error(&[0], &[good; 33], 0),
        error("source_count", 33)
    );
    assert_eq!(sample_error(&[130], &[good], 0), error("core", 130));
    assert_eq!(sample_error(&[0], &[good], 63), error("ring_samples", 63));
    let much = RING_SAMPLES_MAX + 1;
    assert_eq!(
        sample_error(&[0], &[good], much),
        error("ring_samples", much.into())
    );
    assert_eq!(
        sample_error(&[0], &[source(1, 999)], 0),
        error("interval", 999)
    );
    let long = SAMPLE_INTERVAL_MAX + 1;
    assert_eq!(
        sample_error(&[0], &[good, source(1, long)], 0),
        error("interval", long)
    );
    let filter = EventFilter(3);
    assert_eq!(
        sample_error(&[0], &[SampleSource { filter, ..good }], 0),
        error("filter", 3)
    );
    assert_eq!(
        sample_error(
            &[0],
            &[SampleSource {
                reserved2: 9,
                ..good
            }],
            0
        ),
        error("reserved2", 9)
    );
}

#[test]
fn a_source_without_an_interval_and_a_ring_without_a_size_have_the_defaults() {
    let input = encode_sample_assign(&[3], &[source(1, 0)], 0);
    let Ok(Request::SampleAssign(sampling)) = parse(Ioctl::SampleAssign, &input) else {
        panic!()
    };
    assert_eq!(sampling.ring_samples, RING_SAMPLES_DEFAULT);
    let sources: Vec<_> = sampling.sources().collect();
    assert_eq!(sources, [source(1, SAMPLE_INTERVAL_DEFAULT)]);
    let input = encode_sample_assign(&[3], &[source(1, 0)], 65);
    let Ok(Request::SampleAssign(sampling)) = parse(Ioctl::SampleAssign, &input) else {
        panic!()
    };
    assert_eq!(sampling.ring_samples, 128);
}

#[test]
fn a_wait_that_is_too_long_is_refused() {
    let error = RequestError::Field {
        field: "timeout_ms",
        value: 10_001,
    };
    let input = encode_sample_wait(&[0], 10_001);
    assert_eq!(parse(Ioctl::SampleWait, &input).unwrap_err(), error);
    let input = encode_sample_wait(&[0, 2], 10_000);
    let Ok(Request::SampleWait(10_000, cores)) = parse(Ioctl::SampleWait, &input) else {
        panic!()
    };
    assert_eq!(cores.iter().collect::<Vec<_>>(), [0, 2]);
}

fn cases() -> ProptestConfig {
    let cases = if cfg!(miri) { 1 } else { 512 };
    ProptestConfig {
        cases,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn no_input_whatsoever_makes_the_parser_panic(
        which in 0..Ioctl::ALL.len(), input in prop::collection::vec(any::<u8>(), 0..400),
        cores in 0..2048usize,
    ) {
        if let Ok(Request::Assign(assignment)) = Request::parse(Ioctl::ALL[which], &input, cores) {
            prop_assert!(assignment.cores.iter().all(|core| (core as usize) < cores));
        }
    }

    #[test]
    fn what_a_client_encodes_the_driver_reads(
        cores in prop::collection::btree_set(0..130u32, 1..20),
        raw in prop::collection::vec((any::<u32>(), any::<bool>(), 0..3u16), 1..128),
        period_ms in PERIOD_MIN_MS..=PERIOD_MAX_MS,
        misalignment in 0..8usize,
    ) {
        let mut group = 0;
        let events: Vec<_> = raw.iter().enumerate().map(|(i, &(code, new_group, filter))| {
            group += u16::from(new_group && i > 0);
            AssignEvent { filter: EventFilter(filter), ..event(code, group) }
        }).collect();
        let cores: Vec<u32> = cores.into_iter().collect();
        let mut input = alloc::vec![0; misalignment];
        input.extend(encode_assign(&cores, &events, period_ms));
        let request = parse(Ioctl::Assign, &input[misalignment..]);
        let Ok(Request::Assign(assignment)) = request else { panic!("{request:?}") };
        prop_assert_eq!(assignment.cores.iter().collect::<Vec<_>>(), cores);
        prop_assert_eq!(assignment.period_ms, period_ms);
        prop_assert_eq!(assignment.events().collect::<Vec<_>>(), events);
    }
}
