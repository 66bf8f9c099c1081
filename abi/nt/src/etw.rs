//! Event tracing in the form that WPP uses: classic providers, and messages.

use core::ffi::c_void;

use crate::base::GUID;
use crate::status::NTSTATUS;

/// What a classic provider is told: which session wants it, what of it, or that none does.
pub type ETW_CLASSIC_CALLBACK = unsafe extern "efiapi" fn(
    ProviderGuid: *const GUID,
    ControlCode: u8,
    EnableContext: *mut c_void,
    CallbackContext: *mut c_void,
);

/// `ControlCode`: no session wants the provider any more.
pub const EVENT_CONTROL_CODE_DISABLE_PROVIDER: u8 = 0;
/// `ControlCode`: a session wants the provider.
pub const EVENT_CONTROL_CODE_ENABLE_PROVIDER: u8 = 1;

/// `EnableContext`; its eight bytes are the session's handle.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TRACE_ENABLE_CONTEXT {
    pub LoggerId: u16,
    pub Level: u8,
    pub InternalFlag: u8,
    pub EnableFlags: u32,
}
layout!(TRACE_ENABLE_CONTEXT, 8, Level @ 2, EnableFlags @ 4);

/// In `MessageFlags`, and in a message: which parts there are before its data, in this order.
pub const TRACE_MESSAGE_SEQUENCE: u32 = 1;
pub const TRACE_MESSAGE_GUID: u32 = 2;
pub const TRACE_MESSAGE_COMPONENTID: u32 = 4;
pub const TRACE_MESSAGE_TIMESTAMP: u32 = 8;
pub const TRACE_MESSAGE_SYSTEMINFO: u32 = 0x20;

/// Most bytes of a message.
pub const TRACE_MESSAGE_MAXIMUM_SIZE: usize = 64 * 1024;

/// What a message begins with. Source: ntwmi.h, as public headers have it.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MESSAGE_TRACE_HEADER {
    /// Bytes of the message with this.
    pub Size: u16,
    pub Reserved: u8,
    /// [`MESSAGE_MARKER`].
    pub Version: u8,
    pub MessageNumber: u16,
    pub OptionFlags: u16,
}
layout!(MESSAGE_TRACE_HEADER, 8, Version @ 3, MessageNumber @ 4, OptionFlags @ 6);

/// `TRACE_HEADER_FLAG | TRACE_MESSAGE`, their upper byte.
pub const MESSAGE_MARKER: u8 = 0x90;

/// `TRACE_INFORMATION_CLASS` of wdm.h.
pub const TraceIdClass: i32 = 0;
pub const TraceHandleClass: i32 = 1;
pub const TraceEnableFlagsClass: i32 = 2;
pub const TraceEnableLevelClass: i32 = 3;
pub const GlobalLoggerHandleClass: i32 = 4;
pub const EventLoggerHandleClass: i32 = 5;
pub const AllLoggerHandlesClass: i32 = 6;
pub const TraceHandleByNameClass: i32 = 7;
pub const LoggerEventsLostClass: i32 = 8;

image! {
    /// Registers a classic provider of events. Its callback may be called before this returns.
    fn EtwRegisterClassicProvider(ProviderGuid: *const GUID, Type: u32, EnableCallback: ETW_CLASSIC_CALLBACK, CallbackContext: *mut c_void, RegHandle: *mut u64) -> NTSTATUS where irql == PASSIVE_LEVEL, FAILS, ACQUIRES;
    /// As `WmiTraceMessage`, for a list of arguments.
    fn WmiTraceMessageVa(LoggerHandle: u64, MessageFlags: u32, MessageGuid: *const GUID, MessageNumber: u16, MessageArgList: *const usize) -> NTSTATUS where irql <= HIGH_LEVEL;
    /// Asks about a session, whose handle is in the `HistoricalContext` of a `WNODE_HEADER`.
    fn WmiQueryTraceInformation(TraceInformationClass: i32, TraceInformation: *mut c_void, TraceInformationLength: u32, RequiredLength: *mut u32, Buffer: *mut c_void) -> NTSTATUS where irql <= HIGH_LEVEL;
    variadic {
        /// Writes a message to a session: pairs of an address and a length, and a pair of zeros.
        fn WmiTraceMessage(LoggerHandle: u64, MessageFlags: u32, MessageGuid: *const GUID, MessageNumber: u16, ...) -> NTSTATUS where irql <= HIGH_LEVEL;
    }
}
