//! Dispatcher objects: waiting and waking.
//!
//! The objects themselves are structures in driver memory; who waits for
//! which is kept here.
#![expect(
    unsafe_code,
    reason = "the wait of a thread is shared between its fiber and whoever wakes it"
)]

use lab_verifier::RuleId;
use nt::NTSTATUS;
use nt::base::UserMode;
use nt::ke::{
    APC_LEVEL, DISPATCHER_HEADER, EVENT_NOTIFICATION_OBJECT, EVENT_SYNCHRONIZATION_OBJECT, KMUTANT,
    MUTANT_OBJECT, SEMAPHORE_OBJECT, TIMER_SYNCHRONIZATION_OBJECT,
};
use nt::status::{STATUS_SUCCESS, STATUS_TIMEOUT};

use crate::guest::{self, get, set};
use crate::locks::{Kind, Mode};
use crate::machine::Machine;
use crate::sched::{State, ThreadId};
use crate::timer::{TimerKey, TimerKind};

/// What a blocked thread waits for.
pub(crate) struct Wait {
    objects: Vec<u64>,
    all: bool,
    timeout: Option<TimerKey>,
    /// Where it was called.
    site: u64,
}

/// How long a wait may take.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Timeout {
    Never,
    Now,
    /// Nanoseconds since boot.
    At(u64),
}

impl Machine {
    /// A timeout as the kernel's calls express it: null = never, negative =
    /// relative in 100 ns, else absolute in FILETIME units.
    pub(crate) fn timeout(&self, at: *const i64) -> Timeout {
        if at.is_null() {
            return Timeout::Never;
        }
        match guest::read(at) {
            0 => Timeout::Now,
            due => Timeout::At(self.due_ns(due)),
        }
    }

    /// Nanoseconds since boot of a due time (negative = relative).
    pub(crate) fn due_ns(&self, due: i64) -> u64 {
        let now = self.clock.now_ns();
        if due < 0 {
            return now.saturating_add(due.unsigned_abs().saturating_mul(100));
        }
        let ahead = due.unsigned_abs().saturating_sub(self.clock.filetime());
        now.saturating_add(ahead.saturating_mul(100))
    }

    /// Waits for one or all of `objects` on the running thread.
    pub(crate) fn wait(&self, objects: &[u64], all: bool, timeout: Timeout) -> NTSTATUS {
        let Some(id) = self.running.get() else {
            return STATUS_SUCCESS;
        };
        if matches!(timeout, Timeout::Never) {
            self.want_mutexes(objects);
        }
        if let Some(status) = self.try_satisfy(id, objects, all, self.call_site()) {
            return status;
        }
        if matches!(timeout, Timeout::Now) {
            return STATUS_TIMEOUT;
        }
        let irql = self.irql();
        if irql > APC_LEVEL {
            let object = objects.first().copied().unwrap_or_default();
            let (code, due) = match timeout {
                Timeout::At(due) => (0x122, due),
                Timeout::Never | Timeout::Now => (0x121, 0),
            };
            self.violate(
                RuleId::WaitAtDispatch,
                [code, u64::from(irql), object, due],
                format!("a wait that has to block, at IRQL {irql}"),
            );
        }
        self.block(id, objects, all, timeout)
    }

    fn block(&self, id: ThreadId, objects: &[u64], all: bool, timeout: Timeout) -> NTSTATUS {
        let thread = self.thread(id);
        for object in objects {
            self.waiters
                .borrow_mut()
                .entry(*object)
                .or_default()
                .push_back(id);
        }
        let timeout = match timeout {
            Timeout::At(due) => Some(self.timers.borrow_mut().add(due, TimerKind::Wait(id))),
            Timeout::Never | Timeout::Now => None,
        };
        let wait = Wait {
            objects: objects.to_vec(),
            all,
            timeout,
            site: self.call_site(),
        };
        // SAFETY: one host thread; no reference to the wait is held across this.
        unsafe { *thread.wait.get() = Some(wait) };
        thread.state.set(State::Waiting);
        self.yield_to_scheduler();
        NTSTATUS(thread.wait_result.get())
    }

    /// Sleeps on the running thread.
    pub(crate) fn delay(&self, timeout: Timeout) -> NTSTATUS {
        match timeout {
            Timeout::At(due) if due > self.clock.now_ns() => {
                self.wait(&[], false, timeout);
            }
            _ => self.yield_while_busy(),
        }
        STATUS_SUCCESS
    }

    /// Takes what a wait asks for, if it is all there.
    fn try_satisfy(&self, id: ThreadId, objects: &[u64], all: bool, site: u64) -> Option<NTSTATUS> {
        let thread = self.thread(id).object.get();
        if all {
            if objects.is_empty() || !objects.iter().all(|object| is_signalled(*object, thread)) {
                return None;
            }
            objects
                .iter()
                .for_each(|object| self.consume(id, *object, site));
            return Some(STATUS_SUCCESS);
        }
        let index = objects
            .iter()
            .position(|object| is_signalled(*object, thread))?;
        self.consume(id, objects[index], site);
        Some(NTSTATUS(i32::try_from(index).unwrap_or(0)))
    }

    /// Wakes those whose waits an object that became signalled satisfies.
    pub(crate) fn object_signalled(&self, object: u64) {
        let waiting: Vec<ThreadId> = match self.waiters.borrow().get(&object) {
            Some(queue) => queue.iter().copied().collect(),
            None => return,
        };
        for id in waiting {
            // SAFETY: one host thread; the reference ends before the wait is changed.
            let wait = unsafe { &*self.thread(id).wait.get() };
            let Some(wait) = wait else { continue };
            let (objects, all, site) = (wait.objects.clone(), wait.all, wait.site);
            if let Some(status) = self.try_satisfy(id, &objects, all, site) {
                self.wake(id, status);
            }
        }
    }

    /// Makes a blocked thread ready, with the result of its wait.
    pub(crate) fn wake(&self, id: ThreadId, status: NTSTATUS) {
        let thread = self.thread(id);
        // SAFETY: one host thread; nothing refers to the wait that is taken out.
        let Some(wait) = (unsafe { (*thread.wait.get()).take() }) else {
            return;
        };
        let mut waiters = self.waiters.borrow_mut();
        for object in &wait.objects {
            if let Some(queue) = waiters.get_mut(object) {
                queue.retain(|waiter| *waiter != id);
                if queue.is_empty() {
                    waiters.remove(object);
                }
            }
        }
        if let Some(key) = wait.timeout {
            self.timers.borrow_mut().remove(key);
        }
        thread.wait_result.set(status.0);
        thread.state.set(State::Runnable);
        self.ready.borrow_mut().push_back(id);
        self.request_schedule();
    }

    /// What a satisfied wait does to its object.
    fn consume(&self, id: ThreadId, object: u64, site: u64) {
        let header = object as *mut DISPATCHER_HEADER;
        let state = get!(header, SignalState);
        match get!(header, Type) {
            EVENT_SYNCHRONIZATION_OBJECT | TIMER_SYNCHRONIZATION_OBJECT => {
                set!(header, SignalState = 0);
            }
            SEMAPHORE_OBJECT => set!(header, SignalState = state - 1),
            MUTANT_OBJECT => {
                let thread = self.thread(id).object.get();
                set!(header, SignalState = state - 1);
                set!(object as *mut KMUTANT, OwnerThread = thread as *mut _);
                self.lock_taken_by(id, object, Kind::Mutex, Mode::Exclusive, site);
            }
            _ => {}
        }
    }

    /// Checks the order of the mutexes among the objects of a wait without end.
    fn want_mutexes(&self, objects: &[u64]) {
        let is_mutex =
            |object: &&u64| get!(**object as *mut DISPATCHER_HEADER, Type) == MUTANT_OBJECT;
        for mutex in objects.iter().filter(is_mutex) {
            self.lock_wanted(*mutex, Mode::Exclusive);
        }
    }

    /// Reports a dispatcher object of the driver's that was never initialised.
    pub(crate) fn check_dispatcher(&self, object: u64) {
        let header = object as *mut DISPATCHER_HEADER;
        if get!(header, WaitListHead.Flink).is_null() {
            self.report(
                RuleId::DispatcherUninitialized,
                [object, 0, 0, 0],
                format!("the object at {object:#x} was used and not initialised"),
            );
        }
    }

    /// As [`Self::check_dispatcher`], for objects to be waited for, which may be of any kind.
    pub(crate) fn check_waited(&self, objects: &[u64]) {
        for object in objects {
            let is_kernels = self.objects.borrow().get(*object).is_some();
            // Zeroed memory has the type of a notification event.
            let kind = get!(*object as *mut DISPATCHER_HEADER, Type);
            if !is_kernels && kind == EVENT_NOTIFICATION_OBJECT {
                self.check_dispatcher(*object);
            }
        }
    }

    /// Reports a wait in `UserMode` for an object on the kernel stack, which may be paged out then.
    pub(crate) fn check_wait_mode(&self, objects: &[u64], mode: i8) {
        let Some(id) = self.running.get().filter(|_| mode == UserMode) else {
            return;
        };
        for object in objects {
            if self.on_kernel_stack(id, *object) {
                self.report(
                    RuleId::WaitUserStack,
                    [0, *object, 0, 0],
                    format!("a wait in UserMode for the object at {object:#x}, which is on the kernel stack"),
                );
            }
        }
    }

    /// Sets the signal state of an object and wakes its waiters; returns the old state.
    pub(crate) fn signal(&self, object: u64, state: i32) -> i32 {
        let header = object as *mut DISPATCHER_HEADER;
        let old = get!(header, SignalState);
        set!(header, SignalState = state);
        if state > 0 {
            self.object_signalled(object);
        }
        old
    }
}

fn is_signalled(object: u64, thread: u64) -> bool {
    let header = object as *mut DISPATCHER_HEADER;
    let owned = get!(header, Type) == MUTANT_OBJECT
        && get!(object as *mut KMUTANT, OwnerThread) as u64 == thread;
    owned || get!(header, SignalState) > 0
}
