//! Frames: a length, then a message.

use serde::{Serialize, de::DeserializeOwned};
use std::io::{self, Read, Write};

/// Longest message in bytes, without its length field.
pub const MAX_FRAME: usize = 4 << 20;

const HEADER: usize = size_of::<u32>();

/// Why bytes are not a frame, or could not be exchanged.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// The peer announced, or we were given, a message that is too long.
    #[error("frame of {len} bytes exceeds the limit of {MAX_FRAME}")]
    TooLong {
        /// Length in bytes.
        len: usize,
    },
    /// A message of no bytes at all.
    #[error("frame of length 0")]
    Empty,
    /// The bytes are no such message.
    #[error("malformed {what}: {source}")]
    Malformed {
        /// Rust type of the message.
        what: &'static str,
        /// What the decoder says.
        source: postcard::Error,
    },
    /// Bytes are left behind the message.
    #[error("{len} stray bytes after {what}")]
    Trailing {
        /// Rust type of the message.
        what: &'static str,
        /// How many.
        len: usize,
    },
    /// The connection ended inside a frame.
    #[error("the connection was closed inside a frame")]
    Truncated,
    /// The socket failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Encodes one message as a frame.
///
/// Errors: [`FrameError::TooLong`].
pub fn encode<T: Serialize>(message: &T) -> Result<Vec<u8>, FrameError> {
    let frame =
        postcard::to_extend(message, vec![0; HEADER]).map_err(|source| FrameError::Malformed {
            what: short_name::<T>(),
            source,
        })?;
    finish(frame)
}

fn finish(mut frame: Vec<u8>) -> Result<Vec<u8>, FrameError> {
    let len = frame.len() - HEADER;
    let header = u32::try_from(len).map_err(|_| FrameError::TooLong { len })?;
    check_len(len)?;
    frame[..HEADER].copy_from_slice(&header.to_le_bytes());
    Ok(frame)
}

fn check_len(len: usize) -> Result<(), FrameError> {
    match len {
        0 => Err(FrameError::Empty),
        1..=MAX_FRAME => Ok(()),
        _ => Err(FrameError::TooLong { len }),
    }
}

/// Decodes the message of one frame (the bytes after its length).
///
/// Errors: [`FrameError::Malformed`], [`FrameError::Trailing`].
pub fn decode<T: DeserializeOwned>(message: &[u8]) -> Result<T, FrameError> {
    let what = short_name::<T>();
    let (value, rest) = postcard::take_from_bytes(message)
        .map_err(|source| FrameError::Malformed { what, source })?;
    match rest.len() {
        0 => Ok(value),
        len => Err(FrameError::Trailing { what, len }),
    }
}

fn short_name<T>() -> &'static str {
    let name = core::any::type_name::<T>();
    name.rsplit("::").next().unwrap_or(name)
}

/// Writes one message.
///
/// Errors: as [`encode`], and what the stream says.
pub fn write_frame<T: Serialize>(stream: &mut impl Write, message: &T) -> Result<(), FrameError> {
    stream.write_all(&encode(message)?)?;
    Ok(stream.flush()?)
}

/// Reads one message; `None` when the peer closed between frames.
///
/// Errors: as [`decode`], and what the stream says.
pub fn read_frame<T: DeserializeOwned>(stream: &mut impl Read) -> Result<Option<T>, FrameError> {
    let mut header = [0; HEADER];
    match fill(stream, &mut header)? {
        0 => return Ok(None),
        HEADER => {}
        _ => return Err(FrameError::Truncated),
    }
    let len = announced(header)?;
    let mut message = vec![0; len];
    if fill(stream, &mut message)? < len {
        return Err(FrameError::Truncated);
    }
    decode(&message).map(Some)
}

fn announced(header: [u8; HEADER]) -> Result<usize, FrameError> {
    let len = u32::from_le_bytes(header);
    let len = usize::try_from(len).unwrap_or(usize::MAX);
    check_len(len)?;
    Ok(len)
}

/// Reads until `buffer` is full or the stream ends; says how much came.
fn fill(stream: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match stream.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(n) => filled += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(filled)
}

/// Collects bytes as they come from a non-blocking socket and yields messages as they become whole.
///
/// After an error the stream has no known frame border any more: drop the connection.
#[derive(Debug, Default)]
pub struct Decoder {
    buffer: Vec<u8>,
    consumed: usize,
}

impl Decoder {
    /// An empty decoder.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            buffer: Vec::new(),
            consumed: 0,
        }
    }

    /// Adds bytes read from the socket.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.consumed > 0 {
            self.buffer.drain(..self.consumed);
            self.consumed = 0;
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// Takes the next whole message; `None` when more bytes are needed.
    ///
    /// Errors: as [`decode`]; a length that is out of range is refused as soon as its four bytes are there.
    pub fn next_message<T: DeserializeOwned>(&mut self) -> Result<Option<T>, FrameError> {
        let pending = &self.buffer[self.consumed..];
        let Some((header, rest)) = pending.split_first_chunk::<HEADER>() else {
            return Ok(None);
        };
        let len = announced(*header)?;
        let Some(message) = rest.get(..len) else {
            return Ok(None);
        };
        let value = decode(message)?;
        self.consumed += HEADER + len;
        Ok(Some(value))
    }

    /// Bytes received but not yet part of a whole message; at the end of a connection this should be 0.
    #[must_use]
    pub fn pending_bytes(&self) -> usize {
        self.buffer.len() - self.consumed
    }
}
