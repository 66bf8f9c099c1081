//! Answers clients.
//!
//! One thread does everything: it waits for sockets and for the machine's
//! next timer, lets the machine run, and answers. A client that goes away,
//! however it dies, has its files cleaned up and closed at once.

use std::io::ErrorKind;
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use lab_client::protocol::{
    Completion, Description, Handle, NtStatus, PROTOCOL_VERSION, Reply, Request as Ask,
};
use lab_client::socket::{SocketError, SocketPath};
use lab_ntos::{FileId, Stopped};
use lab_verifier::Verdict;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::connection::{Connection, Incoming};
use crate::dock::Dock;

/// Clients at once.
const MAX_CLIENTS: usize = 256;
/// Files a client may have open.
const MAX_FILES: usize = 1024;
/// Longest output of a request.
const MAX_OUTPUT: u32 = 4 << 20;
/// How long a dock that ends with its last client waits for the first one.
const PATIENCE: Duration = Duration::from_secs(10);

/// When serving ends by itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Until {
    /// When somebody says so.
    Stopped,
    /// When the last client is gone.
    Idle,
}

/// Why serving could not begin or go on.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The folder of the socket is not ours.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// Another dock answers there.
    #[error("a dock is serving at {} already", .0.display())]
    InUse(PathBuf),
    /// The operating system refused.
    #[error("cannot serve: {0}")]
    Io(#[from] std::io::Error),
}

/// How serving ended: the driver is unloaded, or it has stopped the machine.
#[derive(Debug)]
pub struct Ended {
    /// What there is to say of the driver.
    pub verdict: Verdict,
    /// Requests that were answered.
    pub requests: u64,
}

/// A socket that clients find; removed when dropped.
pub struct Listener {
    listener: UnixListener,
    path: PathBuf,
}

impl Listener {
    /// Listens at a path; a socket file that nobody answers at is replaced.
    pub fn bind(path: &SocketPath) -> Result<Self, ServeError> {
        path.prepare_folder()?;
        let path = path.as_path().to_owned();
        let listener = match UnixListener::bind(&path) {
            Err(error) if error.kind() == ErrorKind::AddrInUse => {
                if UnixStream::connect(&path).is_ok() {
                    return Err(ServeError::InUse(path));
                }
                std::fs::remove_file(&path)?;
                UnixListener::bind(&path)?
            }
            other => other?,
        };
        listener.set_nonblocking(true)?;
        Ok(Self { listener, path })
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // Already gone is as good.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Serves a docked driver until `until`, a client's request, or a byte on `stop`.
pub fn serve(
    dock: Dock,
    listener: &Listener,
    until: Until,
    stop: &UnixStream,
) -> Result<Ended, ServeError> {
    stop.set_nonblocking(true)?;
    let server = Server {
        dock,
        connections: Vec::new(),
        next_handle: 0,
        requests: 0,
        started: Instant::now(),
        had_client: false,
        stopping: false,
    };
    server.run(listener, until, stop)
}

struct Server {
    dock: Dock,
    connections: Vec<Connection>,
    next_handle: u32,
    requests: u64,
    started: Instant,
    had_client: bool,
    stopping: bool,
}

impl Server {
    fn run(
        mut self,
        listener: &Listener,
        until: Until,
        stop: &UnixStream,
    ) -> Result<Ended, ServeError> {
        loop {
            self.accept(listener)?;
            let next_timer = match self.turn() {
                Ok(next) => next,
                Err(stopped) => return Ok(self.crash(&stopped)),
            };
            if self.is_over(until) {
                return self.end();
            }
            if self.wait(listener, stop, next_timer)? {
                self.stopping = true;
            }
        }
    }

    /// Lets the machine run and answers whoever can be answered; gives when the next timer is due.
    fn turn(&mut self) -> Result<Option<u64>, Stopped> {
        self.dock.machine().poll()?;
        self.answer_completed();
        self.receive_all()?;
        self.flush();
        self.dock.machine().poll()
    }

    fn is_over(&self, until: Until) -> bool {
        if self.stopping {
            return true;
        }
        let abandoned =
            self.connections.is_empty() && (self.had_client || self.started.elapsed() > PATIENCE);
        until == Until::Idle && abandoned
    }

    /// Waits for a socket or the next timer; true when asked to stop.
    fn wait(
        &self,
        listener: &Listener,
        stop: &UnixStream,
        next_timer: Option<u64>,
    ) -> Result<bool, ServeError> {
        let mut fds = vec![
            PollFd::from_borrowed_fd(stop.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(listener.listener.as_fd(), PollFlags::IN),
        ];
        for connection in &self.connections {
            let mut flags = PollFlags::IN;
            flags.set(PollFlags::OUT, connection.has_outgoing());
            fds.push(PollFd::from_borrowed_fd(connection.stream.as_fd(), flags));
        }
        let longest = PATIENCE.as_nanos();
        let timeout = next_timer.map_or(longest, |ns| u128::from(ns).min(longest));
        let timeout = Duration::from_nanos(u64::try_from(timeout).unwrap_or(u64::MAX));
        let timeout = Timespec::try_from(timeout).map_err(std::io::Error::other)?;
        match poll(&mut fds, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(!fds[0].revents().is_empty()),
            Err(errno) => Err(ServeError::Io(errno.into())),
        }
    }

    fn accept(&mut self, listener: &Listener) -> Result<(), ServeError> {
        loop {
            match listener.listener.accept() {
                Ok((stream, _)) if self.connections.len() < MAX_CLIENTS => {
                    self.had_client = true;
                    // A peer that is gone before it is known needs no answer.
                    self.connections.extend(Connection::new(stream).ok());
                }
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Reads every connection and does what was asked.
    fn receive_all(&mut self) -> Result<(), Stopped> {
        let mut index = 0;
        while index < self.connections.len() {
            if self.receive(index)? {
                index += 1;
            } else {
                self.drop_connection(index)?;
            }
        }
        Ok(())
    }

    /// False when the connection is over.
    fn receive(&mut self, index: usize) -> Result<bool, Stopped> {
        let gone = matches!(self.connections[index].receive(), Some(Incoming::Gone(_)));
        loop {
            match self.connections[index].next() {
                Incoming::Message(ask) => self.handle(index, ask)?,
                Incoming::Nothing => break,
                Incoming::Gone(reason) => {
                    if let Some(reason) = reason {
                        self.connections[index].reply(&Reply::Refused { reason });
                        self.connections[index].send();
                    }
                    return Ok(false);
                }
            }
        }
        let connection = &self.connections[index];
        let is_done = connection.closing && !connection.has_outgoing();
        Ok(!(gone || is_done))
    }

    /// Closes what a client left open, as the I/O manager does when a process dies.
    fn drop_connection(&mut self, index: usize) -> Result<(), Stopped> {
        let mut connection = self.connections.swap_remove(index);
        let machine = self.dock.machine();
        if let Some((request, _)) = connection.pending.take() {
            machine.cancel(&request)?;
            if machine.is_complete(&request) {
                machine.finish(request, &mut []);
            }
        }
        for file in std::mem::take(&mut connection.files).into_values() {
            machine.close(file)?;
        }
        for cpu in connection.attached {
            // Detaching from a processor that exists can't fail.
            let _ = machine.attach(cpu, None);
        }
        Ok(())
    }

    /// Replies to requests that the driver has completed.
    fn answer_completed(&mut self) {
        let machine = self.dock.machine();
        for connection in &mut self.connections {
            let complete = connection
                .pending
                .as_ref()
                .is_some_and(|(request, _)| machine.is_complete(request));
            if let Some((request, mut output)) = connection.pending.take_if(|_| complete) {
                let completion = machine.finish(request, &mut output);
                connection.reply(&completed(completion, output));
            }
        }
    }

    fn flush(&mut self) {
        for connection in &mut self.connections {
            if !connection.send() {
                connection.closing = true;
            }
        }
    }

    fn handle(&mut self, index: usize, ask: Ask) -> Result<(), Stopped> {
        self.requests += 1;
        if !self.connections[index].greeted {
            self.greet(index, &ask);
            return Ok(());
        }
        match ask {
            Ask::Hello { .. } => self.refuse(index, "the connection is introduced already"),
            Ask::Open { device, access } => self.open(index, &device, access.0)?,
            Ask::Ioctl {
                handle,
                code,
                input,
                output_len,
            } => self.ioctl(index, handle, code, &input, output_len)?,
            Ask::Read {
                handle,
                offset,
                len,
            } => self.read(index, handle, offset, len)?,
            Ask::Write {
                handle,
                offset,
                data,
            } => self.write(index, handle, offset, &data)?,
            Ask::Close { handle } => self.close(index, handle)?,
            Ask::Attach { cpu, pid } => self.attach(index, cpu, Some(pid)),
            Ask::Detach { cpu } => self.attach(index, cpu, None),
            Ask::Describe => {
                let description = self.describe();
                self.connections[index].reply(&Reply::Described(description));
            }
            Ask::Stop => {
                self.stopping = true;
                self.connections[index].reply(&Reply::Done);
            }
        }
        Ok(())
    }

    fn greet(&mut self, index: usize, ask: &Ask) {
        let driver = self.dock.name().to_owned();
        let connection = &mut self.connections[index];
        match ask {
            Ask::Hello { version } if *version == PROTOCOL_VERSION => {
                connection.greeted = true;
                connection.reply(&Reply::Welcome {
                    version: PROTOCOL_VERSION,
                    driver,
                });
            }
            Ask::Hello { version } => {
                let reason = format!(
                    "the dock speaks version {PROTOCOL_VERSION} of the protocol, the client {version}"
                );
                connection.reply(&Reply::Refused { reason });
                connection.closing = true;
            }
            _ => {
                connection.reply(&Reply::Refused {
                    reason: "the first message must be Hello".into(),
                });
                connection.closing = true;
            }
        }
    }

    fn refuse(&mut self, index: usize, reason: &str) {
        self.connections[index].reply(&Reply::Refused {
            reason: reason.to_owned(),
        });
    }

    /// The file of a handle; refuses when there is none.
    fn file(&mut self, index: usize, handle: Handle) -> Option<FileId> {
        let file = self.connections[index].files.get(&handle).copied();
        if file.is_none() {
            self.refuse(index, "no such handle");
        }
        file
    }

    fn open(&mut self, index: usize, device: &str, access: u32) -> Result<(), Stopped> {
        if self.connections[index].files.len() >= MAX_FILES {
            self.refuse(index, "too many open files");
            return Ok(());
        }
        let client = self.connections[index].client;
        let reply = match self.dock.machine().open(device, access, client)? {
            Ok(file) => {
                self.next_handle += 1;
                let handle = Handle(self.next_handle);
                self.connections[index].files.insert(handle, file);
                Reply::Opened { handle }
            }
            Err(status) => failed(status),
        };
        self.connections[index].reply(&reply);
        Ok(())
    }

    fn ioctl(
        &mut self,
        index: usize,
        handle: Handle,
        code: u32,
        input: &[u8],
        output_len: u32,
    ) -> Result<(), Stopped> {
        let Some(file) = self.file(index, handle) else {
            return Ok(());
        };
        if output_len > MAX_OUTPUT - 64 {
            self.refuse(index, "the output buffer is too long");
            return Ok(());
        }
        let output = vec![0; output_len as usize];
        match self
            .dock
            .machine()
            .begin_ioctl(file, code, input, output.len())?
        {
            Ok(request) => self.connections[index].pending = Some((request, output)),
            Err(status) => self.connections[index].reply(&failed(status)),
        }
        self.dock.machine().poll()?;
        self.answer_completed();
        Ok(())
    }

    fn read(&mut self, index: usize, handle: Handle, offset: u64, len: u32) -> Result<(), Stopped> {
        let Some(file) = self.file(index, handle) else {
            return Ok(());
        };
        if len > MAX_OUTPUT - 64 {
            self.refuse(index, "the buffer is too long");
            return Ok(());
        }
        let mut output = vec![0; len as usize];
        let completion = self.dock.machine().read(file, offset, &mut output)?;
        self.connections[index].reply(&completed(completion, output));
        Ok(())
    }

    fn write(
        &mut self,
        index: usize,
        handle: Handle,
        offset: u64,
        data: &[u8],
    ) -> Result<(), Stopped> {
        let Some(file) = self.file(index, handle) else {
            return Ok(());
        };
        let completion = self.dock.machine().write(file, offset, data)?;
        self.connections[index].reply(&completed(completion, Vec::new()));
        Ok(())
    }

    fn close(&mut self, index: usize, handle: Handle) -> Result<(), Stopped> {
        let Some(file) = self.connections[index].files.remove(&handle) else {
            self.refuse(index, "no such handle");
            return Ok(());
        };
        self.dock.machine().close(file)?;
        self.connections[index].reply(&Reply::Done);
        Ok(())
    }

    fn attach(&mut self, index: usize, cpu: u32, process: Option<u32>) {
        let cpu = cpu as usize;
        let connection = &mut self.connections[index];
        match self.dock.machine().attach(cpu, process) {
            Ok(()) => {
                connection.attached.retain(|attached| *attached != cpu);
                if process.is_some() {
                    connection.attached.push(cpu);
                }
                connection.reply(&Reply::Done);
            }
            Err(reason) => connection.reply(&Reply::Refused { reason }),
        }
    }

    fn describe(&self) -> Description {
        let machine = self.dock.machine();
        Description {
            driver: self.dock.name().to_owned(),
            pmu_source: machine.pmu_source().to_owned(),
            cpus: u32::try_from(machine.cpu_count()).unwrap_or(u32::MAX),
            uptime_ms: u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX),
            open_handles: u32::try_from(machine.open_files()).unwrap_or(u32::MAX),
        }
    }

    /// Closes every client, unloads, judges.
    fn end(mut self) -> Result<Ended, ServeError> {
        self.flush();
        while !self.connections.is_empty() {
            if let Err(stopped) = self.drop_connection(0) {
                return Ok(self.crash(&stopped));
            }
        }
        Ok(Ended {
            verdict: self.dock.finish(),
            requests: self.requests,
        })
    }

    /// Tells every client that the driver stopped the machine.
    fn crash(mut self, stopped: &Stopped) -> Ended {
        self.dock.stopped();
        for connection in &mut self.connections {
            connection.reply(&Reply::Stopped {
                report: stopped.0.to_string(),
            });
            connection.send();
        }
        let mut findings = self.dock.machine().take_findings();
        findings.push((*stopped.0).clone());
        let verdict = Verdict {
            findings,
            ..Verdict::default()
        };
        Ended {
            verdict,
            requests: self.requests,
        }
    }
}

fn completed(completion: lab_ntos::Completion, mut output: Vec<u8>) -> Reply {
    let returned = if completion.status.is_error() {
        0
    } else {
        completion.information
    };
    output.truncate(returned);
    Reply::Completed(Completion {
        status: NtStatus(completion.status.to_u32()),
        information: completion.information as u64,
        output,
    })
}

fn failed(status: nt::NTSTATUS) -> Reply {
    Reply::Completed(Completion {
        status: NtStatus(status.to_u32()),
        information: 0,
        output: Vec::new(),
    })
}
