//! Structured exceptions: raising, unwinding, and the handler of C's `__try`.
#![expect(
    unsafe_code,
    non_snake_case,
    reason = "exports have foreign signatures and the names of the WDK"
)]

use std::ffi::c_void;
use std::ptr;

use nt::NTSTATUS;
use nt::seh::{CONTEXT, DISPATCHER_CONTEXT, EXCEPTION_RECORD, RUNTIME_FUNCTION};
use nt::status::{STATUS_ACCESS_VIOLATION, STATUS_DATATYPE_MISALIGNMENT};

use super::exports;
use crate::guest;
use crate::machine::current;
use crate::seh::{Pending, Target};

exports! {
    seh;

    fn __C_specific_handler(ExceptionRecord: *mut EXCEPTION_RECORD, EstablisherFrame: u64, ContextRecord: *mut CONTEXT, DispatcherContext: *mut DISPATCHER_CONTEXT) -> i32 {
        current().c_specific_handler(ExceptionRecord, EstablisherFrame, ContextRecord, DispatcherContext)
    }
    fn _local_unwind(EstablisherFrame: *mut c_void, TargetIp: *mut c_void) {
        unwind(EstablisherFrame, TargetIp, ptr::null_mut(), ptr::null_mut());
    }
    fn ExRaiseStatus(Status: NTSTATUS) { current().raise_status(Status) }
    fn ExRaiseAccessViolation() { current().raise_status(STATUS_ACCESS_VIOLATION) }
    fn ExRaiseDatatypeMisalignment() { current().raise_status(STATUS_DATATYPE_MISALIGNMENT) }
    fn RtlRaiseStatus(Status: NTSTATUS) { current().raise_status(Status) }
    fn RtlRaiseException(ExceptionRecord: *mut EXCEPTION_RECORD) {
        let machine = current();
        let mut record = guest::read(ExceptionRecord);
        record.ExceptionAddress = machine.call_site() as *mut c_void;
        machine.leave_kernel_to(Pending::Raise(record));
    }
    fn RtlUnwind(TargetFrame: *mut c_void, TargetIp: *mut c_void, ExceptionRecord: *mut EXCEPTION_RECORD, ReturnValue: *mut c_void) {
        unwind(TargetFrame, TargetIp, ExceptionRecord, ReturnValue);
    }
    fn RtlUnwindEx(TargetFrame: *mut c_void, TargetIp: *mut c_void, ExceptionRecord: *mut EXCEPTION_RECORD, ReturnValue: *mut c_void, _ContextRecord: *mut CONTEXT, _HistoryTable: *mut c_void) {
        unwind(TargetFrame, TargetIp, ExceptionRecord, ReturnValue);
    }
    fn RtlVirtualUnwind(HandlerType: u32, _ImageBase: u64, ControlPc: u64, _FunctionEntry: *mut RUNTIME_FUNCTION, ContextRecord: *mut CONTEXT, HandlerData: *mut *mut c_void, EstablisherFrame: *mut u64, _ContextPointers: *mut c_void) -> *mut c_void {
        let unwound = current().virtual_unwind(HandlerType, ControlPc, ContextRecord);
        guest::write(EstablisherFrame, unwound.0);
        let Some(handler) = unwound.1 else { return ptr::null_mut() };
        guest::write(HandlerData, handler.data as *mut c_void);
        handler.routine as *mut c_void
    }
    fn RtlLookupFunctionEntry(ControlPc: u64, ImageBase: *mut u64, _HistoryTable: *mut c_void) -> *mut RUNTIME_FUNCTION {
        let Some((base, entry)) = current().function_entry(ControlPc) else { return ptr::null_mut() };
        guest::write(ImageBase, base);
        entry as *mut RUNTIME_FUNCTION
    }
    fn RtlPcToFileHeader(PcValue: *mut c_void, BaseOfImage: *mut *mut c_void) -> *mut c_void {
        let base = current().function_entry(PcValue as u64).map_or(ptr::null_mut(), |(base, _)| base as *mut c_void);
        guest::write(BaseOfImage, base);
        base
    }
    fn RtlCaptureContext(ContextRecord: *mut CONTEXT) { current().capture_context(ContextRecord) }
}

fn unwind(frame: *mut c_void, ip: *mut c_void, record: *mut EXCEPTION_RECORD, value: *mut c_void) {
    current().leave_kernel_to(Pending::Unwind(Target {
        frame: frame as u64,
        ip: ip as u64,
        record: record as u64,
        value: value as u64,
    }));
}
