//! The ring under a model checker: every order in which processors may see each other's writes.
#![cfg(not(miri))]

use std::sync::atomic::Ordering;

use loom::sync::Arc;
use loom::sync::atomic::AtomicU64;
use loom::thread;
use trace::format::Slot;
use trace::ring::{STEP, View, Word};

struct Checked(AtomicU64);

impl Word for Checked {
    fn load(&self, order: Ordering) -> u64 {
        self.0.load(order)
    }
    fn store(&self, value: u64, order: Ordering) {
        self.0.store(value, order);
    }
    fn fetch_add(&self, value: u64, order: Ordering) -> u64 {
        self.0.fetch_add(value, order)
    }
}

struct Memory {
    position: Checked,
    limit: Checked,
    slots: Vec<[Checked; 4]>,
}

impl Memory {
    fn new(slots: u64) -> Self {
        let word = |value| Checked(AtomicU64::new(value));
        Self {
            position: word(slots * STEP),
            limit: word(u64::MAX),
            slots: (0..slots).map(|_| [0; 4].map(word)).collect(),
        }
    }

    fn view(&self) -> View<'_, Checked> {
        View {
            position: &self.position,
            limit: &self.limit,
            slots: &self.slots,
        }
    }
}

/// Time and words of a writer's event: any mixture of two of them shows.
fn words(writer: u64) -> [u64; 3] {
    [writer * 1000 + 1, writer * 1000 + 2, writer * 1000 + 3]
}

fn write(memory: &Memory, writer: u64) {
    let [time, a, b] = words(writer);
    let id = u32::try_from(writer).unwrap();
    memory.view().write(id, time, &[a, b]);
}

fn is_whole(slot: &Slot) -> bool {
    slot.words() == words(u64::from(slot.id()))
}

/// All orders with so many switches of threads: more than an event needs to go wrong.
fn check(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(model);
}

#[test]
fn a_reader_sees_whole_events_or_none() {
    check(|| {
        let memory = Arc::new(Memory::new(1));
        let other = Arc::clone(&memory);
        // The second event overwrites the first while it is read.
        let writer = thread::spawn(move || (1..=2).for_each(|writer| write(&other, writer)));
        let seen = (1..3).filter_map(|position| memory.view().read(position));
        assert!(seen.into_iter().all(|slot| is_whole(&slot)));
        writer.join().unwrap();
        assert_eq!(memory.view().read(2).map(|slot| slot.id()), Some(2));
    });
}

#[test]
fn two_writers_have_a_slot_each() {
    check(|| {
        let memory = Arc::new(Memory::new(2));
        let other = Arc::clone(&memory);
        let writer = thread::spawn(move || write(&other, 1));
        write(&memory, 2);
        writer.join().unwrap();
        let written = (2..4).map(|position| memory.view().read(position).expect("it is written"));
        let mut ids: Vec<_> = written.map(|slot| slot.id()).collect();
        ids.sort_unstable();
        assert_eq!(ids, [1, 2]);
    });
}

#[test]
fn two_writers_of_one_slot_leave_a_whole_event_or_none() {
    check(|| {
        let memory = Arc::new(Memory::new(1));
        let other = Arc::clone(&memory);
        let writer = thread::spawn(move || write(&other, 1));
        write(&memory, 2);
        writer.join().unwrap();
        let seen: Vec<_> = (1..3)
            .filter_map(|position| memory.view().read(position))
            .collect();
        assert!(seen.len() <= 1);
        assert!(seen.iter().all(is_whole));
    });
}
