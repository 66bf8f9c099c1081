//! Debugger output, and the handler of C's exception scopes.
#![expect(
    unsafe_code,
    non_snake_case,
    reason = "exports have foreign signatures and the names of the WDK"
)]

use std::ffi::c_void;

use nt::NTSTATUS;
use nt::status::STATUS_SUCCESS;

use super::exports;
use crate::format::format;
use crate::guest;
use crate::machine::current;

/// `ExceptionContinueSearch` (excpt.h).
const CONTINUE_SEARCH: i32 = 1;

exports! {
    dbg;

    fn __C_specific_handler(_ExceptionRecord: *mut c_void, _EstablisherFrame: *mut c_void, _ContextRecord: *mut c_void, _DispatcherContext: *mut c_void) -> i32 {
        // The lab reports every fault at the fault; it does not dispatch exceptions to scopes.
        CONTINUE_SEARCH
    }
    fn DbgPrint(slots: *const usize) -> NTSTATUS {
        (current().debug_print)(&format(guest::read(slots) as *const u8, slots.wrapping_add(1)));
        STATUS_SUCCESS
    }
    fn DbgPrintEx(slots: *const usize) -> NTSTATUS {
        (current().debug_print)(&format(guest::read(slots.wrapping_add(2)) as *const u8, slots.wrapping_add(3)));
        STATUS_SUCCESS
    }
}
