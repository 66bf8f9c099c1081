//! Debugger output.

use crate::status::NTSTATUS;

image! {
    variadic {
        /// Prints to the kernel debugger.
        fn DbgPrint(Format: *const u8, ...) -> NTSTATUS where irql <= HIGH_LEVEL;
        /// Prints to the kernel debugger when the component and level are enabled.
        fn DbgPrintEx(ComponentId: u32, Level: u32, Format: *const u8, ...) -> NTSTATUS where irql <= HIGH_LEVEL;
    }
}
