//! How events go out through ETW, in the form of WPP: the relay in a driver packs them so, and the TMF
//! files say so.
//!
//! ```text
//!  message GUID   made of the build's identity
//!  number         10 + index of the event in section PAGETRC; LOST and CLOCKS are the relay's own
//!  payload        processor (2), ticks (8), then the arguments as items, back to back
//! ```

use crate::site::Kind;

/// First message number of WPP: that of event 0.
pub const FIRST_NUMBER: u16 = 10;

/// Number of the message that says what was lost: ring (2), position of the first slot (8), slots (8).
pub const LOST: u16 = 0xFFFF;

/// Number of the message that puts two clocks side by side: ticks (8), system time (8).
pub const CLOCKS: u16 = 0xFFFE;

/// Most events that have a number.
pub const MOST_EVENTS: usize = (CLOCKS - FIRST_NUMBER) as usize;

/// What the kernel puts before the payload: sequence number, message GUID, time, thread and process.
///
/// Source: `TRACE_MESSAGE_SEQUENCE`, `_GUID`, `_TIMESTAMP`, `_SYSTEMINFO`, evntrace.h.
pub const OPTIONS: u32 = 1 | 2 | 8 | 32;

/// Bytes of processor and ticks, which every event's payload begins with.
pub const PREFIX_BYTES: usize = 10;

/// Most names of an enumeration that become a list of the TMF; above, they are sent as text.
pub const MOST_LISTED: u64 = 256;

/// Most bytes of an event's payload. An argument takes 132 bytes a word at most: a name of 64 letters and
/// what says that it was cut off, in UTF-16, with their length.
pub const MOST_PAYLOAD: usize = PREFIX_BYTES + 132 * crate::slot::MOST_WORDS;

/// The message GUID of a build, as it lies in memory: version 8 (RFC 9562 §5.8) of the file header's
/// `TimeDateStamp`, `SizeOfImage` and `CheckSum`.
#[must_use]
pub const fn message_guid([time, bytes, checksum]: [u32; 3]) -> [u8; 16] {
    let [t0, t1, t2, t3] = time.to_le_bytes();
    let [b0, b1, b2, b3] = bytes.to_le_bytes();
    let [c0, c1, c2, c3] = checksum.to_be_bytes();
    [
        t0, t1, t2, t3, b2, b3, 0x12, 0x8D, 0x8D, 0x0C, b1, b0, c0, c1, c2, c3,
    ]
}

/// How an argument lies in the payload, and what the TMF calls it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Item {
    /// A number without sign, of so many bytes: 1, 2, 4 or 8.
    Unsigned(u8),
    /// A number with sign, of 2, 4 or 8 bytes: tracefmt takes those of one byte for unsigned.
    Signed(u8),
    /// A number in hexadecimal, of 4 or 8 bytes.
    Hex(u8),
    /// An `NTSTATUS`, 4 bytes.
    Status,
    /// One byte, which is the index of a name: of `false` and `true`, or of a SCSI status.
    ListByte,
    /// Four bytes, which are the index of one of the field's names.
    ListLong,
    /// 16 bytes.
    Guid,
    /// UTF-16 behind its length in bytes (2): a text, the hexadecimal digits of bytes, or a name.
    Text,
}

impl Item {
    /// The item of an argument of this kind, width and names.
    #[must_use]
    pub fn of<'a>(
        kind: Kind,
        bits: u8,
        names: impl Iterator<Item = (u64, &'a [u8])> + Clone,
    ) -> Self {
        let bytes = bits.div_ceil(8).next_power_of_two().min(8);
        if names.clone().next().is_some() {
            let is_listed = |(value, name): (u64, &[u8])| value < MOST_LISTED && is_plain(name);
            return if names.clone().all(is_listed) {
                Self::ListLong
            } else {
                Self::Text
            };
        }
        match kind {
            Kind::Unsigned | Kind::Enum => Self::Unsigned(bytes),
            Kind::Signed => Self::Signed(bytes.max(2)),
            Kind::Hex | Kind::Pointer | Kind::ControlCode | Kind::Irp | Kind::Srb => {
                Self::Hex(bytes.max(4))
            }
            Kind::Bool | Kind::ScsiStatus => Self::ListByte,
            Kind::NtStatus => Self::Status,
            Kind::Guid => Self::Guid,
            Kind::Text | Kind::Bytes => Self::Text,
        }
    }
}

/// Whether a name can stand in a list: nothing in it ends one.
fn is_plain(name: &[u8]) -> bool {
    let plain = |byte: &u8| byte.is_ascii_graphic() && !b"(),".contains(byte) || *byte == b' ';
    !name.is_empty() && name.iter().all(plain)
}

/// What a driver file says behind the directory of section `PAGETRC` if its events go out through ETW.
///
/// 8 bytes [`PROVIDER_MAGIC`], 16 bytes control GUID as in memory, 2 bytes length of the name, the name.
pub const PROVIDER_MAGIC: [u8; 8] = *b"PROVIDER";

/// Bytes before the provider's name.
pub const PROVIDER_BYTES: usize = 26;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_guid_is_of_version_8_and_tells_builds_apart() {
        let guid = message_guid([0x0102_0304, 0x0506_0708, 0x090A_0B0C]);
        assert_eq!(
            guid,
            [
                4, 3, 2, 1, 6, 5, 0x12, 0x8D, 0x8D, 0x0C, 7, 8, 9, 10, 11, 12
            ]
        );
    }

    #[test]
    fn numbers_keep_their_width() {
        let item = |kind, bits| Item::of(kind, bits, core::iter::empty());
        assert_eq!(item(Kind::Unsigned, 8), Item::Unsigned(1));
        assert_eq!(item(Kind::Unsigned, 64), Item::Unsigned(8));
        assert_eq!(item(Kind::Signed, 8), Item::Signed(2));
        assert_eq!(item(Kind::ControlCode, 32), Item::Hex(4));
        assert_eq!(item(Kind::Irp, 64), Item::Hex(8));
    }

    #[test]
    fn names_become_a_list_where_they_can() {
        let item = |name: &'static [u8], value| {
            Item::of(
                Kind::Enum,
                64,
                [(0, b"none".as_slice()), (value, name)].into_iter(),
            )
        };
        assert_eq!(item(b"two words", 255), Item::ListLong);
        assert_eq!(item(b"far", 256), Item::Text);
        assert_eq!(item(b"a,b", 1), Item::Text);
        assert_eq!(item(b"", 1), Item::Text);
    }
}
