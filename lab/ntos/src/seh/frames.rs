//! The frames of a thread's driver code, youngest first, across the calls that exceptions may leave.

use nt::seh::{CONTEXT, DISPATCHER_CONTEXT, UNW_FLAG_EHANDLER, UNW_FLAG_UHANDLER};

use super::context::{context_of, registers_of, update};
use crate::guest::{self, get, set};
use crate::locate::Walk;
use crate::machine::Machine;
use crate::sched::ThreadId;
use crate::unwind::{self, Handler, Registers};

/// A frame of driver code.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    /// Its registers, and its caller's.
    pub(super) registers: Registers,
    pub(super) caller: Registers,
    pub(super) establisher: u64,
    pub(super) handler: Option<Handler>,
    /// Base of its image, and the address of its entry in the function table, 0 for a leaf.
    pub(super) image_base: u64,
    pub(super) function_entry: u64,
    /// Scopes of it that an unwind under way has left already.
    pub(super) scope: u32,
    /// Where it runs, for [`Machine::resume_at`].
    pub(super) place: Place,
}

/// State of the host while a frame runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    pub(super) depth: u32,
    pub(super) host_rsp: u64,
    /// Segments older than the frame.
    pub(super) segments: usize,
}

/// Walks the frames.
pub(super) struct Frames<'a> {
    machine: &'a Machine,
    thread: ThreadId,
    registers: Registers,
    place: Place,
    scope: u32,
    /// Establisher of the frame whose handler raised, once the walk has got past its frames.
    pub(super) nested: u64,
}

impl<'a> Frames<'a> {
    /// From the driver code that runs now, or has called the kernel.
    pub(super) fn new(machine: &'a Machine, thread: ThreadId, registers: Registers) -> Self {
        Self {
            machine,
            thread,
            registers,
            place: machine.stack_place(thread),
            scope: 0,
            nested: 0,
        }
    }

    /// Goes on with the frames below a call that exceptions may leave.
    fn leave_segment(&mut self) -> Option<()> {
        let index = self.place.segments.checked_sub(1)?;
        let segments = self.machine.thread(self.thread).seh.segments.borrow();
        let segment = segments.get(index)?;
        // A routine that other host code called: its end is the end.
        if segment.depth != self.place.depth {
            return None;
        }
        self.registers = segment.registers;
        self.place = segment.place;
        self.nested = self.nested.max(segment.nested);
        if segment.dispatcher != 0 {
            self.scope = get!(segment.dispatcher as *mut DISPATCHER_CONTEXT, ScopeIndex);
        }
        Some(())
    }
}

impl Iterator for Frames<'_> {
    type Item = Frame;

    fn next(&mut self) -> Option<Frame> {
        let entry = self.machine.function_entry(self.registers.rip);
        let Some((image_base, function_entry)) = entry else {
            self.leave_segment()?;
            return self.next();
        };
        let memory = Walk {
            machine: self.machine,
            thread: Some(self.thread),
        };
        let registers = self.registers;
        let unwound = unwind::unwind(&memory, &mut self.registers)?;
        Some(Frame {
            registers,
            caller: self.registers,
            establisher: unwound.establisher,
            handler: unwound.handler,
            image_base,
            function_entry,
            scope: std::mem::take(&mut self.scope),
            place: self.place,
        })
    }
}

impl Machine {
    /// The image that an address is in, and the address of its entry in the image's function table, 0 for a leaf.
    pub(crate) fn function_entry(&self, rip: u64) -> Option<(u64, u64)> {
        self.with_module(rip, |module| {
            let image = &module.image;
            let rva = image.rva_of(image.origin_of(rip)?)?;
            let entry = image.image().function_entry_at(rva);
            Some((
                image.base(),
                entry.map_or(0, |entry| image.address_of(entry)),
            ))
        })?
    }

    /// `RtlVirtualUnwind`: the establisher frame, and the handler if it is of the asked type.
    pub(crate) fn virtual_unwind(
        &self,
        kind: u32,
        pc: u64,
        context: *mut CONTEXT,
    ) -> (u64, Option<Handler>) {
        let mut registers = registers_of(context);
        registers.rip = pc;
        let memory = Walk {
            machine: self,
            thread: self.running.get(),
        };
        let Some(unwound) = unwind::unwind(&memory, &mut registers) else {
            // The end of the stack: Windows' callers stop at a zero instruction pointer.
            set!(context, Rip = 0);
            return (0, None);
        };
        update(context, &registers);
        let handler = unwound.handler.filter(|handler| {
            kind & UNW_FLAG_EHANDLER != 0 && handler.for_exceptions
                || kind & UNW_FLAG_UHANDLER != 0 && handler.for_unwinding
        });
        (unwound.establisher, handler)
    }

    /// `RtlCaptureContext`: the caller's registers. Those that a call need not preserve are 0.
    pub(crate) fn capture_context(&self, context: *mut CONTEXT) {
        guest::write(context, context_of(&self.call_registers()));
    }

    /// Where the running driver code runs.
    pub(super) fn stack_place(&self, thread: ThreadId) -> Place {
        let thread = self.thread(thread);
        Place {
            depth: thread.depth.get(),
            host_rsp: get!(self.cpu().area(), host_rsp),
            segments: thread.seh.segments.borrow().len(),
        }
    }
}
