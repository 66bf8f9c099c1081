//! What an event may carry: types, and the words they become.

use core::sync::atomic::{AtomicU64, Ordering};
use trace_format::Kind;
use trace_format::site::{CUT, MOST_BYTES};
use trace_format::slot::MOST_WORDS;

/// The words of an event's arguments, at most `N`; what is too much is left out.
#[derive(Clone, Copy, Debug)]
pub struct Words<const N: usize = MOST_WORDS> {
    words: [u64; N],
    count: usize,
}

impl<const N: usize> Default for Words<N> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const N: usize> Words<N> {
    /// None.
    #[must_use]
    #[inline(always)]
    pub const fn new() -> Self {
        Self {
            words: [0; N],
            count: 0,
        }
    }

    /// One more.
    #[inline(always)]
    pub fn push(&mut self, word: u64) {
        if let Some(place) = self.words.get_mut(self.count) {
            *place = word;
            self.count += 1;
        }
    }

    /// A word with the length, then the bytes.
    pub fn push_bytes(&mut self, bytes: &[u8]) {
        let kept = bytes.get(..MOST_BYTES).unwrap_or(bytes);
        let cut = if kept.len() < bytes.len() { CUT } else { 0 };
        self.push(kept.len() as u64 | cut);
        for chunk in kept.chunks(8) {
            let mut word = [0; 8];
            for (to, from) in word.iter_mut().zip(chunk) {
                *to = *from;
            }
            self.push(u64::from_le_bytes(word));
        }
    }

    /// All of them.
    #[must_use]
    pub fn as_slice(&self) -> &[u64] {
        self.words.get(..self.count).unwrap_or_default()
    }

    /// The first, and the second; zeros where there are none.
    #[must_use]
    #[inline(always)]
    pub fn first_two(&self) -> (u64, u64) {
        let word = |index| self.words.get(index).copied().unwrap_or(0);
        (word(0), word(1))
    }
}

/// A type that an event may carry.
pub trait Argument {
    /// What it is to the decoder.
    const KIND: Kind;
    /// Width as it is shown.
    const BITS: u8 = 64;
    /// Names of its values.
    const NAMES: &'static [(u64, &'static str)] = &[];
    /// Words that it takes, if that is always the same.
    const WORDS: Option<usize> = Some(1);

    /// Appends it.
    fn push<const N: usize>(self, words: &mut Words<N>);
}

macro_rules! numbers {
    ($( $type:ty: $kind:ident, $bits:literal, |$value:ident| $word:expr; )*) => { $(
        impl Argument for $type {
            const KIND: Kind = Kind::$kind;
            const BITS: u8 = $bits;
            #[inline(always)]
            fn push<const N: usize>(self, words: &mut Words<N>) {
                let $value = self;
                words.push($word);
            }
        }
    )* };
}

numbers! {
    u8: Unsigned, 8, |value| value.into();
    u16: Unsigned, 16, |value| value.into();
    u32: Unsigned, 32, |value| value.into();
    u64: Unsigned, 64, |value| value;
    usize: Unsigned, 64, |value| value as u64;
    i8: Signed, 8, |value| i64::from(value).cast_unsigned();
    i16: Signed, 16, |value| i64::from(value).cast_unsigned();
    i32: Signed, 32, |value| i64::from(value).cast_unsigned();
    i64: Signed, 64, |value| value.cast_unsigned();
    bool: Bool, 8, |value| value.into();
    Hex: Hex, 64, |value| value.0;
    Pointer: Pointer, 64, |value| value.0;
    Irp: Irp, 64, |value| value.0;
    Srb: Srb, 64, |value| value.0;
    ScsiStatus: ScsiStatus, 8, |value| value.0.into();
    ControlCode: ControlCode, 32, |value| value.0.into();
    nt::status::NTSTATUS: NtStatus, 32, |value| value.to_u32().into();
}

/// A number that is shown in hexadecimal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hex(pub u64);

/// What addresses are multiplied by: odd, so that different ones stay different.
static KEY: AtomicU64 = AtomicU64::new(0x9E37_79B9_7F4A_7C15);

/// Chooses what hides addresses. A trace tells one IRP from another, and not where it is: who may read
/// it need not be trusted with that. A debugger that sees the key can undo it.
pub fn hide_addresses_with(secret: u64) {
    // Source: Steele, Lea, Flood, Fast Splittable Pseudorandom Number Generators (2014), mix64.
    let mixed = (secret ^ secret >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    KEY.store((mixed ^ mixed >> 31) | 1, Ordering::Relaxed);
}

/// Hides an address.
#[inline(always)]
fn hidden(address: usize) -> u64 {
    (address as u64)
        .wrapping_mul(KEY.load(Ordering::Relaxed))
        .rotate_left(32)
}

/// An address, hidden: the same one is always the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pointer(u64);

/// Which IRP: its address, hidden.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Irp(u64);

/// Which SCSI request block: its address, hidden.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Srb(u64);

/// A SCSI status byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScsiStatus(pub u8);

/// A device control code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControlCode(pub u32);

/// A GUID, as it lies in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guid(pub [u8; 16]);

macro_rules! addresses {
    ($($type:ident)*) => { $(
        impl<T: ?Sized> From<*const T> for $type {
            #[inline(always)]
            fn from(pointer: *const T) -> Self {
                Self(hidden(pointer.addr()))
            }
        }
        impl<T: ?Sized> From<*mut T> for $type {
            #[inline(always)]
            fn from(pointer: *mut T) -> Self {
                Self(hidden(pointer.addr()))
            }
        }
    )* };
}

addresses!(Pointer Irp Srb);

impl Argument for Guid {
    const KIND: Kind = Kind::Guid;
    const WORDS: Option<usize> = Some(2);
    #[inline(always)]
    fn push<const N: usize>(self, words: &mut Words<N>) {
        let word = u128::from_le_bytes(self.0);
        words.push(trace_format_low(word));
        words.push(trace_format_low(word >> 64));
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the low half is wanted")]
const fn trace_format_low(word: u128) -> u64 {
    word as u64
}

impl Argument for &str {
    const KIND: Kind = Kind::Text;
    const WORDS: Option<usize> = None;
    fn push<const N: usize>(self, words: &mut Words<N>) {
        words.push_bytes(self.as_bytes());
    }
}

impl Argument for &[u8] {
    const KIND: Kind = Kind::Bytes;
    const WORDS: Option<usize> = None;
    fn push<const N: usize>(self, words: &mut Words<N>) {
        words.push_bytes(self);
    }
}

/// Numbers with names, which stay in the driver file: a type that an event may carry.
#[macro_export]
macro_rules! names {
    ($(#[$attribute:meta])* $visibility:vis $name:ident { $($value:expr => $text:literal),* $(,)? }) => {
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        $visibility struct $name(pub u64);

        impl $crate::Argument for $name {
            const KIND: $crate::format::Kind = $crate::format::Kind::Enum;
            const NAMES: &'static [(u64, &'static str)] = &[$(($value, $text)),*];
            #[inline(always)]
            fn push<const N: usize>(self, words: &mut $crate::Words<N>) {
                words.push(self.0);
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_told_apart_and_not_told() {
        hide_addresses_with(7);
        let irps = [0x1000usize, 0x1010, 0x1000]
            .map(|at| Irp::from(core::ptr::without_provenance::<u8>(at)));
        assert_eq!(irps[0], irps[2]);
        assert_ne!(irps[0], irps[1]);
        assert!(irps.iter().all(|irp| irp.0 & 0xFFFF_FFFF_FFFF_0000 != 0));
    }
}
