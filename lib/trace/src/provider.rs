//! What a driver whose events go out through ETW says of itself in its file.

use trace_format::wpp::{PROVIDER_BYTES, PROVIDER_MAGIC};

/// A provider of events: its control GUID and its name, in the driver file.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Provider<const N: usize> {
    bytes: [u8; N],
}

/// Bytes of a provider with such a name.
#[doc(hidden)]
#[must_use]
pub const fn provider_bytes(name: &str) -> usize {
    PROVIDER_BYTES + name.len()
}

/// The GUID in a text such as `2f7c2a6e-….`, as it lies in memory.
///
/// # Panics
/// If it is none; at compile time, as these are constants.
#[must_use]
#[expect(
    clippy::indexing_slicing,
    clippy::panic,
    reason = "runs at compile time"
)]
pub const fn guid(text: &str) -> [u8; 16] {
    const ORDER: [usize; 16] = [3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15];
    let text = text.as_bytes();
    assert!(text.len() == 36, "a GUID has 36 letters");
    let mut bytes = [0; 16];
    let mut digits = 0;
    let mut at = 0;
    while at < text.len() {
        let digit = match text[at] {
            letter @ b'0'..=b'9' => letter - b'0',
            letter @ b'a'..=b'f' => letter - b'a' + 10,
            b'-' if at == 8 || at == 13 || at == 18 || at == 23 => {
                at += 1;
                continue;
            }
            _ => panic!("a GUID has the digits 0 to 9 and a to f"),
        };
        let place = ORDER[digits / 2];
        bytes[place] = bytes[place] << 4 | digit;
        digits += 1;
        at += 1;
    }
    assert!(digits == 32);
    bytes
}

#[expect(
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "runs at compile time, where a wrong length does not compile"
)]
impl<const N: usize> Provider<N> {
    /// A provider of this name; `N` is [`provider_bytes`] of it.
    #[must_use]
    pub const fn new(name: &str, control: [u8; 16]) -> Self {
        assert!(N == provider_bytes(name) && name.len() <= u16::MAX as usize);
        let mut bytes = [0; N];
        let parts: [&[u8]; 4] = [
            &PROVIDER_MAGIC,
            &control,
            &(name.len() as u16).to_le_bytes(),
            name.as_bytes(),
        ];
        let mut at = 0;
        let mut part = 0;
        while part < parts.len() {
            let mut index = 0;
            while index < parts[part].len() {
                bytes[at] = parts[part][index];
                at += 1;
                index += 1;
            }
            part += 1;
        }
        Self { bytes }
    }

    /// Its control GUID.
    #[must_use]
    pub fn control(&self) -> [u8; 16] {
        let mut guid = [0; 16];
        for (to, from) in guid.iter_mut().zip(self.bytes.iter().skip(8)) {
            *to = *from;
        }
        guid
    }
}

/// Names the driver as a provider of events: `provider!("Name", "control-guid")`. It stands in the file
/// where `drydock trace --as guids` finds it. Gives the control GUID.
#[macro_export]
macro_rules! provider {
    ($name:literal, $guid:literal $(,)?) => {{
        const BYTES: usize = $crate::provider::provider_bytes($name);
        $crate::__provider! {
            static PROVIDER: $crate::provider::Provider<BYTES> =
                $crate::provider::Provider::new($name, $crate::provider::guid($guid));
        }
        PROVIDER.control()
    }};
}

#[cfg(all(windows, any(flavour = "cold", flavour = "all")))]
#[doc(hidden)]
#[macro_export]
macro_rules! __provider {
    ($($item:tt)*) => {
        #[unsafe(link_section = "PAGETRC$b")]
        $($item)*
    };
}
#[cfg(not(all(windows, any(flavour = "cold", flavour = "all"))))]
#[doc(hidden)]
#[macro_export]
macro_rules! __provider {
    ($($item:tt)*) => { $($item)* };
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_guid_lies_in_memory_as_windows_has_it() {
        let guid = super::guid("00010203-0405-0607-0809-0a0b0c0d0e0f");
        assert_eq!(guid, [3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15]);
        assert_eq!(
            crate::provider!("Name", "00010203-0405-0607-0809-0a0b0c0d0e0f"),
            guid
        );
    }
}
