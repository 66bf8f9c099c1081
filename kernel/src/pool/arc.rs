//! A value in the pool with several owners.

use super::{PoolBox, PoolTag};
use crate::Result;
use core::ops::Deref;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicUsize, Ordering, fence};

/// Memory of the nonpaged pool that several own; the last one to be dropped frees it.
///
/// # Invariants
/// `shared` is from `PoolBox::into_raw` with `tag`, and counts the values of this type that there are.
pub struct PoolArc<T> {
    shared: NonNull<Shared<T>>,
    tag: PoolTag,
}

struct Shared<T> {
    owners: AtomicUsize,
    value: T,
}

// SAFETY: as `Arc`: the value is reached from, and may be dropped on, any owner's thread.
unsafe impl<T: Send + Sync> Send for PoolArc<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Sync for PoolArc<T> {}

impl<T> PoolArc<T> {
    /// Moves a value into the pool.
    ///
    /// IRQL: `<= DISPATCH_LEVEL`.
    /// Errors: `STATUS_INSUFFICIENT_RESOURCES`; the value is dropped.
    pub fn try_new(tag: PoolTag, value: T) -> Result<Self> {
        let owners = AtomicUsize::new(1);
        let (shared, tag) = PoolBox::try_new(tag, Shared { owners, value })?.into_raw();
        Ok(Self { shared, tag })
    }

    fn shared(&self) -> &Shared<T> {
        // SAFETY: this owner keeps it: invariant of the type.
        unsafe { self.shared.as_ref() }
    }

    /// Gives this ownership up as a pointer for a context field.
    pub(crate) fn into_raw(self) -> (NonNull<T>, PoolTag) {
        let value = NonNull::from(&self.shared().value);
        let tag = self.tag;
        core::mem::forget(self);
        (value, tag)
    }

    /// Undoes [`into_raw`](Self::into_raw).
    ///
    /// # Safety
    /// Both must come from one call of `into_raw`, and be given back once.
    pub(crate) unsafe fn from_raw((value, tag): (NonNull<T>, PoolTag)) -> Self {
        let offset = core::mem::offset_of!(Shared<T>, value);
        // SAFETY: the value is a field of the allocation, so its beginning is within it, too.
        let shared = unsafe { value.byte_sub(offset) }.cast();
        Self { shared, tag }
    }
}

impl<T> Clone for PoolArc<T> {
    /// IRQL: any.
    fn clone(&self) -> Self {
        // Relaxed: a new owner comes from one that is there.
        self.shared().owners.fetch_add(1, Ordering::Relaxed);
        Self {
            shared: self.shared,
            tag: self.tag,
        }
    }
}

impl<T> Deref for PoolArc<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.shared().value
    }
}

impl<T> Drop for PoolArc<T> {
    /// IRQL: `<= DISPATCH_LEVEL`, and that of dropping the value if this is the last owner.
    fn drop(&mut self) {
        if self.shared().owners.fetch_sub(1, Ordering::Release) == 1 {
            // What the other owners did comes before what dropping does.
            fence(Ordering::Acquire);
            // SAFETY: from `into_raw` with this tag, and nobody else owns it any more.
            drop(unsafe { PoolBox::from_raw((self.shared, self.tag)) });
        }
    }
}
