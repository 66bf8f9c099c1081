//! Executive resources: locks with readers and writers.

use std::collections::HashMap;

use lab_verifier::RuleId;
use nt::ke::{EVENT_NOTIFICATION_OBJECT, KEVENT};

use crate::locks::{Kind, Mode};
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

    #[cfg(test)]
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

impl Lock {
    fn new() -> Self {
        let header = nt::ke::DISPATCHER_HEADER {
            Type: EVENT_NOTIFICATION_OBJECT,
            Signalling: 0,
            Size: 6,
            Reserved1: 0,
            SignalState: 0,
            WaitListHead: nt::base::LIST_ENTRY {
                Flink: std::ptr::null_mut(),
                Blink: std::ptr::null_mut(),
            },
        };
        Self {
            owners: Owners::default(),
            event: Box::new(KEVENT { Header: header }),
        }
    }
}

impl Machine {
    pub(super) fn initialize_resource(&self, resource: u64) {
        let site = self.call_site();
        let mut resources = self.resources.borrow_mut();
        let new = resources.hold(Held::Resource, resource, site);
        resources.locks.insert(resource, Lock::new());
        drop(resources);
        if !new {
            self.report(
                RuleId::ResourceInitializedTwice,
                [0, resource, 0, 0],
                format!("the executive resource at {resource:#x} was initialised, and is initialised already"),
            );
        }
    }

    pub(super) fn delete_resource(&self, resource: u64) {
        let mut resources = self.resources.borrow_mut();
        let known = resources.drop_held(Held::Resource, resource);
        resources.locks.remove(&resource);
        drop(resources);
        if !known {
            self.report(
                RuleId::ResourceDeletedTwice,
                [0, resource, 0, 0],
                format!(
                    "the executive resource at {resource:#x} was deleted, and is not initialised"
                ),
            );
        }
        let range = resource..resource + size_of::<nt::ex::ERESOURCE>() as u64;
        self.forget_locks(&range, "a resource was deleted");
    }

    /// Acquires, waiting if that is asked for; false if it was not to be had.
    pub(super) fn acquire_resource(&self, resource: u64, mode: Mode, wait: bool) -> bool {
        self.check_apcs_disabled(resource, Kind::Resource);
        self.with_lock(resource, |_| ());
        if wait {
            self.check_becomes_writer(resource, mode);
            self.lock_wanted(resource, mode);
            self.wait_for_owners(resource, mode);
        } else {
            let thread = self.current_thread_object();
            if !self.with_lock(resource, |lock| lock.owners.try_acquire(thread, mode)) {
                return false;
            }
        }
        self.lock_taken(resource, Kind::Resource, mode);
        true
    }

    /// A reader that wants to write waits for itself.
    fn check_becomes_writer(&self, resource: u64, mode: Mode) {
        let reads = self
            .my_hold(resource)
            .is_some_and(|hold| hold.mode == Mode::Shared);
        if reads && mode == Mode::Exclusive {
            self.lock_recursion(resource, Kind::Resource);
        }
    }

    /// Waits until the running thread owns a resource or push lock.
    pub(in crate::exports) fn wait_for_owners(&self, lock: u64, mode: Mode) {
        let thread = self.current_thread_object();
        let writers = u32::from(mode == Mode::Exclusive);
        loop {
            let taken = self.with_owners(lock, |lock| lock.owners.try_acquire(thread, mode));
            if taken {
                return;
            }
            let event = self.with_owners(lock, |lock| {
                lock.owners.waiting_writers += writers;
                lock.event.Header.SignalState = 0;
                (&raw mut *lock.event) as u64
            });
            self.wait(&[event], false, Timeout::Never);
            self.with_owners(lock, |lock| lock.owners.waiting_writers -= writers);
        }
    }

    /// Gives up what the running thread owns; false if that is nothing.
    pub(in crate::exports) fn release_owners(&self, lock: u64) -> bool {
        let thread = self.current_thread_object();
        let (released, event) = self.with_owners(lock, |lock| {
            (lock.owners.release(thread), (&raw mut *lock.event) as u64)
        });
        if released {
            self.signal(event, 1);
        }
        released
    }

    pub(super) fn release_resource(&self, resource: u64) {
        self.with_lock(resource, |_| ());
        if self.release_owners(resource) {
            self.lock_released(resource);
        } else {
            self.report_not_owned(resource, Kind::Resource);
        }
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

    /// The lab's side of a lock that needs no initialisation but zero.
    fn with_owners<R>(&self, lock: u64, f: impl FnOnce(&mut Lock) -> R) -> R {
        let mut resources = self.resources.borrow_mut();
        f(resources.locks.entry(lock).or_insert_with(Lock::new))
    }

    fn with_lock<R>(&self, resource: u64, f: impl FnOnce(&mut Lock) -> R) -> R {
        let mut resources = self.resources.borrow_mut();
        let result = resources.locks.get_mut(&resource).map(f);
        drop(resources);
        match result {
            Some(result) => result,
            None => self.violate(
                RuleId::ResourceUninitialized,
                [0, resource, 0, 0],
                format!("the executive resource at {resource:#x} was not initialised"),
            ),
        }
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
