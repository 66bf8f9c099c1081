//! What the system says of itself, tracing, and callbacks for its rare events.
#![expect(
    unsafe_code,
    non_snake_case,
    reason = "exports have foreign signatures and the names of the WDK"
)]

use super::{exports, kernel_addresses};
use crate::guest::{self, get, set};
use crate::machine::Machine;
use crate::machine::current;
use crate::resources::Held;
use lab_verifier::RuleId;
use nt::NTSTATUS;
use nt::base::{BOOLEAN, GROUP_AFFINITY, GUID, PROCESSOR_NUMBER};
use nt::irp::DEVICE_OBJECT;
use nt::status::{
    STATUS_DEBUGGER_INACTIVE, STATUS_INSUFFICIENT_RESOURCES, STATUS_INVALID_HANDLE,
    STATUS_INVALID_PARAMETER, STATUS_NO_MEMORY, STATUS_SUCCESS, STATUS_WMI_GUID_NOT_FOUND,
};
use nt::sysinfo::{
    KBUGCHECK_CALLBACK_RECORD, KBUGCHECK_REASON_CALLBACK_RECORD, KE_PROCESSOR_CHANGE_ADD_EXISTING,
    KE_PROCESSOR_CHANGE_NOTIFY_CONTEXT, PROCESSOR_CALLBACK_FUNCTION,
};
use std::ffi::c_void;
use std::ptr;
mod answers;
mod firmware;

exports! {
    sysinfo;

    fn ZwQuerySystemInformation(SystemInformationClass: i32, SystemInformation: *mut c_void, SystemInformationLength: u32, ReturnLength: *mut u32) -> NTSTATUS {
        kernel_addresses!(SystemInformation, ReturnLength);
        current().query_system(SystemInformationClass, SystemInformation, SystemInformationLength, ReturnLength)
    }
    fn NtQuerySystemInformation(SystemInformationClass: i32, SystemInformation: *mut c_void, SystemInformationLength: u32, ReturnLength: *mut u32) -> NTSTATUS { current().query_system(SystemInformationClass, SystemInformation, SystemInformationLength, ReturnLength) }
    fn EtwRegister(_ProviderId: *const GUID, _EnableCallback: *mut c_void, _CallbackContext: *mut c_void, RegHandle: *mut u64) -> NTSTATUS {
        let machine = current();
        if machine.must_fail() {
            return STATUS_NO_MEMORY;
        }
        guest::write(RegHandle, machine.register(Held::EventProvider));
        STATUS_SUCCESS
    }
    fn EtwUnregister(RegHandle: u64) -> NTSTATUS {
        let machine = current();
        if !machine.resources.borrow_mut().drop_held(Held::EventProvider, RegHandle) {
            machine.report(RuleId::EtwHandle, [0, RegHandle, 0, 0], format!("{RegHandle:#x} is no provider of events of the driver"));
            return STATUS_INVALID_HANDLE;
        }
        machine.remove_provider(RegHandle);
        STATUS_SUCCESS
    }
    fn EtwEventEnabled(_RegHandle: u64, _EventDescriptor: *const c_void) -> BOOLEAN { 0 }
    fn EtwProviderEnabled(_RegHandle: u64, _Level: u8, _Keyword: u64) -> BOOLEAN { 0 }
    fn EtwWrite(RegHandle: u64, _EventDescriptor: *const c_void, _ActivityId: *const GUID, _UserDataCount: u32, _UserData: *mut c_void) -> NTSTATUS { current().traced(RegHandle) }
    fn EtwWriteTransfer(RegHandle: u64, _EventDescriptor: *const c_void, _ActivityId: *const GUID, _RelatedActivityId: *const GUID, _UserDataCount: u32, _UserData: *mut c_void) -> NTSTATUS { current().traced(RegHandle) }
    fn EtwWriteEx(RegHandle: u64, _EventDescriptor: *const c_void, _Filter: u64, _Flags: u32, _ActivityId: *const GUID, _RelatedActivityId: *const GUID, _UserDataCount: u32, _UserData: *mut c_void) -> NTSTATUS { current().traced(RegHandle) }
    fn EtwWriteString(RegHandle: u64, _Level: u8, _Keyword: u64, _ActivityId: *const GUID, _String: *const u16) -> NTSTATUS { current().traced(RegHandle) }
    fn EtwSetInformation(RegHandle: u64, _InformationClass: i32, _EventInformation: *mut c_void, _InformationLength: u32) -> NTSTATUS { current().traced(RegHandle) }
    fn EtwActivityIdControl(ControlCode: u32, ActivityId: *mut GUID) -> NTSTATUS {
        match ControlCode {
            1 => guest::set_bytes(ActivityId.cast(), 0, size_of::<GUID>()),
            2 => {}
            3..=5 => guest::write(ActivityId, current().new_guid()),
            _ => return STATUS_INVALID_PARAMETER,
        }
        STATUS_SUCCESS
    }
    fn IoWMIWriteEvent(WnodeEventItem: *mut c_void) -> NTSTATUS {
        current().free_pool(WnodeEventItem as u64, 0);
        STATUS_SUCCESS
    }
    fn IoWMIOpenBlock(_DataBlockGuid: *const GUID, _DesiredAccess: u32, _DataBlockObject: *mut *mut c_void) -> NTSTATUS { STATUS_WMI_GUID_NOT_FOUND }
    fn IoWMIDeviceObjectToProviderId(DeviceObject: *mut DEVICE_OBJECT) -> u32 {
        current().check_device(DeviceObject);
        u32::try_from(DeviceObject as u64 >> 4 & 0xFFFF_FFFF).unwrap_or(0)
    }
    fn KeRegisterBugCheckCallback(CallbackRecord: *mut KBUGCHECK_CALLBACK_RECORD, CallbackRoutine: *mut c_void, Buffer: *mut c_void, Length: u32, Component: *mut u8) -> BOOLEAN {
        let registered = get!(CallbackRecord, State) == 0 && current().hold_once(Held::BugCheckCallback, CallbackRecord as u64);
        if registered {
            set!(CallbackRecord, CallbackRoutine = CallbackRoutine);
            set!(CallbackRecord, Buffer = Buffer);
            set!(CallbackRecord, Length = Length);
            set!(CallbackRecord, Component = Component);
            set!(CallbackRecord, State = 1u8);
        }
        u8::from(registered)
    }
    fn KeDeregisterBugCheckCallback(CallbackRecord: *mut KBUGCHECK_CALLBACK_RECORD) -> BOOLEAN {
        let held = current().resources.borrow_mut().drop_held(Held::BugCheckCallback, CallbackRecord as u64);
        if held {
            set!(CallbackRecord, State = 0u8);
        }
        u8::from(held)
    }
    fn KeRegisterBugCheckReasonCallback(CallbackRecord: *mut KBUGCHECK_REASON_CALLBACK_RECORD, CallbackRoutine: *mut c_void, Reason: i32, Component: *mut u8) -> BOOLEAN {
        let registered = get!(CallbackRecord, State) == 0 && current().hold_once(Held::BugCheckReasonCallback, CallbackRecord as u64);
        if registered {
            set!(CallbackRecord, CallbackRoutine = CallbackRoutine);
            set!(CallbackRecord, Reason = Reason);
            set!(CallbackRecord, Component = Component);
            set!(CallbackRecord, State = 1u8);
        }
        u8::from(registered)
    }
    fn KeDeregisterBugCheckReasonCallback(CallbackRecord: *mut KBUGCHECK_REASON_CALLBACK_RECORD) -> BOOLEAN {
        let held = current().resources.borrow_mut().drop_held(Held::BugCheckReasonCallback, CallbackRecord as u64);
        if held {
            set!(CallbackRecord, State = 0u8);
        }
        u8::from(held)
    }
    fn KeRegisterProcessorChangeCallback(CallbackFunction: PROCESSOR_CALLBACK_FUNCTION, CallbackContext: *mut c_void, Flags: u32) -> *mut c_void {
        let machine = current();
        if machine.must_fail() {
            return ptr::null_mut();
        }
        let routine = CallbackFunction as usize as u64;
        if Flags & KE_PROCESSOR_CHANGE_ADD_EXISTING != 0 && !machine.announce_processors(routine, CallbackContext as u64) {
            return ptr::null_mut();
        }
        machine.register(Held::ProcessorCallback) as *mut c_void
    }
    fn KeDeregisterProcessorChangeCallback(CallbackHandle: *mut c_void) { current().must_hold(Held::ProcessorCallback, CallbackHandle as u64) }
    fn KeQueryMaximumProcessorCount() -> u32 { current().processors_in(0) }
    fn KeQueryMaximumGroupCount() -> u16 { u16::try_from(current().cpu_count().div_ceil(64)).unwrap_or(u16::MAX) }
    fn KeQueryHighestNodeNumber() -> u16 { 0 }
    fn KeGetCurrentNodeNumber() -> u16 { 0 }
    fn KeQueryNodeActiveAffinity(NodeNumber: u16, Affinity: *mut GROUP_AFFINITY, Count: *mut u16) {
        let mask = if NodeNumber == 0 { current().group_mask(0) as u64 } else { 0 };
        if !Affinity.is_null() {
            guest::write(Affinity, GROUP_AFFINITY { Mask: mask, ..GROUP_AFFINITY::default() });
        }
        if !Count.is_null() {
            guest::write(Count, u16::try_from(mask.count_ones()).unwrap_or(0));
        }
    }
    fn KeFlushWriteBuffer() {}
    fn KeInvalidateAllCaches() -> BOOLEAN { 1 }
    fn PoRegisterSystemState(StateHandle: *mut c_void, _Flags: u32) -> *mut c_void {
        let machine = current();
        if !StateHandle.is_null() {
            return StateHandle;
        }
        if machine.must_fail() {
            return ptr::null_mut();
        }
        machine.register(Held::SystemState) as *mut c_void
    }
    fn PoUnregisterSystemState(StateHandle: *mut c_void) { current().must_hold(Held::SystemState, StateHandle as u64) }
    fn PoSetSystemState(_Flags: u32) {}
    fn PoRegisterDeviceForIdleDetection(DeviceObject: *mut DEVICE_OBJECT, _ConservationIdleTime: u32, _PerformanceIdleTime: u32, _State: i32) -> *mut u32 {
        let machine = current();
        machine.check_device(DeviceObject);
        let mut services = machine.services.borrow_mut();
        let counter = services.idle_counters.entry(DeviceObject as u64).or_default();
        &raw mut **counter
    }
    fn PoRegisterPowerSettingCallback(_DeviceObject: *mut DEVICE_OBJECT, _SettingGuid: *const GUID, _Callback: *mut c_void, _Context: *mut c_void, Handle: *mut *mut c_void) -> NTSTATUS {
        let machine = current();
        if machine.must_fail() {
            return STATUS_INSUFFICIENT_RESOURCES;
        }
        guest::write(Handle, machine.register(Held::PowerSetting) as *mut c_void);
        STATUS_SUCCESS
    }
    fn PoUnregisterPowerSettingCallback(Handle: *mut c_void) -> NTSTATUS {
        current().must_hold(Held::PowerSetting, Handle as u64);
        STATUS_SUCCESS
    }
    fn ExSetTimerResolution(_DesiredTime: u32, _SetResolution: BOOLEAN) -> u32 { 156_250 }
    fn ExQueryTimerResolution(MaximumTime: *mut u32, MinimumTime: *mut u32, CurrentTime: *mut u32) {
        for place in [MaximumTime, MinimumTime, CurrentTime] {
            guest::write(place, 156_250);
        }
    }
    fn ExUuidCreate(Uuid: *mut GUID) -> NTSTATUS {
        guest::write(Uuid, current().new_guid());
        STATUS_SUCCESS
    }
    fn KdDisableDebugger() -> NTSTATUS { STATUS_DEBUGGER_INACTIVE }
    fn KdEnableDebugger() -> NTSTATUS { STATUS_DEBUGGER_INACTIVE }
    fn KdRefreshDebuggerNotPresent() -> BOOLEAN { 1 }
    fn KdChangeOption(_Option: i32, _InBufferBytes: u32, _InBuffer: *mut c_void, _OutBufferBytes: u32, _OutBuffer: *mut c_void, _OutBufferNeeded: *mut u32) -> NTSTATUS { STATUS_DEBUGGER_INACTIVE }
    fn vDbgPrintEx(_ComponentId: u32, _Level: u32, Format: *const u8, Arglist: *const usize) -> NTSTATUS {
        (current().debug_print)(&crate::format::format(Format, Arglist));
        STATUS_SUCCESS
    }
    fn vDbgPrintExWithPrefix(Prefix: *const u8, _ComponentId: u32, _Level: u32, Format: *const u8, Arglist: *const usize) -> NTSTATUS {
        let prefix = String::from_utf8_lossy(&crate::format::c_string(Prefix)).into_owned();
        (current().debug_print)(&format!("{prefix}{}", crate::format::format(Format, Arglist)));
        STATUS_SUCCESS
    }
    fn DbgQueryDebugFilterState(_ComponentId: u32, _Level: u32) -> NTSTATUS { NTSTATUS(1) }
    fn DbgSetDebugFilterState(_ComponentId: u32, _Level: u32, _State: BOOLEAN) -> NTSTATUS { STATUS_SUCCESS }
    fn HalGetBusData(_BusDataType: i32, _BusNumber: u32, _SlotNumber: u32, _Buffer: *mut c_void, _Length: u32) -> u32 { 0 }
    fn HalSetBusData(_BusDataType: i32, _BusNumber: u32, _SlotNumber: u32, _Buffer: *mut c_void, _Length: u32) -> u32 { 0 }
    fn RtlImageNtHeader(Base: *mut c_void) -> *mut c_void { nt_headers(Base as u64) as *mut c_void }
    fn RtlImageDirectoryEntryToData(BaseOfImage: *mut c_void, _MappedAsImage: BOOLEAN, DirectoryEntry: u16, Size: *mut u32) -> *mut c_void {
        let headers = nt_headers(BaseOfImage as u64);
        // The directory is the last part of the optional header.
        if headers == 0 || u32::from(DirectoryEntry) >= guest::read((headers + 0x84) as *const u32) {
            return ptr::null_mut();
        }
        let entry = (headers + 0x88 + 8 * u64::from(DirectoryEntry)) as *const [u32; 2];
        let [rva, size] = guest::read(entry);
        guest::write(Size, size);
        if rva == 0 { ptr::null_mut() } else { BaseOfImage.wrapping_byte_add(rva as usize) }
    }
}

/// The NT headers of a 64-bit image that is mapped at an address; 0 if there is none.
fn nt_headers(base: u64) -> u64 {
    if guest::read(base as *const u16) != u16::from_le_bytes(*b"MZ") {
        return 0;
    }
    let headers = base + u64::from(guest::read((base + 0x3C) as *const u32));
    let signature: u32 = guest::read(headers as *const u32);
    if signature == u32::from_le_bytes(*b"PE\0\0") {
        headers
    } else {
        0
    }
}

impl Machine {
    /// Notes that something was registered; the handle is what to withdraw it with.
    pub(super) fn register(&self, kind: Held) -> u64 {
        let site = self.call_site();
        let mut resources = self.resources.borrow_mut();
        let handle = resources.new_handle();
        resources.hold(kind, handle, site);
        handle
    }

    fn hold_once(&self, kind: Held, key: u64) -> bool {
        let site = self.call_site();
        let mut resources = self.resources.borrow_mut();
        !resources.holds(kind, key) && resources.hold(kind, key, site)
    }

    /// The outcome of an event that nobody listens to.
    fn traced(&self, provider: u64) -> NTSTATUS {
        if self.resources.borrow().holds(Held::EventProvider, provider) {
            STATUS_SUCCESS
        } else {
            STATUS_INVALID_HANDLE
        }
    }

    /// Tells a new routine of every processor; false if it refuses one.
    fn announce_processors(&self, routine: u64, context: u64) -> bool {
        for (state, index) in (0..self.cpu_count()).flat_map(|index| [(0, index), (1, index)]) {
            let mut outcome = STATUS_SUCCESS;
            let mut change = KE_PROCESSOR_CHANGE_NOTIFY_CONTEXT {
                State: state,
                NtNumber: u32::try_from(index).unwrap_or(u32::MAX),
                Status: STATUS_SUCCESS,
                ProcNumber: PROCESSOR_NUMBER {
                    Group: u16::try_from(index / 64).unwrap_or(0),
                    Number: u8::try_from(index % 64).unwrap_or(0),
                    Reserved: 0,
                },
            };
            let arguments = [
                context,
                (&raw mut change) as u64,
                (&raw mut outcome) as u64,
                0,
            ];
            self.call(routine, arguments);
            if !guest::read(&raw const outcome).is_success() {
                return false;
            }
        }
        true
    }

    /// An identity of version 4, of the machine's own sequence: a run repeats exactly.
    pub(super) fn new_guid(&self) -> GUID {
        let mut services = self.services.borrow_mut();
        services.guids += 1;
        // splitmix64: spreads a counter over all bits.
        let word = |n: u64| {
            let mut z = n.wrapping_mul(0x9E37_79B9_7F4A_7C15);
            z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
            z ^ z >> 31
        };
        let (first, second) = (word(2 * services.guids), word(2 * services.guids + 1));
        let [a, b, c, d, e, f, g, h] = first.to_le_bytes();
        let mut tail = second.to_le_bytes();
        tail[0] = tail[0] & 0x3F | 0x80;
        GUID {
            Data1: u32::from_le_bytes([a, b, c, d]),
            Data2: u16::from_le_bytes([e, f]),
            Data3: u16::from_le_bytes([g, h]) & 0x0FFF | 0x4000,
            Data4: tail,
        }
    }
}
