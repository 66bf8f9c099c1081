//! A worker process as seen from outside.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::{End, Job, Lost, Probe, Ready, Said};
use crate::bench::Outcome;
use crate::case::Case;
use crate::stop::Stop;

/// Bytes of a worker's last words that are kept.
const LAST_WORDS: usize = 4096;
/// Bytes of one answer, at most.
const MAX_LINE: u64 = 64 << 20;

/// How much slower than its limit a worker may be because the host is busy.
const BUSY_HOST: u32 = 10;
/// How often whoever waits for an answer looks whether it should end early.
const LOOK: Duration = Duration::from_millis(100);
/// How long an answer may still take once the check is to end early.
const GRACE: Duration = Duration::from_secs(2);

/// How to start a worker: a program that calls [`super::serve`].
#[derive(Clone, Debug)]
pub struct Command {
    /// The program.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<std::ffi::OsString>,
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
    stop: Stop,
    /// What it said of the driver.
    pub ready: Ready,
}

impl Worker {
    /// Starts one and waits until it is ready.
    ///
    /// Errors: no process, no driver, or it died of it.
    pub fn start(command: &Command, limit: Duration) -> Result<Self, StartError> {
        Self::start_until(command, limit, Stop::default())
    }

    /// Starts one that is ended, whatever it does, soon after `stop` is set.
    ///
    /// Errors: as [`Self::start`].
    pub fn start_until(command: &Command, limit: Duration, stop: Stop) -> Result<Self, StartError> {
        let child = std::process::Command::new(&command.program)
            .args(&command.arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // What the terminal sends on Ctrl-C is for the check, which ends its workers itself.
            .process_group(0)
            .spawn();
        let mut child = child.map_err(|source| StartError::Spawn {
            program: command.program.clone(),
            source,
        })?;
        let (answer, answers) = channel();
        let (words, last_words) = channel();
        let readers = [
            child
                .stdout
                .take()
                .map(|out| std::thread::spawn(move || read_lines(out, &answer))),
            child
                .stderr
                .take()
                .map(|out| std::thread::spawn(move || read_words(out, &words))),
        ];
        let mut worker = Self {
            jobs: child.stdin.take(),
            child,
            answers,
            readers: readers.into_iter().flatten().collect(),
            last_words,
            stop,
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
        let start = self.processor_time();
        let mut before = start;
        for _ in 0..BUSY_HOST {
            match self.line(limit) {
                Ok(line) => {
                    return serde_json::from_str(&line).map_err(|_| self.lose(Some(End::Nonsense)));
                }
                Err(RecvTimeoutError::Disconnected) => return Err(self.lose(None)),
                Err(RecvTimeoutError::Timeout) if self.stop.is_set() => {
                    return Err(self.lose(Some(End::Interrupted)));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
            // On a busy host the limit is one of its own time, as long as it gets some.
            let now = self.processor_time();
            if now <= before || now - start >= limit {
                break;
            }
            before = now;
        }
        Err(self.lose(Some(End::Silent(limit))))
    }

    /// A line of it within the limit, or within the grace that there is once the check is to end early.
    fn line(&self, limit: Duration) -> Result<String, RecvTimeoutError> {
        let started = Instant::now();
        let mut stopped = None;
        loop {
            let left = match stopped {
                None => limit.saturating_sub(started.elapsed()),
                Some(at) => GRACE.saturating_sub(Instant::elapsed(&at)),
            };
            match self.answers.recv_timeout(left.min(LOOK)) {
                Err(RecvTimeoutError::Timeout) if !left.is_zero() => {}
                said => return said,
            }
            if stopped.is_none() && self.stop.is_set() {
                stopped = Some(Instant::now());
            }
        }
    }

    /// Processor time that the process has had; none if it is gone.
    fn processor_time(&self) -> Duration {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()));
        let ticks = stat.ok().as_deref().and_then(ticks).unwrap_or(0);
        // `USER_HZ` is 100 on every Linux for x86-64.
        Duration::from_millis(ticks * 10)
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
            end: end.unwrap_or_else(|| status.map_or(End::Nonsense, End::from)),
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

/// `utime` and `stime` of a line of `/proc/PID/stat`.
fn ticks(stat: &str) -> Option<u64> {
    // Behind the program's name, which may hold anything.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace().skip(11);
    let (user, system) = (fields.next()?, fields.next()?);
    Some(user.parse::<u64>().ok()? + system.parse::<u64>().ok()?)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_is_found_behind_any_name() {
        let stat = "7 (a) b (c)) R 1 7 7 0 -1 4194304 1 2 3 4 250 50 0 0 20 0 1 0 5";
        assert_eq!(ticks(stat), Some(300));
        assert_eq!(ticks("7 (x) R 1"), None);
    }

    #[test]
    fn a_program_that_is_no_worker_is_lost_and_one_that_is_not_there_is_named() {
        let start = |program: &str| {
            let command = Command {
                program: program.into(),
                arguments: Vec::new(),
            };
            Worker::start(&command, Duration::from_secs(10))
        };
        let Err(StartError::Lost(lost)) = start("/bin/true") else {
            panic!("it says nothing and ends")
        };
        assert_eq!(lost.end, End::Exit(0));
        let Err(error) = start("/no/such/program") else {
            panic!("it is not there")
        };
        assert!(error.to_string().contains("/no/such/program"), "{error}");
    }
}
