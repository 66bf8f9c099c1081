//! A blocking connection to a dock.

use crate::{
    protocol::{
        Access, Completion, Description, FrameError, Handle, NtStatus, PROTOCOL_VERSION, Reply,
        Request, read_frame, write_frame,
    },
    socket::{SocketError, SocketPath},
};
use std::{
    io,
    os::unix::net::UnixStream,
    path::PathBuf,
    sync::{Mutex, PoisonError},
};

/// Why a dock could not be reached, or did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nobody listens there.
    #[error("cannot connect to {path}: {source}")]
    Connect {
        /// The socket.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The socket's place is not safe.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// The dock closed the connection.
    #[error("the dock closed the connection")]
    Closed,
    /// The exchange failed.
    #[error("talking to the dock: {0}")]
    Frame(#[from] FrameError),
    /// The dock has another protocol version.
    #[error("the dock speaks protocol version {theirs}, this client {PROTOCOL_VERSION}")]
    Version {
        /// The dock's version.
        theirs: u32,
    },
    /// The driver did not let the device be opened.
    #[error("opening {device} failed with status {status}")]
    OpenFailed {
        /// The device's name.
        device: String,
        /// How `IRP_MJ_CREATE` was completed.
        status: NtStatus,
    },
    /// The dock refused.
    #[error("the dock refused: {0}")]
    Refused(String),
    /// The driver stopped the system.
    #[error("the driver stopped the system:\n{0}")]
    Stopped(String),
    /// The dock answered something that is no answer to this.
    #[error("the dock answered {request} with {reply}")]
    Unexpected {
        /// What was asked.
        request: &'static str,
        /// What came.
        reply: String,
    },
}

/// A connection to a dock; handles opened through it are closed when it is dropped.
#[derive(Debug)]
pub struct Client {
    stream: Mutex<UnixStream>,
    driver: String,
}

impl Client {
    /// Connects, and checks that both ends speak the same protocol version.
    ///
    /// Errors: [`ClientError::Connect`] when nobody listens; [`ClientError::Version`]; [`ClientError::Socket`].
    pub fn connect(path: &SocketPath) -> Result<Self, ClientError> {
        path.check_folder()?;
        let path = path.as_path();
        let stream = UnixStream::connect(path).map_err(|source| ClientError::Connect {
            path: path.to_owned(),
            source,
        })?;
        Self::handshake(stream)
    }

    /// Takes an already connected stream and says hello.
    ///
    /// Errors: [`ClientError::Version`], or the exchange's.
    pub fn handshake(stream: UnixStream) -> Result<Self, ClientError> {
        let mut client = Self {
            stream: Mutex::new(stream),
            driver: String::new(),
        };
        let hello = Request::Hello {
            version: PROTOCOL_VERSION,
        };
        match client.exchange(&hello)? {
            Reply::Welcome { version, driver } if version == PROTOCOL_VERSION => {
                client.driver = driver;
                Ok(client)
            }
            Reply::Welcome { version, .. } => Err(ClientError::Version { theirs: version }),
            other => Err(unexpected("Hello", &other)),
        }
    }

    /// Name of the docked driver.
    #[must_use]
    pub fn driver(&self) -> &str {
        &self.driver
    }

    /// Opens a device, e.g. `\\.\WperfDriver`.
    ///
    /// Errors: [`ClientError::OpenFailed`] with the driver's status; [`ClientError::Refused`] when there is no such device.
    pub fn open(&self, device: &str, access: Access) -> Result<Handle, ClientError> {
        let request = Request::Open {
            device: device.to_owned(),
            access,
        };
        match self.exchange(&request)? {
            Reply::Opened { handle } => Ok(handle),
            Reply::Completed(completion) => Err(ClientError::OpenFailed {
                device: device.to_owned(),
                status: completion.status,
            }),
            other => Err(unexpected("Open", &other)),
        }
    }

    /// Sends a control code; the driver's status is in the completion, also when it is an error.
    ///
    /// Errors: the exchange's only.
    pub fn ioctl(
        &self,
        handle: Handle,
        code: u32,
        input: &[u8],
        output_len: u32,
    ) -> Result<Completion, ClientError> {
        let request = Request::Ioctl {
            handle,
            code,
            input: input.to_vec(),
            output_len,
        };
        self.completed("Ioctl", &request)
    }

    /// Reads `len` bytes at `offset`.
    ///
    /// Errors: the exchange's only.
    pub fn read(&self, handle: Handle, offset: u64, len: u32) -> Result<Completion, ClientError> {
        self.completed(
            "Read",
            &Request::Read {
                handle,
                offset,
                len,
            },
        )
    }

    /// Writes `data` at `offset`.
    ///
    /// Errors: the exchange's only.
    pub fn write(
        &self,
        handle: Handle,
        offset: u64,
        data: &[u8],
    ) -> Result<Completion, ClientError> {
        let request = Request::Write {
            handle,
            offset,
            data: data.to_vec(),
        };
        self.completed("Write", &request)
    }

    /// Closes a handle.
    ///
    /// Errors: the exchange's; [`ClientError::Refused`] for a handle that is not open.
    pub fn close(&self, handle: Handle) -> Result<(), ClientError> {
        self.done("Close", &Request::Close { handle })
    }

    /// Lets virtual processor `cpu` stand for host process `pid`.
    ///
    /// Errors: [`ClientError::Refused`] when there is no such processor or process.
    pub fn attach(&self, cpu: u32, pid: u32) -> Result<(), ClientError> {
        self.done("Attach", &Request::Attach { cpu, pid })
    }

    /// Ends [`attach`](Self::attach).
    ///
    /// Errors: [`ClientError::Refused`] when there is no such processor.
    pub fn detach(&self, cpu: u32) -> Result<(), ClientError> {
        self.done("Detach", &Request::Detach { cpu })
    }

    /// Asks what is docked.
    ///
    /// Errors: the exchange's only.
    pub fn describe(&self) -> Result<Description, ClientError> {
        match self.exchange(&Request::Describe)? {
            Reply::Described(description) => Ok(description),
            other => Err(unexpected("Describe", &other)),
        }
    }

    /// Unloads the driver and ends the dock.
    ///
    /// Errors: [`ClientError::Stopped`] when the unload ended in a stop.
    pub fn stop(&self) -> Result<(), ClientError> {
        self.done("Stop", &Request::Stop)
    }

    fn completed(&self, name: &'static str, request: &Request) -> Result<Completion, ClientError> {
        match self.exchange(request)? {
            Reply::Completed(completion) => Ok(completion),
            other => Err(unexpected(name, &other)),
        }
    }

    fn done(&self, name: &'static str, request: &Request) -> Result<(), ClientError> {
        match self.exchange(request)? {
            Reply::Done => Ok(()),
            other => Err(unexpected(name, &other)),
        }
    }

    fn exchange(&self, request: &Request) -> Result<Reply, ClientError> {
        let mut stream = self.stream.lock().unwrap_or_else(PoisonError::into_inner);
        let sent = write_frame(&mut *stream, request);
        // A dock that died may have left its stop report to be read, although writing fails.
        let reply = match (sent, read_frame(&mut *stream)) {
            (_, Ok(Some(reply))) => reply,
            (Err(error), _) | (_, Err(error)) => return Err(error.into()),
            (Ok(()), Ok(None)) => return Err(ClientError::Closed),
        };
        match reply {
            Reply::Refused { reason } => Err(ClientError::Refused(reason)),
            Reply::Stopped { report } => Err(ClientError::Stopped(report)),
            reply => Ok(reply),
        }
    }
}

fn unexpected(request: &'static str, reply: &Reply) -> ClientError {
    ClientError::Unexpected {
        request,
        reply: format!("{reply:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{collections::HashMap, thread};

    /// Serves one connection: answers each request by `answer`, after the handshake.
    fn dock(
        version: u32,
        answer: impl Fn(Request) -> Option<Reply> + Send + 'static,
    ) -> (UnixStream, thread::JoinHandle<()>) {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let thread = thread::spawn(move || {
            while let Some(request) = read_frame::<Request>(&mut theirs).unwrap() {
                let reply = match request {
                    Request::Hello { .. } => Some(Reply::Welcome {
                        version,
                        driver: "echo".into(),
                    }),
                    other => answer(other),
                };
                match reply {
                    Some(reply) => write_frame(&mut theirs, &reply).unwrap(),
                    None => return,
                }
            }
        });
        (ours, thread)
    }

    #[test]
    fn an_ioctl_brings_back_the_drivers_status_and_output() {
        let (stream, thread) = dock(PROTOCOL_VERSION, |request| match request {
            Request::Open { device, access } => {
                assert_eq!((device.as_str(), access), (r"\\.\Echo", Access::READ_WRITE));
                Some(Reply::Opened { handle: Handle(3) })
            }
            Request::Ioctl {
                handle: Handle(3),
                code,
                input,
                output_len,
            } => Some(Reply::Completed(Completion {
                status: NtStatus(code),
                information: u64::from(output_len),
                output: input,
            })),
            other => panic!("{other:?}"),
        });
        let client = Client::handshake(stream).unwrap();
        assert_eq!(client.driver(), "echo");
        let handle = client.open(r"\\.\Echo", Access::READ_WRITE).unwrap();
        let done = client.ioctl(handle, 0xC000_0001, b"abc", 5).unwrap();
        assert!(done.status.is_error());
        assert_eq!(
            (done.information, done.output.as_slice()),
            (5, b"abc".as_slice())
        );
        drop(client);
        thread.join().unwrap();
    }

    #[test]
    fn another_protocol_version_is_refused() {
        let (stream, _thread) = dock(PROTOCOL_VERSION + 1, |_| None);
        assert!(matches!(
            Client::handshake(stream),
            Err(ClientError::Version { theirs }) if theirs == PROTOCOL_VERSION + 1
        ));
    }

    #[test]
    fn a_stop_a_refusal_and_a_wrong_answer_are_told_apart() {
        let answers: HashMap<u32, Reply> = HashMap::from([
            (
                0,
                Reply::Stopped {
                    report: "stop 0xC4".into(),
                },
            ),
            (
                1,
                Reply::Refused {
                    reason: "no such cpu".into(),
                },
            ),
            (2, Reply::Opened { handle: Handle(0) }),
        ]);
        let (stream, _thread) = dock(PROTOCOL_VERSION, move |request| match request {
            Request::Attach { cpu, .. } => answers.get(&cpu).cloned(),
            _ => None,
        });
        let client = Client::handshake(stream).unwrap();
        assert!(matches!(client.attach(0, 1), Err(ClientError::Stopped(r)) if r == "stop 0xC4"));
        assert!(matches!(client.attach(1, 1), Err(ClientError::Refused(r)) if r == "no such cpu"));
        assert!(matches!(
            client.attach(2, 1),
            Err(ClientError::Unexpected { .. })
        ));
        assert!(matches!(client.attach(3, 1), Err(ClientError::Closed)));
    }

    #[test]
    fn nobody_listening_is_an_error_that_names_the_socket() {
        let folder = tempfile::tempdir().unwrap();
        let path = SocketPath::Given(folder.path().join("none.sock"));
        let error = Client::connect(&path).unwrap_err();
        assert!(error.to_string().contains("none.sock"), "{error}");
    }
}
