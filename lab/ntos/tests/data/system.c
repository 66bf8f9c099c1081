/* What the system says of itself; names and handles; queues; security; callbacks. */
#include "check.h"
#include <csq.h>

#ifndef NtCurrentProcess
#define NtCurrentProcess() ((HANDLE)-1)
#endif

NTSTATUS ZwQuerySystemInformation(ULONG, PVOID, ULONG, PULONG);
NTSTATUS ZwQueryDirectoryObject(HANDLE, PVOID, ULONG, BOOLEAN, BOOLEAN, PULONG, PULONG);
PVOID NTAPI RtlImageNtHeader(PVOID);
NTSTATUS ZwWaitForSingleObject(HANDLE, BOOLEAN, PLARGE_INTEGER);
NTSTATUS ZwOpenProcessTokenEx(HANDLE, ACCESS_MASK, ULONG, PHANDLE);

static NTSTATUS System(void) {
    ULONG length, index, mine = 0, *modules;
    UCHAR basic[0x40], *list, *entry;
    GUID first, second;
    KBUGCHECK_CALLBACK_RECORD record;
    PVOID base;
    CHECK(ZwQuerySystemInformation(0, basic, 8, &length) == STATUS_INFO_LENGTH_MISMATCH && length == sizeof basic);
    TRY(ZwQuerySystemInformation(0, basic, sizeof basic, &length));
    CHECK(*(ULONG *)(basic + 8) == 4096 && basic[0x38] == 4);
    CHECK(ZwQuerySystemInformation(11, NULL, 0, &length) == STATUS_INFO_LENGTH_MISMATCH);
    modules = ExAllocatePoolWithTag(PagedPool, length, TAG);
    TRY(ZwQuerySystemInformation(11, modules, length, &length));
    CHECK(*modules == 2);
    RtlPcToFileHeader((PVOID)System, &base);
    for (index = 0; index < *modules; index++)
        mine += *(PVOID *)((UCHAR *)modules + 8 + 0x128 * index + 0x10) == base;
    CHECK(mine == 1 && RtlImageNtHeader(base) && *(ULONG *)RtlImageNtHeader(base) == 0x4550);
    ExFreePoolWithTag(modules, TAG);
    CHECK(ZwQuerySystemInformation(5, NULL, 0, &length) == STATUS_INFO_LENGTH_MISMATCH);
    list = ExAllocatePoolWithTag(PagedPool, length, TAG);
    TRY(ZwQuerySystemInformation(5, list, length, &length));
    for (entry = list, mine = 0; ; entry += *(ULONG *)entry) {
        mine += *(HANDLE *)(entry + 0x50) == PsGetCurrentProcessId() && ((UNICODE_STRING *)(entry + 0x38))->Length == 12;
        if (*(ULONG *)entry == 0)
            break;
    }
    CHECK(mine == 1);
    ExFreePoolWithTag(list, TAG);
    CHECK(ZwQuerySystemInformation(16, basic, sizeof basic, &length) == STATUS_NOT_IMPLEMENTED);
    TRY(ExUuidCreate(&first));
    TRY(ExUuidCreate(&second));
    CHECK(RtlCompareMemory(&first, &second, sizeof first) < sizeof first);
    CHECK((first.Data3 & 0xF000) == 0x4000 && (first.Data4[0] & 0xC0) == 0x80);
    record.State = 0;
    CHECK(KeRegisterBugCheckCallback(&record, (PVOID)System, NULL, 0, "me"));
    CHECK(!KeRegisterBugCheckCallback(&record, (PVOID)System, NULL, 0, "me"));
    CHECK(KeDeregisterBugCheckCallback(&record) && !KeDeregisterBugCheckCallback(&record));
    return STATUS_SUCCESS;
}

static NTSTATUS Names(PDRIVER_OBJECT driver) {
    UNICODE_STRING device, link, target, name;
    OBJECT_ATTRIBUTES attributes;
    PDEVICE_OBJECT object;
    HANDLE handle, other;
    WCHAR buffer[40];
    UCHAR listing[256];
    ULONG context = 0, length;
    LONG before;
    LARGE_INTEGER now;
    RtlInitUnicodeString(&device, L"\\Device\\Named");
    RtlInitUnicodeString(&link, L"\\??\\Named");
    TRY(IoCreateDevice(driver, 0, &device, FILE_DEVICE_UNKNOWN, FILE_DEVICE_SECURE_OPEN, FALSE, &object));
    TRY(IoCreateSymbolicLink(&link, &device));
    InitializeObjectAttributes(&attributes, &link, OBJ_KERNEL_HANDLE, NULL, NULL);
    TRY(ZwOpenSymbolicLinkObject(&handle, GENERIC_READ, &attributes));
    target.Buffer = buffer; target.Length = 0; target.MaximumLength = 4;
    CHECK(ZwQuerySymbolicLinkObject(handle, &target, &length) == STATUS_BUFFER_TOO_SMALL && length == 28);
    target.MaximumLength = sizeof buffer;
    TRY(ZwQuerySymbolicLinkObject(handle, &target, &length));
    CHECK(RtlEqualUnicodeString(&target, &device, FALSE));
    TRY(ZwClose(handle));

    RtlInitUnicodeString(&name, L"\\Device");
    InitializeObjectAttributes(&attributes, &name, OBJ_KERNEL_HANDLE, NULL, NULL);
    TRY(ZwOpenDirectoryObject(&handle, DIRECTORY_QUERY, &attributes));
    TRY(ZwQueryDirectoryObject(handle, listing, sizeof listing, FALSE, TRUE, &context, &length));
    CHECK(context == 1 && ((UNICODE_STRING *)listing)->Length == 10 && ((UNICODE_STRING *)listing)->Buffer[0] == L'N');
    CHECK(((UNICODE_STRING *)listing)[1].Buffer[0] == L'D');
    CHECK(ZwQueryDirectoryObject(handle, listing, sizeof listing, FALSE, FALSE, &context, &length) == STATUS_NO_MORE_ENTRIES);
    TRY(ZwClose(handle));
    RtlInitUnicodeString(&name, L"\\Nowhere");
    CHECK(ZwOpenDirectoryObject(&handle, DIRECTORY_QUERY, &attributes) == STATUS_OBJECT_NAME_NOT_FOUND);
    TRY(IoDeleteSymbolicLink(&link));
    IoDeleteDevice(object);

    RtlInitUnicodeString(&name, L"\\BaseNamedObjects\\Ping");
    TRY(ZwCreateEvent(&handle, EVENT_ALL_ACCESS, &attributes, SynchronizationEvent, FALSE));
    CHECK(ZwCreateEvent(&other, EVENT_ALL_ACCESS, &attributes, SynchronizationEvent, FALSE) == STATUS_OBJECT_NAME_EXISTS);
    TRY(ZwSetEvent(other, &before));
    CHECK(before == 0);
    TRY(ZwClose(other));
    now.QuadPart = 0;
    CHECK(ZwWaitForSingleObject(handle, FALSE, &now) == STATUS_SUCCESS);
    CHECK(ZwWaitForSingleObject(handle, FALSE, &now) == STATUS_TIMEOUT);
    TRY(ZwDuplicateObject(NtCurrentProcess(), handle, NtCurrentProcess(), &other, 0, 0, DUPLICATE_CLOSE_SOURCE));
    TRY(ZwClose(other));
    CHECK(ZwOpenEvent(&other, EVENT_ALL_ACCESS, &attributes) == STATUS_OBJECT_NAME_NOT_FOUND);
    return STATUS_SUCCESS;
}

static LIST_ENTRY Waiting;
static KSPIN_LOCK Lock;
static ULONG Started, Cancelled;

static NTSTATUS NTAPI Insert(PIO_CSQ csq, PIRP irp, PVOID context) { InsertTailList(&Waiting, &irp->Tail.Overlay.ListEntry); return STATUS_SUCCESS; }
static VOID NTAPI Remove(PIO_CSQ csq, PIRP irp) { RemoveEntryList(&irp->Tail.Overlay.ListEntry); }
static PIRP NTAPI Peek(PIO_CSQ csq, PIRP irp, PVOID context) {
    PLIST_ENTRY next = irp ? irp->Tail.Overlay.ListEntry.Flink : Waiting.Flink;
    return next == &Waiting ? NULL : CONTAINING_RECORD(next, IRP, Tail.Overlay.ListEntry);
}
static VOID NTAPI Acquire(PIO_CSQ csq, PKIRQL irql) { KeAcquireSpinLock(&Lock, irql); }
static VOID NTAPI Release(PIO_CSQ csq, KIRQL irql) { KeReleaseSpinLock(&Lock, irql); }
static VOID NTAPI Complete(PIO_CSQ csq, PIRP irp) {
    Cancelled++;
    irp->IoStatus.Status = STATUS_CANCELLED;
    IoCompleteRequest(irp, IO_NO_INCREMENT);
}
static NTSTATUS NTAPI Keep(PDEVICE_OBJECT device, PIRP irp, PVOID context) { return STATUS_MORE_PROCESSING_REQUIRED; }

static VOID NTAPI StartIo(PDEVICE_OBJECT device, PIRP irp) {
    Started++;
    irp->IoStatus.Status = STATUS_SUCCESS;
    irp->IoStatus.Information = Started;
}

static PDEVICE_OBJECT Mine;
static IO_CSQ Queue;
static BOOLEAN Safe;

static NTSTATUS NTAPI OnIo(PDEVICE_OBJECT device, PIRP irp) {
    if (Safe) {
        IoCsqInsertIrp(&Queue, irp, NULL);
        return STATUS_PENDING;
    }
    IoMarkIrpPending(irp);
    IoStartPacket(device, irp, NULL, NULL);
    return STATUS_PENDING;
}

static PIRP Send(void) {
    PIRP irp = IoAllocateIrp(1, FALSE);
    IoGetNextIrpStackLocation(irp)->MajorFunction = IRP_MJ_INTERNAL_DEVICE_CONTROL;
    IoSetCompletionRoutine(irp, Keep, NULL, TRUE, TRUE, TRUE);
    IoCallDriver(Mine, irp);
    return irp;
}

static NTSTATUS Queues(PDRIVER_OBJECT driver) {
    PIRP first, second;
    KIRQL irql;
    KQUEUE *queue;
    LIST_ENTRY entry;
    LARGE_INTEGER now;
    driver->DriverStartIo = StartIo;
    driver->MajorFunction[IRP_MJ_INTERNAL_DEVICE_CONTROL] = OnIo;
    TRY(IoCreateDevice(driver, 0, NULL, FILE_DEVICE_UNKNOWN, 0, FALSE, &Mine));
    Started = 0; Safe = FALSE;
    first = Send();
    CHECK(Started == 1 && Mine->CurrentIrp == first);
    second = Send();
    CHECK(Started == 1);
    KeRaiseIrql(DISPATCH_LEVEL, &irql);
    IoStartNextPacket(Mine, FALSE);
    CHECK(Started == 2 && Mine->CurrentIrp == second);
    IoStartNextPacket(Mine, FALSE);
    KeLowerIrql(irql);
    CHECK(Started == 2 && Mine->CurrentIrp == NULL);
    IoCompleteRequest(first, IO_NO_INCREMENT);
    IoCompleteRequest(second, IO_NO_INCREMENT);
    IoFreeIrp(first);
    IoFreeIrp(second);

    Safe = TRUE; Cancelled = 0;
    InitializeListHead(&Waiting);
    KeInitializeSpinLock(&Lock);
    TRY(IoCsqInitializeEx(&Queue, Insert, Remove, Peek, Acquire, Release, Complete));
    first = Send();
    second = Send();
    CHECK(IoCancelIrp(first) && Cancelled == 1);
    IoFreeIrp(first);
    CHECK(IoCsqRemoveNextIrp(&Queue, NULL) == second && IoCsqRemoveNextIrp(&Queue, NULL) == NULL);
    CHECK(!IoCancelIrp(second));
    Complete(&Queue, second);
    IoFreeIrp(second);
    IoDeleteDevice(Mine);

    queue = ExAllocatePoolWithTag(NonPagedPoolNx, sizeof *queue, TAG);
    KeInitializeQueue(queue, 0);
    now.QuadPart = 0;
    CHECK(KeRemoveQueue(queue, KernelMode, &now) == (PVOID)(ULONG_PTR)STATUS_TIMEOUT);
    CHECK(KeInsertQueue(queue, &entry) == 0 && KeReadStateQueue(queue) == 1);
    CHECK(KeRemoveQueue(queue, KernelMode, NULL) == &entry && KeRundownQueue(queue) == NULL);
    ExFreePoolWithTag(queue, TAG);
    return STATUS_SUCCESS;
}

static NTSTATUS Security(void) {
    SECURITY_SUBJECT_CONTEXT subject;
    PACCESS_TOKEN token;
    HANDLE handle;
    UCHAR buffer[64], sid[16], copy[16];
    ULONG length;
    UNICODE_STRING text;
    SID_IDENTIFIER_AUTHORITY nt = { { 0, 0, 0, 0, 0, 5 } };
    LUID debug = { 20, 0 };
    PTOKEN_USER user;
    SeCaptureSubjectContext(&subject);
    CHECK(subject.PrimaryToken != NULL);
    SeReleaseSubjectContext(&subject);
    CHECK(SeSinglePrivilegeCheck(debug, UserMode));
    token = PsReferencePrimaryToken(PsGetCurrentProcess());
    CHECK(SeTokenIsAdmin(token));
    TRY(SeQueryInformationToken(token, TokenUser, (PVOID *)&user));
    CHECK(RtlLengthSid(user->User.Sid) == 12);
    ExFreePool(user);
    PsDereferencePrimaryToken(token);
    TRY(ZwOpenProcessTokenEx(NtCurrentProcess(), TOKEN_QUERY, OBJ_KERNEL_HANDLE, &handle));
    CHECK(ZwQueryInformationToken(handle, TokenUser, buffer, 4, &length) == STATUS_BUFFER_TOO_SMALL && length == 28);
    TRY(ZwQueryInformationToken(handle, TokenUser, buffer, sizeof buffer, &length));
    TRY(ZwClose(handle));
    TRY(RtlInitializeSid(sid, &nt, 1));
    *RtlSubAuthoritySid(sid, 0) = 18;
    CHECK(RtlEqualSid(sid, ((PTOKEN_USER)buffer)->User.Sid) && RtlLengthRequiredSid(1) == 12);
    TRY(RtlConvertSidToUnicodeString(&text, sid, TRUE));
    CHECK(text.Length == 16 && text.Buffer[7] == L'8');
    RtlFreeUnicodeString(&text);
    CHECK(RtlCopySid(8, copy, sid) == STATUS_BUFFER_TOO_SMALL && RtlCopySid(16, copy, sid) == STATUS_SUCCESS);
    return STATUS_SUCCESS;
}

static OB_PREOP_CALLBACK_STATUS NTAPI Before(PVOID context, POB_PRE_OPERATION_INFORMATION info) { return 0; }

static NTSTATUS Callbacks(void) {
    OB_OPERATION_REGISTRATION operation = { PsProcessType, OB_OPERATION_HANDLE_CREATE, Before, NULL };
    OB_CALLBACK_REGISTRATION registration = { 0x100, 1, { 0 }, NULL, &operation };
    PVOID handle, again;
    LARGE_INTEGER cookie;
    RtlInitUnicodeString(&registration.Altitude, L"321000");
    TRY(ObRegisterCallbacks(&registration, &handle));
    CHECK(ObRegisterCallbacks(&registration, &again) == 0xC01C0011);
    ObUnRegisterCallbacks(handle);
    TRY(CmRegisterCallback((PVOID)Before, NULL, &cookie));
    TRY(CmUnRegisterCallback(cookie));
    CHECK(CmUnRegisterCallback(cookie) == STATUS_INVALID_PARAMETER);
    return STATUS_SUCCESS;
}

static VOID NTAPI Unload(PDRIVER_OBJECT driver) { }

NTSTATUS NTAPI DriverEntry(PDRIVER_OBJECT driver, PUNICODE_STRING path) {
    NTSTATUS status;
    driver->DriverUnload = Unload;
    if (!NT_SUCCESS(status = System())) return status;
    if (!NT_SUCCESS(status = Names(driver))) return status;
    if (!NT_SUCCESS(status = Queues(driver))) return status;
    if (!NT_SUCCESS(status = Security())) return status;
    return Callbacks();
}
