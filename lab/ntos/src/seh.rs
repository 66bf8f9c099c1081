//! Structured exceptions.
//!
//! A fault of driver code, or an export that raises, looks for a handler as
//! Windows does: the frames are walked by the unwind tables, each frame's
//! language handler is asked, and one that wants the exception has the stack
//! unwound to its frame, where the driver goes on.
//!
//! ```text
//!  host stack:   fiber_main → call_driver ┐                ┌ dispatch → call_driver ┐
//!  kernel stack:                          └ F (__try) → G ─┘ (faults)               └ F's handler, filter
//! ```
//!
//! The dispatcher runs on the host stack, handlers and filters on the kernel
//! stack below the frame that faulted. What the dispatcher calls may raise in
//! turn, and never come back: a [`Segment`] per such call tells how the walk
//! goes on from the frames of the one to those of the other.
//!
//! # Leaving host frames
//! When the driver goes on in a frame, the host frames younger than it are
//! given up without being returned through. They are, by construction:
//! - the dispatcher's and the unwinder's own (`dispatch`), whose locals own nothing,
//! - those of `__C_specific_handler` (`handler`), likewise,
//! - `Machine::call…` and `asm::call_driver`, whose only state is the thread's `depth` and the
//!   area's `host_rsp` and slot, which [`Machine::resume_at`] sets to what they were in that frame,
//! - `exports::guard`, whose `catch_unwind` keeps no record of itself.
//!
//! No other host frame is ever among them. An export raises by leaving a
//! [`Pending`] with its thread and *returning*; the thunk looks for it on the
//! way out, when the export's frames are gone. A fault in host code is raised
//! by exports that access memory through [`crate::guest::attempt`], which
//! returns an error. And the walk ends at a routine that other host code
//! called: an exception does not pass through a kernel routine that calls the
//! driver back (on Windows it would).

mod context;
mod dispatch;
mod frames;
mod handler;
mod raise;

use std::cell::{Cell, RefCell};

use nt::seh::EXCEPTION_RECORD;

use crate::unwind::Registers;

use frames::Place;

pub(crate) use context::context_of;
use context::registers_of;
pub(crate) use raise::{Fault, access_violation, enter_raised, record};

/// What a thread is to do instead of returning from the kernel call under way.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Pending {
    /// Dispatch an exception.
    Raise(EXCEPTION_RECORD),
    /// Unwind to a frame and go on there.
    Unwind(Target),
}

/// Where an unwind goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    /// Establisher of the frame.
    pub(crate) frame: u64,
    /// Address to go on at.
    pub(crate) ip: u64,
    /// Address of the exception's record; 0 for one made up.
    pub(crate) record: u64,
    /// What `rax` is there.
    pub(crate) value: u64,
}

/// A call into the driver that exceptions may leave: how the walk goes on when the routine's own
/// frames are at their end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment {
    /// Depth of the thread in the routine that was called.
    depth: u32,
    /// The frame to go on with, and where it runs.
    registers: Registers,
    place: Place,
    /// Establisher of the frame whose handler was called for an exception; 0 in other calls.
    nested: u64,
    /// Address of the `DISPATCHER_CONTEXT` of an unwind under way; 0 in other calls.
    dispatcher: u64,
}

/// What a thread knows of exceptions.
#[derive(Default)]
pub(crate) struct State {
    pending: Cell<Option<Pending>>,
    /// Calls that exceptions may leave, the youngest last.
    segments: RefCell<Vec<Segment>>,
}

impl State {
    /// Forgets everything: the thread starts something new.
    pub(crate) fn reset(&self) {
        self.pending.set(None);
        self.segments.borrow_mut().clear();
    }
}
