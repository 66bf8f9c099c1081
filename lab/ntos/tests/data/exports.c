/* A driver that tries the lab's exports from C, with the inline functions of
 * the ddk headers. DriverEntry fails with the number of the line at which
 * something was not as Windows has it; unloading must leave nothing behind. */
#define __USE_MINGW_ANSI_STDIO 0
#include <ntifs.h>
#include <stdarg.h>

#define CHECK(condition) do { if (!(condition)) return 0xE0000000 | __LINE__; } while (0)
#define TRY(call) do { NTSTATUS line = (call); if (!NT_SUCCESS(line)) return line; } while (0)

int _snwprintf(wchar_t *, size_t, const wchar_t *, ...);
int sprintf(char *, const char *, ...);
int _vsnprintf(char *, size_t, const char *, va_list);

static UNICODE_STRING ServiceKey;

static NTSTATUS Registry(void) {
    OBJECT_ATTRIBUTES attributes;
    HANDLE key, child;
    ULONG length, disposition, value = 7;
    UCHAR buffer[128];
    KEY_VALUE_PARTIAL_INFORMATION *info = (void *)buffer;
    KEY_BASIC_INFORMATION *basic = (void *)buffer;
    UNICODE_STRING name;

    InitializeObjectAttributes(&attributes, &ServiceKey, OBJ_CASE_INSENSITIVE | OBJ_KERNEL_HANDLE, NULL, NULL);
    CHECK(ZwOpenKey(&key, KEY_READ, &attributes) == STATUS_SUCCESS);
    RtlInitUnicodeString(&name, L"start");
    CHECK(ZwQueryValueKey(key, &name, KeyValuePartialInformation, NULL, 0, &length) == STATUS_BUFFER_TOO_SMALL);
    CHECK(length == FIELD_OFFSET(KEY_VALUE_PARTIAL_INFORMATION, Data) + 4);
    CHECK(ZwQueryValueKey(key, &name, KeyValuePartialInformation, info, sizeof buffer, &length) == STATUS_SUCCESS);
    CHECK(info->Type == REG_DWORD && info->DataLength == 4 && *(ULONG *)info->Data == 3);
    RtlInitUnicodeString(&name, L"no such value");
    CHECK(ZwQueryValueKey(key, &name, KeyValuePartialInformation, info, sizeof buffer, &length) == STATUS_OBJECT_NAME_NOT_FOUND);

    RtlInitUnicodeString(&name, L"Parameters");
    InitializeObjectAttributes(&attributes, &name, OBJ_KERNEL_HANDLE, key, NULL);
    CHECK(ZwOpenKey(&child, KEY_READ, &attributes) == STATUS_OBJECT_NAME_NOT_FOUND);
    CHECK(ZwCreateKey(&child, KEY_ALL_ACCESS, &attributes, 0, NULL, 0, &disposition) == STATUS_SUCCESS);
    CHECK(disposition == REG_CREATED_NEW_KEY);
    RtlInitUnicodeString(&name, L"Depth");
    CHECK(ZwSetValueKey(child, &name, 0, REG_DWORD, &value, sizeof value) == STATUS_SUCCESS);
    CHECK(ZwEnumerateKey(key, 0, KeyBasicInformation, basic, sizeof buffer, &length) == STATUS_SUCCESS);
    CHECK(basic->NameLength == 20 && basic->Name[0] == L'P');
    CHECK(ZwEnumerateKey(key, 1, KeyBasicInformation, basic, sizeof buffer, &length) == STATUS_NO_MORE_ENTRIES);
    CHECK(ZwDeleteKey(key) == STATUS_CANNOT_DELETE);
    CHECK(ZwClose(key) == STATUS_SUCCESS);
    CHECK(ZwClose(child) == STATUS_SUCCESS);
    return STATUS_SUCCESS;
}

static ULONG Asked;

static NTSTATUS NTAPI OnValue(PWSTR name, ULONG type, PVOID data, ULONG length, PVOID context, PVOID entry) {
    if (type == REG_DWORD && length == 4 && context == &Asked && entry == (PVOID)5 && name[0] == L'D')
        Asked = *(ULONG *)data;
    return STATUS_SUCCESS;
}

static NTSTATUS Query(void) {
    OBJECT_ATTRIBUTES attributes;
    UNICODE_STRING name;
    HANDLE key;
    ULONG depth = 0, width = 0, standard = 9;
    UNICODE_STRING image = { 0 };
    RTL_QUERY_REGISTRY_TABLE table[] = {
        { NULL, RTL_QUERY_REGISTRY_DIRECT, L"ImagePath", &image, REG_NONE, NULL, 0 },
        { NULL, RTL_QUERY_REGISTRY_SUBKEY, L"Parameters", NULL, REG_NONE, NULL, 0 },
        { NULL, RTL_QUERY_REGISTRY_DIRECT, L"Depth", &depth, REG_NONE, NULL, 0 },
        { NULL, RTL_QUERY_REGISTRY_DIRECT, L"Width", &width, REG_DWORD, &standard, sizeof standard },
        { OnValue, 0, L"Depth", (PVOID)5, REG_NONE, NULL, 0 },
        { 0 },
    };
    TRY(RtlQueryRegistryValues(RTL_REGISTRY_ABSOLUTE, ServiceKey.Buffer, table, &Asked, NULL));
    CHECK(depth == 7 && width == 9 && Asked == 7);
    CHECK(image.Length > 8 && image.Buffer[0] == L'\\' && image.Buffer[image.Length / 2 - 1] == L's');
    RtlFreeUnicodeString(&image);
    TRY(RtlDeleteRegistryValue(RTL_REGISTRY_SERVICES, L"exports\\Parameters", L"Depth"));
    RtlInitUnicodeString(&name, L"\\Registry\\Machine\\System\\CurrentControlSet\\Services\\exports\\Parameters");
    InitializeObjectAttributes(&attributes, &name, OBJ_KERNEL_HANDLE, NULL, NULL);
    TRY(ZwOpenKey(&key, DELETE, &attributes));
    TRY(ZwDeleteKey(key));
    CHECK(ZwDeleteKey(key) == STATUS_KEY_DELETED);
    TRY(ZwClose(key));
    CHECK(RtlCheckRegistryKey(RTL_REGISTRY_SERVICES, L"nobody") == STATUS_OBJECT_NAME_NOT_FOUND);
    return STATUS_SUCCESS;
}

static NTSTATUS Lookaside(void) {
    NPAGED_LOOKASIDE_LIST *list = ExAllocatePoolWithTag(NonPagedPoolNx, sizeof *list, 'tseT');
    void *first, *second;
    CHECK(list != NULL);
    ExInitializeNPagedLookasideList(list, NULL, NULL, 0, 100, 'tseT', 0);
    first = ExAllocateFromNPagedLookasideList(list);
    second = ExAllocateFromNPagedLookasideList(list);
    CHECK(first && second && first != second);
    RtlFillMemory(first, 100, 0x55);
    ExFreeToNPagedLookasideList(list, first);
    ExFreeToNPagedLookasideList(list, second);
    ExDeleteNPagedLookasideList(list);
    ExFreePoolWithTag(list, 'tseT');
    return STATUS_SUCCESS;
}

static NTSTATUS Locks(void) {
    IO_REMOVE_LOCK *lock = ExAllocatePoolWithTag(NonPagedPoolNx, sizeof *lock, 'tseT');
    ERESOURCE *resource = ExAllocatePoolWithTag(NonPagedPoolNx, sizeof *resource, 'tseT');
    CHECK(lock && resource);
    IoInitializeRemoveLock(lock, 'tseT', 0, 0);
    CHECK(IoAcquireRemoveLock(lock, NULL) == STATUS_SUCCESS);
    CHECK(IoAcquireRemoveLock(lock, lock) == STATUS_SUCCESS);
    IoReleaseRemoveLock(lock, NULL);
    IoReleaseRemoveLockAndWait(lock, lock);
    CHECK(IoAcquireRemoveLock(lock, NULL) == STATUS_DELETE_PENDING);
    ExFreePoolWithTag(lock, 'tseT');

    TRY(ExInitializeResourceLite(resource));
    KeEnterCriticalRegion();
    CHECK(ExAcquireResourceSharedLite(resource, TRUE));
    CHECK(!ExAcquireResourceExclusiveLite(resource, FALSE));
    ExReleaseResourceLite(resource);
    CHECK(ExAcquireResourceExclusiveLite(resource, TRUE));
    CHECK(ExIsResourceAcquiredExclusiveLite(resource));
    ExReleaseResourceLite(resource);
    KeLeaveCriticalRegion();
    TRY(ExDeleteResourceLite(resource));
    ExFreePoolWithTag(resource, 'tseT');
    return STATUS_SUCCESS;
}

static ULONG Notified;

static VOID NTAPI OnCallback(PVOID context, PVOID first, PVOID second) {
    if (context == (PVOID)1 && first == (PVOID)2 && second == (PVOID)3)
        Notified++;
}

static VOID NTAPI OnProcess(HANDLE parent, HANDLE process, BOOLEAN create) { }

static NTSTATUS Callbacks(void) {
    OBJECT_ATTRIBUTES attributes;
    UNICODE_STRING name;
    PCALLBACK_OBJECT object, same;
    PVOID registration;
    RtlInitUnicodeString(&name, L"\\Callback\\Exports");
    InitializeObjectAttributes(&attributes, &name, OBJ_CASE_INSENSITIVE, NULL, NULL);
    CHECK(ExCreateCallback(&object, &attributes, FALSE, FALSE) == STATUS_OBJECT_NAME_NOT_FOUND);
    TRY(ExCreateCallback(&object, &attributes, TRUE, FALSE));
    TRY(ExCreateCallback(&same, &attributes, FALSE, FALSE));
    CHECK(same == object);
    registration = ExRegisterCallback(object, OnCallback, (PVOID)1);
    CHECK(registration != NULL);
    CHECK(ExRegisterCallback(object, OnCallback, (PVOID)1) == NULL);
    ExNotifyCallback(object, (PVOID)2, (PVOID)3);
    CHECK(Notified == 1);
    ExUnregisterCallback(registration);
    ObDereferenceObject(object);
    ObDereferenceObject(same);
    CHECK(ExCreateCallback(&object, &attributes, FALSE, FALSE) == STATUS_OBJECT_NAME_NOT_FOUND);

    TRY(PsSetCreateProcessNotifyRoutine(OnProcess, FALSE));
    CHECK(PsSetCreateProcessNotifyRoutine(OnProcess, FALSE) == STATUS_INVALID_PARAMETER);
    TRY(PsSetCreateProcessNotifyRoutine(OnProcess, TRUE));
    CHECK(PsSetCreateProcessNotifyRoutine(OnProcess, TRUE) == STATUS_PROCEDURE_NOT_FOUND);
    return STATUS_SUCCESS;
}

static int VarPrint(char *buffer, size_t count, const char *format, ...) {
    va_list args;
    int length;
    va_start(args, format);
    length = _vsnprintf(buffer, count, format, args);
    va_end(args);
    return length;
}

static NTSTATUS Printing(void) {
    char text[32];
    wchar_t wide[32];
    TIME_FIELDS fields;
    LARGE_INTEGER time;
    CHECK(sprintf(text, "%s=%05d,%I64x,%c%%", "n", -42, 0x123456789ALL, 'z') == 21);
    CHECK(RtlCompareMemory(text, "n=-0042,123456789a,z%", 22) == 22);
    CHECK(_snwprintf(wide, 32, L"%ls|%S|%s", L"a", "b", L"c") == 5);
    CHECK(RtlCompareMemory(wide, L"a|b|c", 12) == 12);
    CHECK(VarPrint(text, 4, "%d%d%d%d%d", 1, 2, 3, 4, 5) == -1);
    CHECK(RtlCompareMemory(text, "1234", 4) == 4);
    time.QuadPart = 116444736000000000LL;
    RtlTimeToTimeFields(&time, &fields);
    CHECK(fields.Year == 1970 && fields.Month == 1 && fields.Day == 1 && fields.Weekday == 4);
    return STATUS_SUCCESS;
}

static NTSTATUS Security(void) {
    SECURITY_DESCRIPTOR absolute;
    UCHAR buffer[128];
    ULONG length = 0;
    PSID owner;
    BOOLEAN defaulted, present;
    PACL acl;
    PSECURITY_DESCRIPTOR captured;
    TRY(RtlCreateSecurityDescriptor(&absolute, SECURITY_DESCRIPTOR_REVISION));
    absolute.Owner = SeExports->SeLocalSystemSid;
    CHECK(RtlLengthSid(absolute.Owner) == 12);
    CHECK(RtlAbsoluteToSelfRelativeSD(&absolute, buffer, &length) == STATUS_BUFFER_TOO_SMALL);
    CHECK(length == 32 && length == RtlLengthSecurityDescriptor(&absolute));
    TRY(RtlAbsoluteToSelfRelativeSD(&absolute, buffer, &length));
    TRY(RtlGetOwnerSecurityDescriptor(buffer, &owner, &defaulted));
    CHECK(owner == buffer + 20 && !defaulted);
    TRY(RtlGetSaclSecurityDescriptor(buffer, &present, &acl, &defaulted));
    CHECK(!present);
    TRY(SeCaptureSecurityDescriptor(buffer, KernelMode, PagedPool, TRUE, &captured));
    CHECK(RtlCompareMemory(captured, buffer, length) == length);
    ExFreePool(captured);
    CHECK(SeExports->SeDebugPrivilege.LowPart == 20);
    return STATUS_SUCCESS;
}

static ULONG Created, Closed;

static NTSTATUS NTAPI OnFile(PDEVICE_OBJECT device, PIRP irp) {
    PIO_STACK_LOCATION stack = IoGetCurrentIrpStackLocation(irp);
    irp->IoStatus.Information = 0;
    switch (stack->MajorFunction) {
    case IRP_MJ_CREATE: Created++; break;
    case IRP_MJ_CLEANUP: Closed += 0x10; break;
    case IRP_MJ_CLOSE: Closed++; break;
    case IRP_MJ_READ:
        RtlFillMemory(irp->AssociatedIrp.SystemBuffer, stack->Parameters.Read.Length, 0x5A);
        irp->IoStatus.Information = stack->Parameters.Read.Length;
        break;
    case IRP_MJ_POWER:
        irp->IoStatus.Information = stack->Parameters.Power.State.DeviceState;
        break;
    }
    irp->IoStatus.Status = STATUS_SUCCESS;
    IoCompleteRequest(irp, IO_NO_INCREMENT);
    return STATUS_SUCCESS;
}

static ULONG PowerDone;

static VOID NTAPI OnPower(PDEVICE_OBJECT device, UCHAR minor, POWER_STATE state, PVOID context, PIO_STATUS_BLOCK iosb) {
    if (minor == IRP_MN_SET_POWER && state.DeviceState == PowerDeviceD3 && context == &PowerDone
        && iosb->Status == STATUS_SUCCESS && iosb->Information == PowerDeviceD3)
        PowerDone++;
}

static NTSTATUS Files(PDRIVER_OBJECT driver) {
    PDEVICE_OBJECT device;
    UNICODE_STRING name;
    OBJECT_ATTRIBUTES attributes;
    IO_STATUS_BLOCK iosb;
    HANDLE file;
    UCHAR data[8] = { 0 };
    POWER_STATE state;
    int function;
    for (function = 0; function <= IRP_MJ_MAXIMUM_FUNCTION; function++)
        driver->MajorFunction[function] = OnFile;
    RtlInitUnicodeString(&name, L"\\Device\\Exports");
    TRY(IoCreateDevice(driver, 0, &name, FILE_DEVICE_UNKNOWN, FILE_DEVICE_SECURE_OPEN, FALSE, &device));
    device->Flags |= DO_BUFFERED_IO;
    InitializeObjectAttributes(&attributes, &name, OBJ_KERNEL_HANDLE, NULL, NULL);
    TRY(ZwCreateFile(&file, GENERIC_READ, &attributes, &iosb, NULL, 0, FILE_SHARE_READ, FILE_OPEN, FILE_SYNCHRONOUS_IO_NONALERT, NULL, 0));
    CHECK(Created == 1 && Closed == 0);
    TRY(ZwReadFile(file, NULL, NULL, NULL, &iosb, data, 6, NULL, NULL));
    CHECK(iosb.Information == 6 && data[0] == 0x5A && data[5] == 0x5A && data[6] == 0);
    TRY(ZwClose(file));
    CHECK(Closed == 0x11);

    state.DeviceState = PowerDeviceD3;
    CHECK(PoRequestPowerIrp(device, IRP_MN_SET_POWER, state, OnPower, &PowerDone, NULL) == STATUS_PENDING);
    CHECK(PowerDone == 1);
    TRY(IoWMIRegistrationControl(device, WMIREG_ACTION_REGISTER));
    TRY(IoWMIRegistrationControl(device, WMIREG_ACTION_DEREGISTER));
    IoDeleteDevice(device);

    RtlInitUnicodeString(&name, L"\\??\\C:\\file.txt");
    CHECK(ZwOpenFile(&file, GENERIC_READ, &attributes, &iosb, 0, 0) == STATUS_OBJECT_PATH_NOT_FOUND);
    RtlInitUnicodeString(&name, L"\\Device\\PhysicalMemory");
    CHECK(ZwOpenSection(&file, SECTION_ALL_ACCESS, &attributes) == STATUS_ACCESS_DENIED);
    return STATUS_SUCCESS;
}

static NTSTATUS Processes(void) {
    KAPC_STATE state;
    PEPROCESS before = PsGetCurrentProcess();
    CHECK(before == PsInitialSystemProcess);
    KeStackAttachProcess((PVOID)before, &state);
    CHECK(PsGetCurrentProcess() == before);
    KeUnstackDetachProcess(&state);
    CHECK(KeNumberProcessors == 4);
    return STATUS_SUCCESS;
}

static VOID NTAPI Unload(PDRIVER_OBJECT driver) { }

#ifdef LEAVE
/* Leaves one of each thing that the kernel keeps track of. */
static NTSTATUS Leave(PDRIVER_OBJECT driver) {
    static NPAGED_LOOKASIDE_LIST list;
    static ERESOURCE resource;
    OBJECT_ATTRIBUTES attributes;
    PCALLBACK_OBJECT object;
    HANDLE key;
    ExInitializeNPagedLookasideList(&list, NULL, NULL, 0, 100, 'tseT', 0);
    TRY(ExInitializeResourceLite(&resource));
    TRY(PsSetCreateProcessNotifyRoutine(OnProcess, FALSE));
    InitializeObjectAttributes(&attributes, NULL, 0, NULL, NULL);
    TRY(ExCreateCallback(&object, &attributes, TRUE, FALSE));
    CHECK(ExRegisterCallback(object, OnCallback, NULL) != NULL);
    CHECK(IoAllocateErrorLogEntry(driver, sizeof(IO_ERROR_LOG_PACKET)) != NULL);
    InitializeObjectAttributes(&attributes, &ServiceKey, OBJ_KERNEL_HANDLE, NULL, NULL);
    return ZwOpenKey(&key, KEY_READ, &attributes);
}
#endif

NTSTATUS NTAPI DriverEntry(PDRIVER_OBJECT driver, PUNICODE_STRING path) {
    ServiceKey = *path;
    driver->DriverUnload = Unload;
#ifdef LEAVE
    return Leave(driver);
#endif
    TRY(Registry());
    TRY(Query());
    TRY(Lookaside());
    TRY(Locks());
    TRY(Callbacks());
    TRY(Printing());
    TRY(Security());
    TRY(Files(driver));
    return Processes();
}
