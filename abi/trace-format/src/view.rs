//! Events, descriptions and fields of section `PAGETRC`, read where they lie, without memory of their own.

use crate::site::{DIRECTORY_MAGIC, Description, Directory, Event, Kind, SITE_MAGIC, VERSION};
use zerocopy::FromBytes;

/// The section of a driver that is loaded.
#[derive(Clone, Copy, Debug)]
pub struct SectionView<'a> {
    bytes: &'a [u8],
    rva: u32,
    events: u32,
    events_end: u32,
}

impl<'a> SectionView<'a> {
    /// The section that begins at this rva; `None` if there is no directory at its beginning.
    #[must_use]
    pub fn read(bytes: &'a [u8], rva: u32) -> Option<Self> {
        let (directory, _) = Directory::read_from_prefix(bytes).ok()?;
        if directory.magic != DIRECTORY_MAGIC || directory.version.get() != VERSION {
            return None;
        }
        Some(Self {
            bytes,
            rva,
            events: directory.events.get(),
            events_end: directory.events_end.get(),
        })
    }

    fn at(&self, rva: u32) -> Option<&'a [u8]> {
        let offset = usize::try_from(rva.checked_sub(self.rva)?).ok()?;
        self.bytes.get(offset..)
    }

    /// Index and description of the event of an id; `None` if there is none.
    #[must_use]
    pub fn event(&self, id: u32) -> Option<(usize, DescriptionView<'a>)> {
        let offset = usize::try_from(id.checked_sub(self.events)?).ok()?;
        if id >= self.events_end || !offset.is_multiple_of(size_of::<Event>()) {
            return None;
        }
        let (event, _) = Event::read_from_prefix(self.at(id)?).ok()?;
        let description = DescriptionView::read(self.at(event.description.get())?)?;
        Some((offset / size_of::<Event>(), description))
    }
}

/// A description.
#[derive(Clone, Debug)]
pub struct DescriptionView<'a> {
    /// Its fixed part.
    pub fixed: Description,
    /// Its fields.
    pub fields: Fields<'a>,
}

/// A field.
#[derive(Clone, Debug)]
pub struct FieldView<'a> {
    /// Its name, UTF-8.
    pub name: &'a [u8],
    /// What it is.
    pub kind: Kind,
    /// Width as it is shown.
    pub bits: u8,
    /// Names of its values.
    pub names: Names<'a>,
}

/// The fields of a description, in order.
#[derive(Clone, Debug, Default)]
pub struct Fields<'a> {
    bytes: &'a [u8],
    left: u32,
}

/// Values with their names, UTF-8, in order.
#[derive(Clone, Debug, Default)]
pub struct Names<'a> {
    bytes: &'a [u8],
    left: u16,
}

impl<'a> Names<'a> {
    /// So many names in these bytes.
    #[must_use]
    pub const fn new(bytes: &'a [u8], count: u16) -> Self {
        Self { bytes, left: count }
    }
}

/// Takes the first bytes away.
fn take<'a>(bytes: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (first, rest) = bytes.split_at_checked(count)?;
    *bytes = rest;
    Some(first)
}

fn number<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    take(bytes, N)?.try_into().ok()
}

/// A text with its length before it.
fn text<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = u16::from_le_bytes(number(bytes)?);
    take(bytes, length.into())
}

impl<'a> DescriptionView<'a> {
    /// The description that begins there; `None` if none does.
    #[must_use]
    pub fn read(bytes: &'a [u8]) -> Option<Self> {
        let (fixed, _) = Description::read_from_prefix(bytes).ok()?;
        if fixed.magic != SITE_MAGIC {
            return None;
        }
        let mut bytes = bytes.get(..usize::try_from(fixed.bytes.get()).ok()?)?;
        take(&mut bytes, size_of::<Description>())?;
        for _ in 0..4 {
            text(&mut bytes)?;
        }
        let left = fixed.fields.get();
        Some(Self {
            fixed,
            fields: Fields { bytes, left },
        })
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = FieldView<'a>;

    fn next(&mut self) -> Option<FieldView<'a>> {
        self.left = self.left.checked_sub(1)?;
        let name = text(&mut self.bytes)?;
        let [kind, bits] = number(&mut self.bytes)?;
        let count = u16::from_le_bytes(number(&mut self.bytes)?);
        let names = Names::new(self.bytes, count);
        let mut rest = names.clone();
        rest.by_ref().for_each(drop);
        self.bytes = rest.bytes;
        Some(FieldView {
            name,
            kind: Kind::from_number(kind)?,
            bits,
            names,
        })
    }
}

impl<'a> Iterator for Names<'a> {
    type Item = (u64, &'a [u8]);

    fn next(&mut self) -> Option<(u64, &'a [u8])> {
        self.left = self.left.checked_sub(1)?;
        let value = u64::from_le_bytes(number(&mut self.bytes)?);
        Some((value, text(&mut self.bytes)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn whatever_the_bytes_are_there_is_an_end(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut all = SITE_MAGIC.to_vec();
            all.extend([200, 0, 0, 0]);
            all.extend(&bytes);
            all.resize(200, 0);
            let Some(view) = DescriptionView::read(&all) else { return Ok(()) };
            let names: usize = view.fields.take(1000).map(|field| field.names.count()).sum();
            prop_assert!(names < 1000);
        }
    }
}
