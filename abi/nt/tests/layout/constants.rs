//! Every constant, with the module of `windows-sys` that has it, and whether the C headers do.

use super::Fact;

trait AsNumber: Copy {
    fn number(self) -> u64;
}

macro_rules! numbers {
    ($($ty:ty),*) => { $(
        impl AsNumber for $ty {
            fn number(self) -> u64 {
                i64::from(self).cast_unsigned()
            }
        }
    )* };
}
numbers!(u8, i8, u16, i16, u32, i32);

impl AsNumber for u64 {
    fn number(self) -> u64 {
        self
    }
}

impl AsNumber for usize {
    fn number(self) -> u64 {
        self as u64
    }
}

impl AsNumber for nt::NTSTATUS {
    fn number(self) -> u64 {
        self.0.number()
    }
}

impl AsNumber for nt::stop::StopCode {
    fn number(self) -> u64 {
        self.0.number()
    }
}

macro_rules! windows {
    ([], $name:ident) => {
        None
    };
    ([$windows:path], $name:ident) => {{
        use $windows as windows;
        Some(windows::$name.number())
    }};
}

macro_rules! constants {
    ($facts:ident; $( $ours:path, $windows:tt, $has:ident in C: $($name:ident),*; )*) => { $( {
        use $ours as ours;
        $( $facts.push(Fact {
            name: stringify!($name).to_owned(),
            ours: ours::$name.number(),
            windows: windows!($windows, $name),
            c: (stringify!($has) == "is").then(|| stringify!($name).to_owned()),
        }); )*
    } )* };
}

/// The value of every constant, ours and theirs.
pub(crate) fn facts() -> Vec<Fact> {
    let mut facts = Vec::new();
    constants! { facts;
        nt::cm, [], is in C:
            KEY_READ;
        nt::vm, [], is in C:
            PAGE_NOCACHE, PAGE_WRITECOMBINE;
        nt::status, [windows_sys::Win32::Foundation], absent in C:
            STATUS_ALREADY_REGISTERED, STATUS_DEVICE_FEATURE_NOT_SUPPORTED;
        nt::sysinfo, [], absent in C:
            SystemFirmwareTableInformation, SystemFirmwareTableEnumerate, SystemFirmwareTableGet;
        nt::stop, [windows_sys::Win32::System::Diagnostics::Debug], absent in C:
            WHEA_UNCORRECTABLE_ERROR;
        nt::cm, [windows_sys::Win32::System::Registry], is in C:
            REG_RESOURCE_LIST, REG_NONE, REG_SZ, REG_EXPAND_SZ, REG_BINARY, REG_DWORD, REG_MULTI_SZ, REG_QWORD,
            REG_CREATED_NEW_KEY, REG_OPENED_EXISTING_KEY;
        nt::cm, [windows_sys::Wdk::System::Registry], is in C:
            KeyValueBasicInformation, KeyValueFullInformation, KeyValuePartialInformation,
            KeyBasicInformation, KeyNodeInformation, KeyFullInformation;
        nt::cm, [windows_sys::Wdk::System::SystemServices], is in C:
            RTL_QUERY_REGISTRY_SUBKEY, RTL_QUERY_REGISTRY_TOPKEY, RTL_QUERY_REGISTRY_REQUIRED,
            RTL_QUERY_REGISTRY_NOVALUE, RTL_QUERY_REGISTRY_NOEXPAND, RTL_QUERY_REGISTRY_DIRECT,
            RTL_QUERY_REGISTRY_DELETE, RTL_REGISTRY_ABSOLUTE, RTL_REGISTRY_SERVICES,
            RTL_REGISTRY_CONTROL, RTL_REGISTRY_WINDOWS_NT, RTL_REGISTRY_DEVICEMAP,
            RTL_REGISTRY_USER, RTL_REGISTRY_HANDLE, RTL_REGISTRY_OPTIONAL;
        nt::cm, [windows_sys::Wdk::System::SystemServices], absent in C:
            RTL_QUERY_REGISTRY_TYPECHECK;
        nt::pnp, [windows_sys::Wdk::System::SystemServices], is in C:
            WMIREG_ACTION_REGISTER, WMIREG_ACTION_DEREGISTER, WMIREG_ACTION_REREGISTER,
            WMIREG_ACTION_UPDATE_GUIDS, WMIREG_ACTION_BLOCK_IRPS, EventCategoryReserved,
            EventCategoryHardwareProfileChange, EventCategoryDeviceInterfaceChange,
            EventCategoryTargetDeviceChange;
        nt::pnp, [], is in C:
            ERROR_LOG_MAXIMUM_SIZE;
        nt::po, [windows_sys::Wdk::System::SystemServices], is in C:
            IRP_MN_WAIT_WAKE, IRP_MN_POWER_SEQUENCE, IRP_MN_SET_POWER, IRP_MN_QUERY_POWER,
            SystemPowerState, DevicePowerState;
        nt::po, [windows_sys::Win32::System::Power], is in C:
            PowerDeviceUnspecified, PowerDeviceD0, PowerDeviceD1, PowerDeviceD2, PowerDeviceD3,
            PowerSystemWorking;
        nt::base, [windows_sys::Wdk::System::SystemServices], is in C:
            KernelMode, UserMode;
        nt::base, [windows_sys::Win32::Foundation], is in C:
            OBJ_INHERIT, OBJ_CASE_INSENSITIVE, OBJ_KERNEL_HANDLE, GENERIC_ALL, GENERIC_EXECUTE,
            GENERIC_WRITE, GENERIC_READ;
        nt::base, [windows_sys::Win32::System::SystemServices], is in C:
            MAXIMUM_PROC_PER_GROUP;
        nt::base, [windows_sys::Win32::System::Threading], is in C:
            ALL_PROCESSOR_GROUPS;
        nt::base, [windows_sys::Win32::Storage::FileSystem], is in C:
            DELETE, READ_CONTROL, WRITE_DAC, WRITE_OWNER, SYNCHRONIZE;
        nt::ke, [windows_sys::Wdk::System::SystemServices], is in C:
            PASSIVE_LEVEL, APC_LEVEL, DISPATCH_LEVEL, CLOCK_LEVEL, IPI_LEVEL, PROFILE_LEVEL,
            HIGH_LEVEL, Executive, LowImportance, MediumImportance, HighImportance,
            THREAD_WAIT_OBJECTS;
        nt::ke, [], absent in C:
            EVENT_NOTIFICATION_OBJECT, EVENT_SYNCHRONIZATION_OBJECT, MUTANT_OBJECT,
            PROCESS_OBJECT, SEMAPHORE_OBJECT, THREAD_OBJECT, TIMER_NOTIFICATION_OBJECT,
            TIMER_SYNCHRONIZATION_OBJECT, DPC_OBJECT;
        nt::ke, [windows_sys::Win32::System::Kernel], is in C:
            NotificationEvent, SynchronizationEvent, NotificationTimer, SynchronizationTimer,
            WaitAll, WaitAny;
        nt::ke, [windows_sys::Win32::System::SystemServices], is in C:
            MAXIMUM_WAIT_OBJECTS;
        nt::ex, [windows_sys::Wdk::Foundation], is in C:
            NonPagedPool, PagedPool, NonPagedPoolMustSucceed, NonPagedPoolCacheAligned,
            PagedPoolCacheAligned, NonPagedPoolNx, NonPagedPoolNxCacheAligned;
        nt::ex, [], absent in C:
            POOL_FLAG_USE_QUOTA, POOL_FLAG_UNINITIALIZED, POOL_FLAG_SESSION,
            POOL_FLAG_CACHE_ALIGNED, POOL_FLAG_RAISE_ON_FAILURE, POOL_FLAG_NON_PAGED,
            POOL_FLAG_NON_PAGED_EXECUTE, POOL_FLAG_PAGED;
        nt::seh, [windows_sys::Win32::System::SystemServices], is in C:
            EXCEPTION_MAXIMUM_PARAMETERS, EXCEPTION_NONCONTINUABLE;
        nt::seh, [windows_sys::Win32::System::SystemServices], absent in C:
            EXCEPTION_UNWINDING, EXCEPTION_EXIT_UNWIND, EXCEPTION_STACK_INVALID,
            EXCEPTION_NESTED_CALL, EXCEPTION_TARGET_UNWIND, EXCEPTION_COLLIDED_UNWIND;
        nt::seh, [windows_sys::Win32::System::Kernel], is in C:
            ExceptionContinueExecution, ExceptionContinueSearch, ExceptionNestedException,
            ExceptionCollidedUnwind;
        nt::seh, [windows_sys::Win32::System::Diagnostics::Debug], absent in C:
            UNW_FLAG_EHANDLER, UNW_FLAG_UHANDLER;
        nt::seh, [], is in C:
            CONTEXT_FULL;
        nt::seh, [], absent in C:
            EXCEPTION_UNWIND;
        nt::mm, [], is in C:
            MDL_MAPPED_TO_SYSTEM_VA, MDL_PAGES_LOCKED, MDL_SOURCE_IS_NONPAGED_POOL;
        nt::mm, [windows_sys::Wdk::System::SystemServices], is in C:
            IoReadAccess, IoWriteAccess, IoModifyAccess;
        nt::io, [windows_sys::Win32::System::Ioctl], is in C:
            FILE_DEVICE_UNKNOWN, METHOD_BUFFERED, METHOD_IN_DIRECT, METHOD_OUT_DIRECT,
            METHOD_NEITHER, FILE_ANY_ACCESS;
        nt::io, [windows_sys::Wdk::System::SystemServices], is in C:
            FILE_DEVICE_SECURE_OPEN, CriticalWorkQueue, DelayedWorkQueue;
        nt::io, [windows_sys::Wdk::Storage::FileSystem], is in C:
            DO_BUFFERED_IO, DO_EXCLUSIVE, DO_DIRECT_IO, DO_DEVICE_INITIALIZING, IO_NO_INCREMENT;
        nt::io, [windows_sys::Win32::Storage::FileSystem], is in C:
            FILE_READ_DATA, FILE_WRITE_DATA;
        nt::irp, [windows_sys::Wdk::System::SystemServices], is in C:
            IRP_MJ_CREATE, IRP_MJ_CLOSE, IRP_MJ_READ, IRP_MJ_WRITE, IRP_MJ_QUERY_INFORMATION,
            IRP_MJ_SET_INFORMATION, IRP_MJ_FLUSH_BUFFERS, IRP_MJ_QUERY_VOLUME_INFORMATION,
            IRP_MJ_DEVICE_CONTROL, IRP_MJ_INTERNAL_DEVICE_CONTROL, IRP_MJ_SHUTDOWN,
            IRP_MJ_CLEANUP, IRP_MJ_POWER, IRP_MJ_SYSTEM_CONTROL, IRP_MJ_PNP,
            IRP_MJ_MAXIMUM_FUNCTION, SL_PENDING_RETURNED, SL_INVOKE_ON_CANCEL,
            SL_INVOKE_ON_SUCCESS, SL_INVOKE_ON_ERROR, IO_TYPE_IRP, IO_TYPE_DEVICE,
            IO_TYPE_DRIVER, IO_TYPE_FILE;
        nt::se, [windows_sys::Win32::System::SystemServices], is in C:
            SECURITY_DESCRIPTOR_REVISION, ACCESS_ALLOWED_ACE_TYPE, SID_MAX_SUB_AUTHORITIES;
        nt::se, [windows_sys::Win32::Security], is in C:
            ACL_REVISION, SE_OWNER_DEFAULTED, SE_GROUP_DEFAULTED, SE_DACL_PRESENT,
            SE_DACL_DEFAULTED, SE_SACL_PRESENT, SE_SACL_DEFAULTED, SE_SELF_RELATIVE,
            DACL_SECURITY_INFORMATION;
        nt::zw, [windows_sys::Wdk::Storage::FileSystem], is in C:
            FILE_SUPERSEDE, FILE_OPEN, FILE_CREATE, FILE_OPEN_IF, FILE_OVERWRITE,
            FILE_OVERWRITE_IF, FILE_DIRECTORY_FILE, FILE_SYNCHRONOUS_IO_ALERT,
            FILE_SYNCHRONOUS_IO_NONALERT, FILE_NON_DIRECTORY_FILE;
        nt::zw, [windows_sys::Win32::System::WindowsProgramming], is in C:
            FILE_OPENED;
        nt::hal, [windows_sys::Wdk::System::SystemServices], is in C:
            ResourceTypeSingle, ResourceTypeRange, ResourceTypeExtendedCounterConfiguration,
            ResourceTypeOverflow;
        nt::hal, [windows_sys::Wdk::System::SystemServices], absent in C:
            ResourceTypeEventBuffer;
        nt::hal, [], absent in C:
            HalProfileSourceInterruptHandler, HAL_DISPATCH_VERSION, HAL_DISPATCH_ROUTINES;
        nt::vm, [windows_sys::Wdk::System::SystemServices], absent in C:
            MM_COPY_MEMORY_PHYSICAL, MM_COPY_MEMORY_VIRTUAL;
        nt::vm, [windows_sys::Wdk::System::SystemServices], is in C:
            POOL_QUOTA_FAIL_INSTEAD_OF_RAISE, PAGE_NOACCESS, PAGE_READONLY, PAGE_READWRITE, PAGE_EXECUTE, PAGE_EXECUTE_READ, PAGE_EXECUTE_READWRITE, MEM_COMMIT, MEM_RESERVE, MEM_DECOMMIT, MEM_RELEASE;
        nt::process, [], is in C:
            ProcessBasicInformation, ProcessWow64Information, ProcessImageFileName;
        nt::sysinfo, [windows_sys::Wdk::System::SystemServices], is in C:
            KE_PROCESSOR_CHANGE_ADD_EXISTING, KbCallbackSecondaryDumpData,
            KbCallbackSecondaryMultiPartDumpData;
        nt::sysinfo, [windows_sys::Wdk::System::SystemServices], absent in C:
            KB_SECONDARY_DATA_FLAG_ADDITIONAL_DATA, KB_SECONDARY_DATA_FLAG_NO_DEVICE_ACCESS;
        nt::queue, [], absent in C:
            DEVICE_QUEUE_OBJECT, QUEUE_OBJECT;
        nt::queue, [windows_sys::Wdk::System::SystemServices], is in C:
            IO_TYPE_CSQ_IRP_CONTEXT, IO_TYPE_CSQ, IO_TYPE_CSQ_EX;
        nt::token, [windows_sys::Win32::Security], is in C:
            TokenUser, TokenSessionId, TokenElevation;
        nt::token, [windows_sys::Wdk::System::SystemServices], is in C:
            PRIVILEGE_SET_ALL_NECESSARY;
        nt::plugplay, [windows_sys::Wdk::System::SystemServices], is in C:
            IRP_MN_START_DEVICE, IRP_MN_QUERY_REMOVE_DEVICE, IRP_MN_REMOVE_DEVICE, IRP_MN_CANCEL_REMOVE_DEVICE, IRP_MN_STOP_DEVICE, IRP_MN_QUERY_STOP_DEVICE, IRP_MN_CANCEL_STOP_DEVICE, IRP_MN_QUERY_DEVICE_RELATIONS, IRP_MN_QUERY_CAPABILITIES, IRP_MN_QUERY_ID, IRP_MN_QUERY_PNP_DEVICE_STATE, IRP_MN_SURPRISE_REMOVAL, BusRelations, TargetDeviceRelation, BusQueryDeviceID, BusQueryHardwareIDs, BusQueryInstanceID, DevicePropertyDeviceDescription, DevicePropertyHardwareID, DevicePropertyCompatibleIDs, DevicePropertyClassName, DevicePropertyManufacturer, DevicePropertyFriendlyName, DevicePropertyLocationInformation, DevicePropertyPhysicalDeviceObjectName, DevicePropertyBusNumber, DevicePropertyEnumeratorName, DevicePropertyAddress;
        nt::callbacks, [windows_sys::Wdk::System::SystemServices], is in C:
            OB_FLT_REGISTRATION_VERSION;
        nt::wmi, [], absent in C:
            IrpProcessed, IrpNotCompleted, IrpNotWmi, IrpForward;
        nt::status, [windows_sys::Win32::Foundation], is in C:
            STATUS_INVALID_UNWIND_TARGET, STATUS_BAD_FUNCTION_TABLE,
            STATUS_FLT_INSTANCE_ALTITUDE_COLLISION,
            STATUS_MORE_ENTRIES,
            STATUS_NO_TOKEN,
            STATUS_WMI_GUID_NOT_FOUND, STATUS_DEBUGGER_INACTIVE,
            STATUS_SOME_NOT_MAPPED, STATUS_PARTIAL_COPY, STATUS_INVALID_CID, STATUS_CONFLICTING_ADDRESSES, STATUS_INVALID_PARAMETER_MIX, STATUS_INVALID_PAGE_PROTECTION, STATUS_MEMORY_NOT_ALLOCATED, STATUS_INVALID_PARAMETER_4, STATUS_INVALID_ADDRESS,
            STATUS_NAME_TOO_LONG, STATUS_SUCCESS, STATUS_WAIT_1, STATUS_ABANDONED_WAIT_0, STATUS_USER_APC,
            STATUS_ALERTED, STATUS_TIMEOUT, STATUS_PENDING, STATUS_OBJECT_NAME_EXISTS,
            STATUS_BUFFER_OVERFLOW, STATUS_NO_MORE_ENTRIES, STATUS_DATATYPE_MISALIGNMENT,
            STATUS_BREAKPOINT, STATUS_DEVICE_BUSY, STATUS_UNSUCCESSFUL, STATUS_NOT_IMPLEMENTED,
            STATUS_INVALID_INFO_CLASS, STATUS_INFO_LENGTH_MISMATCH, STATUS_ACCESS_VIOLATION,
            STATUS_INVALID_HANDLE, STATUS_INVALID_PARAMETER, STATUS_NO_SUCH_DEVICE,
            STATUS_NO_SUCH_FILE, STATUS_INVALID_DEVICE_REQUEST, STATUS_END_OF_FILE,
            STATUS_MORE_PROCESSING_REQUIRED, STATUS_NO_MEMORY, STATUS_ILLEGAL_INSTRUCTION,
            STATUS_ACCESS_DENIED, STATUS_BUFFER_TOO_SMALL, STATUS_OBJECT_TYPE_MISMATCH,
            STATUS_NONCONTINUABLE_EXCEPTION, STATUS_INVALID_DISPOSITION, STATUS_UNWIND,
            STATUS_INVALID_UNWIND_TARGET, STATUS_BAD_FUNCTION_TABLE,
            STATUS_OBJECT_NAME_INVALID, STATUS_OBJECT_NAME_NOT_FOUND,
            STATUS_OBJECT_NAME_COLLISION, STATUS_OBJECT_PATH_NOT_FOUND,
            STATUS_OBJECT_PATH_SYNTAX_BAD, STATUS_DATA_ERROR, STATUS_SHARING_VIOLATION,
            STATUS_QUOTA_EXCEEDED, STATUS_MUTANT_NOT_OWNED, STATUS_SEMAPHORE_LIMIT_EXCEEDED,
            STATUS_DELETE_PENDING, STATUS_UNKNOWN_REVISION, STATUS_REVISION_MISMATCH,
            STATUS_INVALID_OWNER, STATUS_PRIVILEGE_NOT_HELD, STATUS_INVALID_ACL,
            STATUS_INVALID_SID, STATUS_INVALID_SECURITY_DESCR, STATUS_PROCEDURE_NOT_FOUND,
            STATUS_INTEGER_DIVIDE_BY_ZERO, STATUS_INTEGER_OVERFLOW,
            STATUS_PRIVILEGED_INSTRUCTION, STATUS_ALLOTTED_SPACE_EXCEEDED,
            STATUS_INSUFFICIENT_RESOURCES, STATUS_DEVICE_NOT_READY,
            STATUS_BAD_IMPERSONATION_LEVEL, STATUS_IO_TIMEOUT, STATUS_NOT_SUPPORTED,
            STATUS_INVALID_PARAMETER_1, STATUS_INVALID_PARAMETER_2, STATUS_INVALID_PARAMETER_3,
            STATUS_INTERNAL_ERROR, STATUS_STACK_OVERFLOW, STATUS_BAD_DESCRIPTOR_FORMAT,
            STATUS_NOT_MAPPED_VIEW, STATUS_INVALID_VIEW_SIZE, STATUS_MAPPED_ALIGNMENT, STATUS_KEY_DELETED, STATUS_CANCELLED, STATUS_CANNOT_DELETE,
            STATUS_FILE_CLOSED, STATUS_INVALID_DEVICE_STATE, STATUS_IO_DEVICE_ERROR,
            STATUS_NOT_FOUND, STATUS_INVALID_BUFFER_SIZE, STATUS_RETRY, STATUS_WAS_LOCKED,
            STATUS_RESOURCE_NOT_OWNED, STATUS_DEVICE_REMOVED, STATUS_RESOURCE_IN_USE,
            STATUS_DRIVER_INTERNAL_ERROR, STATUS_REQUEST_ABORTED, STATUS_CONNECTION_ABORTED;
        nt::stop, [windows_sys::Win32::System::Diagnostics::Debug], is in C:
            IRQL_NOT_LESS_OR_EQUAL, SPIN_LOCK_ALREADY_OWNED, SPIN_LOCK_NOT_OWNED,
            BAD_POOL_HEADER, KMODE_EXCEPTION_NOT_HANDLED, MULTIPLE_IRP_COMPLETE_REQUESTS,
            IRQL_GT_ZERO_AT_SYSTEM_SERVICE, PAGE_FAULT_IN_NONPAGED_AREA,
            DRIVER_LEFT_LOCKED_PAGES_IN_PROCESS, SYSTEM_THREAD_EXCEPTION_NOT_HANDLED,
            UNEXPECTED_KERNEL_MODE_TRAP, ATTEMPTED_SWITCH_FROM_DPC,
            ATTEMPTED_WRITE_TO_READONLY_MEMORY, SPECIAL_POOL_DETECTED_MEMORY_CORRUPTION,
            BAD_POOL_CALLER, DRIVER_CORRUPTED_EXPOOL, DRIVER_CAUGHT_MODIFYING_FREED_POOL,
            IRQL_UNEXPECTED_VALUE, DRIVER_UNLOADED_WITHOUT_CANCELLING_PENDING_OPERATIONS,
            DRIVER_IRQL_NOT_LESS_OR_EQUAL, MANUALLY_INITIATED_CRASH,
            THREAD_STUCK_IN_DEVICE_DRIVER, ATTEMPTED_EXECUTE_OF_NOEXECUTE_MEMORY,
            VIDEO_DRIVER_INIT_FAILURE, INVALID_PROCESS_DETACH_ATTEMPT,
            NO_MORE_IRP_STACK_LOCATIONS, WORKER_INVALID;
        nt::stop, [windows_sys::Win32::System::Diagnostics::Debug], absent in C:
            SYSTEM_PTE_MISUSE, SYSTEM_SERVICE_EXCEPTION, DRIVER_VERIFIER_DETECTED_VIOLATION, TIMER_OR_DPC_INVALID,
            DRIVER_VERIFIER_IOMANAGER_VIOLATION, PAGE_FAULT_IN_FREED_SPECIAL_POOL,
            PAGE_FAULT_BEYOND_END_OF_ALLOCATION, DRIVER_PAGE_FAULT_IN_FREED_SPECIAL_POOL,
            DRIVER_PAGE_FAULT_BEYOND_END_OF_ALLOCATION, KERNEL_SECURITY_CHECK_FAILURE,
            DPC_WATCHDOG_VIOLATION;
    }
    facts
}
