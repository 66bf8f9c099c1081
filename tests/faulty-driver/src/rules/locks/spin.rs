//! Spin locks, and the order of locks.

use core::ffi::c_void;

use nt::ke::{
    KSPIN_LOCK, KeAcquireSpinLockAtDpcLevel, KeAcquireSpinLockRaiseToDpc, KeLowerIrql,
    KeRaiseIrqlToDpcLevel, KeReleaseSpinLock, KeReleaseSpinLockFromDpcLevel,
    KeTryToAcquireSpinLockAtDpcLevel, KfRaiseIrql,
};
use nt::lock::{
    KLOCK_QUEUE_HANDLE, KeAcquireInStackQueuedSpinLock, KeReleaseInStackQueuedSpinLock,
};

use crate::rules::tools::{Shared, join, keep, stall_until, start_thread};

#[inline(never)]
pub(super) unsafe fn spin_lock_recursive() {
    let mut lock = 0;
    unsafe {
        let old = KeAcquireSpinLockRaiseToDpc(&mut lock);
        KeAcquireSpinLockRaiseToDpc(&mut lock);
        KeReleaseSpinLock(&mut lock, old);
    }
}

pub(super) unsafe fn two_spin_locks() {
    let (mut outer, mut inner) = (0, 0);
    unsafe {
        let old = KeAcquireSpinLockRaiseToDpc(&mut outer);
        let again = KeAcquireSpinLockRaiseToDpc(&mut inner);
        KeReleaseSpinLock(&mut inner, again);
        KeReleaseSpinLock(&mut outer, old);
    }
}

#[inline(never)]
pub(super) unsafe fn spin_lock_not_owned() {
    let mut lock = 0;
    unsafe {
        let old = KeRaiseIrqlToDpcLevel();
        KeReleaseSpinLock(&mut lock, old);
        keep(lock);
    }
}

pub(super) unsafe fn spin_lock_owned() {
    let mut lock = 0;
    unsafe {
        let old = KeAcquireSpinLockRaiseToDpc(&mut lock);
        KeReleaseSpinLock(&mut lock, old);
    }
}

static FIRST: Shared<KSPIN_LOCK> = Shared::new(0);
static SECOND: Shared<KSPIN_LOCK> = Shared::new(0);
static HELD: Shared<bool> = Shared::new(false);
static ENOUGH: Shared<bool> = Shared::new(false);

unsafe extern "efiapi" fn hold_first(_: *mut c_void) {
    unsafe {
        let old = KeAcquireSpinLockRaiseToDpc(FIRST.get());
        HELD.write(true);
        stall_until(&ENOUGH);
        KeReleaseSpinLock(FIRST.get(), old);
    }
}

#[inline(never)]
pub(super) unsafe fn spin_lock_wrong_owner() {
    unsafe {
        let thread = start_thread(hold_first);
        stall_until(&HELD);
        let old = KeRaiseIrqlToDpcLevel();
        KeReleaseSpinLock(FIRST.get(), old);
        ENOUGH.write(true);
        join(thread);
    }
}

pub(super) unsafe fn spin_lock_beside_another() {
    unsafe {
        let thread = start_thread(hold_first);
        stall_until(&HELD);
        let old = KeAcquireSpinLockRaiseToDpc(SECOND.get());
        KeReleaseSpinLock(SECOND.get(), old);
        ENOUGH.write(true);
        join(thread);
    }
}

#[inline(never)]
pub(super) unsafe fn spin_lock_uninitialized() {
    let mut lock = 0x5A5A_5A5A;
    unsafe {
        let old = KeAcquireSpinLockRaiseToDpc(&mut lock);
        KeReleaseSpinLock(&mut lock, old);
    }
}

#[inline(never)]
pub(super) unsafe fn spin_lock_wrong_function() {
    let mut lock = 0;
    unsafe {
        let old = KeAcquireSpinLockRaiseToDpc(&mut lock);
        KeReleaseSpinLockFromDpcLevel(&mut lock);
        KeLowerIrql(old);
    }
}

pub(super) unsafe fn twins_nested() {
    let (mut outer, mut inner) = (0, 0);
    unsafe {
        let old = KeAcquireSpinLockRaiseToDpc(&mut outer);
        KeAcquireSpinLockAtDpcLevel(&mut inner);
        KeReleaseSpinLockFromDpcLevel(&mut inner);
        KeReleaseSpinLock(&mut outer, old);
    }
}

unsafe fn queued(lock: &mut KSPIN_LOCK) {
    unsafe {
        let mut handle = core::mem::zeroed::<KLOCK_QUEUE_HANDLE>();
        KeAcquireInStackQueuedSpinLock(lock, &mut handle);
        KeReleaseInStackQueuedSpinLock(&mut handle);
    }
}

#[inline(never)]
pub(super) unsafe fn spin_lock_mixed() {
    let mut lock = 0;
    unsafe {
        queued(&mut lock);
        let old = KeAcquireSpinLockRaiseToDpc(&mut lock);
        KeReleaseSpinLock(&mut lock, old);
    }
}

pub(super) unsafe fn each_lock_its_kind() {
    let mut lock = 0;
    unsafe {
        queued(&mut lock);
        queued(&mut lock);
        two_spin_locks();
    }
}

#[inline(never)]
pub(super) unsafe fn spin_lock_irql() {
    let mut lock = 0;
    unsafe {
        KeAcquireSpinLockAtDpcLevel(&mut lock);
        let old = KeRaiseIrqlToDpcLevel();
        KeReleaseSpinLockFromDpcLevel(&mut lock);
        KeLowerIrql(old);
    }
}

#[inline(never)]
pub(super) unsafe fn spin_lock_release_irql() {
    let mut lock = 0;
    unsafe {
        let old = KeRaiseIrqlToDpcLevel();
        KeAcquireSpinLockAtDpcLevel(&mut lock);
        KeLowerIrql(old);
        KeReleaseSpinLockFromDpcLevel(&mut lock);
        keep(lock);
    }
}

#[inline(never)]
pub(super) unsafe fn spin_lock_raise_irql() {
    let mut lock = 0;
    unsafe {
        let old = KfRaiseIrql(5);
        keep(KeAcquireSpinLockRaiseToDpc(&mut lock));
        KeLowerIrql(2);
        KeReleaseSpinLock(&mut lock, old);
    }
}

#[inline(never)]
pub(super) unsafe fn spin_lock_held_at_return() {
    unsafe { keep(KeAcquireSpinLockRaiseToDpc(FIRST.get())) }
}

unsafe fn nested(outer: &Shared<KSPIN_LOCK>, inner: &Shared<KSPIN_LOCK>) {
    unsafe {
        let old = KeAcquireSpinLockRaiseToDpc(outer.get());
        KeAcquireSpinLockAtDpcLevel(inner.get());
        KeReleaseSpinLockFromDpcLevel(inner.get());
        KeReleaseSpinLock(outer.get(), old);
    }
}

#[inline(never)]
pub(super) unsafe fn lock_order() {
    unsafe {
        nested(&FIRST, &SECOND);
        nested(&SECOND, &FIRST);
        keep(0);
    }
}

pub(super) unsafe fn other_order_by_trying() {
    unsafe {
        nested(&FIRST, &SECOND);
        let old = KeAcquireSpinLockRaiseToDpc(SECOND.get());
        if KeTryToAcquireSpinLockAtDpcLevel(FIRST.get()) != 0 {
            KeReleaseSpinLockFromDpcLevel(FIRST.get());
        }
        KeReleaseSpinLock(SECOND.get(), old);
    }
}

unsafe extern "efiapi" fn first_then_second(_: *mut c_void) {
    unsafe {
        let old = KeAcquireSpinLockRaiseToDpc(FIRST.get());
        HELD.write(true);
        stall_until(&ENOUGH);
        KeAcquireSpinLockAtDpcLevel(SECOND.get());
        KeReleaseSpinLockFromDpcLevel(SECOND.get());
        KeReleaseSpinLock(FIRST.get(), old);
    }
}

#[inline(never)]
pub(super) unsafe fn deadlock() {
    unsafe {
        let thread = start_thread(first_then_second);
        stall_until(&HELD);
        let old = KeAcquireSpinLockRaiseToDpc(SECOND.get());
        ENOUGH.write(true);
        KeAcquireSpinLockAtDpcLevel(FIRST.get());
        KeReleaseSpinLockFromDpcLevel(FIRST.get());
        KeReleaseSpinLock(SECOND.get(), old);
        join(thread);
    }
}

pub(super) unsafe fn same_order_in_two_threads() {
    unsafe {
        let thread = start_thread(first_then_second);
        stall_until(&HELD);
        ENOUGH.write(true);
        nested(&FIRST, &SECOND);
        join(thread);
    }
}
