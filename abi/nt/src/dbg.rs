//! Debugger output and language support.

use core::ffi::c_void;

use crate::status::NTSTATUS;

image! {
    /// The handler of C's `__try` scopes.
    fn __C_specific_handler(ExceptionRecord: *mut c_void, EstablisherFrame: *mut c_void, ContextRecord: *mut c_void, DispatcherContext: *mut c_void) -> i32 where irql <= HIGH_LEVEL;
    variadic {
        /// Prints to the kernel debugger.
        fn DbgPrint(Format: *const u8, ...) -> NTSTATUS where irql <= HIGH_LEVEL;
        /// Prints to the kernel debugger when the component and level are enabled.
        fn DbgPrintEx(ComponentId: u32, Level: u32, Format: *const u8, ...) -> NTSTATUS where irql <= HIGH_LEVEL;
    }
}
