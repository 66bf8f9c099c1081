//! Kernel routines that may be absent, looked up by name once.
#![expect(unsafe_code, reason = "turns the address of an export into a function")]

use core::ffi::c_void;
use core::marker::PhantomData;
use core::sync::atomic::{AtomicPtr, Ordering};
use nt::base::UNICODE_STRING;

/// An export that some versions of the kernel do not have; `F` is its type.
///
/// # Invariants
/// `F` is the type that the export of this name has: asserted by whoever declares one.
pub struct Routine<F> {
    name: &'static [u16],
    address: AtomicPtr<c_void>,
    _type: PhantomData<F>,
}

/// Stands for "looked up, not there": no routine has this address.
const ABSENT: *mut c_void = core::ptr::without_provenance_mut(1);

impl<F: Copy> Routine<F> {
    /// The export called `name` (UTF-16, without a terminator).
    ///
    /// # Safety
    /// `F` must be the function-pointer type of that export.
    ///
    /// IRQL: any.
    pub const unsafe fn new(name: &'static [u16]) -> Self {
        const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
        Self {
            name,
            address: AtomicPtr::new(core::ptr::null_mut()),
            _type: PhantomData,
        }
    }

    /// Looks the export up, unless that was done before.
    ///
    /// IRQL: `PASSIVE_LEVEL`.
    /// Source: `MmGetSystemRoutineAddress`, wdm.h.
    pub fn find(&self) -> Option<F> {
        if self.address.load(Ordering::Acquire).is_null() {
            let mut name = counted(self.name);
            // SAFETY: `name` is a valid string for the length of the call.
            let found = unsafe { nt::mm::MmGetSystemRoutineAddress(&raw mut name) };
            self.address.store(
                if found.is_null() { ABSENT } else { found },
                Ordering::Release,
            );
        }
        self.found()
    }

    /// The export, if [`find`](Self::find) has found it.
    ///
    /// IRQL: any.
    pub fn found(&self) -> Option<F> {
        let address = self.address.load(Ordering::Acquire);
        if address.is_null() || address == ABSENT {
            return None;
        }
        // SAFETY: (1) the sizes are equal: asserted in `new`. (2) `address` is the export's, whose
        // type is `F`: invariant of the type.
        Some(unsafe { core::mem::transmute_copy::<*mut c_void, F>(&address) })
    }
}

/// A counted string over UTF-16 that nobody writes to.
pub(crate) fn counted(text: &'static [u16]) -> UNICODE_STRING {
    let bytes = u16::try_from(size_of_val(text)).unwrap_or(0xFFFE);
    UNICODE_STRING {
        Length: bytes,
        MaximumLength: bytes,
        Buffer: text.as_ptr().cast_mut(),
    }
}

/// ASCII text as a static UTF-16 slice.
#[macro_export]
macro_rules! utf16 {
    ($text:expr) => {{
        const TEXT: &str = $text;
        static UNITS: [u16; TEXT.len()] = $crate::routine::units(TEXT);
        &UNITS as &'static [u16]
    }};
}

/// ASCII text as UTF-16, at compile time; text that is not ASCII does not compile.
#[doc(hidden)]
#[must_use]
#[expect(clippy::indexing_slicing, reason = "runs at compile time")]
pub const fn units<const N: usize>(text: &str) -> [u16; N] {
    let bytes = text.as_bytes();
    let mut units = [0; N];
    let mut index = 0;
    while index < N {
        assert!(bytes[index].is_ascii());
        units[index] = bytes[index] as u16;
        index += 1;
    }
    units
}
