//! `__C_specific_handler`: the language handler of C's `__try`.
//!
//! ```text
//! handler data: count │ count × { begin, end, handler, target }   rvas
//!   target = 0: handler is a __finally block
//!   handler = 1: __except (EXCEPTION_EXECUTE_HANDLER); else the filter
//! ```
//! Source: `SCOPE_TABLE_AMD64`, winnt.h; "x64 exception handling", Microsoft.

use nt::seh::{
    CONTEXT, DISPATCHER_CONTEXT, EXCEPTION_POINTERS, EXCEPTION_RECORD, EXCEPTION_TARGET_UNWIND,
    EXCEPTION_UNWIND, ExceptionContinueExecution, ExceptionContinueSearch,
};

use super::frames::{Frame, Frames};
use super::{Pending, Segment, Target};
use crate::guest::{self, get, set};
use crate::machine::Machine;
use crate::unwind::Registers;

/// Scopes of a function, at most: more are not a table.
const MAX_SCOPES: u32 = 0x1_0000;
/// In place of a filter that always wants the exception.
const EXECUTE_HANDLER: u32 = 1;

/// A guarded range of code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
struct Scope {
    begin: u32,
    end: u32,
    handler: u32,
    target: u32,
}

impl Scope {
    fn covers(&self, rva: u64) -> bool {
        (u64::from(self.begin)..u64::from(self.end)).contains(&rva)
    }

    fn is_except(&self) -> bool {
        self.target != 0
    }
}

/// The scopes of a function, from one on.
fn scopes(data: u64, first: u32) -> impl Iterator<Item = (u32, Scope)> {
    let count = guest::read(data as *const u32).min(MAX_SCOPES);
    let table = (data + 4) as *const Scope;
    (first..count).map(move |index| (index, guest::read(table.wrapping_add(index as usize))))
}

/// What a language handler is called with. Owns nothing, like everything here: see [`super`].
#[derive(Clone, Copy)]
struct Asked {
    record: *mut EXCEPTION_RECORD,
    frame: u64,
    context: *mut CONTEXT,
    dispatcher: *mut DISPATCHER_CONTEXT,
}

impl Asked {
    fn image_base(&self) -> u64 {
        get!(self.dispatcher, ImageBase)
    }

    fn pc(&self) -> u64 {
        get!(self.dispatcher, ControlPc).wrapping_sub(self.image_base())
    }

    fn scopes(&self) -> impl Iterator<Item = (u32, Scope)> + use<> {
        let pc = self.pc();
        let data = get!(self.dispatcher, HandlerData) as u64;
        scopes(data, get!(self.dispatcher, ScopeIndex)).filter(move |(_, scope)| scope.covers(pc))
    }
}

impl Machine {
    /// Whether a `__try` with an `__except` covers a place in driver code, in its function or a caller's.
    pub(crate) fn is_guarded(&self, registers: &Registers) -> bool {
        let Some(thread) = self.running.get() else {
            return false;
        };
        Frames::new(self, thread, *registers).any(|frame| {
            let pc = frame.registers.rip.wrapping_sub(frame.image_base);
            let handler = frame.handler.filter(|handler| handler.for_exceptions);
            handler.is_some_and(|handler| self.has_except_at(&frame, handler.data, pc))
        })
    }

    /// Whether handler data is a table of scopes, and one with an `__except` covers an rva.
    ///
    /// Other language handlers have other data: what does not fit the image is none.
    fn has_except_at(&self, frame: &Frame, data: u64, pc: u64) -> bool {
        let size = self.with_module(frame.image_base, |module| {
            module.image.image().header().image_size
        });
        let size = size.unwrap_or(0);
        let fits = |scope: &Scope| {
            scope.begin < scope.end
                && scope.end <= size
                && scope.handler < size
                && scope.target < size
        };
        scopes(data, 0)
            .map_while(|(_, scope)| Some(scope).filter(fits))
            .any(|scope| scope.is_except() && scope.covers(pc))
    }

    /// `__C_specific_handler`: gives an `EXCEPTION_DISPOSITION`.
    pub(crate) fn c_specific_handler(
        &self,
        record: *mut EXCEPTION_RECORD,
        frame: u64,
        context: *mut CONTEXT,
        dispatcher: *mut DISPATCHER_CONTEXT,
    ) -> i32 {
        let asked = Asked {
            record,
            frame,
            context,
            dispatcher,
        };
        if get!(record, ExceptionFlags) & EXCEPTION_UNWIND == 0 {
            self.search_scopes(asked)
        } else {
            self.unwind_scopes(asked)
        }
    }

    fn search_scopes(&self, asked: Asked) -> i32 {
        for (_, scope) in asked.scopes().filter(|(_, scope)| scope.is_except()) {
            let wanted = if scope.handler == EXECUTE_HANDLER {
                1
            } else {
                self.filter(asked, scope)
            };
            if wanted < 0 {
                return ExceptionContinueExecution;
            }
            if wanted > 0 {
                self.leave_kernel_to(Pending::Unwind(Target {
                    frame: asked.frame,
                    ip: asked.image_base() + u64::from(scope.target),
                    record: asked.record as u64,
                    value: u64::from(get!(asked.record, ExceptionCode).to_u32()),
                }));
                break;
            }
        }
        ExceptionContinueSearch
    }

    /// Asks a filter: below 0 to continue, above to handle.
    fn filter(&self, asked: Asked, scope: Scope) -> i32 {
        let pointers = EXCEPTION_POINTERS {
            ExceptionRecord: asked.record,
            ContextRecord: asked.context,
        };
        let args = [(&raw const pointers) as u64, asked.frame, 0, 0];
        self.call_block(asked, scope, args)
    }

    fn unwind_scopes(&self, asked: Asked) -> i32 {
        let target = get!(asked.dispatcher, TargetIp).wrapping_sub(asked.image_base());
        let on_target = get!(asked.record, ExceptionFlags) & EXCEPTION_TARGET_UNWIND != 0;
        for (index, scope) in asked.scopes() {
            // Execution goes on inside this scope, or in its __except block: no further out.
            if on_target && (scope.covers(target) || target == u64::from(scope.target)) {
                break;
            }
            if !scope.is_except() {
                // Not again, should the block raise and be unwound itself.
                set!(asked.dispatcher, ScopeIndex = index + 1);
                self.call_block(asked, scope, [1, asked.frame, 0, 0]);
            }
        }
        ExceptionContinueSearch
    }

    /// Calls a filter or a `__finally` block.
    fn call_block(&self, asked: Asked, scope: Scope, args: [u64; 4]) -> i32 {
        let Some(thread) = self.running.get() else {
            return 0;
        };
        let place = self.stack_place(thread);
        // Below the block are the frames that called this export.
        let segment = Segment {
            depth: place.depth + 1,
            registers: self.call_registers(),
            place,
            nested: 0,
            dispatcher: 0,
        };
        let routine = asked.image_base() + u64::from(scope.handler);
        self.call_leavable(thread, segment, routine, args)
    }
}
