//! Waiting for the end of a count: a deadline, Ctrl-C, or the end of a program.

use crate::failure::Result;
use std::{
    process::{Child, ExitStatus},
    sync::mpsc::{Receiver, RecvTimeoutError},
    time::{Duration, Instant},
};

/// Ctrl-C was pressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interrupt;

/// Why a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The time is over.
    Deadline,
    /// Ctrl-C.
    Interrupted,
    /// The program has ended.
    Program(ExitStatus),
    /// The process that was looked at has ended.
    Gone,
}

/// How often a running program is looked at: bounds the error of the elapsed time.
const PROGRAM_POLL: Duration = Duration::from_millis(1);
/// How often `tick` is called.
const TICK: Duration = Duration::from_millis(100);

/// Waits from `start` on; `tick` is called every tenth of a second with the time since then.
///
/// The deadline is absolute: what `tick` takes does not add up.
///
/// Errors: those of `tick`, which end the wait; the program cannot be waited for.
pub fn wait(
    interrupts: &Receiver<Interrupt>,
    start: Instant,
    timeout: Option<Duration>,
    mut program: Option<&mut Child>,
    mut tick: impl FnMut(Duration) -> Result<()>,
) -> Result<End> {
    let deadline = timeout.and_then(|timeout| start.checked_add(timeout));
    let mut next_tick = start + TICK;
    loop {
        if let Some(child) = &mut program
            && let Some(status) = child.try_wait()?
        {
            return Ok(End::Program(status));
        }
        let now = Instant::now();
        if deadline.is_some_and(|deadline| now >= deadline) {
            return Ok(End::Deadline);
        }
        if now >= next_tick {
            tick(now - start)?;
            while next_tick <= now {
                next_tick += TICK;
            }
        }
        let wake = deadline.map_or(next_tick, |deadline| deadline.min(next_tick));
        let mut pause = wake.saturating_duration_since(Instant::now());
        if program.is_some() {
            pause = pause.min(PROGRAM_POLL);
        }
        match interrupts.recv_timeout(pause) {
            Ok(Interrupt) => return Ok(End::Interrupted),
            Err(RecvTimeoutError::Timeout) => {}
            // Nobody can interrupt: the pause itself was not made.
            Err(RecvTimeoutError::Disconnected) => std::thread::sleep(pause),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Failure;
    use std::sync::mpsc;

    const LONG: Option<Duration> = Some(Duration::from_secs(60));

    #[test]
    fn the_deadline_is_kept_although_ticks_take_time() {
        let (_keep, interrupts) = mpsc::channel();
        let start = Instant::now();
        let timeout = Duration::from_millis(350);
        let mut ticks = 0;
        let end = wait(&interrupts, start, Some(timeout), None, |_| {
            ticks += 1;
            std::thread::sleep(Duration::from_millis(30));
            Ok(())
        });
        assert_eq!(end, Ok(End::Deadline));
        assert_eq!(ticks, 3);
        let late = start.elapsed() - timeout;
        assert!(late < Duration::from_millis(60), "{late:?} late");
    }

    #[test]
    fn ctrl_c_ends_a_wait_without_a_deadline() {
        let (sender, interrupts) = mpsc::channel();
        sender.send(Interrupt).unwrap();
        let end = wait(&interrupts, Instant::now(), None, None, |_| Ok(()));
        assert_eq!(end, Ok(End::Interrupted));
    }

    #[test]
    fn a_failing_tick_ends_it() {
        let (_keep, interrupts) = mpsc::channel();
        let end = wait(&interrupts, Instant::now(), LONG, None, |_| {
            Err(Failure::forced_out())
        });
        assert_eq!(end, Err(Failure::forced_out()));
    }

    #[cfg(unix)]
    #[test]
    fn the_end_of_the_program_ends_it() {
        let (_keep, interrupts) = mpsc::channel();
        let mut shell = std::process::Command::new("sh");
        let mut child = shell.args(["-c", "exit 3"]).spawn().unwrap();
        let end = wait(&interrupts, Instant::now(), LONG, Some(&mut child), |_| {
            Ok(())
        });
        assert!(matches!(end, Ok(End::Program(status)) if status.code() == Some(3)));
    }
}
