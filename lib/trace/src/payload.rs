//! From the words of an event to the bytes that go out through ETW: what the TMF says, byte for byte.

use trace_format::Kind;
use trace_format::site::CUT;
use trace_format::slot::MOST_WORDS;
use trace_format::view::{DescriptionView, FieldView};
use trace_format::wpp::Item;
#[cfg(doc)]
use trace_format::wpp::MOST_PAYLOAD;

/// Most letters of a name that is sent as text; the rest is cut off.
const MOST_NAME: usize = 64;

/// The payload of a message, in memory of the caller's: [`MOST_PAYLOAD`] bytes are always enough.
#[derive(Debug)]
pub struct Payload<'a> {
    bytes: &'a mut [u8],
    used: usize,
    is_full: bool,
}

impl<'a> Payload<'a> {
    /// Nothing yet.
    #[must_use]
    pub fn new(bytes: &'a mut [u8]) -> Self {
        Self {
            bytes,
            used: 0,
            is_full: false,
        }
    }

    /// Begins anew.
    pub fn clear(&mut self) {
        self.used = 0;
        self.is_full = false;
    }

    /// What there is; `None` if it did not fit.
    #[must_use]
    pub fn as_bytes(&self) -> Option<&[u8]> {
        self.bytes.get(..self.used).filter(|_| !self.is_full)
    }

    /// Appends bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        let end = self.used + bytes.len();
        match self.bytes.get_mut(self.used..end) {
            Some(place) => {
                place.copy_from_slice(bytes);
                self.used = end;
            }
            None => self.is_full = true,
        }
    }

    /// Appends the arguments of an event.
    pub fn push_arguments(&mut self, site: &DescriptionView<'_>, words: &[u64]) {
        let mut words = words.iter().copied();
        for field in site.fields.clone() {
            self.push_field(&field, &mut words);
        }
    }

    fn push_field(&mut self, field: &FieldView<'_>, words: &mut impl Iterator<Item = u64>) {
        let word = words.next().unwrap_or(0);
        match Item::of(field.kind, field.bits, field.names.clone()) {
            Item::Unsigned(bytes) | Item::Signed(bytes) | Item::Hex(bytes) => {
                self.push_low(word, bytes);
            }
            Item::ListByte => self.push(&[u8::try_from(word).unwrap_or(u8::MAX)]),
            Item::ListLong => self.push(&u32::try_from(word).unwrap_or(u32::MAX).to_le_bytes()),
            Item::Status => self.push_low(word, 4),
            Item::Guid => {
                self.push(&word.to_le_bytes());
                self.push(&words.next().unwrap_or(0).to_le_bytes());
            }
            Item::Text => self.push_counted(|text| match field.kind {
                Kind::Text => text.push_recorded(word, words, Self::push_letters),
                Kind::Bytes => text.push_recorded(word, words, Self::push_digits),
                _ => text.push_name(field, word),
            }),
        }
    }

    /// The low bytes of a word.
    fn push_low(&mut self, word: u64, bytes: u8) {
        let all = word.to_le_bytes();
        self.push(all.get(..usize::from(bytes)).unwrap_or(&all));
    }

    /// What is written, behind its length.
    fn push_counted(&mut self, write: impl FnOnce(&mut Self)) {
        let start = self.used;
        self.push(&[0, 0]);
        write(self);
        let length = u16::try_from(self.used.saturating_sub(start + 2)).unwrap_or(0);
        if let Some(place) = self.bytes.get_mut(start..start + 2) {
            place.copy_from_slice(&length.to_le_bytes());
        }
    }

    /// Bytes that were recorded as words behind their length.
    fn push_recorded(
        &mut self,
        length: u64,
        words: &mut impl Iterator<Item = u64>,
        write: impl Fn(&mut Self, &[u8]),
    ) {
        let mut bytes = [0; 8 * MOST_WORDS];
        let wanted = usize::try_from(length & !CUT).unwrap_or(usize::MAX);
        let mut there = 0;
        let places = bytes.as_chunks_mut::<8>().0;
        for (place, word) in places.iter_mut().zip(words.take(wanted.div_ceil(8))) {
            *place = word.to_le_bytes();
            there += 8;
        }
        write(self, bytes.get(..wanted.min(there)).unwrap_or(&bytes));
        if length & CUT != 0 {
            self.push_letter('…');
        }
    }

    fn push_letter(&mut self, letter: char) {
        for unit in letter.encode_utf16(&mut [0; 2]) {
            self.push(&unit.to_le_bytes());
        }
    }

    /// UTF-8 as UTF-16; what is none becomes U+FFFD.
    fn push_letters(&mut self, text: &[u8]) {
        for chunk in text.utf8_chunks() {
            chunk
                .valid()
                .chars()
                .for_each(|letter| self.push_letter(letter));
            if !chunk.invalid().is_empty() {
                self.push_letter(char::REPLACEMENT_CHARACTER);
            }
        }
    }

    fn push_digits(&mut self, bytes: &[u8]) {
        for byte in bytes {
            for digit in [byte >> 4, byte & 15] {
                self.push_letter(char::from_digit(digit.into(), 16).unwrap_or('?'));
            }
        }
    }

    /// The name of a number, or the number.
    fn push_name(&mut self, field: &FieldView<'_>, word: u64) {
        let Some((_, name)) = field.names.clone().find(|(value, _)| *value == word) else {
            return self.push_decimal(word);
        };
        match name.split_at_checked(MOST_NAME) {
            Some((kept, rest)) if !rest.is_empty() => {
                self.push_letters(kept);
                self.push_letter('…');
            }
            _ => self.push_letters(name),
        }
    }

    fn push_decimal(&mut self, word: u64) {
        let mut digits = [0; 20];
        let mut left = word;
        let mut count = 0;
        for place in digits.iter_mut().rev() {
            *place = b'0' + u8::try_from(left % 10).unwrap_or(0);
            left /= 10;
            count += 1;
            if left == 0 {
                break;
            }
        }
        self.push_letters(digits.get(digits.len() - count..).unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Argument, Flag, Guid, Words};
    use nt::status::NTSTATUS;
    use proptest::prelude::*;
    use trace_format::wpp::MOST_PAYLOAD;

    crate::names! { Listed { 0 => "zero", 2 => "two" } }
    crate::names! { Sparse { 0 => "none", 1000 => "thousand" } }

    const FLAG: Flag = Flag::new(0, "F");

    /// The payload of one argument.
    macro_rules! packed {
        ($type:ty, $value:expr) => {{
            const SITE: crate::Site =
        crate::__site!(Cold Message Error, FLAG, "text", value: $type);
            const BYTES: usize = SITE.bytes();
            let description: [u8; BYTES] = SITE.describe();
            let mut words: Words = Words::new();
            <$type as Argument>::push($value, &mut words);
            let mut room = [0; MOST_PAYLOAD];
            let mut payload = Payload::new(&mut room);
            let view = DescriptionView::read(&description).unwrap();
            payload.push_arguments(&view, words.as_slice());
            payload.as_bytes().unwrap().to_vec()
        }};
    }

    fn wide(text: &str) -> Vec<u8> {
        let units: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let length = u16::try_from(units.len()).unwrap();
        [length.to_le_bytes().as_slice(), &units].concat()
    }

    #[test]
    fn each_kind_takes_the_bytes_of_its_item() {
        assert_eq!(packed!(u8, 7), [7]);
        assert_eq!(packed!(u16, 0x1234), [0x34, 0x12]);
        assert_eq!(packed!(i8, -2), [0xFE, 0xFF]);
        assert_eq!(packed!(i32, -2), (-2i32).to_le_bytes());
        assert_eq!(packed!(bool, true), [1]);
        assert_eq!(packed!(Listed, Listed(2)), [2, 0, 0, 0]);
        assert_eq!(packed!(Listed, Listed(u64::MAX)), [0xFF; 4]);
        assert_eq!(packed!(Sparse, Sparse(1000)), wide("thousand"));
        assert_eq!(packed!(Sparse, Sparse(1_234_567)), wide("1234567"));
        assert_eq!(
            packed!(NTSTATUS, NTSTATUS::from_u32(0xC000_0001)),
            [1, 0, 0, 0xC0]
        );
        assert_eq!(packed!(Guid, Guid([9; 16])), [9; 16]);
        assert_eq!(packed!(&str, "läuft"), wide("läuft"));
        assert_eq!(packed!(&[u8], &[0, 0xAB]), wide("00ab"));
        assert_eq!(packed!(&[u8], &[7; 65]), wide(&("07".repeat(64) + "…")));
    }

    #[test]
    fn a_text_cut_inside_a_letter_is_as_the_decoder_shows_it() {
        let long = "a".repeat(63) + "äb";
        let shown = String::from_utf8_lossy(&long.as_bytes()[..64]).into_owned() + "…";
        assert_eq!(packed!(&str, long.as_str()), wide(&shown));
    }

    #[test]
    fn what_does_not_fit_is_no_payload() {
        let mut room = [0; MOST_PAYLOAD];
        let mut payload = Payload::new(&mut room);
        payload.push(&[0; MOST_PAYLOAD]);
        assert!(payload.as_bytes().is_some());
        payload.push(&[0]);
        assert!(payload.as_bytes().is_none());
        payload.clear();
        assert_eq!(payload.as_bytes(), Some(&[][..]));
    }

    proptest! {
        #[test]
        fn any_text_is_sent_as_it_is(text in "\\PC{0,16}") {
            prop_assert_eq!(packed!(&str, text.as_str()), wide(&text));
        }
    }
}
