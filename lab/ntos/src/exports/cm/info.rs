//! What the registry's queries return: a fixed part and what does not fit in it.

use nt::NTSTATUS;
use nt::cm::{
    KEY_BASIC_INFORMATION, KEY_FULL_INFORMATION, KEY_NODE_INFORMATION, KEY_VALUE_BASIC_INFORMATION,
    KEY_VALUE_FULL_INFORMATION, KEY_VALUE_PARTIAL_INFORMATION, KeyBasicInformation,
    KeyFullInformation, KeyNodeInformation, KeyValueBasicInformation, KeyValueFullInformation,
    KeyValuePartialInformation,
};
use nt::status::{
    STATUS_BUFFER_OVERFLOW, STATUS_BUFFER_TOO_SMALL, STATUS_INVALID_PARAMETER, STATUS_SUCCESS,
};

use crate::guest;
use crate::registry::{Key, Value};

/// The bytes of an answer, of which `fixed` must fit in the caller's buffer.
pub(super) struct Answer {
    fixed: usize,
    bytes: Vec<u8>,
}

/// Offset of "no class" in a key's description.
const NO_CLASS: u32 = u32::MAX;

fn size(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}

fn units(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_le_bytes).collect()
}

fn longest(lengths: impl Iterator<Item = usize>) -> u32 {
    size(lengths.max().unwrap_or(0))
}

impl Answer {
    fn new(fixed: usize, words: &[u32]) -> Self {
        let bytes = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        Self { fixed, bytes }
    }

    fn with(mut self, tail: &[u8]) -> Self {
        self.bytes.extend_from_slice(tail);
        self
    }

    /// A value, as a `KEY_VALUE_…_INFORMATION`.
    ///
    /// Errors: an information class that is unknown.
    pub(super) fn of_value(value: &Value, class: i32) -> Result<Self, NTSTATUS> {
        let name = units(&value.name);
        match class {
            class if class == KeyValueBasicInformation => {
                let fixed = std::mem::offset_of!(KEY_VALUE_BASIC_INFORMATION, Name);
                Ok(Self::new(fixed, &[0, value.kind, size(name.len())]).with(&name))
            }
            class if class == KeyValuePartialInformation => {
                let fixed = std::mem::offset_of!(KEY_VALUE_PARTIAL_INFORMATION, Data);
                Ok(Self::new(fixed, &[0, value.kind, size(value.data.len())]).with(&value.data))
            }
            class if class == KeyValueFullInformation => {
                let fixed = std::mem::offset_of!(KEY_VALUE_FULL_INFORMATION, Name);
                // Data is aligned to eight bytes behind the name.
                let data = (fixed + name.len()).next_multiple_of(8);
                let words = [
                    0,
                    value.kind,
                    size(data),
                    size(value.data.len()),
                    size(name.len()),
                ];
                let mut answer = Self::new(fixed, &words).with(&name);
                answer.bytes.resize(data, 0);
                Ok(answer.with(&value.data))
            }
            _ => Err(STATUS_INVALID_PARAMETER),
        }
    }

    /// A key, as a `KEY_…_INFORMATION`. Nothing records when it was written.
    ///
    /// Errors: an information class that is unknown.
    pub(super) fn of_key(key: &Key, class: i32) -> Result<Self, NTSTATUS> {
        let name = units(&key.name);
        match class {
            class if class == KeyBasicInformation => {
                let fixed = std::mem::offset_of!(KEY_BASIC_INFORMATION, Name);
                Ok(Self::new(fixed, &[0, 0, 0, size(name.len())]).with(&name))
            }
            class if class == KeyNodeInformation => {
                let fixed = std::mem::offset_of!(KEY_NODE_INFORMATION, Name);
                Ok(Self::new(fixed, &[0, 0, 0, NO_CLASS, 0, size(name.len())]).with(&name))
            }
            class if class == KeyFullInformation => {
                let fixed = std::mem::offset_of!(KEY_FULL_INFORMATION, Class);
                let values = || key.values.values();
                let words = [
                    0,
                    0,
                    0,
                    NO_CLASS,
                    0,
                    size(key.keys.len()),
                    longest(key.keys.values().map(|child| units(&child.name).len())),
                    0,
                    size(key.values.len()),
                    longest(values().map(|value| units(&value.name).len())),
                    longest(values().map(|value| value.data.len())),
                ];
                Ok(Self::new(fixed, &words))
            }
            _ => Err(STATUS_INVALID_PARAMETER),
        }
    }

    /// Hands the answer to the caller, as much of it as fits.
    pub(super) fn deliver(&self, buffer: *mut u8, len: u32, result: *mut u32) -> NTSTATUS {
        guest::write(result, size(self.bytes.len()));
        let len = len as usize;
        if len < self.fixed {
            return STATUS_BUFFER_TOO_SMALL;
        }
        let fits = len.min(self.bytes.len());
        guest::fill(buffer, &self.bytes[..fits]);
        if fits < self.bytes.len() {
            STATUS_BUFFER_OVERFLOW
        } else {
            STATUS_SUCCESS
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value() -> Value {
        Value {
            name: "Abc".into(),
            kind: 4,
            data: vec![1, 2, 3, 4],
        }
    }

    #[test]
    fn a_query_with_a_short_buffer_tells_the_length_it_needs() {
        let answer = Answer::of_value(&value(), KeyValuePartialInformation).expect("a class");
        let (mut buffer, mut needed) = ([0xEEu8; 16], 0);
        let mut ask = |len| {
            (
                answer.deliver(buffer.as_mut_ptr(), len, &raw mut needed),
                needed,
            )
        };
        assert_eq!(ask(0), (STATUS_BUFFER_TOO_SMALL, 16));
        assert_eq!(ask(11), (STATUS_BUFFER_TOO_SMALL, 16));
        assert_eq!(ask(14), (STATUS_BUFFER_OVERFLOW, 16));
        assert_eq!(ask(16), (STATUS_SUCCESS, 16));
        assert_eq!(buffer, [0, 0, 0, 0, 4, 0, 0, 0, 4, 0, 0, 0, 1, 2, 3, 4]);
    }

    #[test]
    fn full_information_says_where_the_data_is() {
        let answer = Answer::of_value(&value(), KeyValueFullInformation).expect("a class");
        // 0x14 bytes of header and 6 of name, rounded up to 8.
        assert_eq!(&answer.bytes[8..12], &32u32.to_le_bytes());
        assert_eq!(&answer.bytes[32..], &[1, 2, 3, 4]);
        assert!(Answer::of_value(&value(), 77).is_err());
    }

    #[test]
    fn a_key_counts_what_is_in_it() {
        let mut key = Key::default();
        key.set("Abc", 4, vec![0; 9]);
        let answer = Answer::of_key(&key, KeyFullInformation).expect("a class");
        assert_eq!(answer.bytes.len(), 0x2C);
        assert_eq!(
            &answer.bytes[0x20..0x2C],
            &[1, 0, 0, 0, 6, 0, 0, 0, 9, 0, 0, 0]
        );
    }
}
