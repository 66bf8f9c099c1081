//! A worker process as seen from outside.

use std::fmt;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use super::{Job, Probe, Ready, Said};
use crate::bench::Outcome;
use crate::case::Case;

/// Bytes of a worker's last words that are kept.
const LAST_WORDS: usize = 4096;
/// Bytes of one answer, at most.
const MAX_LINE: u64 = 64 << 20;

/// How to start a worker: a program that calls [`super::serve`].
#[derive(Clone, Debug)]
pub struct Command {
    /// The program.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<std::ffi::OsString>,
}

/// A worker that was lost, and how.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lost {
    /// What happened to it.
    pub end: End,
    /// What it wrote to its standard error last.
    pub last_words: String,
}

/// What happened to a worker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// A signal ended it.
    Signal(i32),
    /// It ended by itself.
    Exit(i32),
    /// It did not answer in time.
    Silent(Duration),
    /// It said something that makes no sense.
    Nonsense,
}

/// Why a worker could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// No process.
    #[error("cannot start a worker ({program})", program = program.display())]
    Spawn {
        /// The program.
        program: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The driver can't be read.
    #[error("{0}")]
    Unreadable(String),
    /// It died before it had looked at the driver.
    #[error("the worker was lost while it loaded the driver first: {0}")]
    Lost(Lost),
}

/// A running worker.
pub struct Worker {
    child: Child,
    jobs: Option<ChildStdin>,
    answers: Receiver<String>,
    readers: Vec<JoinHandle<()>>,
    last_words: Receiver<String>,
    /// What it said of the driver.
    pub ready: Ready,
}

impl Worker {
    /// Starts one and waits until it is ready.
    ///
    /// Errors: no process, no driver, or it died of it.
    pub fn start(command: &Command, limit: Duration) -> Result<Self, StartError> {
        let child = std::process::Command::new(&command.program)
            .args(&command.arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let mut child = child.map_err(|source| StartError::Spawn {
            program: command.program.clone(),
            source,
        })?;
        let (answer, answers) = channel();
        let (words, last_words) = channel();
        let readers = [
            child.stdout.take().map(|out| std::thread::spawn(move || read_lines(out, &answer))),
            child.stderr.take().map(|out| std::thread::spawn(move || read_words(out, &words))),
        ];
        let mut worker = Self {
            jobs: child.stdin.take(),
            child,
            answers,
            readers: readers.into_iter().flatten().collect(),
            last_words,
            ready: Ready::default(),
        };
        match worker.answer(limit) {
            Ok(Said::Ready(ready)) => {
                worker.ready = *ready;
                Ok(worker)
            }
            Ok(Said::Unreadable(why)) => Err(StartError::Unreadable(why)),
            Ok(_) => Err(StartError::Lost(worker.lose(Some(End::Nonsense)))),
            Err(lost) => Err(StartError::Lost(lost)),
        }
    }

    /// Runs a case.
    ///
    /// Errors: the worker was lost over it.
    pub fn run(&mut self, case: &Case, limit: Duration) -> Result<Outcome, Lost> {
        match self.ask(&Job::Run(Box::new(case.clone())), limit)? {
            Said::Ended(outcome) => Ok(*outcome),
            _ => Err(self.lose(Some(End::Nonsense))),
        }
    }

    /// Tries something that must be refused: whether it was, and in which words.
    ///
    /// Errors: the worker was lost over it.
    pub fn probe(&mut self, probe: Probe, limit: Duration) -> Result<(bool, String), Lost> {
        match self.ask(&Job::Try(probe), limit)? {
            Said::Tried { refused, how } => Ok((refused, how)),
            _ => Err(self.lose(Some(End::Nonsense))),
        }
    }

    /// Process id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    fn ask(&mut self, job: &Job, limit: Duration) -> Result<Said, Lost> {
        let sent = serde_json::to_vec(job).map(|mut line| {
            line.push(b'\n');
            let jobs = self.jobs.as_mut();
            jobs.is_some_and(|jobs| jobs.write_all(&line).is_ok())
        });
        if !sent.unwrap_or(false) {
            return Err(self.lose(None));
        }
        self.answer(limit)
    }

    fn answer(&mut self, limit: Duration) -> Result<Said, Lost> {
        match self.answers.recv_timeout(limit) {
            Ok(line) => serde_json::from_str(&line).map_err(|_| self.lose(Some(End::Nonsense))),
            Err(RecvTimeoutError::Timeout) => Err(self.lose(Some(End::Silent(limit)))),
            Err(RecvTimeoutError::Disconnected) => Err(self.lose(None)),
        }
    }

    /// Ends the process and says what had become of it.
    fn lose(&mut self, end: Option<End>) -> Lost {
        if end.is_some() {
            // It may have ended meanwhile; then there is nothing to kill.
            let _ = self.child.kill();
        }
        self.jobs = None;
        let status = self.child.wait();
        let words = self.last_words.recv_timeout(Duration::from_secs(1));
        Lost {
            end: end.unwrap_or_else(|| status.map_or(End::Nonsense, End::of)),
            last_words: words.unwrap_or_default(),
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.jobs = None;
        // Without jobs it ends by itself; one that hangs does not.
        let _ = self.child.kill();
        let _ = self.child.wait();
        for reader in self.readers.drain(..) {
            let _ = reader.join();
        }
    }
}

impl End {
    fn of(status: ExitStatus) -> Self {
        match (status.signal(), status.code()) {
            (Some(signal), _) => Self::Signal(signal),
            (None, code) => Self::Exit(code.unwrap_or(-1)),
        }
    }
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.end {
            End::Signal(signal) => {
                let name = rustix::process::Signal::from_named_raw(signal);
                match name {
                    Some(name) => write!(f, "signal {signal} ({name:?}) ended it")?,
                    None => write!(f, "signal {signal} ended it")?,
                }
            }
            End::Exit(code) => write!(f, "it ended with exit code {code}")?,
            End::Silent(limit) => write!(f, "it did not answer within {limit:?}")?,
            End::Nonsense => write!(f, "it answered what makes no sense")?,
        }
        match self.last_words.trim() {
            "" => Ok(()),
            words => write!(f, "; its last words: {words}"),
        }
    }
}

/// Passes on line after line.
fn read_lines(out: ChildStdout, lines: &Sender<String>) {
    let mut out = BufReader::new(out);
    loop {
        let mut line = String::new();
        match out.by_ref().take(MAX_LINE).read_line(&mut line) {
            Ok(read) if read > 0 && lines.send(line).is_ok() => {}
            _ => return,
        }
    }
}

/// Reads to the end, and passes on what came last.
fn read_words(mut out: ChildStderr, words: &Sender<String>) {
    let mut kept = Vec::new();
    let mut buffer = [0; 1024];
    while let Ok(read @ 1..) = out.read(&mut buffer) {
        kept.extend_from_slice(&buffer[..read]);
        let surplus = kept.len().saturating_sub(LAST_WORDS);
        kept.drain(..surplus);
    }
    // Nobody waits for them if the worker was not lost.
    let _ = words.send(String::from_utf8_lossy(&kept).into_owned());
}
