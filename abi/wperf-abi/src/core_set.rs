//! A set of processors, as long as it needs to be.
//!
//! ```text
//!  word 0           word 1            …
//!  ┌───────────────┬────────────────┬───
//!  │ cores 63 … 0  │ cores 127 … 64 │
//!  └───────────────┴────────────────┴───
//! ```
//! A core's number is its system-wide processor index (`KeGetProcessorIndexFromNumber`).

/// The cores named by a request: a checked view of the request's buffer.
///
/// # Invariants
/// Whole 64-bit words; at least one core; no core at or above the number of cores it was parsed for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoreSet<'a> {
    words: &'a [u8],
}

/// Bytes per word of a core set.
pub const WORD_BYTES: usize = 8;
/// Most words of a core set.
pub const MAX_WORDS: usize = crate::MAX_CORES / 64;

impl<'a> CoreSet<'a> {
    /// Checks a bitmap against the number of cores of this machine.
    ///
    /// Errors: the first core that does not exist, or `None` if the set is empty.
    pub(crate) fn parse(words: &'a [u8], core_count: usize) -> Result<Self, Option<u32>> {
        let set = Self { words };
        let mut any = false;
        for core in set.iter() {
            if core as usize >= core_count {
                return Err(Some(core));
            }
            any = true;
        }
        if any { Ok(set) } else { Err(None) }
    }

    /// The cores, in rising order.
    pub fn iter(self) -> impl Iterator<Item = u32> + Clone + 'a {
        self.words
            .chunks_exact(WORD_BYTES)
            .zip(0u32..)
            .flat_map(|(bytes, index)| {
                let word = bytes.try_into().map_or(0, u64::from_le_bytes);
                Bits(word).map(move |bit| index * 64 + bit)
            })
    }

    /// Whether the set has this core.
    #[must_use]
    pub fn contains(self, core: u32) -> bool {
        let byte = self.words.get(core as usize / 8);
        byte.is_some_and(|byte| byte & (1 << (core % 8)) != 0)
    }

    /// How many cores.
    #[must_use]
    pub fn len(self) -> usize {
        self.words
            .iter()
            .map(|byte| byte.count_ones() as usize)
            .sum()
    }

    /// Never true of a parsed set; here because `len` is.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }
}

#[derive(Clone)]
struct Bits(u64);

impl Iterator for Bits {
    type Item = u32;
    fn next(&mut self) -> Option<u32> {
        let bit = (self.0 != 0).then(|| self.0.trailing_zeros())?;
        self.0 &= self.0 - 1;
        Some(bit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn cores_come_in_rising_order_across_words() {
        let mut bytes = [0u8; 16];
        bytes[0] = 0b1000_0001;
        bytes[8] = 2;
        let set = CoreSet::parse(&bytes, 128).unwrap();
        assert_eq!(set.iter().collect::<Vec<_>>(), [0, 7, 65]);
        assert_eq!(set.len(), 3);
        assert!(set.contains(65) && !set.contains(64) && !set.contains(4000));
    }

    #[test]
    fn a_core_that_does_not_exist_is_named() {
        assert_eq!(
            CoreSet::parse(&[0b101, 0, 0, 0, 0, 0, 0, 0], 2),
            Err(Some(2))
        );
    }

    #[test]
    fn an_empty_set_is_refused() {
        assert_eq!(CoreSet::parse(&[0; 8], 2), Err(None));
        assert_eq!(CoreSet::parse(&[], 2), Err(None));
    }
}
