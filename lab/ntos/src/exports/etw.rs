//! Classic providers of events, and their messages.
#![expect(
    unsafe_code,
    non_snake_case,
    reason = "exports have foreign signatures and the names of the WDK"
)]

use super::exports;
use crate::guest;
use crate::machine::current;
use crate::resources::Held;
use nt::NTSTATUS;
use nt::base::GUID;
use nt::etw::ETW_CLASSIC_CALLBACK;
use nt::status::{STATUS_NO_MEMORY, STATUS_SUCCESS};
use std::ffi::c_void;

exports! {
    etw;

    fn EtwRegisterClassicProvider(ProviderGuid: *const GUID, _Type: u32, EnableCallback: ETW_CLASSIC_CALLBACK, CallbackContext: *mut c_void, RegHandle: *mut u64) -> NTSTATUS {
        let machine = current();
        let provider = guest::read(ProviderGuid);
        if machine.must_fail() {
            return STATUS_NO_MEMORY;
        }
        let handle = machine.register(Held::EventProvider);
        guest::write(RegHandle, handle);
        machine.add_provider(handle, &provider, EnableCallback as usize as u64, CallbackContext as u64);
        STATUS_SUCCESS
    }
    fn WmiTraceMessageVa(LoggerHandle: u64, MessageFlags: u32, MessageGuid: *const GUID, MessageNumber: u16, MessageArgList: *const usize) -> NTSTATUS {
        current().trace_message(LoggerHandle, MessageFlags, MessageGuid, MessageNumber, MessageArgList)
    }
    fn WmiQueryTraceInformation(TraceInformationClass: i32, TraceInformation: *mut c_void, TraceInformationLength: u32, RequiredLength: *mut u32, Buffer: *mut c_void) -> NTSTATUS {
        current().query_trace(TraceInformationClass, TraceInformation, TraceInformationLength, RequiredLength, Buffer as *const u8)
    }
    fn WmiTraceMessage(slots: *const usize) -> NTSTATUS {
        let slot = |index| guest::read(slots.wrapping_add(index)) as u64;
        let [flags, number] = [slot(1), slot(3)].map(|word| word.to_le_bytes());
        let [flag0, flag1, flag2, flag3, ..] = flags;
        let [low, high, ..] = number;
        current().trace_message(
            slot(0),
            u32::from_le_bytes([flag0, flag1, flag2, flag3]),
            slot(2) as *const GUID,
            u16::from_le_bytes([low, high]),
            slots.wrapping_add(4),
        )
    }
}
