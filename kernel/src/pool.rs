//! Nonpaged pool: boxes, shared boxes, fixed slices and vectors whose allocation may fail.
#![expect(unsafe_code, reason = "owns raw pool memory")]

mod arc;
mod vec;

use crate::routine::Routine;
use crate::{Result, status, utf16};
pub use arc::PoolArc;
use core::ffi::c_void;
use core::marker::PhantomData;
use core::mem::{ManuallyDrop, MaybeUninit};
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;
use nt::ex::{NonPagedPoolNx, POOL_FLAG_NON_PAGED, POOL_FLAG_UNINITIALIZED};
pub use vec::PoolVec;

/// Whose memory it is: shown by pool tools, checked when memory is freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolTag(u32);

impl PoolTag {
    /// Four ASCII characters, shown in this order.
    ///
    /// IRQL: any.
    #[must_use]
    pub const fn new(tag: [u8; 4]) -> Self {
        Self(u32::from_le_bytes(tag))
    }

    /// As a context field of the kernel's keeps it.
    pub(crate) const fn to_pointer(self) -> *mut c_void {
        core::ptr::without_provenance_mut(self.0 as usize)
    }

    /// From [`to_pointer`](Self::to_pointer).
    pub(crate) fn from_pointer(pointer: *mut c_void) -> Self {
        Self(u32::try_from(pointer.addr()).unwrap_or(0))
    }
}

type AllocatePool2 = unsafe extern "efiapi" fn(u64, usize, u32) -> *mut c_void;

/// Windows 10 2004 and later; before it, `ExAllocatePoolWithTag`.
static ALLOCATE_POOL_2: Routine<AllocatePool2> =
    // SAFETY: the type is that of wdm.h, as `nt::ex` declares it.
    unsafe { Routine::new(utf16!("ExAllocatePool2")) };

/// Finds the allocator of this kernel.
///
/// IRQL: `PASSIVE_LEVEL`.
pub(crate) fn find_allocator() {
    ALLOCATE_POOL_2.find();
}

/// Not zeroed: whoever allocates writes it.
fn allocate(bytes: usize, tag: PoolTag) -> Result<NonNull<c_void>> {
    let bytes = bytes.max(1);
    let memory = match ALLOCATE_POOL_2.found() {
        // SAFETY: (1) the flags are a valid combination. (2) `bytes` is not 0.
        Some(allocate) => unsafe {
            allocate(POOL_FLAG_NON_PAGED | POOL_FLAG_UNINITIALIZED, bytes, tag.0)
        },
        // SAFETY: (1) the pool type is a valid one. (2) `bytes` is not 0.
        None => unsafe { nt::ex::ExAllocatePoolWithTag(NonPagedPoolNx, bytes, tag.0) },
    };
    NonNull::new(memory).ok_or(status::STATUS_INSUFFICIENT_RESOURCES)
}

/// Pool aligns to 16 bytes (a page from one page on); stricter types are not for it.
const ALIGNMENT: usize = 16;

/// Memory of the nonpaged pool that owns a `T` or a `[T]`.
///
/// # Invariants
/// `pointer` is to an initialised `T` in pool of this tag, which nobody else owns.
pub struct PoolBox<T: ?Sized> {
    pointer: NonNull<T>,
    tag: PoolTag,
    _owns: PhantomData<T>,
}

// SAFETY: it owns its contents like a `Box`.
unsafe impl<T: ?Sized + Send> Send for PoolBox<T> {}
// SAFETY: it owns its contents like a `Box`.
unsafe impl<T: ?Sized + Sync> Sync for PoolBox<T> {}

impl<T> PoolBox<T> {
    /// Moves a value into the pool.
    ///
    /// IRQL: `<= DISPATCH_LEVEL`.
    /// Errors: `STATUS_INSUFFICIENT_RESOURCES`; the value is dropped.
    /// Source: `ExAllocatePool2`, `ExAllocatePoolWithTag`, wdm.h.
    pub fn try_new(tag: PoolTag, value: T) -> Result<Self> {
        Self::try_new_with(tag, || Ok(value))
    }

    /// Allocates, then makes the value, so that what making it takes is never lost.
    ///
    /// IRQL: `<= DISPATCH_LEVEL`, and that of `make`.
    /// Errors: `STATUS_INSUFFICIENT_RESOURCES`, or that of `make`.
    pub fn try_new_with(tag: PoolTag, make: impl FnOnce() -> Result<T>) -> Result<Self> {
        const { assert!(align_of::<T>() <= ALIGNMENT) };
        let room = PoolBox {
            pointer: allocate(size_of::<T>(), tag)?.cast::<MaybeUninit<T>>(),
            tag,
            _owns: PhantomData,
        };
        let value = make()?;
        let (pointer, _) = room.into_raw();
        let pointer = pointer.cast::<T>();
        // SAFETY: (1) valid for a write of `T`: just allocated with its size. (2) aligned: asserted.
        unsafe { pointer.write(value) };
        Ok(Self {
            pointer,
            tag,
            _owns: PhantomData,
        })
    }

    /// Gives the memory up as a pointer for a context field.
    pub(crate) fn into_raw(self) -> (NonNull<T>, PoolTag) {
        let this = ManuallyDrop::new(self);
        (this.pointer, this.tag)
    }

    /// Undoes [`into_raw`](Self::into_raw).
    ///
    /// # Safety
    /// Both must come from one call of `into_raw`, and be given back once.
    pub(crate) unsafe fn from_raw((pointer, tag): (NonNull<T>, PoolTag)) -> Self {
        Self {
            pointer,
            tag,
            _owns: PhantomData,
        }
    }
}

impl<T> PoolBox<[T]> {
    /// A slice of `len` values, each made by `make` from its index.
    ///
    /// IRQL: `<= DISPATCH_LEVEL`.
    /// Errors: `STATUS_INSUFFICIENT_RESOURCES`, or that of `make`; what was made is dropped.
    pub fn try_from_fn(
        tag: PoolTag,
        len: usize,
        mut make: impl FnMut(usize) -> Result<T>,
    ) -> Result<Self> {
        const { assert!(align_of::<T>() <= ALIGNMENT) };
        let bytes = size_of::<T>()
            .checked_mul(len)
            .ok_or(status::STATUS_INSUFFICIENT_RESOURCES)?;
        let first = allocate(bytes, tag)?.cast::<T>();
        let mut made = Self {
            pointer: NonNull::slice_from_raw_parts(first, 0),
            tag,
            _owns: PhantomData,
        };
        for index in 0..len {
            let value = make(index)?;
            // SAFETY: `index < len`, and `len` values were allocated.
            let place = unsafe { first.add(index) };
            // SAFETY: (1) valid for a write: within the allocation. (2) aligned: asserted.
            unsafe { place.write(value) };
            // INVARIANT: so many are initialised; if the next fails, so many are dropped.
            made.pointer = NonNull::slice_from_raw_parts(first, index + 1);
        }
        Ok(made)
    }
}

impl<T: ?Sized> Deref for PoolBox<T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: initialised and owned: invariant of the type.
        unsafe { self.pointer.as_ref() }
    }
}

impl<T: ?Sized> DerefMut for PoolBox<T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: initialised and owned: invariant of the type; `self` is borrowed exclusively.
        unsafe { self.pointer.as_mut() }
    }
}

impl<T: ?Sized> Drop for PoolBox<T> {
    /// IRQL: `<= DISPATCH_LEVEL`.
    fn drop(&mut self) {
        // SAFETY: initialised and owned, and not used again: invariant of the type.
        unsafe { self.pointer.drop_in_place() };
        // SAFETY: allocated with this tag by `allocate`, and not used again.
        unsafe { nt::ex::ExFreePoolWithTag(self.pointer.as_ptr().cast(), self.tag.0) };
    }
}

impl<T: ?Sized + core::fmt::Debug> core::fmt::Debug for PoolBox<T> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        (**self).fmt(f)
    }
}
