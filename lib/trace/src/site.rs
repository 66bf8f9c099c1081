//! Descriptions of sites, made at compile time and kept in the driver file.

use crate::argument::Argument;
use trace_format::site::{DESCRIPTION_BYTES, MOST_BYTES, MOST_FIELDS, SITE_MAGIC};
use trace_format::slot::{FIRST_WORDS, MOST_WORDS};
use trace_format::{Form, Heat, Kind, Level};

/// What belongs together: one bit of the selection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flag {
    /// 0 to 31.
    pub bit: u8,
    /// Its name.
    pub name: &'static str,
}

impl Flag {
    /// A flag.
    ///
    /// # Panics
    /// If there is no such bit; at compile time, as flags are constants.
    #[must_use]
    pub const fn new(bit: u8, name: &'static str) -> Self {
        assert!(bit < 32, "a selection has 32 bits");
        Self { bit, name }
    }

    /// As a selection has it.
    #[must_use]
    pub const fn mask(self) -> u32 {
        1 << self.bit
    }
}

/// An argument of a site.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    name: &'static str,
    kind: Kind,
    bits: u8,
    names: &'static [(u64, &'static str)],
    words: Option<usize>,
}

impl Field {
    /// One of a type.
    #[must_use]
    pub const fn of<T: Argument>(name: &'static str) -> Self {
        Self {
            name,
            kind: T::KIND,
            bits: T::BITS,
            names: T::NAMES,
            words: T::WORDS,
        }
    }

    pub(crate) const fn name(&self) -> &'static str {
        self.name
    }

    pub(crate) const fn kind(&self) -> Kind {
        self.kind
    }

    pub(crate) const fn names(&self) -> &'static [(u64, &'static str)] {
        self.names
    }
}

/// A call of a macro, as it is described.
#[derive(Clone, Copy, Debug)]
pub struct Site {
    /// How much it matters.
    pub level: Level,
    /// What it belongs to.
    pub flag: Flag,
    /// What it says.
    pub form: Form,
    /// Which path it is on.
    pub heat: Heat,
    /// Line in the file.
    pub line: u32,
    /// Module that it is in.
    pub module: &'static str,
    /// File that it is in.
    pub file: &'static str,
    /// What it says in words.
    pub text: &'static str,
    /// Its arguments.
    pub fields: &'static [Field],
}

/// Writes into an array at compile time.
struct Writer<const N: usize> {
    bytes: [u8; N],
    at: usize,
}

#[expect(
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "runs at compile time, where a wrong length does not compile"
)]
impl<const N: usize> Writer<N> {
    const fn put(mut self, bytes: &[u8]) -> Self {
        let mut index = 0;
        while index < bytes.len() {
            self.bytes[self.at] = bytes[index];
            self.at += 1;
            index += 1;
        }
        self
    }

    const fn text(self, text: &str) -> Self {
        assert!(text.len() <= u16::MAX as usize);
        self.put(&(text.len() as u16).to_le_bytes())
            .put(text.as_bytes())
    }

    const fn field(mut self, field: &Field) -> Self {
        self = self
            .text(field.name)
            .put(&[field.kind as u8, field.bits])
            .put(&(field.names.len() as u16).to_le_bytes());
        let mut index = 0;
        while index < field.names.len() {
            let (value, name) = field.names[index];
            self = self.put(&value.to_le_bytes()).text(name);
            index += 1;
        }
        self
    }
}

#[expect(clippy::indexing_slicing, reason = "runs at compile time")]
impl Site {
    /// Bytes of the description.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        let texts = [self.flag.name, self.module, self.file, self.text];
        let mut bytes = DESCRIPTION_BYTES;
        let mut index = 0;
        while index < texts.len() {
            bytes += 2 + texts[index].len();
            index += 1;
        }
        index = 0;
        while index < self.fields.len() {
            let field = &self.fields[index];
            bytes += 2 + field.name.len() + 4;
            let mut name = 0;
            while name < field.names.len() {
                bytes += 8 + 2 + field.names[name].1.len();
                name += 1;
            }
            index += 1;
        }
        bytes
    }

    /// The description.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the line of a message has a few dozen bytes"
    )]
    pub const fn describe<const N: usize>(&self) -> [u8; N] {
        let mut writer = Writer {
            bytes: [0; N],
            at: 0,
        };
        writer = writer
            .put(&SITE_MAGIC)
            .put(&(N as u32).to_le_bytes())
            .put(&self.line.to_le_bytes())
            .put(&[
                self.level as u8,
                self.flag.bit,
                self.form as u8,
                self.heat as u8,
            ])
            .put(&(self.fields.len() as u32).to_le_bytes())
            .text(self.flag.name)
            .text(self.module)
            .text(self.file)
            .text(self.text);
        let mut index = 0;
        while index < self.fields.len() {
            writer = writer.field(&self.fields[index]);
            index += 1;
        }
        assert!(writer.at == N && self.fields.len() <= MOST_FIELDS);
        writer.bytes
    }

    /// Most words that its arguments take.
    #[must_use]
    pub const fn words(&self) -> usize {
        let mut words = 0;
        let mut index = 0;
        while index < self.fields.len() {
            words += match self.fields[index].words {
                Some(count) => count,
                None => 1 + MOST_BYTES / size_of::<u64>(),
            };
            index += 1;
        }
        if words < MOST_WORDS {
            words
        } else {
            MOST_WORDS
        }
    }

    /// Whether its arguments always fit into one slot, without the detour over a buffer.
    #[must_use]
    pub const fn is_short(&self) -> bool {
        self.words() <= FIRST_WORDS
    }
}
