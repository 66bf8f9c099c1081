//! Messages of ETW in WPP's form, as a session collects them.

use nt::etw::{
    MESSAGE_MARKER, TRACE_MESSAGE_COMPONENTID, TRACE_MESSAGE_GUID, TRACE_MESSAGE_SEQUENCE,
    TRACE_MESSAGE_SYSTEMINFO, TRACE_MESSAGE_TIMESTAMP,
};

use crate::cursor::Cursor;

/// A message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message<'a> {
    /// Message GUID, as it lies in memory.
    pub guid: [u8; 16],
    /// Number in it.
    pub number: u16,
    /// Number in the session.
    pub sequence: Option<u32>,
    /// When it was sent. Units: those of the session's clock.
    pub time: Option<u64>,
    /// Thread and process that sent it.
    pub sender: Option<[u32; 2]>,
    /// The arguments.
    pub data: &'a [u8],
}

impl<'a> Message<'a> {
    /// The message of a record (`MESSAGE_TRACE`); `None` if it is none.
    #[must_use]
    pub fn parse(record: &'a [u8]) -> Option<Self> {
        let mut cursor = Cursor(record);
        let size = cursor.u16()?;
        let [_, marker] = cursor.bytes(2)?.try_into().ok()?;
        if marker != MESSAGE_MARKER {
            return None;
        }
        let number = cursor.u16()?;
        let options = u32::from(cursor.u16()?);
        let mut rest = Cursor(record.get(8..size.into())?);
        let has = |flag: u32| options & flag != 0;
        let mut message = Self {
            number,
            ..Self::default()
        };
        if has(TRACE_MESSAGE_SEQUENCE) {
            message.sequence = Some(rest.u32()?);
        }
        if has(TRACE_MESSAGE_GUID) {
            message.guid = rest.bytes(16)?.try_into().ok()?;
        } else if has(TRACE_MESSAGE_COMPONENTID) {
            rest.u32()?;
        }
        if has(TRACE_MESSAGE_TIMESTAMP) {
            message.time = Some(rest.u64()?);
        }
        if has(TRACE_MESSAGE_SYSTEMINFO) {
            message.sender = Some([rest.u32()?, rest.u32()?]);
        }
        message.data = rest.0;
        Some(message)
    }
}
