//! Whatever a client sends, the driver answers with a clear status, or does what was asked: never half of it.

use e2e::scene::{
    Actor, CORES, CPUS, EVENTS, ROOM, SOURCES, STATES, Scene, UNIT_EVENTS, UNITS, acquire_input,
    expected_refusal, valid_input,
};
use e2e::wperf::{Handle, STRANGER};
use lab_ntos::{Client, Privilege};
use proptest::prelude::{ProptestConfig, Strategy, any, prop_oneof, proptest};
use proptest::sample::select;
use wperf_abi::client::{encode_assign, encode_core_set, encode_sample_assign};
use wperf_abi::record::{AcquireMode, AssignEvent};
use wperf_abi::{Access, CLIENT_PATH, EventCode, Ioctl, Refusal, Request, State};

const ACTORS: [Actor; 2] = [Actor::Owner, Actor::Stranger];

/// Makes calls that must be refused, and looks whether anything changed.
fn refused(state: State, calls: impl FnOnce(&Scene)) {
    let scene = Scene::new(state);
    let before = scene.snapshot();
    calls(&scene);
    assert_eq!(before, scene.snapshot(), "in state {state:?}");
    scene.assert_counts_are_whole(state);
    scene.end();
}

#[test]
fn every_wrong_input_length_is_refused_and_changes_nothing() {
    for state in STATES {
        refused(state, |scene| {
            for &ioctl in Ioctl::ALL {
                let valid = valid_input(ioctl);
                let long = [64, 1000, 4096, 65536].map(|more| valid.len() + more);
                for len in (0..=valid.len() + 8).chain(long) {
                    if len == valid.len() {
                        continue;
                    }
                    let mut input = valid.clone();
                    input.resize(len, 0);
                    for actor in ACTORS {
                        let (status, output) = scene.handle(actor).call(ioctl.code(), &input, ROOM);
                        let expected = Refusal::BadInputLength.ntstatus();
                        assert_eq!(status, expected, "{ioctl:?}, {len} bytes, {actor:?}");
                        assert!(output.is_empty());
                    }
                }
            }
        });
    }
}

#[test]
fn every_code_that_is_not_in_the_table_is_refused() {
    refused(State::Counting, |scene| {
        let valid = Ioctl::ALL.map_codes();
        let base = Ioctl::QueryVersion.code() & 0xFFFF_0000;
        let of_device = (0..=0xFFFF).map(|low| base | low);
        let of_others = valid
            .iter()
            .flat_map(|code| (16..32).map(move |bit| code ^ 1 << bit));
        for code in of_device.chain(of_others) {
            if valid.contains(&code) {
                continue;
            }
            let (status, _) = scene.handle(Actor::Owner).call(code, &[0xFF; 24], 64);
            assert_eq!(status, Refusal::UnknownCall.ntstatus(), "{code:#x}");
        }
    });
}

/// The codes of a list of calls.
trait Codes {
    fn map_codes(&self) -> Vec<u32>;
}

impl Codes for [Ioctl] {
    fn map_codes(&self) -> Vec<u32> {
        self.iter().map(|ioctl| ioctl.code()).collect()
    }
}

#[test]
fn who_may_call_what_in_which_state_is_as_the_table_says() {
    for state in STATES {
        for actor in ACTORS {
            for &ioctl in Ioctl::ALL {
                let scene = Scene::new(state);
                let before = scene.snapshot();
                let (status, output) =
                    scene
                        .handle(actor)
                        .call(ioctl.code(), &valid_input(ioctl), ROOM);
                let expected = expected_refusal(ioctl, state, actor);
                assert_eq!(
                    status,
                    expected.map_or(0, Refusal::ntstatus),
                    "{ioctl:?} by {actor:?} in {state:?}, expected {expected:?}"
                );
                if expected.is_some() {
                    assert_eq!(output.is_empty(), expected != Some(Refusal::Busy));
                    assert_eq!(before, scene.snapshot(), "{ioctl:?} by {actor:?}");
                    scene.assert_counts_are_whole(state);
                }
                scene.end();
            }
        }
    }
}

#[test]
fn an_output_buffer_that_is_too_short_is_refused_before_anything_happens() {
    for state in STATES {
        for &ioctl in Ioctl::ALL {
            if expected_refusal(ioctl, state, Actor::Owner).is_some() {
                continue;
            }
            let input = valid_input(ioctl);
            let complete = Scene::new(state);
            let (_, answer) = complete
                .handle(Actor::Owner)
                .call(ioctl.code(), &input, ROOM);
            complete.end();
            refused(state, |scene| {
                for len in 0..answer.len() {
                    let (status, _) = scene.handle(Actor::Owner).call(ioctl.code(), &input, len);
                    let expected = Refusal::OutputTooSmall.ntstatus();
                    assert_eq!(status, expected, "{ioctl:?}, room for {len} bytes");
                }
            });
            for more in 0..=8 {
                let scene = Scene::new(state);
                let (status, output) =
                    scene
                        .handle(Actor::Owner)
                        .call(ioctl.code(), &input, answer.len() + more);
                assert_eq!((status, output.len()), (0, answer.len()), "{ioctl:?}");
                scene.end();
            }
        }
    }
}

/// A valid input with one 32-bit field changed.
fn with(mut input: Vec<u8>, offset: usize, value: u32) -> Vec<u8> {
    input[offset..offset + 4].copy_from_slice(&value.to_le_bytes());
    input
}

/// A call, its hostile input, why it must be refused.
type Hostile = (Ioctl, Vec<u8>, Refusal);

fn hostile_core_sets() -> Vec<Hostile> {
    const NOT_THERE: u32 = 4;
    assert_eq!(NOT_THERE as usize, CPUS);
    let mut calls = Vec::new();
    for ioctl in [
        Ioctl::Release,
        Ioctl::Reset,
        Ioctl::Start,
        Ioctl::Stop,
        Ioctl::SampleRead,
    ] {
        let valid = valid_input(ioctl);
        calls.push((ioctl, with(valid.clone(), 4, 1), Refusal::BadRequest));
        calls.push((ioctl, with(valid, 4, u32::MAX), Refusal::BadRequest));
    }
    for ioctl in [
        Ioctl::Acquire,
        Ioctl::AcquireUnits,
        Ioctl::ReleaseUnits,
        Ioctl::ResetUnits,
        Ioctl::StartUnits,
        Ioctl::StopUnits,
        Ioctl::Release,
        Ioctl::Reset,
        Ioctl::Start,
        Ioctl::Stop,
        Ioctl::SampleWait,
        Ioctl::SampleRead,
    ] {
        let valid = valid_input(ioctl);
        for words in [0, 33, 0x2000_0000, u32::MAX] {
            calls.push((ioctl, with(valid.clone(), 0, words), Refusal::BadRequest));
        }
        calls.push((ioctl, with(valid.clone(), 0, 2), Refusal::BadInputLength));
        calls.push((ioctl, with(valid, 8, 0), Refusal::BadRequest));
        for core in [NOT_THERE, 63, 64, 2047] {
            let set = encode_core_set(&[CORES[0], core]);
            calls.push((ioctl, set, Refusal::BadRequest));
        }
    }
    for mode in [2, 3, u32::MAX] {
        let input = acquire_input(AcquireMode(mode), &CORES);
        calls.push((Ioctl::Acquire, input.clone(), Refusal::BadRequest));
        calls.push((Ioctl::AcquireUnits, input, Refusal::BadRequest));
    }
    for timeout_ms in [10_001, u32::MAX] {
        let input = with(valid_input(Ioctl::SampleWait), 4, timeout_ms);
        calls.push((Ioctl::SampleWait, input, Refusal::BadRequest));
    }
    for ioctl in [
        Ioctl::Read,
        Ioctl::QueryEvents,
        Ioctl::QueryDpcTimes,
        Ioctl::QueryIsrTimes,
        Ioctl::ReadUnit,
        Ioctl::QueryUnitEvents,
        Ioctl::QueryUnitTimes,
    ] {
        for core in [NOT_THERE, 2048, u32::MAX] {
            calls.push((
                ioctl,
                with(valid_input(ioctl), 0, core),
                Refusal::BadRequest,
            ));
        }
        calls.push((ioctl, with(valid_input(ioctl), 4, 1), Refusal::BadRequest));
    }
    calls
}

fn hostile_assignments() -> Vec<Hostile> {
    const EVENT: usize = 16 + 8;
    let valid = || valid_input(Ioctl::Assign);
    let mut inputs = vec![
        with(valid(), 4, 0),
        with(valid(), 4, 129),
        with(valid(), 4, u32::MAX),
        with(valid(), 8, 9),
        with(valid(), 8, 101),
        with(valid(), 8, u32::MAX),
        with(valid(), 12, 1),
        // Filter: neither mode counted, an unknown bit. Group: begins with 1, skips, goes back.
        with(valid(), EVENT + 4, 0x0003_0000),
        with(valid(), EVENT + 4, 0x0004_0000),
        with(valid(), EVENT + 4, 0x0000_0001),
        with(valid(), EVENT + 12, 0x0000_0002),
        with(valid(), EVENT + 20, 0x0000_0000),
        with(valid(), EVENT + 20, 0x0000_FFFF),
    ];
    inputs.extend([0, 33, u32::MAX].map(|words| with(valid(), 0, words)));
    let mut calls: Vec<Hostile> = inputs
        .into_iter()
        .map(|input| (Ioctl::Assign, input, Refusal::BadRequest))
        .collect();
    for (events, words) in [(2, 1), (4, 1), (128, 1), (3, 2)] {
        let input = with(with(valid(), 4, events), 0, words);
        calls.push((Ioctl::Assign, input, Refusal::BadInputLength));
    }
    let mut too_many = EVENTS.repeat(2);
    too_many.iter_mut().for_each(|event| event.group = 0);
    let input = encode_assign(&CORES, &too_many, 10);
    calls.push((Ioctl::Assign, input, Refusal::GroupTooLarge));
    // A named code that this PMU lacks, and bits that would start or interrupt something.
    for code in [0x0001_0000, 0x0001_0001, 0x0010_003C, 0x0040_003C, 1 << 22] {
        let input = with(valid(), EVENT, code);
        calls.push((Ioctl::Assign, input, Refusal::UnsupportedEvent));
    }
    calls
}

fn hostile_sources() -> Vec<Hostile> {
    const SOURCE: usize = 16 + 8;
    let valid = || valid_input(Ioctl::SampleAssign);
    let inputs = [
        with(valid(), 0, 0),
        with(valid(), 0, 33),
        with(valid(), 4, 0),
        with(valid(), 4, 33),
        with(valid(), 4, u32::MAX),
        with(valid(), 8, 63),
        with(valid(), 8, 0x1_0001),
        with(valid(), 12, 1),
        // Filter: no mode counted, an unknown bit. Then reserved fields, and intervals out of range.
        with(valid(), SOURCE + 4, 0x0000_0003),
        with(valid(), SOURCE + 4, 0x0000_0004),
        with(valid(), SOURCE + 4, 0x0001_0000),
        with(valid(), SOURCE + 20, 1),
        with(with(valid(), SOURCE + 8, 999), SOURCE + 12, 0),
        with(valid(), SOURCE + 12, 0x0100_0001),
    ];
    let refused = |(input, refusal)| (Ioctl::SampleAssign, input, refusal);
    let mut calls: Vec<Hostile> = inputs
        .into_iter()
        .map(|input| refused((input, Refusal::BadRequest)))
        .collect();
    for (sources, words) in [(1, 1), (3, 1), (32, 1), (2, 2)] {
        let input = with(with(valid(), 4, sources), 0, words);
        calls.push(refused((input, Refusal::BadInputLength)));
    }
    let too_many = encode_sample_assign(&CORES, &[SOURCES[1]; 5], 0);
    calls.push(refused((too_many, Refusal::GroupTooLarge)));
    for code in [0x0001_0000, 0x0010_003C, 0x0040_003C, 1 << 22] {
        let input = with(valid(), SOURCE, code);
        calls.push(refused((input, Refusal::UnsupportedEvent)));
    }
    calls
}

fn hostile_unit_assignments() -> Vec<Hostile> {
    const EVENT: usize = 16 + 8;
    let valid = || valid_input(Ioctl::AssignUnits);
    let refused = |input, refusal| (Ioctl::AssignUnits, input, refusal);
    let mut calls = vec![
        // A filter, although a unit's counters know no modes; a group that begins with 1.
        refused(with(valid(), EVENT + 4, 0x0001_0000), Refusal::BadRequest),
        refused(with(valid(), EVENT + 4, 0x0000_0001), Refusal::BadRequest),
        refused(with(valid(), 4, 0), Refusal::BadRequest),
        refused(with(valid(), 4, 129), Refusal::BadRequest),
        refused(with(valid(), 8, 101), Refusal::BadRequest),
        refused(with(valid(), 4, 4), Refusal::BadInputLength),
    ];
    let many = |code, count| {
        let event = AssignEvent {
            code: EventCode(code),
            ..UNIT_EVENTS[0]
        };
        encode_assign(&[UNITS[0]], &vec![event; count], 10)
    };
    // Each clock has counters of its own.
    calls.push(refused(many(0x12, 9), Refusal::GroupTooLarge));
    calls.push(refused(many(0x101, 3), Refusal::GroupTooLarge));
    // Past the events of either clock, the code of no clock, and named codes.
    for code in [0x1A, 0x103, 0x200, 0xFFFF_FFFF, 0x0001_0000, 1 << 31] {
        let input = with(valid(), EVENT, code);
        calls.push(refused(input, Refusal::UnsupportedEvent));
    }
    calls
}

#[test]
fn hostile_counts_indices_flags_and_reserved_fields_are_refused_in_every_state() {
    let hostile = [
        hostile_core_sets(),
        hostile_assignments(),
        hostile_sources(),
        hostile_unit_assignments(),
    ]
    .concat();
    for state in STATES {
        refused(state, |scene| {
            for (ioctl, input, refusal) in &hostile {
                let (status, output) = scene.handle(Actor::Owner).call(ioctl.code(), input, ROOM);
                // What only the core can judge comes after ownership and state.
                let by_core = [Refusal::GroupTooLarge, Refusal::UnsupportedEvent].contains(refusal);
                let earlier = expected_refusal(*ioctl, state, Actor::Owner).filter(|_| by_core);
                let expected = earlier.unwrap_or(*refusal);
                assert_eq!(
                    status,
                    expected.ntstatus(),
                    "{ioctl:?} with {input:02x?} in {state:?}, expected {expected:?}"
                );
                assert!(output.is_empty());
            }
        });
    }
}

#[test]
fn a_handle_for_reading_looks_and_changes_nothing() {
    const GENERIC_READ: u32 = 0x8000_0000;
    const STATUS_ACCESS_DENIED: u32 = 0xC000_0022;
    refused(State::Counting, |scene| {
        let machine = scene.machine();
        let reader = Client {
            process: STRANGER,
            privilege: Privilege::Administrator,
        };
        let file = machine.open(CLIENT_PATH, GENERIC_READ, reader);
        let file = file.expect("no rule broken").expect("opens for reading");
        let handle = Handle { machine, file };
        for &ioctl in Ioctl::ALL {
            let (status, _) = handle.call(ioctl.code(), &valid_input(ioctl), ROOM);
            let expected = match ioctl.access() {
                Access::Read => 0,
                Access::ReadWrite => STATUS_ACCESS_DENIED,
            };
            assert_eq!(status, expected, "{ioctl:?}");
        }
        handle.close();
    });
}

#[test]
fn a_user_without_privileges_cannot_open_the_device() {
    let scene = Scene::new(State::Free);
    let user = Client {
        process: STRANGER,
        privilege: Privilege::User,
    };
    for access in [0x8000_0000, 0xC000_0000, 0x0012_0089, 1, 2] {
        let opened = scene.machine().open(CLIENT_PATH, access, user);
        assert!(matches!(opened, Ok(Err(_))), "{access:#x}: {opened:?}");
    }
    scene.end();
}

/// How a valid input is spoiled.
#[derive(Clone, Debug)]
enum Mutation {
    Byte(usize, u8),
    Word(usize, u32),
    Length(usize),
}

fn mutation() -> impl Strategy<Value = Mutation> {
    let interesting = select(vec![
        0,
        1,
        2,
        3,
        4,
        31,
        32,
        33,
        127,
        128,
        129,
        0x7FFF_FFFF,
        u32::MAX,
    ]);
    prop_oneof![
        (0..64usize, any::<u8>()).prop_map(|(at, byte)| Mutation::Byte(at, byte)),
        (0..16usize, prop_oneof![any::<u32>(), interesting])
            .prop_map(|(at, word)| Mutation::Word(at * 4, word)),
        (0..96usize).prop_map(Mutation::Length),
    ]
}

fn mutate(mut input: Vec<u8>, mutations: &[Mutation]) -> Vec<u8> {
    for mutation in mutations {
        match *mutation {
            Mutation::Byte(at, byte) => input.get_mut(at).into_iter().for_each(|to| *to = byte),
            Mutation::Word(at, word) if at + 4 <= input.len() => input = with(input, at, word),
            Mutation::Word(..) => {}
            Mutation::Length(len) => input.resize(len, 0),
        }
    }
    input
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    #[test]
    fn a_mutated_request_is_done_whole_or_not_at_all(
        state in select(STATES.to_vec()),
        actor in select(ACTORS.to_vec()),
        calls in proptest::collection::vec(
            (select(Ioctl::ALL.to_vec()), proptest::collection::vec(mutation(), 0..4), 0..200usize),
            1..6,
        ),
    ) {
        let scene = Scene::new(state);
        for (ioctl, mutations, room) in calls {
            let input = mutate(valid_input(ioctl), &mutations);
            // A first look is when an owner who was forced out is told.
            let _ = scene.snapshot();
            let before = scene.snapshot();
            let (status, _) = scene.handle(actor).call(ioctl.code(), &input, room);
            if status == 0 {
                assert!(Request::parse(ioctl, &input, CPUS).is_ok(), "{ioctl:?} with {input:02x?}");
            } else {
                let refusal = Refusal::from_ntstatus(status);
                assert!(refusal.is_some(), "{ioctl:?}: {status:#x} is not in the contract");
                assert_eq!(before, scene.snapshot(), "{ioctl:?} with {input:02x?}: {refusal:?}");
            }
        }
        scene.end();
    }
}
