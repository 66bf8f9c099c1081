//! The two phases: finding the handler of an exception, and unwinding to it.
//!
//! Source: `RtlDispatchException` and `RtlUnwindEx` as "x64 exception
//! handling" (Microsoft) describes them.
#![expect(unsafe_code, reason = "goes on in driver code")]

use lab_verifier::RuleId;
use nt::NTSTATUS;
use nt::seh::{
    CONTEXT, DISPATCHER_CONTEXT, EXCEPTION_EXIT_UNWIND, EXCEPTION_NESTED_CALL,
    EXCEPTION_NONCONTINUABLE, EXCEPTION_RECORD, EXCEPTION_TARGET_UNWIND, EXCEPTION_UNWINDING,
    ExceptionContinueExecution as CONTINUE_EXECUTION, ExceptionContinueSearch as CONTINUE_SEARCH,
};
use nt::status::{
    STATUS_INVALID_DISPOSITION, STATUS_INVALID_UNWIND_TARGET, STATUS_NONCONTINUABLE_EXCEPTION,
    STATUS_UNWIND,
};

use super::frames::{Frame, Frames, Place};
use super::{Segment, Target, context_of, registers_of};
use crate::asm;
use crate::guest::{get, set};
use crate::machine::Machine;
use crate::sched::ThreadId;
use crate::unwind::{Handler, Registers};

/// Frames that a walk may have: more than fit on a kernel stack.
const MAX_FRAMES: usize = 4096;

/// How an exception ends that finds no handler, beside the way it would end anyway.
struct Broken {
    status: NTSTATUS,
    why: String,
}

impl Machine {
    /// Asks the handlers of the driver's frames about an exception; returns if none wants it.
    ///
    /// `registers` are the driver's at the exception, and its slot holds them.
    pub(super) fn dispatch(
        &self,
        thread: ThreadId,
        registers: &Registers,
        record: &mut EXCEPTION_RECORD,
    ) {
        let place = self.stack_place(thread);
        let mut context = context_of(registers);
        let mut walk = Search {
            record: std::ptr::from_mut(record),
            context: &raw mut context,
            registers: *registers,
            place,
        };
        let mut frames = Frames::new(self, thread, *registers);
        for _ in 0..MAX_FRAMES {
            let Some(frame) = frames.next().filter(|frame| self.is_frame(thread, frame)) else {
                return;
            };
            walk.mark_nested(&frame, &mut frames.nested);
            if let Some(handler) = frame.handler.filter(|handler| handler.for_exceptions) {
                self.search_frame(thread, &mut walk, &frame, &handler);
            }
        }
    }

    /// Asks one frame's handler; returns if it does not want the exception.
    fn search_frame(&self, thread: ThreadId, walk: &mut Search, frame: &Frame, handler: &Handler) {
        let mut caller = context_of(&frame.caller);
        let mut dispatcher = dispatcher_context(frame, handler, &raw mut caller, 0);
        let segment = Segment {
            depth: walk.place.depth + 1,
            registers: walk.registers,
            place: walk.place,
            nested: frame.establisher,
            dispatcher: 0,
        };
        let call = [
            walk.record as u64,
            frame.establisher,
            walk.context as u64,
            (&raw mut dispatcher) as u64,
        ];
        match self.call_leavable(thread, segment, handler.routine, call) {
            CONTINUE_EXECUTION => self.continue_execution(thread, walk),
            CONTINUE_SEARCH => {}
            other => self.break_off(
                walk.record,
                &Broken {
                    status: STATUS_INVALID_DISPOSITION,
                    why: format!("an exception handler returned {other}"),
                },
            ),
        }
    }

    /// Goes on where the exception was raised, with what the filters made of the registers.
    fn continue_execution(&self, thread: ThreadId, walk: &Search) -> ! {
        if get!(walk.record, ExceptionFlags) & EXCEPTION_NONCONTINUABLE != 0 {
            let why = "a handler continues an exception that can't be continued".into();
            self.break_off(
                walk.record,
                &Broken {
                    status: STATUS_NONCONTINUABLE_EXCEPTION,
                    why,
                },
            );
        }
        self.resume_at(thread, &registers_of(walk.context), walk.place)
    }

    /// Runs the termination handlers of the frames down to the target, and goes on there.
    pub(super) fn unwind_to(&self, thread: ThreadId, registers: &Registers, target: Target) -> ! {
        let mut made_up = super::raise::record(STATUS_UNWIND, registers.rip, &[]);
        let record = match target.record {
            0 => &raw mut made_up,
            address => address as *mut EXCEPTION_RECORD,
        };
        for frame in Frames::new(self, thread, *registers).take(MAX_FRAMES) {
            let past = target.frame != 0 && frame.establisher > target.frame;
            if past || !self.is_frame(thread, &frame) {
                break;
            }
            if let Some(handler) = frame.handler.filter(|handler| handler.for_unwinding) {
                self.unwind_frame(thread, record, &frame, &handler, target);
            }
            if frame.establisher == target.frame {
                let mut registers = frame.registers;
                registers.gpr[0] = target.value;
                registers.rip = target.ip;
                self.resume_at(thread, &registers, frame.place);
            }
        }
        self.break_off(
            record,
            &Broken {
                status: STATUS_INVALID_UNWIND_TARGET,
                why: format!("there is no frame {:#x} to unwind to", target.frame),
            },
        )
    }

    /// Runs one frame's termination handlers.
    fn unwind_frame(
        &self,
        thread: ThreadId,
        record: *mut EXCEPTION_RECORD,
        frame: &Frame,
        handler: &Handler,
        target: Target,
    ) {
        let mut context = context_of(&frame.registers);
        let mut dispatcher = dispatcher_context(frame, handler, &raw mut context, target.ip);
        let mut flags =
            get!(record, ExceptionFlags) & EXCEPTION_NONCONTINUABLE | EXCEPTION_UNWINDING;
        if target.frame == 0 {
            flags |= EXCEPTION_EXIT_UNWIND;
        }
        if frame.establisher == target.frame {
            flags |= EXCEPTION_TARGET_UNWIND;
        }
        set!(record, ExceptionFlags = flags);
        let segment = Segment {
            depth: self.stack_place(thread).depth + 1,
            registers: frame.registers,
            place: frame.place,
            nested: 0,
            dispatcher: (&raw mut dispatcher) as u64,
        };
        let call = [
            record as u64,
            frame.establisher,
            (&raw mut context) as u64,
            (&raw mut dispatcher) as u64,
        ];
        let disposition = self.call_leavable(thread, segment, handler.routine, call);
        if disposition != CONTINUE_SEARCH {
            self.break_off(
                record,
                &Broken {
                    status: STATUS_INVALID_DISPOSITION,
                    why: format!("a termination handler returned {disposition}"),
                },
            );
        }
    }

    /// Calls a routine of the driver that exceptions may leave by way of `segment`.
    ///
    /// The caller's frames, and theirs up to the kernel call they are part of, must own nothing.
    pub(super) fn call_leavable(
        &self,
        thread: ThreadId,
        segment: Segment,
        routine: u64,
        args: [u64; 4],
    ) -> i32 {
        let segments = &self.thread(thread).seh.segments;
        let level = segments.borrow().len();
        segments.borrow_mut().push(segment);
        let result = self.call(routine, args);
        segments.borrow_mut().truncate(level);
        #[expect(
            clippy::cast_possible_truncation,
            reason = "the result is the low half of rax"
        )]
        let result = result as u32;
        result.cast_signed()
    }

    /// Leaves all host frames younger than a frame of the driver, and goes on in that.
    pub(super) fn resume_at(&self, thread: ThreadId, registers: &Registers, place: Place) -> ! {
        let registers = *registers;
        if !self.on_kernel_stack(thread, registers.rsp()) {
            self.violate(
                RuleId::UnhandledException,
                [u64::from(STATUS_INVALID_UNWIND_TARGET.to_u32()), registers.rip, registers.rsp(), 0],
                format!("execution is to go on with the stack pointer {:#x}, which is not on the thread's stack", registers.rsp()),
            );
        }
        let state = self.thread(thread);
        state.seh.segments.borrow_mut().truncate(place.segments);
        state.depth.set(place.depth);
        set!(self.cpu().area(), host_rsp = place.host_rsp);
        // SAFETY: the frame is one of this thread's, at a depth whose call from the host has not
        // returned; `place` is the host's state in that call. The host frames given up are those that
        // the module's documentation lists, which own nothing. The registers are what unwinding gave,
        // or the driver's filter chose: what it does with them is its business, faults are caught.
        unsafe { asm::resume(&raw const registers) }
    }

    /// Whether a frame lies on the thread's kernel stack.
    fn is_frame(&self, thread: ThreadId, frame: &Frame) -> bool {
        frame.establisher.is_multiple_of(8) && self.on_kernel_stack(thread, frame.establisher)
    }

    fn break_off(&self, record: *mut EXCEPTION_RECORD, broken: &Broken) -> ! {
        let (code, address) = (get!(record, ExceptionCode), get!(record, ExceptionAddress));
        self.violate(
            RuleId::UnhandledException,
            [
                u64::from(broken.status.to_u32()),
                address as u64,
                u64::from(code.to_u32()),
                0,
            ],
            format!("{}: {} for exception {code}", broken.status, broken.why),
        )
    }
}

/// An exception that looks for its handler. Owns nothing: it is left behind when the driver goes on.
struct Search {
    record: *mut EXCEPTION_RECORD,
    context: *mut CONTEXT,
    registers: Registers,
    place: Place,
}

impl Search {
    /// Tells handlers, up to the frame whose handler raised the exception, that it is nested.
    fn mark_nested(&self, frame: &Frame, nested: &mut u64) {
        let mut flags = get!(self.record, ExceptionFlags) & !EXCEPTION_NESTED_CALL;
        if frame.establisher <= *nested {
            flags |= EXCEPTION_NESTED_CALL;
        } else {
            *nested = 0;
        }
        set!(self.record, ExceptionFlags = flags);
    }
}

fn dispatcher_context(
    frame: &Frame,
    handler: &Handler,
    context: *mut CONTEXT,
    target_ip: u64,
) -> DISPATCHER_CONTEXT {
    DISPATCHER_CONTEXT {
        ControlPc: frame.registers.rip,
        ImageBase: frame.image_base,
        FunctionEntry: frame.function_entry as *mut _,
        EstablisherFrame: frame.establisher,
        TargetIp: target_ip,
        ContextRecord: context,
        LanguageHandler: handler.routine,
        HandlerData: handler.data as *mut _,
        HistoryTable: std::ptr::null_mut(),
        ScopeIndex: frame.scope,
        Fill0: 0,
    }
}
