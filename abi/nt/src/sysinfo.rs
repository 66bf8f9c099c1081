//! The system: what it says of itself, tracing, and callbacks for its rare events.

use core::ffi::c_void;

use crate::base::{BOOLEAN, GROUP_AFFINITY, GUID, LIST_ENTRY, PROCESSOR_NUMBER};
use crate::irp::DEVICE_OBJECT;
use crate::status::NTSTATUS;

/// What a routine of `KeRegisterProcessorChangeCallback` is told.
#[repr(C)]
pub struct KE_PROCESSOR_CHANGE_NOTIFY_CONTEXT {
    /// 0 = about to start, 1 = started, 2 = did not start.
    pub State: i32,
    pub NtNumber: u32,
    pub Status: NTSTATUS,
    pub ProcNumber: PROCESSOR_NUMBER,
}
layout!(KE_PROCESSOR_CHANGE_NOTIFY_CONTEXT, 0x10, NtNumber @ 4, ProcNumber @ 0xC);

/// A routine for bug checks, in the driver's memory.
#[repr(C)]
pub struct KBUGCHECK_CALLBACK_RECORD {
    pub Entry: LIST_ENTRY,
    pub CallbackRoutine: *mut c_void,
    pub Buffer: *mut c_void,
    pub Length: u32,
    pub Component: *mut u8,
    pub Checksum: usize,
    /// 0 = free, 1 = registered.
    pub State: u8,
}
layout!(KBUGCHECK_CALLBACK_RECORD, 0x40, CallbackRoutine @ 0x10, Length @ 0x20, Component @ 0x28, State @ 0x38);

/// As `KBUGCHECK_CALLBACK_RECORD`, for routines that are told why.
#[repr(C)]
pub struct KBUGCHECK_REASON_CALLBACK_RECORD {
    pub Entry: LIST_ENTRY,
    pub CallbackRoutine: *mut c_void,
    pub Component: *mut u8,
    pub Checksum: usize,
    pub Reason: i32,
    pub State: u8,
}
layout!(KBUGCHECK_REASON_CALLBACK_RECORD, 0x30, Component @ 0x18, Reason @ 0x28, State @ 0x2C);

/// `KBUGCHECK_CALLBACK_REASON`: data behind the dump, in one piece.
pub const KbCallbackSecondaryDumpData: i32 = 2;
/// `KBUGCHECK_CALLBACK_REASON`: data behind the dump, piece by piece.
pub const KbCallbackSecondaryMultiPartDumpData: i32 = 5;

/// `KBUGCHECK_SECONDARY_DUMP_DATA_EX::Flags`: there is more, call again.
pub const KB_SECONDARY_DATA_FLAG_ADDITIONAL_DATA: u32 = 1;
/// `KBUGCHECK_SECONDARY_DUMP_DATA_EX::Flags`: no device was accessed.
pub const KB_SECONDARY_DATA_FLAG_NO_DEVICE_ACCESS: u32 = 2;

/// What a routine that gives data is told, and what it gives, in one piece.
#[repr(C)]
pub struct KBUGCHECK_SECONDARY_DUMP_DATA {
    pub InBuffer: *mut c_void,
    pub InBufferLength: u32,
    pub MaximumAllowed: u32,
    pub Guid: GUID,
    pub OutBuffer: *mut c_void,
    pub OutBufferLength: u32,
}
layout!(KBUGCHECK_SECONDARY_DUMP_DATA, 0x30, InBufferLength @ 8, Guid @ 0x10, OutBuffer @ 0x20, OutBufferLength @ 0x28);

/// As `KBUGCHECK_SECONDARY_DUMP_DATA`, piece by piece.
#[repr(C)]
pub struct KBUGCHECK_SECONDARY_DUMP_DATA_EX {
    pub InBuffer: *mut c_void,
    pub InBufferLength: u32,
    pub MaximumAllowed: u32,
    pub Guid: GUID,
    pub OutBuffer: *mut c_void,
    pub OutBufferLength: u32,
    /// Null at first, then what the routine left there.
    pub Context: *mut c_void,
    pub Flags: u32,
    /// 1 full, 2 kernel, 4 small, 5 full with a bitmap, 6 kernel with a bitmap, 7 automatic.
    pub DumpType: u32,
    pub BugCheckCode: u32,
    pub BugCheckParameter1: usize,
    pub BugCheckParameter2: usize,
    pub BugCheckParameter3: usize,
    pub BugCheckParameter4: usize,
}
layout!(KBUGCHECK_SECONDARY_DUMP_DATA_EX, 0x68, Guid @ 0x10, OutBuffer @ 0x20, Context @ 0x30, Flags @ 0x38, DumpType @ 0x3C, BugCheckCode @ 0x40, BugCheckParameter1 @ 0x48, BugCheckParameter4 @ 0x60);

pub type KBUGCHECK_REASON_CALLBACK_ROUTINE = unsafe extern "efiapi" fn(
    Reason: i32,
    Record: *mut KBUGCHECK_REASON_CALLBACK_RECORD,
    ReasonSpecificData: *mut c_void,
    ReasonSpecificDataLength: u32,
);

/// `SYSTEM_INFORMATION_CLASS` of firmware tables.
pub const SystemFirmwareTableInformation: i32 = 76;
/// `SYSTEM_FIRMWARE_TABLE_ACTION`.
pub const SystemFirmwareTableEnumerate: i32 = 0;
pub const SystemFirmwareTableGet: i32 = 1;

/// Which firmware table is asked for, and the answer.
#[repr(C)]
pub struct SYSTEM_FIRMWARE_TABLE_INFORMATION {
    /// Four characters, first one highest.
    pub ProviderSignature: u32,
    pub Action: i32,
    /// Of ACPI tables: the signature as it is in memory.
    pub TableID: u32,
    /// Bytes of `TableBuffer`; after the call, of the table.
    pub TableBufferLength: u32,
    pub TableBuffer: [u8; 1],
}
layout!(SYSTEM_FIRMWARE_TABLE_INFORMATION, 0x14, TableID @ 8, TableBufferLength @ 0xC, TableBuffer @ 0x10);

pub type PROCESSOR_CALLBACK_FUNCTION = unsafe extern "efiapi" fn(
    CallbackContext: *mut c_void,
    ChangeContext: *mut KE_PROCESSOR_CHANGE_NOTIFY_CONTEXT,
    OperationStatus: *mut NTSTATUS,
);

/// `KeRegisterProcessorChangeCallback`: also for the processors there are.
pub const KE_PROCESSOR_CHANGE_ADD_EXISTING: u32 = 1;

image! {
    /// Asks about the system. Classes the lab does not have are `STATUS_NOT_IMPLEMENTED`, and named in the debugger's output.
    fn ZwQuerySystemInformation(SystemInformationClass: i32, SystemInformation: *mut c_void, SystemInformationLength: u32, ReturnLength: *mut u32) -> NTSTATUS where irql == PASSIVE_LEVEL;
    /// As `ZwQuerySystemInformation`.
    fn NtQuerySystemInformation(SystemInformationClass: i32, SystemInformation: *mut c_void, SystemInformationLength: u32, ReturnLength: *mut u32) -> NTSTATUS where irql == PASSIVE_LEVEL;
    /// Registers a provider of events. Nobody listens: its callback is never called.
    fn EtwRegister(ProviderId: *const GUID, EnableCallback: *mut c_void, CallbackContext: *mut c_void, RegHandle: *mut u64) -> NTSTATUS where irql == PASSIVE_LEVEL, FAILS, ACQUIRES;
    /// Withdraws a provider of events.
    fn EtwUnregister(RegHandle: u64) -> NTSTATUS where irql == PASSIVE_LEVEL, RELEASES;
    /// Whether somebody listens to an event: nobody does.
    fn EtwEventEnabled(RegHandle: u64, EventDescriptor: *const c_void) -> BOOLEAN where irql <= HIGH_LEVEL;
    /// Whether somebody listens to a provider: nobody does.
    fn EtwProviderEnabled(RegHandle: u64, Level: u8, Keyword: u64) -> BOOLEAN where irql <= HIGH_LEVEL;
    /// Writes an event, to nobody.
    fn EtwWrite(RegHandle: u64, EventDescriptor: *const c_void, ActivityId: *const GUID, UserDataCount: u32, UserData: *mut c_void) -> NTSTATUS where irql <= HIGH_LEVEL;
    /// Writes an event that is related to another, to nobody.
    fn EtwWriteTransfer(RegHandle: u64, EventDescriptor: *const c_void, ActivityId: *const GUID, RelatedActivityId: *const GUID, UserDataCount: u32, UserData: *mut c_void) -> NTSTATUS where irql <= HIGH_LEVEL;
    /// Writes an event with a filter, to nobody.
    fn EtwWriteEx(RegHandle: u64, EventDescriptor: *const c_void, Filter: u64, Flags: u32, ActivityId: *const GUID, RelatedActivityId: *const GUID, UserDataCount: u32, UserData: *mut c_void) -> NTSTATUS where irql <= HIGH_LEVEL;
    /// Writes a string as an event, to nobody.
    fn EtwWriteString(RegHandle: u64, Level: u8, Keyword: u64, ActivityId: *const GUID, String: *const u16) -> NTSTATUS where irql <= HIGH_LEVEL;
    /// Describes a provider.
    fn EtwSetInformation(RegHandle: u64, InformationClass: i32, EventInformation: *mut c_void, InformationLength: u32) -> NTSTATUS where irql == PASSIVE_LEVEL;
    /// Makes an identity for related events (3 = create), or gives the thread's, which it has none of (1).
    fn EtwActivityIdControl(ControlCode: u32, ActivityId: *mut GUID) -> NTSTATUS where irql == PASSIVE_LEVEL;
    /// Fires an event of WMI; the kernel frees it.
    fn IoWMIWriteEvent(WnodeEventItem: *mut c_void) -> NTSTATUS where irql <= APC_LEVEL;
    /// Opens a class of WMI. Nobody provides any.
    fn IoWMIOpenBlock(DataBlockGuid: *const GUID, DesiredAccess: u32, DataBlockObject: *mut *mut c_void) -> NTSTATUS where irql <= APC_LEVEL;
    /// Number of a provider of WMI.
    fn IoWMIDeviceObjectToProviderId(DeviceObject: *mut DEVICE_OBJECT) -> u32 where irql <= DISPATCH_LEVEL;
    /// Registers a routine for bug checks, with a record that is not in use: called at `HIGH_LEVEL` when the machine has stopped.
    fn KeRegisterBugCheckCallback(CallbackRecord: *mut KBUGCHECK_CALLBACK_RECORD, CallbackRoutine: *mut c_void, Buffer: *mut c_void, Length: u32, Component: *mut u8) -> BOOLEAN where irql <= HIGH_LEVEL, ACQUIRES;
    /// Withdraws a routine for bug checks.
    fn KeDeregisterBugCheckCallback(CallbackRecord: *mut KBUGCHECK_CALLBACK_RECORD) -> BOOLEAN where irql <= HIGH_LEVEL, RELEASES;
    /// Registers a routine for bug checks that is told why: for data behind the dump, called at `HIGH_LEVEL` when the machine has stopped; for other reasons never.
    fn KeRegisterBugCheckReasonCallback(CallbackRecord: *mut KBUGCHECK_REASON_CALLBACK_RECORD, CallbackRoutine: *mut c_void, Reason: i32, Component: *mut u8) -> BOOLEAN where irql <= HIGH_LEVEL, ACQUIRES;
    /// Withdraws a routine of `KeRegisterBugCheckReasonCallback`.
    fn KeDeregisterBugCheckReasonCallback(CallbackRecord: *mut KBUGCHECK_REASON_CALLBACK_RECORD) -> BOOLEAN where irql <= HIGH_LEVEL, RELEASES;
    /// Registers a routine that is told of processors that are added; if asked, of those there are. Null if that routine refuses one.
    fn KeRegisterProcessorChangeCallback(CallbackFunction: PROCESSOR_CALLBACK_FUNCTION, CallbackContext: *mut c_void, Flags: u32) -> *mut c_void where irql == PASSIVE_LEVEL, FAILS, ACQUIRES;
    /// Withdraws a routine of `KeRegisterProcessorChangeCallback`.
    fn KeDeregisterProcessorChangeCallback(CallbackHandle: *mut c_void) where irql == PASSIVE_LEVEL, RELEASES;
    /// Processors that group 0 can have.
    fn KeQueryMaximumProcessorCount() -> u32 where irql <= HIGH_LEVEL;
    /// Groups that there can be.
    fn KeQueryMaximumGroupCount() -> u16 where irql <= HIGH_LEVEL;
    /// Number of the last memory node: there is one.
    fn KeQueryHighestNodeNumber() -> u16 where irql <= HIGH_LEVEL;
    /// The memory node of the current processor.
    fn KeGetCurrentNodeNumber() -> u16 where irql <= HIGH_LEVEL;
    /// The processors of a memory node, of group 0.
    fn KeQueryNodeActiveAffinity(NodeNumber: u16, Affinity: *mut GROUP_AFFINITY, Count: *mut u16) where irql <= HIGH_LEVEL;
    /// Waits until writes have left the processor.
    fn KeFlushWriteBuffer() where irql <= HIGH_LEVEL;
    /// Writes back and empties all caches.
    fn KeInvalidateAllCaches() -> BOOLEAN where irql <= DISPATCH_LEVEL;
    /// Registers interest in the system's power state.
    fn PoRegisterSystemState(StateHandle: *mut c_void, Flags: u32) -> *mut c_void where irql <= APC_LEVEL, FAILS, ACQUIRES;
    /// Withdraws interest in the system's power state.
    fn PoUnregisterSystemState(StateHandle: *mut c_void) where irql <= APC_LEVEL, RELEASES;
    /// Tells that the system is busy; it never sleeps by itself here.
    fn PoSetSystemState(Flags: u32) where irql <= DISPATCH_LEVEL;
    /// Asks to have a device powered down when idle; the counter is the driver's to clear. No device here is ever powered down for that.
    fn PoRegisterDeviceForIdleDetection(DeviceObject: *mut DEVICE_OBJECT, ConservationIdleTime: u32, PerformanceIdleTime: u32, State: i32) -> *mut u32 where irql <= APC_LEVEL;
    /// Registers a routine for a power setting. None changes here.
    fn PoRegisterPowerSettingCallback(DeviceObject: *mut DEVICE_OBJECT, SettingGuid: *const GUID, Callback: *mut c_void, Context: *mut c_void, Handle: *mut *mut c_void) -> NTSTATUS where irql == PASSIVE_LEVEL, FAILS, ACQUIRES;
    /// Withdraws a routine for a power setting.
    fn PoUnregisterPowerSettingCallback(Handle: *mut c_void) -> NTSTATUS where irql == PASSIVE_LEVEL, RELEASES;
    /// Changes the clock's resolution; the result is what it is (100 ns).
    fn ExSetTimerResolution(DesiredTime: u32, SetResolution: BOOLEAN) -> u32 where irql <= APC_LEVEL;
    /// The clock's resolutions (100 ns).
    fn ExQueryTimerResolution(MaximumTime: *mut u32, MinimumTime: *mut u32, CurrentTime: *mut u32) where irql <= HIGH_LEVEL;
    /// Makes an identity that no other has.
    fn ExUuidCreate(Uuid: *mut GUID) -> NTSTATUS where irql == PASSIVE_LEVEL;
    /// Switches the kernel debugger off: there is none.
    fn KdDisableDebugger() -> NTSTATUS where irql <= HIGH_LEVEL;
    /// Switches the kernel debugger on: there is none.
    fn KdEnableDebugger() -> NTSTATUS where irql <= HIGH_LEVEL;
    /// Whether no kernel debugger is attached.
    fn KdRefreshDebuggerNotPresent() -> BOOLEAN where irql <= HIGH_LEVEL;
    /// Changes an option of the kernel debugger: there is none.
    fn KdChangeOption(Option: i32, InBufferBytes: u32, InBuffer: *mut c_void, OutBufferBytes: u32, OutBuffer: *mut c_void, OutBufferNeeded: *mut u32) -> NTSTATUS where irql <= HIGH_LEVEL;
    /// Prints to the kernel debugger, with arguments in a list.
    fn vDbgPrintEx(ComponentId: u32, Level: u32, Format: *const u8, Arglist: *const usize) -> NTSTATUS where irql <= HIGH_LEVEL;
    /// Prints to the kernel debugger behind a prefix, with arguments in a list.
    fn vDbgPrintExWithPrefix(Prefix: *const u8, ComponentId: u32, Level: u32, Format: *const u8, Arglist: *const usize) -> NTSTATUS where irql <= HIGH_LEVEL;
    /// Whether output of a component and level is shown: all is.
    fn DbgQueryDebugFilterState(ComponentId: u32, Level: u32) -> NTSTATUS where irql <= HIGH_LEVEL;
    /// Sets whether output of a component and level is shown: all is, always.
    fn DbgSetDebugFilterState(ComponentId: u32, Level: u32, State: BOOLEAN) -> NTSTATUS where irql <= HIGH_LEVEL;
    /// Reads configuration space of a bus; 0: this machine has none.
    fn HalGetBusData(BusDataType: i32, BusNumber: u32, SlotNumber: u32, Buffer: *mut c_void, Length: u32) -> u32 where irql <= DISPATCH_LEVEL;
    /// Writes configuration space of a bus; 0: this machine has none.
    fn HalSetBusData(BusDataType: i32, BusNumber: u32, SlotNumber: u32, Buffer: *mut c_void, Length: u32) -> u32 where irql <= DISPATCH_LEVEL;
    /// The NT headers of an image; null if it is none.
    fn RtlImageNtHeader(Base: *mut c_void) -> *mut c_void where irql <= HIGH_LEVEL;
    /// What an entry of an image's data directory points to; null if it is empty.
    fn RtlImageDirectoryEntryToData(BaseOfImage: *mut c_void, MappedAsImage: BOOLEAN, DirectoryEntry: u16, Size: *mut u32) -> *mut c_void where irql <= HIGH_LEVEL;
}
