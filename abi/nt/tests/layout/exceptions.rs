//! Where the oracles differ from Windows, and how we know.

use Oracle::{Mingw, WindowsSys};

/// Who says otherwise.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Oracle {
    WindowsSys,
    Mingw,
}

/// A known difference.
pub(crate) struct Exception {
    pub(crate) oracle: Oracle,
    pub(crate) name: &'static str,
    /// What the oracle says.
    pub(crate) theirs: u64,
}

/// Differences of one oracle that have one reason; the reason is for the reader.
macro_rules! exceptions {
    ($( $reason:literal $oracle:ident { $($name:literal: $theirs:literal,)* } )*) => {
        pub(crate) const EXCEPTIONS: &[Exception] = &[ $($( Exception {
            oracle: $oracle,
            name: $name,
            theirs: $theirs,
        }, )*)* ];
    };
}

exceptions! {
    "The members of IO_STACK_LOCATION.Parameters are POINTER_ALIGNMENT (wdm.h), \
     which the metadata behind windows-sys loses; mingw keeps it."
    WindowsSys {
        "DeviceIoControlParameters": 0x18,
        "DeviceIoControlParameters.InputBufferLength": 0x4,
        "DeviceIoControlParameters.IoControlCode": 0x8,
        "DeviceIoControlParameters.Type3InputBuffer": 0x10,
        "ReadWriteParameters": 0x10,
        "ReadWriteParameters.Key": 0x4,
        "ReadWriteParameters.ByteOffset": 0x8,
        "QueryFileParameters": 0x8,
        "QueryFileParameters.FileInformationClass": 0x4,
        "PowerParameters": 0x10,
        "PowerParameters.Type": 0x4,
        "PowerParameters.State": 0x8,
        "PowerParameters.ShutdownType": 0xC,
        "CreateParameters": 0x18,
        "CreateParameters.FileAttributes": 0xC,
        "CreateParameters.ShareAccess": 0xE,
        "CreateParameters.EaLength": 0x10,
    }
    "DEVICE_OBJECT is DECLSPEC_ALIGN(MEMORY_ALLOCATION_ALIGNMENT), 16 bytes (wdm.h): \
     IoCreateDevice puts the extension at +0x150."
    WindowsSys {
        "DEVICE_OBJECT": 0x148,
    }
    "As above: the attribute is not in mingw's headers."
    Mingw {
        "DEVICE_OBJECT": 0x148,
    }
    "KTIMER.Processor is left out on 32-bit x86 (wdm.h), which is what the metadata was made for; \
     mingw has it."
    WindowsSys {
        "KTIMER.Period": 0x38,
    }
    "ERESOURCE.Reserved2 is left out on 32-bit systems (wdm.h), as above; mingw has it."
    WindowsSys {
        "ERESOURCE": 0x60,
        "ERESOURCE.Address": 0x50,
        "ERESOURCE.SpinLock": 0x58,
    }
    "SE_EXPORTS grew at its end since Windows 7, whose header mingw has (ntifs.h)."
    Mingw {
        "SE_EXPORTS": 0x208,
    }
    "The IRQLs above DISPATCH_LEVEL are those of 32-bit x86 (wdm.h has one set per processor)."
    WindowsSys {
        "CLOCK_LEVEL": 0x1C,
        "IPI_LEVEL": 0x1D,
        "PROFILE_LEVEL": 0x1B,
        "HIGH_LEVEL": 0x1F,
    }
    "The union in the descriptor got arms with pointers in Windows 10 (ntddk.h); \
     mingw's header has Windows 7's."
    Mingw {
        "PHYSICAL_COUNTER_RESOURCE_DESCRIPTOR": 0x10,
        "PHYSICAL_COUNTER_RESOURCE_LIST": 0x14,
        "PHYSICAL_COUNTER_RESOURCE_LIST.Descriptors": 0x4,
    }
    "wdm.h adds a type to the properties' numbers for its code analysis only (_PREFAST_), \
     under which the metadata was made; mingw has what the kernel takes."
    WindowsSys {
        "DevicePropertyDeviceDescription": 0x1000,
        "DevicePropertyHardwareID": 0x4001,
        "DevicePropertyCompatibleIDs": 0x4002,
        "DevicePropertyClassName": 0x1005,
        "DevicePropertyManufacturer": 0x1008,
        "DevicePropertyFriendlyName": 0x1009,
        "DevicePropertyLocationInformation": 0x100A,
        "DevicePropertyPhysicalDeviceObjectName": 0x100B,
        "DevicePropertyEnumeratorName": 0x100F,
    }
}
