//! Hardware abstraction layer. Exported by `hal.dll` before Windows 10 2004,
//! by the kernel image since; drivers of ours find these at run time.

use core::ffi::c_void;

use crate::base::{BOOLEAN, GROUP_AFFINITY, HANDLE, PHYSICAL_ADDRESS};
use crate::status::NTSTATUS;

/// `PHYSICAL_COUNTER_RESOURCE_DESCRIPTOR_TYPE`.
pub const ResourceTypeSingle: i32 = 0;
pub const ResourceTypeRange: i32 = 1;
pub const ResourceTypeExtendedCounterConfiguration: i32 = 2;
pub const ResourceTypeOverflow: i32 = 3;
pub const ResourceTypeEventBuffer: i32 = 4;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PHYSICAL_COUNTER_RESOURCE_DESCRIPTOR {
    pub Type: i32,
    pub Flags: u32,
    /// `CounterIndex`, or `Range.Begin`.
    pub CounterIndex: u32,
    /// `Range.End`.
    pub RangeEnd: u32,
    /// The rest of the union's largest arm, `EventBufferConfiguration`.
    pub _rest: u64,
}
layout!(PHYSICAL_COUNTER_RESOURCE_DESCRIPTOR, 0x18, CounterIndex @ 8);

#[repr(C)]
pub struct PHYSICAL_COUNTER_RESOURCE_LIST {
    pub Count: u32,
    pub _pad: u32,
    pub Descriptors: [PHYSICAL_COUNTER_RESOURCE_DESCRIPTOR; 1],
}
layout!(PHYSICAL_COUNTER_RESOURCE_LIST, 0x20, Descriptors @ 8);

/// `HAL_SET_INFORMATION_CLASS`: the handler of the performance-monitor interrupt.
pub const HalProfileSourceInterruptHandler: i32 = 1;
/// Version of `HAL_DISPATCH` since Windows 8.
pub const HAL_DISPATCH_VERSION: u32 = 4;
/// Pointers of `HAL_DISPATCH` behind its version.
pub const HAL_DISPATCH_ROUTINES: usize = 24;

/// The beginning of what `HalDispatchTable` is; more routines follow.
#[repr(C)]
pub struct HAL_DISPATCH {
    /// 3 on Windows 7, 4 since.
    pub Version: u32,
    pub _pad: u32,
    pub HalQuerySystemInformation: usize,
    pub HalSetSystemInformation: Option<HalSetSystemInformationFn>,
}
layout!(HAL_DISPATCH, 0x18, HalQuerySystemInformation @ 8, HalSetSystemInformation @ 0x10);

/// `IRQL == PASSIVE_LEVEL`.
pub type HalSetSystemInformationFn = unsafe extern "efiapi" fn(
    InformationClass: i32,
    BufferSize: u32,
    Buffer: *mut c_void,
) -> NTSTATUS;

/// The handler of the performance-monitor interrupt; called at `PROFILE_LEVEL`.
pub type PROFILE_HANDLER = unsafe extern "efiapi" fn(TrapFrame: *mut c_void);

/// Offsets into the Arm64 `KTRAP_FRAME`, as runtimes that unwind through it declare it.
pub mod trap_frame_arm64 {
    pub const SPSR: usize = 0x90;
    pub const PC: usize = 0x148;
}

/// Offsets into the x86-64 `KTRAP_FRAME`, which profile handlers are passed.
pub mod trap_frame {
    pub const RBX: usize = 0x140;
    pub const RDI: usize = 0x148;
    pub const RSI: usize = 0x150;
    pub const RBP: usize = 0x158;
    pub const RIP: usize = 0x168;
    pub const SEG_CS: usize = 0x170;
    pub const EFLAGS: usize = 0x178;
    pub const RSP: usize = 0x180;
    pub const SEG_SS: usize = 0x188;
    pub const SIZE: usize = 0x190;
}

pub type HalAllocateHardwareCountersFn = unsafe extern "efiapi" fn(
    GroupAffinty: *mut GROUP_AFFINITY,
    GroupCount: u32,
    ResourceList: *mut PHYSICAL_COUNTER_RESOURCE_LIST,
    CounterSetHandle: *mut HANDLE,
) -> NTSTATUS;
pub type HalFreeHardwareCountersFn =
    unsafe extern "efiapi" fn(CounterSetHandle: HANDLE) -> NTSTATUS;

image! {
    /// Reserves performance counters, on all processors when `GroupCount` is 0.
    fn HalAllocateHardwareCounters(GroupAffinty: *mut GROUP_AFFINITY, GroupCount: u32, ResourceList: *mut PHYSICAL_COUNTER_RESOURCE_LIST, CounterSetHandle: *mut HANDLE) -> NTSTATUS where irql == PASSIVE_LEVEL, FAILS, ACQUIRES;
    /// Gives reserved performance counters back.
    fn HalFreeHardwareCounters(CounterSetHandle: HANDLE) -> NTSTATUS where irql == PASSIVE_LEVEL, RELEASES;
    /// Reads configuration space of a bus; the bytes read, 0 when there is no such bus.
    fn HalGetBusDataByOffset(BusDataType: i32, BusNumber: u32, SlotNumber: u32, Buffer: *mut c_void, Offset: u32, Length: u32) -> u32 where irql <= DISPATCH_LEVEL;
    /// Writes configuration space of a bus; the bytes written, 0 when there is no such bus.
    fn HalSetBusDataByOffset(BusDataType: i32, BusNumber: u32, SlotNumber: u32, Buffer: *mut c_void, Offset: u32, Length: u32) -> u32 where irql <= DISPATCH_LEVEL;
    /// Translates an address of a bus to a physical one; false when there is no such bus.
    fn HalTranslateBusAddress(InterfaceType: i32, BusNumber: u32, BusAddress: PHYSICAL_ADDRESS, AddressSpace: *mut u32, TranslatedAddress: *mut PHYSICAL_ADDRESS) -> BOOLEAN where irql == PASSIVE_LEVEL;
}
