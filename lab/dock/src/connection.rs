//! One client: its socket, its open files, its request under way.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;

use lab_client::protocol::{Decoder, Handle, Reply, Request as Ask, encode};
use lab_ntos::{Client, FileId, Privilege, Request};

/// Bytes of replies that may wait for a client to read them.
const MAX_OUTGOING: usize = 2 * lab_client::protocol::MAX_FRAME;

/// A client's connection.
pub(crate) struct Connection {
    pub(crate) stream: UnixStream,
    decoder: Decoder,
    outgoing: Vec<u8>,
    /// Whether it has introduced itself.
    pub(crate) greeted: bool,
    pub(crate) client: Client,
    pub(crate) files: BTreeMap<Handle, FileId>,
    /// Processors that it has told to execute a process.
    pub(crate) attached: Vec<usize>,
    /// The request that is with the driver, and room for its output.
    pub(crate) pending: Option<(Request, Vec<u8>)>,
    /// No more messages; to be dropped once everything is sent.
    pub(crate) closing: bool,
}

/// What came from a client.
pub(crate) enum Incoming {
    Message(Ask),
    Nothing,
    /// The client is gone, or talks nonsense (said in words).
    Gone(Option<String>),
}

impl Connection {
    /// Takes a connection; the peer's identity is the kernel's word.
    pub(crate) fn new(stream: UnixStream) -> std::io::Result<Self> {
        stream.set_nonblocking(true)?;
        let peer = rustix::net::sockopt::socket_peercred(&stream)?;
        // Whoever runs the lab administers its machines; so does root.
        let administers = peer.uid.is_root() || peer.uid == rustix::process::getuid();
        let privilege = if administers {
            Privilege::Administrator
        } else {
            Privilege::User
        };
        let process = u64::try_from(peer.pid.as_raw_nonzero().get()).unwrap_or(0);
        Ok(Self {
            stream,
            decoder: Decoder::new(),
            outgoing: Vec::new(),
            greeted: false,
            client: Client { process, privilege },
            files: BTreeMap::new(),
            attached: Vec::new(),
            pending: None,
            closing: false,
        })
    }

    /// Reads what has come.
    pub(crate) fn receive(&mut self) -> Option<Incoming> {
        let mut buffer = [0; 16 * 1024];
        loop {
            match self.stream.read(&mut buffer) {
                Ok(0) => return Some(Incoming::Gone(None)),
                Ok(read) => self.decoder.push(&buffer[..read]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return None,
                Err(error) => return Some(Incoming::Gone(Some(error.to_string()))),
            }
            // Enough for one message at a time: do not read on while one is whole.
            if self.decoder.pending_bytes() > lab_client::protocol::MAX_FRAME {
                return None;
            }
        }
    }

    /// The next whole message, unless one is being worked on.
    pub(crate) fn next(&mut self) -> Incoming {
        if self.pending.is_some() || self.closing {
            return Incoming::Nothing;
        }
        match self.decoder.next_message() {
            Ok(Some(message)) => Incoming::Message(message),
            Ok(None) => Incoming::Nothing,
            Err(error) => Incoming::Gone(Some(error.to_string())),
        }
    }

    /// Queues a reply; a client that does not read its replies is dropped.
    pub(crate) fn reply(&mut self, reply: &Reply) {
        if self.outgoing.len() > MAX_OUTGOING {
            self.outgoing.clear();
            self.closing = true;
            return;
        }
        match encode(reply) {
            Ok(frame) => self.outgoing.extend(frame),
            Err(error) => {
                // Only an output longer than a frame gets here, and lengths are capped on the way in.
                let refusal = Reply::Refused {
                    reason: format!("the reply cannot be sent: {error}"),
                };
                self.outgoing.extend(encode(&refusal).unwrap_or_default());
            }
        }
    }

    /// Whether something waits to be sent.
    pub(crate) fn has_outgoing(&self) -> bool {
        !self.outgoing.is_empty()
    }

    /// Sends what can be sent now; false when the client is gone.
    pub(crate) fn send(&mut self) -> bool {
        while !self.outgoing.is_empty() {
            match self.stream.write(&self.outgoing) {
                Ok(0) => return false,
                Ok(written) => drop(self.outgoing.drain(..written)),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return true,
                Err(_) => return false,
            }
        }
        true
    }
}
