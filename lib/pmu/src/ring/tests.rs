use super::*;
use proptest::prelude::*;
use std::collections::VecDeque;
use std::vec::Vec;

fn ring(places: usize) -> Ring<Vec<RingPlace>> {
    let places = (0..places).map(|_| RingPlace::new()).collect();
    Ring::new(places).unwrap()
}

fn sample(number: u64) -> RawSample {
    #[expect(clippy::cast_possible_truncation, reason = "any bits will do")]
    RawSample {
        time_ns: number,
        pc: !number,
        generation: number.rotate_left(7),
        pid: number as u32 ^ 0xFFFF,
        tid: !number as u32,
        source: number as u16,
        user: number & 1 != 0,
    }
}

#[test]
fn its_length_is_a_power_of_two() {
    for places in [0, 1, 3, 6] {
        let places: Vec<_> = (0..places).map(|_| RingPlace::new()).collect();
        assert!(Ring::new(places).is_none());
    }
}

#[test]
fn a_reader_and_an_interrupt_routine_lose_nothing_that_is_not_counted() {
    let most: u64 = if cfg!(miri) { 300 } else { 2_000_000 };
    let ring = ring(64);
    let read = std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let (mut read, mut last) = (0, 0);
            while last < most {
                let Some(seen) = ring.take() else {
                    std::hint::spin_loop();
                    continue;
                };
                assert!(seen.time_ns > last, "in order, and each once");
                assert_eq!(seen, sample(seen.time_ns), "whole");
                (read, last) = (read + 1, seen.time_ns);
            }
            read
        });
        let mut number = 1;
        while number < most {
            ring.push(sample(number));
            number += 1;
        }
        // The last one, which ends the reader, must get in.
        while !ring.push(sample(most)) {
            std::thread::yield_now();
        }
        reader.join().unwrap()
    });
    let counts = ring.counts();
    assert_eq!((counts.taken, counts.waiting), (read, 0));
    assert!(counts.generated() >= most, "{counts:?}");
    assert_eq!(counts.generated(), counts.taken + counts.full);
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 2 } else { 256 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn it_is_a_queue_that_counts_what_it_refuses(
        bits in 1..6u32,
        steps in prop::collection::vec(prop_oneof![3 => Just(0), 2 => Just(1), 1 => 2..50u64], 0..300),
    ) {
        let ring = ring(1 << bits);
        let mut model = VecDeque::new();
        let mut expected = RingCounts::default();
        for (number, step) in steps.into_iter().enumerate() {
            match step {
                0 => {
                    let sample = sample(number as u64);
                    let has_room = model.len() < ring.capacity();
                    prop_assert_eq!(ring.push(sample), has_room);
                    if has_room { model.push_back(sample) } else { expected.full += 1 }
                }
                1 => {
                    let taken = ring.take();
                    expected.taken += u64::from(taken.is_some());
                    prop_assert_eq!(taken, model.pop_front());
                }
                late => {
                    ring.note_late(late);
                    expected.late += late;
                }
            }
            expected.waiting = model.len() as u64;
            prop_assert_eq!(ring.counts(), expected);
            prop_assert_eq!(ring.is_half_full(), model.len() * 2 >= ring.capacity());
        }
        ring.clear();
        prop_assert_eq!(ring.counts(), RingCounts::default());
        prop_assert_eq!(ring.take(), None);
    }
}
