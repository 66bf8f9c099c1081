//! Reads forward in bytes that may be anything.

/// What is left to read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor<'a>(pub(crate) &'a [u8]);

impl<'a> Cursor<'a> {
    pub(crate) fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.bytes(1)?.first().copied()
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        let bytes = self.bytes(2)?.try_into().ok()?;
        Some(u16::from_le_bytes(bytes))
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        let bytes = self.bytes(4)?.try_into().ok()?;
        Some(u32::from_le_bytes(bytes))
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        let bytes = self.bytes(8)?.try_into().ok()?;
        Some(u64::from_le_bytes(bytes))
    }

    /// A text behind its length.
    pub(crate) fn text(&mut self) -> Option<String> {
        let length = self.u16()?;
        let bytes = self.bytes(length.into())?;
        Some(String::from_utf8_lossy(bytes).into_owned())
    }

    /// A record of fixed size.
    pub(crate) fn record<T: zerocopy::FromBytes>(&mut self) -> Option<T> {
        T::read_from_bytes(self.bytes(size_of::<T>())?).ok()
    }
}
