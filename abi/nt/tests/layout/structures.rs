//! Every structure and field, with where the oracles have it.

use std::mem::offset_of;

use super::Fact;

macro_rules! windows_size {
    ([]) => {
        None
    };
    ([$windows:ty]) => {
        Some(size_of::<$windows>() as u64)
    };
}

/// Offset in the type of `windows-sys`, by the path if there is one.
macro_rules! windows_offset {
    ([], $($path:tt)*) => { None };
    ($windows:tt, absent) => { None };
    ([$windows:ty], $($path:tt)+) => { Some(offset_of!($windows, $($path)+) as u64) };
}

macro_rules! c_path {
    (absent) => {
        None
    };
    ($($path:tt)+) => {
        Some(concat!($(stringify!($path)),+))
    };
}

/// One field: `Name` alike everywhere, `(Name: windows-sys)`, `(Name: windows-sys => C)`.
macro_rules! field {
    ($ours:ty, $windows:tt, $name:ident) => { field!($ours, $windows, ($name: $name => $name)) };
    ($ours:ty, $windows:tt, ($name:ident: $($w:ident).+)) => { field!($ours, $windows, ($name: $($w).+ => $name)) };
    ($ours:ty, $windows:tt, ($name:ident: $($w:ident).+ => $($c:tt)+)) => {
        (
            stringify!($name),
            offset_of!($ours, $name) as u64,
            windows_offset!($windows, $($w).+),
            c_path!($($c)+),
        )
    };
}

macro_rules! structures {
    ($facts:ident; $( $module:ident::$name:ident, $windows:tt, $c:tt { $($field:tt),* $(,)? } )*) => { $(
        let fields = [$( field!(nt::$module::$name, $windows, $field) ),*];
        add(
            &mut $facts,
            stringify!($name),
            size_of::<nt::$module::$name>() as u64,
            windows_size!($windows),
            $c,
            &fields,
        );
    )* };
}

type Field = (&'static str, u64, Option<u64>, Option<&'static str>);

/// Adds a structure. In C it is a type, or a type and the path to an unnamed one in it, or nothing.
fn add(
    facts: &mut Vec<Fact>,
    name: &str,
    size: u64,
    windows: Option<u64>,
    c: &str,
    fields: &[Field],
) {
    let (c_type, base) = c.split_once('.').unwrap_or((c, ""));
    let dot = if base.is_empty() { "" } else { "." };
    let c_size = match (c, base) {
        ("", _) => None,
        (_, "") => Some(format!("sizeof({c_type})")),
        _ => Some(format!("sizeof((({c_type} *)0)->{base})")),
    };
    facts.push(Fact {
        name: name.to_owned(),
        ours: size,
        windows,
        c: c_size,
    });
    for (field, offset, windows, path) in fields {
        let in_base = (!base.is_empty()).then(|| format!(" - offsetof({c_type}, {base})"));
        let c = path.filter(|_| !c.is_empty()).map(|path| {
            format!(
                "offsetof({c_type}, {base}{dot}{path}){}",
                in_base.unwrap_or_default()
            )
        });
        facts.push(Fact {
            name: format!("{name}.{field}"),
            ours: *offset,
            windows: *windows,
            c,
        });
    }
}

/// Size and offsets of every structure, ours and theirs.
pub(crate) fn facts() -> Vec<Fact> {
    use windows_sys::Wdk::Foundation as wdk;
    use windows_sys::Wdk::Storage::FileSystem as file_system;
    use windows_sys::Wdk::System::SystemServices as services;
    use windows_sys::Win32::Security as security;
    use windows_sys::Win32::System as system;
    use windows_sys::Win32::System::Diagnostics::Debug as debug;
    let mut facts = Vec::new();
    structures! { facts;
        base::UNICODE_STRING, [windows_sys::Win32::Foundation::UNICODE_STRING], "UNICODE_STRING" { Length, MaximumLength, Buffer }
        base::ANSI_STRING, [system::Kernel::STRING], "ANSI_STRING" { Length, MaximumLength, Buffer }
        base::LIST_ENTRY, [system::Kernel::LIST_ENTRY], "LIST_ENTRY" { Flink, Blink }
        base::GUID, [windows_sys::core::GUID], "GUID" { (Data1: data1), (Data2: data2), (Data3: data3), (Data4: data4) }
        base::OBJECT_ATTRIBUTES, [wdk::OBJECT_ATTRIBUTES], "OBJECT_ATTRIBUTES" { Length, RootDirectory, ObjectName, Attributes, SecurityDescriptor, SecurityQualityOfService }
        base::PROCESSOR_NUMBER, [system::Kernel::PROCESSOR_NUMBER], "PROCESSOR_NUMBER" { Group, Number, Reserved }
        base::GROUP_AFFINITY, [system::SystemInformation::GROUP_AFFINITY], "GROUP_AFFINITY" { Mask, Group, Reserved }
        ke::DISPATCHER_HEADER, [wdk::DISPATCHER_HEADER], "DISPATCHER_HEADER" { (Type: Anonymous.Anonymous2.Type), (Signalling: Anonymous.Anonymous2.Signalling), (Size: Anonymous.Anonymous2.Size), (Reserved1: Anonymous.Anonymous2.Reserved1 => absent), SignalState, WaitListHead }
        ke::KDPC, [wdk::KDPC], "KDPC" { (Type: Anonymous.Anonymous.Type), (Importance: Anonymous.Anonymous.Importance), (Number: Anonymous.Anonymous.Number), DpcListEntry, (ProcessorHistory: ProcessorHistory => absent), DeferredRoutine, DeferredContext, SystemArgument1, SystemArgument2, DpcData }
        ke::KTIMER, [services::KTIMER], "KTIMER" { Header, DueTime, TimerListEntry, Dpc, (Processor: absent => Processor), Period }
        ke::KEVENT, [wdk::KEVENT], "KEVENT" { Header }
        ke::KSEMAPHORE, [services::KSEMAPHORE], "KSEMAPHORE" { Header, Limit }
        ke::KMUTANT, [wdk::KMUTANT], "KMUTANT" { Header, MutantListEntry, OwnerThread, (Abandoned: Anonymous.MutantFlags), ApcDisable }
        ex::FAST_MUTEX, [wdk::FAST_MUTEX], "FAST_MUTEX" { Count, Owner, Contention, Event, OldIrql }
        seh::EXCEPTION_RECORD, [debug::EXCEPTION_RECORD], "EXCEPTION_RECORD" { ExceptionCode, ExceptionFlags, ExceptionRecord, ExceptionAddress, NumberParameters, ExceptionInformation }
        seh::EXCEPTION_POINTERS, [debug::EXCEPTION_POINTERS], "EXCEPTION_POINTERS" { ExceptionRecord, ContextRecord }
        seh::RUNTIME_FUNCTION, [debug::IMAGE_RUNTIME_FUNCTION_ENTRY], "" { BeginAddress, EndAddress, (UnwindData: Anonymous.UnwindData => UnwindData) }
        seh::DISPATCHER_CONTEXT, [debug::DISPATCHER_CONTEXT], "" { ControlPc, ImageBase, FunctionEntry, EstablisherFrame, TargetIp, ContextRecord, LanguageHandler, HandlerData, (HistoryTable: HistoryTable => absent), (ScopeIndex: ScopeIndex => absent), (Fill0: Fill0 => absent) }
        seh::CONTEXT, [debug::CONTEXT], "CONTEXT" { (Home: P1Home => P1Home), ContextFlags, MxCsr, (Segments: SegCs => SegCs), EFlags, (Debug: Dr0 => Dr0), (Integer: Rax => Rax), Rip, (Legacy: Anonymous.FltSave => FltSave), (Xmm: Anonymous.Anonymous.Xmm0 => Xmm0), (Legacy2: absent => absent), (Vector: VectorRegister => VectorRegister), VectorControl, DebugControl }
        mm::MDL, [wdk::MDL], "MDL" { Next, Size, MdlFlags, (AllocationProcessorNumber: absent => absent), (Reserved: absent => absent), Process, MappedSystemVa, StartVa, ByteCount, ByteOffset }
        irp::IO_STATUS_BLOCK, [system::IO::IO_STATUS_BLOCK], "IO_STATUS_BLOCK" { (Status: Anonymous.Status), Information }
        irp::IRP, [wdk::IRP], "IRP" { Type, Size, (AllocationProcessorNumber: absent => absent), (Reserved: absent => absent), MdlAddress, Flags, (SystemBuffer: AssociatedIrp.SystemBuffer => AssociatedIrp.SystemBuffer), ThreadListEntry, IoStatus, RequestorMode, PendingReturned, StackCount, CurrentLocation, Cancel, CancelIrql, ApcEnvironment, AllocationFlags, (UserIosb: Anonymous.UserIosb), UserEvent, (UserApcRoutine: Overlay.AsynchronousParameters.Anonymous1.UserApcRoutine => Overlay.AsynchronousParameters.UserApcRoutine), (UserApcContext: Overlay.AsynchronousParameters.Anonymous2.UserApcContext => Overlay.AsynchronousParameters.UserApcContext), CancelRoutine, UserBuffer, (DriverContext: Tail.Overlay.Anonymous1.Anonymous.DriverContext => Tail.Overlay.DriverContext), (Thread: Tail.Overlay.Thread => Tail.Overlay.Thread), (AuxiliaryBuffer: Tail.Overlay.AuxiliaryBuffer => Tail.Overlay.AuxiliaryBuffer), (ListEntry: Tail.Overlay.Anonymous2.ListEntry => Tail.Overlay.ListEntry), (CurrentStackLocation: Tail.Overlay.Anonymous2.Anonymous.CurrentStackLocation => Tail.Overlay.CurrentStackLocation), (OriginalFileObject: Tail.Overlay.OriginalFileObject => Tail.Overlay.OriginalFileObject), (IrpExtension: absent => absent) }
        irp::DeviceIoControlParameters, [wdk::IO_STACK_LOCATION_0_16], "IO_STACK_LOCATION.Parameters.DeviceIoControl" { OutputBufferLength, InputBufferLength, IoControlCode, Type3InputBuffer }
        irp::ReadWriteParameters, [wdk::IO_STACK_LOCATION_0_3], "IO_STACK_LOCATION.Parameters.Read" { Length, Key, ByteOffset }
        irp::CreateParameters, [wdk::IO_STACK_LOCATION_0_0], "IO_STACK_LOCATION.Parameters.Create" { SecurityContext, Options, FileAttributes, ShareAccess, EaLength }
        irp::IO_STACK_LOCATION, [wdk::IO_STACK_LOCATION], "IO_STACK_LOCATION" { MajorFunction, MinorFunction, Flags, Control, Parameters, DeviceObject, FileObject, CompletionRoutine, Context }
        irp::DRIVER_EXTENSION, [wdk::DRIVER_EXTENSION], "DRIVER_EXTENSION" { DriverObject, AddDevice, Count, ServiceKeyName }
        irp::DRIVER_OBJECT, [wdk::DRIVER_OBJECT], "DRIVER_OBJECT" { Type, Size, DeviceObject, Flags, DriverStart, DriverSize, DriverSection, DriverExtension, DriverName, HardwareDatabase, FastIoDispatch, DriverInit, DriverStartIo, DriverUnload, MajorFunction }
        irp::DEVICE_OBJECT, [wdk::DEVICE_OBJECT], "DEVICE_OBJECT" { Type, Size, ReferenceCount, DriverObject, NextDevice, AttachedDevice, CurrentIrp, Timer, Flags, Characteristics, Vpb, DeviceExtension, DeviceType, StackSize, Queue, AlignmentRequirement, DeviceQueue, Dpc, ActiveThreadCount, SecurityDescriptor, DeviceLock, SectorSize, Spare1, DeviceObjectExtension, Reserved }
        irp::FILE_OBJECT, [wdk::FILE_OBJECT], "FILE_OBJECT" { Type, Size, DeviceObject, Vpb, FsContext, FsContext2, SectionObjectPointer, PrivateCacheMap, FinalStatus, RelatedFileObject, LockOperation, DeletePending, ReadAccess, WriteAccess, DeleteAccess, SharedRead, SharedWrite, SharedDelete, Flags, FileName, CurrentByteOffset, Waiters, Busy, LastLock, Lock, Event, CompletionContext, IrpListLock, IrpList, FileObjectExtension }
        rtl::RTL_OSVERSIONINFOW, [system::SystemInformation::OSVERSIONINFOW], "RTL_OSVERSIONINFOW" { dwOSVersionInfoSize, dwMajorVersion, dwMinorVersion, dwBuildNumber, dwPlatformId, szCSDVersion }
        se::SECURITY_DESCRIPTOR, [security::SECURITY_DESCRIPTOR], "SECURITY_DESCRIPTOR" { Revision, Sbz1, Control, Owner, Group, Sacl, Dacl }
        se::ACL, [security::ACL], "ACL" { AclRevision, Sbz1, AclSize, AceCount, Sbz2 }
        se::ACE_HEADER, [security::ACE_HEADER], "ACE_HEADER" { AceType, AceFlags, AceSize }
        se::SID, [security::SID], "SID" { Revision, SubAuthorityCount, IdentifierAuthority, SubAuthority }
        hal::PHYSICAL_COUNTER_RESOURCE_DESCRIPTOR, [services::PHYSICAL_COUNTER_RESOURCE_DESCRIPTOR], "PHYSICAL_COUNTER_RESOURCE_DESCRIPTOR" { Type, Flags, (CounterIndex: u.CounterIndex => u.CounterIndex), (RangeEnd: u.Range.End => u.Range.End) }
        hal::PHYSICAL_COUNTER_RESOURCE_LIST, [services::PHYSICAL_COUNTER_RESOURCE_LIST], "PHYSICAL_COUNTER_RESOURCE_LIST" { Count, Descriptors }
        ke::KAPC_STATE, [file_system::KAPC_STATE], "KAPC_STATE" { ApcListHead, Process, (InProgressFlags: Anonymous1.InProgressFlags => KernelApcInProgress), KernelApcPending, (UserApcPendingAll: Anonymous2.UserApcPendingAll => UserApcPending) }
        ex::SLIST_HEADER, [], "SLIST_HEADER" { Alignment, Region }
        ex::NPAGED_LOOKASIDE_LIST, [], "NPAGED_LOOKASIDE_LIST" { (ListHead: absent => L.ListHead), (Depth: absent => L.Depth), (MaximumDepth: absent => L.MaximumDepth), (TotalAllocates: absent => L.TotalAllocates), (AllocateMisses: absent => L.AllocateMisses), (TotalFrees: absent => L.TotalFrees), (FreeMisses: absent => L.FreeMisses), (Type: absent => L.Type), (Tag: absent => L.Tag), (Size: absent => L.Size), (Allocate: absent => L.Allocate), (Free: absent => L.Free), (ListEntry: absent => L.ListEntry), (LastTotalAllocates: absent => L.LastTotalAllocates), (LastAllocateMisses: absent => L.LastAllocateMisses), (Future: absent => L.Future) }
        ex::ERESOURCE, [wdk::ERESOURCE], "ERESOURCE" { SystemResourcesList, OwnerTable, ActiveCount, (Flag: Anonymous1.Flag), SharedWaiters, ExclusiveWaiters, (OwnerEntry: OwnerEntry), ActiveEntries, ContentionCount, NumberOfSharedWaiters, NumberOfExclusiveWaiters, (Reserved2: absent => Reserved2), (Address: Anonymous2.Address), SpinLock }
        rtl::TIME_FIELDS, [services::TIME_FIELDS], "TIME_FIELDS" { Year, Month, Day, Hour, Minute, Second, Milliseconds, Weekday }
        se::LUID, [windows_sys::Win32::Foundation::LUID], "LUID" { LowPart, HighPart }
        se::SE_EXPORTS, [file_system::SE_EXPORTS], "SE_EXPORTS" { SeCreateTokenPrivilege, SeAssignPrimaryTokenPrivilege, SeLockMemoryPrivilege, SeIncreaseQuotaPrivilege, SeUnsolicitedInputPrivilege, SeTcbPrivilege, SeSecurityPrivilege, SeTakeOwnershipPrivilege, SeLoadDriverPrivilege, SeCreatePagefilePrivilege, SeIncreaseBasePriorityPrivilege, SeSystemProfilePrivilege, SeSystemtimePrivilege, SeProfileSingleProcessPrivilege, SeCreatePermanentPrivilege, SeBackupPrivilege, SeRestorePrivilege, SeShutdownPrivilege, SeDebugPrivilege, SeAuditPrivilege, SeSystemEnvironmentPrivilege, SeChangeNotifyPrivilege, SeRemoteShutdownPrivilege, SeNullSid, SeWorldSid, SeLocalSid, SeCreatorOwnerSid, SeCreatorGroupSid, SeNtAuthoritySid, SeDialupSid, SeNetworkSid, SeBatchSid, SeInteractiveSid, SeLocalSystemSid, SeAliasAdminsSid, SeAliasUsersSid, SeAliasGuestsSid, SeAliasPowerUsersSid, SeAliasAccountOpsSid, SeAliasSystemOpsSid, SeAliasPrintOpsSid, SeAliasBackupOpsSid, SeAuthenticatedUsersSid, SeRestrictedSid, SeAnonymousLogonSid, SeUndockPrivilege, SeSyncAgentPrivilege, SeEnableDelegationPrivilege, SeLocalServiceSid, SeNetworkServiceSid, SeManageVolumePrivilege, SeImpersonatePrivilege, SeCreateGlobalPrivilege, SeTrustedCredManAccessPrivilege, SeRelabelPrivilege, SeIncreaseWorkingSetPrivilege, SeTimeZonePrivilege, SeCreateSymbolicLinkPrivilege, SeIUserSid, SeUntrustedMandatorySid, SeLowMandatorySid, SeMediumMandatorySid, SeHighMandatorySid, SeSystemMandatorySid, SeOwnerRightsSid, (SeAllAppPackagesSid: SeAllAppPackagesSid => absent), (SeUserModeDriversSid: SeUserModeDriversSid => absent), (SeProcTrustWinTcbSid: SeProcTrustWinTcbSid => absent), (SeTrustedInstallerSid: SeTrustedInstallerSid => absent), (SeDelegateSessionUserImpersonatePrivilege: SeDelegateSessionUserImpersonatePrivilege => absent), (SeAppSiloSid: SeAppSiloSid => absent), (SeAppSiloVolumeRootMinimalCapabilitySid: SeAppSiloVolumeRootMinimalCapabilitySid => absent), (SeAppSiloProfilesRootMinimalCapabilitySid: SeAppSiloProfilesRootMinimalCapabilitySid => absent) }
        cm::KEY_VALUE_BASIC_INFORMATION, [services::KEY_VALUE_BASIC_INFORMATION], "KEY_VALUE_BASIC_INFORMATION" { TitleIndex, Type, NameLength, Name }
        cm::KEY_VALUE_FULL_INFORMATION, [services::KEY_VALUE_FULL_INFORMATION], "KEY_VALUE_FULL_INFORMATION" { TitleIndex, Type, DataOffset, DataLength, NameLength, Name }
        cm::KEY_VALUE_PARTIAL_INFORMATION, [services::KEY_VALUE_PARTIAL_INFORMATION], "KEY_VALUE_PARTIAL_INFORMATION" { TitleIndex, Type, DataLength, Data }
        cm::KEY_BASIC_INFORMATION, [services::KEY_BASIC_INFORMATION], "KEY_BASIC_INFORMATION" { LastWriteTime, TitleIndex, NameLength, Name }
        cm::KEY_NODE_INFORMATION, [services::KEY_NODE_INFORMATION], "KEY_NODE_INFORMATION" { LastWriteTime, TitleIndex, ClassOffset, ClassLength, NameLength, Name }
        cm::KEY_FULL_INFORMATION, [services::KEY_FULL_INFORMATION], "KEY_FULL_INFORMATION" { LastWriteTime, TitleIndex, ClassOffset, ClassLength, SubKeys, MaxNameLen, MaxClassLen, Values, MaxValueNameLen, MaxValueDataLen, Class }
        cm::RTL_QUERY_REGISTRY_TABLE, [services::RTL_QUERY_REGISTRY_TABLE], "RTL_QUERY_REGISTRY_TABLE" { QueryRoutine, Flags, Name, EntryContext, DefaultType, DefaultData, DefaultLength }
        pnp::IO_ERROR_LOG_PACKET, [services::IO_ERROR_LOG_PACKET], "IO_ERROR_LOG_PACKET" { MajorFunctionCode, RetryCount, DumpDataSize, NumberOfStrings, StringOffset, EventCategory, ErrorCode, UniqueErrorValue, FinalStatus, SequenceNumber, IoControlCode, DeviceOffset, DumpData }
        remlock::IO_REMOVE_LOCK, [services::IO_REMOVE_LOCK_COMMON_BLOCK], "IO_REMOVE_LOCK_COMMON_BLOCK" { Removed, Reserved, IoCount, RemoveEvent }
        irp::QueryFileParameters, [wdk::IO_STACK_LOCATION_0_8], "IO_STACK_LOCATION.Parameters.QueryFile" { Length, FileInformationClass }
        irp::PowerParameters, [wdk::IO_STACK_LOCATION_0_35], "IO_STACK_LOCATION.Parameters.Power" { (SystemContext: Anonymous.SystemContext), Type, State, ShutdownType }
        bitmap::RTL_BITMAP, [services::RTL_BITMAP], "RTL_BITMAP" { SizeOfBitMap, Buffer }
        iomore::CONFIGURATION_INFORMATION, [services::CONFIGURATION_INFORMATION], "CONFIGURATION_INFORMATION" { DiskCount, FloppyCount, CdRomCount, TapeCount, ScsiPortCount, SerialCount, ParallelCount, AtDiskPrimaryAddressClaimed, AtDiskSecondaryAddressClaimed, Version, MediumChangerCount }
        iomore::WORK_QUEUE_ITEM, [wdk::WORK_QUEUE_ITEM], "WORK_QUEUE_ITEM" { List, WorkerRoutine, Parameter }
        iomore::GENERIC_MAPPING, [security::GENERIC_MAPPING], "GENERIC_MAPPING" { GenericRead, GenericWrite, GenericExecute, GenericAll }
        vm::PHYSICAL_MEMORY_RANGE, [services::PHYSICAL_MEMORY_RANGE], "PHYSICAL_MEMORY_RANGE" { BaseAddress, NumberOfBytes }
        process::CLIENT_ID, [windows_sys::Win32::System::WindowsProgramming::CLIENT_ID], "CLIENT_ID" { UniqueProcess, UniqueThread }
        process::PS_CREATE_NOTIFY_INFO, [services::PS_CREATE_NOTIFY_INFO], "PS_CREATE_NOTIFY_INFO" { Size, (Flags: absent => Flags), ParentProcessId, CreatingThreadId, FileObject, ImageFileName, CommandLine, CreationStatus }
        process::PROCESS_BASIC_INFORMATION, [windows_sys::Win32::System::Threading::PROCESS_BASIC_INFORMATION], "PROCESS_BASIC_INFORMATION" { ExitStatus, PebBaseAddress, AffinityMask, BasePriority, UniqueProcessId, InheritedFromUniqueProcessId }
        sysinfo::KE_PROCESSOR_CHANGE_NOTIFY_CONTEXT, [services::KE_PROCESSOR_CHANGE_NOTIFY_CONTEXT], "KE_PROCESSOR_CHANGE_NOTIFY_CONTEXT" { State, NtNumber, Status, ProcNumber }
        sysinfo::SYSTEM_FIRMWARE_TABLE_INFORMATION, [], "" { ProviderSignature, Action, TableID, TableBufferLength, TableBuffer }
        hal::HAL_DISPATCH, [], "" { Version, HalQuerySystemInformation, HalSetSystemInformation }
        sysinfo::KBUGCHECK_CALLBACK_RECORD, [services::KBUGCHECK_CALLBACK_RECORD], "KBUGCHECK_CALLBACK_RECORD" { Entry, CallbackRoutine, Buffer, Length, Component, Checksum, State }
        sysinfo::KBUGCHECK_REASON_CALLBACK_RECORD, [services::KBUGCHECK_REASON_CALLBACK_RECORD], "KBUGCHECK_REASON_CALLBACK_RECORD" { Entry, CallbackRoutine, Component, Checksum, Reason, State }
        sysinfo::KBUGCHECK_SECONDARY_DUMP_DATA, [services::KBUGCHECK_SECONDARY_DUMP_DATA], "KBUGCHECK_SECONDARY_DUMP_DATA" { InBuffer, InBufferLength, MaximumAllowed, Guid, OutBuffer, OutBufferLength }
        sysinfo::KBUGCHECK_SECONDARY_DUMP_DATA_EX, [services::KBUGCHECK_SECONDARY_DUMP_DATA_EX], "" { InBuffer, InBufferLength, MaximumAllowed, Guid, OutBuffer, OutBufferLength, Context, Flags, DumpType, BugCheckCode, BugCheckParameter1, BugCheckParameter2, BugCheckParameter3, BugCheckParameter4 }
        queue::KDEVICE_QUEUE, [wdk::KDEVICE_QUEUE], "KDEVICE_QUEUE" { Type, Size, DeviceListHead, Lock, Busy }
        queue::KDEVICE_QUEUE_ENTRY, [services::KDEVICE_QUEUE_ENTRY], "KDEVICE_QUEUE_ENTRY" { DeviceListEntry, SortKey, Inserted }
        queue::IO_CSQ, [services::IO_CSQ], "IO_CSQ" { Type, CsqInsertIrp, CsqRemoveIrp, CsqPeekNextIrp, CsqAcquireLock, CsqReleaseLock, CsqCompleteCanceledIrp, ReservePointer }
        queue::IO_CSQ_IRP_CONTEXT, [services::IO_CSQ_IRP_CONTEXT], "IO_CSQ_IRP_CONTEXT" { Type, Irp, Csq }
        queue::KQUEUE, [wdk::KQUEUE], "KQUEUE" { Header, EntryListHead, CurrentCount, MaximumCount, ThreadListHead }
        token::SECURITY_SUBJECT_CONTEXT, [wdk::SECURITY_SUBJECT_CONTEXT], "SECURITY_SUBJECT_CONTEXT" { ClientToken, ImpersonationLevel, PrimaryToken, ProcessAuditId }
        token::LUID_AND_ATTRIBUTES, [security::LUID_AND_ATTRIBUTES], "LUID_AND_ATTRIBUTES" { Luid, Attributes }
        token::PRIVILEGE_SET, [security::PRIVILEGE_SET], "PRIVILEGE_SET" { PrivilegeCount, Control, Privilege }
        plugplay::DEVICE_CAPABILITIES, [services::DEVICE_CAPABILITIES], "DEVICE_CAPABILITIES" { Size, Version, Address, UINumber, DeviceState, SystemWake, DeviceWake, D1Latency, D2Latency, D3Latency }
        plugplay::DEVICE_RELATIONS, [services::DEVICE_RELATIONS], "DEVICE_RELATIONS" { Count, Objects }
        callbacks::OB_OPERATION_REGISTRATION, [services::OB_OPERATION_REGISTRATION], "OB_OPERATION_REGISTRATION" { ObjectType, Operations, PreOperation, PostOperation }
        callbacks::OB_CALLBACK_REGISTRATION, [services::OB_CALLBACK_REGISTRATION], "OB_CALLBACK_REGISTRATION" { Version, OperationRegistrationCount, Altitude, RegistrationContext, OperationRegistration }
    }
    facts
}
