//! Executive resources: locks with readers and writers.

use std::collections::HashMap;

use lab_verifier::RuleId;
use nt::ke::{EVENT_NOTIFICATION_OBJECT, KEVENT};

use crate::machine::Machine;
use crate::resources::Held;
use crate::wait::Timeout;

/// Who holds a resource.
#[derive(Default)]
pub(crate) struct Owners {
    /// The writer, and how often it acquired.
    writer: Option<(u64, u32)>,
    /// Readers, and how often each acquired.
    readers: HashMap<u64, u32>,
    /// Threads that wait to write: they go before new readers.
    waiting_writers: u32,
}

/// How a thread wants a resource.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Mode {
    Shared,
    Exclusive,
}

impl Owners {
    /// Takes the resource if it is free for this thread.
    fn try_acquire(&mut self, thread: u64, mode: Mode) -> bool {
        if let Some((owner, count)) = &mut self.writer {
            let mine = *owner == thread;
            *count += u32::from(mine);
            return mine;
        }
        let reads = self.readers.contains_key(&thread);
        match mode {
            Mode::Exclusive if self.readers.is_empty() => self.writer = Some((thread, 1)),
            Mode::Exclusive => return false,
            Mode::Shared if reads || self.waiting_writers == 0 => {
                *self.readers.entry(thread).or_default() += 1;
            }
            Mode::Shared => return false,
        }
        true
    }

    /// Gives one acquisition back; false if the thread has none.
    fn release(&mut self, thread: u64) -> bool {
        if let Some((owner, count)) = &mut self.writer {
            if *owner != thread {
                return false;
            }
            *count -= 1;
            if *count == 0 {
                self.writer = None;
            }
            return true;
        }
        let Some(count) = self.readers.get_mut(&thread) else {
            return false;
        };
        *count -= 1;
        if *count == 0 {
            self.readers.remove(&thread);
        }
        true
    }

    fn is_free(&self) -> bool {
        self.writer.is_none() && self.readers.is_empty()
    }

    fn count(&self, thread: u64) -> u32 {
        match self.writer {
            Some((owner, count)) if owner == thread => count,
            Some(_) => 0,
            None => self.readers.get(&thread).copied().unwrap_or(0),
        }
    }
}

/// The lab's side of a resource.
pub(crate) struct Lock {
    owners: Owners,
    /// Signalled whenever somebody lets go.
    event: Box<KEVENT>,
}

impl Machine {
    pub(super) fn initialize_resource(&self, resource: u64) {
        let site = self.call_site();
        let mut resources = self.resources.borrow_mut();
        let new = resources.hold(Held::Resource, resource, site);
        let event = KEVENT {
            Header: nt::ke::DISPATCHER_HEADER {
                Type: EVENT_NOTIFICATION_OBJECT,
                Signalling: 0,
                Size: 6,
                Reserved1: 0,
                SignalState: 0,
                WaitListHead: nt::base::LIST_ENTRY {
                    Flink: std::ptr::null_mut(),
                    Blink: std::ptr::null_mut(),
                },
            },
        };
        let lock = Lock {
            owners: Owners::default(),
            event: Box::new(event),
        };
        resources.locks.insert(resource, lock);
        drop(resources);
        if !new {
            self.bad_resource(resource, "was initialised twice");
        }
    }

    pub(super) fn delete_resource(&self, resource: u64) {
        let free = self.with_lock(resource, |lock| lock.owners.is_free());
        if !free {
            self.bad_resource(resource, "was deleted while somebody holds it");
        }
        let mut resources = self.resources.borrow_mut();
        resources.drop_held(Held::Resource, resource);
        resources.locks.remove(&resource);
    }

    /// Acquires, waiting if that is asked for; false if it was not to be had.
    pub(super) fn acquire_resource(&self, resource: u64, mode: Mode, wait: bool) -> bool {
        let thread = self.current_thread_object();
        loop {
            if self.with_lock(resource, |lock| lock.owners.try_acquire(thread, mode)) {
                return true;
            }
            if !wait {
                return false;
            }
            let writers = u32::from(mode == Mode::Exclusive);
            let event = self.with_lock(resource, |lock| {
                lock.owners.waiting_writers += writers;
                lock.event.Header.SignalState = 0;
                (&raw mut *lock.event) as u64
            });
            self.wait(&[event], false, Timeout::Never);
            self.with_lock(resource, |lock| lock.owners.waiting_writers -= writers);
        }
    }

    pub(super) fn release_resource(&self, resource: u64) {
        let thread = self.current_thread_object();
        let (released, event) = self.with_lock(resource, |lock| {
            (lock.owners.release(thread), (&raw mut *lock.event) as u64)
        });
        if !released {
            self.bad_resource(resource, "was released by a thread that does not hold it");
        }
        self.signal(event, 1);
    }

    pub(super) fn resource_count(&self, resource: u64) -> u32 {
        let thread = self.current_thread_object();
        self.with_lock(resource, |lock| lock.owners.count(thread))
    }

    pub(super) fn writes_resource(&self, resource: u64) -> bool {
        let thread = self.current_thread_object();
        self.with_lock(resource, |lock| {
            lock.owners.writer.is_some_and(|(owner, _)| owner == thread)
        })
    }

    fn with_lock<R>(&self, resource: u64, f: impl FnOnce(&mut Lock) -> R) -> R {
        let mut resources = self.resources.borrow_mut();
        let result = resources.locks.get_mut(&resource).map(f);
        drop(resources);
        match result {
            Some(result) => result,
            None => self.bad_resource(resource, "was not initialised"),
        }
    }

    fn bad_resource(&self, resource: u64, what: &str) -> ! {
        self.violate(
            RuleId::BadObject,
            [resource, 0, 0, 0],
            format!("the executive resource at {resource:#x} {what}"),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: u64 = 1;
    const B: u64 = 2;

    #[test]
    fn readers_share_and_a_writer_is_alone() {
        let mut owners = Owners::default();
        assert!(owners.try_acquire(A, Mode::Shared));
        assert!(owners.try_acquire(B, Mode::Shared));
        assert!(
            !owners.try_acquire(A, Mode::Exclusive),
            "no reader becomes a writer"
        );
        assert!(owners.release(A) && owners.release(B));
        assert!(owners.is_free());
        assert!(owners.try_acquire(A, Mode::Exclusive));
        assert!(!owners.try_acquire(B, Mode::Shared));
        assert!(owners.try_acquire(A, Mode::Shared), "a writer may nest");
        assert_eq!((owners.count(A), owners.count(B)), (2, 0));
        assert!(!owners.release(B));
        assert!(owners.release(A) && owners.release(A) && owners.is_free());
        assert!(!owners.release(A));
    }

    #[test]
    fn a_waiting_writer_goes_before_new_readers_only() {
        let mut owners = Owners::default();
        assert!(owners.try_acquire(A, Mode::Shared));
        owners.waiting_writers = 1;
        assert!(!owners.try_acquire(B, Mode::Shared));
        assert!(owners.try_acquire(A, Mode::Shared), "it reads already");
    }
}
