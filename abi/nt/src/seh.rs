//! Structured exceptions (ntdef.h, winnt.h): records, contexts, unwinding.

use core::ffi::c_void;

use crate::status::NTSTATUS;

/// `CONTEXT` of x86-64.
#[derive(Clone, Copy)]
#[repr(C, align(16))]
pub struct CONTEXT {
    pub Home: [u64; 6],
    pub ContextFlags: u32,
    pub MxCsr: u32,
    pub Segments: [u16; 6],
    pub EFlags: u32,
    pub Debug: [u64; 6],
    /// rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi, r8 … r15.
    pub Integer: [u64; 16],
    pub Rip: u64,
    pub Legacy: [u64; 20],
    pub Xmm: [u128; 16],
    pub Legacy2: [u64; 12],
    pub Vector: [u128; 26],
    pub VectorControl: u64,
    pub DebugControl: [u64; 5],
}
layout!(CONTEXT, 0x4D0, ContextFlags @ 0x30, MxCsr @ 0x34, Segments @ 0x38, EFlags @ 0x44, Integer @ 0x78, Rip @ 0xF8, Legacy @ 0x100, Xmm @ 0x1A0, Vector @ 0x300, VectorControl @ 0x4A0);

/// `CONTEXT_FULL`: control, integer and floating-point registers of x86-64.
pub const CONTEXT_FULL: u32 = 0x0010_000B;

/// Parameters of an exception, at most.
pub const EXCEPTION_MAXIMUM_PARAMETERS: usize = 15;

#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct EXCEPTION_RECORD {
    pub ExceptionCode: NTSTATUS,
    pub ExceptionFlags: u32,
    pub ExceptionRecord: *mut EXCEPTION_RECORD,
    pub ExceptionAddress: *mut c_void,
    pub NumberParameters: u32,
    pub ExceptionInformation: [usize; EXCEPTION_MAXIMUM_PARAMETERS],
}
layout!(EXCEPTION_RECORD, 0x98, ExceptionFlags @ 4, ExceptionRecord @ 8, ExceptionAddress @ 0x10, NumberParameters @ 0x18, ExceptionInformation @ 0x20);

pub const EXCEPTION_NONCONTINUABLE: u32 = 0x1;
pub const EXCEPTION_UNWINDING: u32 = 0x2;
pub const EXCEPTION_EXIT_UNWIND: u32 = 0x4;
pub const EXCEPTION_STACK_INVALID: u32 = 0x8;
pub const EXCEPTION_NESTED_CALL: u32 = 0x10;
pub const EXCEPTION_TARGET_UNWIND: u32 = 0x20;
pub const EXCEPTION_COLLIDED_UNWIND: u32 = 0x40;
/// Set in any of the two phases that run termination handlers.
pub const EXCEPTION_UNWIND: u32 = 0x66;

#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct EXCEPTION_POINTERS {
    pub ExceptionRecord: *mut EXCEPTION_RECORD,
    pub ContextRecord: *mut CONTEXT,
}

/// `EXCEPTION_DISPOSITION` (excpt.h).
pub const ExceptionContinueExecution: i32 = 0;
pub const ExceptionContinueSearch: i32 = 1;
pub const ExceptionNestedException: i32 = 2;
pub const ExceptionCollidedUnwind: i32 = 3;

/// Flags of unwind information: the function's handler is for exceptions, for unwinding.
pub const UNW_FLAG_EHANDLER: u32 = 1;
pub const UNW_FLAG_UHANDLER: u32 = 2;

#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct RUNTIME_FUNCTION {
    pub BeginAddress: u32,
    pub EndAddress: u32,
    pub UnwindData: u32,
}
layout!(RUNTIME_FUNCTION, 12);

/// What a language handler is told of the frame (winnt.h).
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct DISPATCHER_CONTEXT {
    pub ControlPc: u64,
    pub ImageBase: u64,
    pub FunctionEntry: *mut RUNTIME_FUNCTION,
    pub EstablisherFrame: u64,
    pub TargetIp: u64,
    pub ContextRecord: *mut CONTEXT,
    pub LanguageHandler: u64,
    pub HandlerData: *mut c_void,
    pub HistoryTable: *mut c_void,
    pub ScopeIndex: u32,
    pub Fill0: u32,
}
layout!(DISPATCHER_CONTEXT, 0x50, TargetIp @ 0x20, ContextRecord @ 0x28, HandlerData @ 0x38, ScopeIndex @ 0x48);

image! {
    /// The handler of C's `__try` scopes.
    fn __C_specific_handler(ExceptionRecord: *mut EXCEPTION_RECORD, EstablisherFrame: u64, ContextRecord: *mut CONTEXT, DispatcherContext: *mut DISPATCHER_CONTEXT) -> i32 where irql <= HIGH_LEVEL;
    /// Runs termination handlers up to a place in the frame that is leaving a `__try`; does not return.
    fn _local_unwind(EstablisherFrame: *mut c_void, TargetIp: *mut c_void) where irql <= HIGH_LEVEL;
    /// Raises an exception that can't be continued; does not return.
    fn ExRaiseStatus(Status: NTSTATUS) where irql <= APC_LEVEL;
    /// Raises `STATUS_ACCESS_VIOLATION`; does not return.
    fn ExRaiseAccessViolation() where irql <= APC_LEVEL;
    /// Raises `STATUS_DATATYPE_MISALIGNMENT`; does not return.
    fn ExRaiseDatatypeMisalignment() where irql <= APC_LEVEL;
    /// Raises an exception that can't be continued; does not return.
    fn RtlRaiseStatus(Status: NTSTATUS) where irql <= DISPATCH_LEVEL;
    /// Raises an exception; returns if a handler has it continued.
    fn RtlRaiseException(ExceptionRecord: *mut EXCEPTION_RECORD) where irql <= DISPATCH_LEVEL;
    /// Unwinds to a frame; does not return.
    fn RtlUnwind(TargetFrame: *mut c_void, TargetIp: *mut c_void, ExceptionRecord: *mut EXCEPTION_RECORD, ReturnValue: *mut c_void) where irql <= HIGH_LEVEL;
    /// Unwinds to a frame; does not return.
    fn RtlUnwindEx(TargetFrame: *mut c_void, TargetIp: *mut c_void, ExceptionRecord: *mut EXCEPTION_RECORD, ReturnValue: *mut c_void, ContextRecord: *mut CONTEXT, HistoryTable: *mut c_void) where irql <= HIGH_LEVEL;
    /// Makes a context that of the caller of its function; gives the function's handler of the asked type.
    fn RtlVirtualUnwind(HandlerType: u32, ImageBase: u64, ControlPc: u64, FunctionEntry: *mut RUNTIME_FUNCTION, ContextRecord: *mut CONTEXT, HandlerData: *mut *mut c_void, EstablisherFrame: *mut u64, ContextPointers: *mut c_void) -> *mut c_void where irql <= HIGH_LEVEL;
    /// The entry of the function table that covers an address, and its image's base; null if there is none.
    fn RtlLookupFunctionEntry(ControlPc: u64, ImageBase: *mut u64, HistoryTable: *mut c_void) -> *mut RUNTIME_FUNCTION where irql <= HIGH_LEVEL;
    /// Base of the image that an address is in; null if there is none.
    fn RtlPcToFileHeader(PcValue: *mut c_void, BaseOfImage: *mut *mut c_void) -> *mut c_void where irql <= HIGH_LEVEL;
    /// Records the caller's registers.
    fn RtlCaptureContext(ContextRecord: *mut CONTEXT) where irql <= DISPATCH_LEVEL;
}
