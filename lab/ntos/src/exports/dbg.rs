//! Debugger output.
#![expect(
    unsafe_code,
    non_snake_case,
    reason = "exports have foreign signatures and the names of the WDK"
)]

use nt::NTSTATUS;
use nt::status::STATUS_SUCCESS;

use super::exports;
use crate::format::format;
use crate::guest;
use crate::machine::current;

exports! {
    dbg;

    fn DbgPrint(slots: *const usize) -> NTSTATUS {
        (current().debug_print)(&format(guest::read(slots) as *const u8, slots.wrapping_add(1)));
        STATUS_SUCCESS
    }
    fn DbgPrintEx(slots: *const usize) -> NTSTATUS {
        (current().debug_print)(&format(guest::read(slots.wrapping_add(2)) as *const u8, slots.wrapping_add(3)));
        STATUS_SUCCESS
    }
}
