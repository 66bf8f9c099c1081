/* Locks, device stacks, timers, work items, memory, processes. */
#include "check.h"

typedef ULONG_PTR REF;
VOID ExInitializePushLock(REF *);
VOID ExfAcquirePushLockExclusive(REF *);
VOID ExfAcquirePushLockShared(REF *);
VOID ExfReleasePushLock(REF *);
PCHAR PsGetProcessImageFileName(PEPROCESS);
BOOLEAN KeAreAllApcsDisabled(VOID);
PHYSICAL_MEMORY_RANGE *MmGetPhysicalMemoryRanges(VOID);

static struct { KEVENT done; REF push; KSPIN_LOCK queued; EX_RUNDOWN_REF rundown; ULONG turns; } *Shared;

static VOID NTAPI Other(PVOID context) {
    ExfAcquirePushLockExclusive(&Shared->push);
    Shared->turns++;
    ExfReleasePushLock(&Shared->push);
    ExReleaseRundownProtection(&Shared->rundown);
    KeSetEvent(&Shared->done, 0, FALSE);
    PsTerminateSystemThread(STATUS_SUCCESS);
}

static NTSTATUS Locks(void) {
    KGUARDED_MUTEX *mutex = ExAllocatePoolWithTag(NonPagedPoolNx, sizeof *mutex, TAG);
    KLOCK_QUEUE_HANDLE handle;
    HANDLE thread;
    Shared = ExAllocatePoolWithTag(NonPagedPoolNx, sizeof *Shared, TAG);
    CHECK(mutex && Shared);
    KeInitializeGuardedMutex(mutex);
    CHECK(!KeAreAllApcsDisabled());
    KeAcquireGuardedMutex(mutex);
    CHECK(KeAreAllApcsDisabled() && !KeTryToAcquireGuardedMutex(mutex));
    KeReleaseGuardedMutex(mutex);
    CHECK(!KeAreAllApcsDisabled());
    ExFreePoolWithTag(mutex, TAG);

    KeInitializeSpinLock(&Shared->queued);
    KeAcquireInStackQueuedSpinLock(&Shared->queued, &handle);
    CHECK(KeGetCurrentIrql() == DISPATCH_LEVEL);
    KeReleaseInStackQueuedSpinLock(&handle);
    CHECK(KeGetCurrentIrql() == PASSIVE_LEVEL);

    KeInitializeEvent(&Shared->done, NotificationEvent, FALSE);
    ExInitializePushLock(&Shared->push);
    ExInitializeRundownProtection(&Shared->rundown);
    Shared->turns = 0;
    ExfAcquirePushLockShared(&Shared->push);
    CHECK(ExAcquireRundownProtection(&Shared->rundown));
    TRY(PsCreateSystemThread(&thread, 0, NULL, NULL, NULL, Other, NULL));
    ZwClose(thread);
    {
        LARGE_INTEGER while_it_blocks;
        while_it_blocks.QuadPart = -10000;
        KeDelayExecutionThread(KernelMode, FALSE, &while_it_blocks);
    }
    CHECK(Shared->turns == 0);
    ExfReleasePushLock(&Shared->push);
    ExWaitForRundownProtectionRelease(&Shared->rundown);
    CHECK(Shared->turns == 1 && !ExAcquireRundownProtection(&Shared->rundown));
    KeWaitForSingleObject(&Shared->done, Executive, KernelMode, FALSE, NULL);
    ExFreePoolWithTag(Shared, TAG);
    return STATUS_SUCCESS;
}

static ULONG Ticks, Worked;

static VOID NTAPI OnTimer(PDEVICE_OBJECT device, PVOID context) {
    if (KeGetCurrentIrql() == DISPATCH_LEVEL && context == &Ticks)
        Ticks++;
}

static VOID NTAPI OnWork(PVOID context) {
    if (KeGetCurrentIrql() == PASSIVE_LEVEL)
        Worked++;
    KeSetEvent(context, 0, FALSE);
}

static NTSTATUS NTAPI Echo(PDEVICE_OBJECT device, PIRP irp) {
    PIO_STACK_LOCATION stack = IoGetCurrentIrpStackLocation(irp);
    irp->IoStatus.Status = STATUS_SUCCESS;
    irp->IoStatus.Information = 0;
    if (stack->MajorFunction == IRP_MJ_READ) {
        RtlFillMemory(irp->AssociatedIrp.SystemBuffer, stack->Parameters.Read.Length, 0x77);
        irp->IoStatus.Information = stack->Parameters.Read.Length;
    }
    IoCompleteRequest(irp, IO_NO_INCREMENT);
    return STATUS_SUCCESS;
}

static NTSTATUS NTAPI OnDone(PDEVICE_OBJECT device, PIRP irp, PVOID context) {
    *(ULONG_PTR *)context = irp->IoStatus.Information << 8 | *(UCHAR *)irp->AssociatedIrp.SystemBuffer;
    return STATUS_MORE_PROCESSING_REQUIRED;
}

static NTSTATUS Devices(PDRIVER_OBJECT driver) {
    static KEVENT event;
    static WORK_QUEUE_ITEM item;
    PDEVICE_OBJECT lower, upper, found, list[4];
    PVOID extension, again;
    LARGE_INTEGER wait, offset;
    ULONG count, low, high;
    ULONG_PTR seen = 0, bottom, top;
    UCHAR data[8];
    PIRP irp;
    CHECK(IoGetConfigurationInformation()->DiskCount == 0);
    IoGetConfigurationInformation()->DiskCount++;
    CHECK(IoGetConfigurationInformation()->DiskCount == 1);
    TRY(IoAllocateDriverObjectExtension(driver, OnWork, 64, &extension));
    CHECK(IoAllocateDriverObjectExtension(driver, OnWork, 64, &again) == STATUS_OBJECT_NAME_COLLISION);
    CHECK(IoGetDriverObjectExtension(driver, OnWork) == extension && !IoGetDriverObjectExtension(driver, driver));

    driver->MajorFunction[IRP_MJ_READ] = Echo;
    TRY(IoCreateDevice(driver, 0, NULL, FILE_DEVICE_UNKNOWN, 0, FALSE, &lower));
    TRY(IoCreateDevice(driver, 0, NULL, FILE_DEVICE_UNKNOWN, 0, FALSE, &upper));
    lower->Flags |= DO_BUFFERED_IO;
    TRY(IoAttachDeviceToDeviceStackSafe(upper, lower, &found));
    CHECK(found == lower && upper->StackSize == 2 && IoGetAttachedDevice(lower) == upper);
    found = IoGetLowerDeviceObject(upper);
    CHECK(found == lower);
    ObDereferenceObject(found);
    found = IoGetDeviceAttachmentBaseRef(upper);
    CHECK(found == lower);
    ObDereferenceObject(found);
    CHECK(IoEnumerateDeviceObjectList(driver, list, sizeof(PVOID), &count) == STATUS_BUFFER_TOO_SMALL && count == 2);
    ObDereferenceObject(list[0]);
    IoDetachDevice(lower);

    offset.QuadPart = 0;
    irp = IoBuildAsynchronousFsdRequest(IRP_MJ_READ, lower, data, sizeof data, &offset, NULL);
    CHECK(irp != NULL);
    IoSetCompletionRoutine(irp, OnDone, &seen, TRUE, TRUE, TRUE);
    TRY(IoCallDriver(lower, irp));
    CHECK(seen == 0x877);
    IoFreeIrp(irp);

    TRY(IoInitializeTimer(lower, OnTimer, &Ticks));
    Ticks = 0;
    IoStartTimer(lower);
    wait.QuadPart = -35000000;
    KeDelayExecutionThread(KernelMode, FALSE, &wait);
    CHECK(Ticks == 3);
    IoStopTimer(lower);
    KeDelayExecutionThread(KernelMode, FALSE, &wait);
    CHECK(Ticks == 3);

    KeInitializeEvent(&event, NotificationEvent, FALSE);
    ExInitializeWorkItem(&item, OnWork, &event);
    Worked = 0;
    ExQueueWorkItem(&item, DelayedWorkQueue);
    KeWaitForSingleObject(&event, Executive, KernelMode, FALSE, NULL);
    CHECK(Worked == 1);
    IoGetStackLimits(&bottom, &top);
    CHECK(bottom < (ULONG_PTR)&bottom && (ULONG_PTR)&bottom < top && top - bottom == 0x6000);
    IoDeleteDevice(upper);
    IoDeleteDevice(lower);
    return STATUS_SUCCESS;
}

static NTSTATUS Memory(void) {
    PHYSICAL_ADDRESS low, high, skip;
    PMDL mdl, part;
    PVOID mapped, section, user = NULL;
    SIZE_T size = 5000;
    PHYSICAL_MEMORY_RANGE *ranges;
    low.QuadPart = 0; high.QuadPart = -1ULL >> 1; skip.QuadPart = 0;
    mdl = MmAllocatePagesForMdl(low, high, skip, 6000);
    CHECK(mdl && MmGetMdlByteCount(mdl) == 8192);
    mapped = MmMapLockedPagesSpecifyCache(mdl, KernelMode, MmCached, NULL, FALSE, NormalPagePriority);
    CHECK(mapped && *(ULONG *)mapped == 0);
    RtlFillMemory(mapped, 8192, 0x11);
    part = IoAllocateMdl((PCHAR)MmGetMdlVirtualAddress(mdl) + 100, 50, FALSE, FALSE, NULL);
    IoBuildPartialMdl(mdl, part, (PCHAR)MmGetMdlVirtualAddress(mdl) + 100, 50);
    CHECK(MmGetMdlByteCount(part) == 50 && *(UCHAR *)MmGetSystemAddressForMdlSafe(part, NormalPagePriority) == 0x11);
    IoFreeMdl(part);
    MmUnmapLockedPages(mapped, mdl);
    MmFreePagesFromMdl(mdl);
    ExFreePool(mdl);
    mapped = MmAllocateNonCachedMemory(100);
    CHECK(mapped && ((ULONG_PTR)mapped & 0xFFF) == 0);
    MmFreeNonCachedMemory(mapped, 100);
    section = MmLockPagableDataSection(Memory);
    CHECK(section != NULL && (PVOID)Memory >= section);
    MmUnlockPagableImageSection(section);
    ranges = MmGetPhysicalMemoryRanges();
    CHECK(ranges && ranges[0].NumberOfBytes.QuadPart > 0 && ranges[1].NumberOfBytes.QuadPart == 0);
    ExFreePool(ranges);
    TRY(ZwAllocateVirtualMemory(NtCurrentProcess(), &user, 0, &size, MEM_COMMIT | MEM_RESERVE, PAGE_READWRITE));
    CHECK(user && size == 8192);
    *(ULONG *)user = 7;
    size = 0;
    TRY(ZwFreeVirtualMemory(NtCurrentProcess(), &user, &size, MEM_RELEASE));
    CHECK(size == 8192 && ZwFreeVirtualMemory(NtCurrentProcess(), &user, (size = 0, &size), MEM_RELEASE) != STATUS_SUCCESS);
    mapped = ExAllocatePoolWithQuotaTag(NonPagedPoolNx | POOL_QUOTA_FAIL_INSTEAD_OF_RAISE, 10, TAG);
    CHECK(mapped);
    ExFreePoolWithTag(mapped, TAG);
    return STATUS_SUCCESS;
}

static VOID NTAPI OnProcess(PEPROCESS process, HANDLE id, PPS_CREATE_NOTIFY_INFO info) { }

static NTSTATUS Sections(void) {
    HANDLE section, same;
    ULONG *first = NULL, *second = NULL;
    SIZE_T size = 0;
    LARGE_INTEGER length = {.QuadPart = 0x20001}, offset = {.QuadPart = 0x10000};
    UNICODE_STRING name;
    OBJECT_ATTRIBUTES attributes;
    RtlInitUnicodeString(&name, L"\\BaseNamedObjects\\LabSection");
    InitializeObjectAttributes(&attributes, &name, OBJ_KERNEL_HANDLE, NULL, NULL);
    CHECK(ZwCreateSection(&section, SECTION_ALL_ACCESS, &attributes, NULL, PAGE_READWRITE, SEC_COMMIT, NULL) == STATUS_INVALID_PARAMETER_4);
    TRY(ZwCreateSection(&section, SECTION_ALL_ACCESS, &attributes, &length, PAGE_READWRITE, SEC_COMMIT, NULL));
    TRY(ZwOpenSection(&same, SECTION_ALL_ACCESS, &attributes));
    TRY(ZwMapViewOfSection(section, NtCurrentProcess(), (PVOID *)&first, 0, 0, NULL, &size, ViewUnmap, 0, PAGE_READWRITE));
    CHECK(size == 0x21000 && first[0] == 0);
    first[0x10000 / 4] = 7;
    size = 4;
    TRY(ZwMapViewOfSection(same, NtCurrentProcess(), (PVOID *)&second, 0, 0, &offset, &size, ViewUnmap, 0, PAGE_READONLY));
    CHECK(size == 0x1000 && second[0] == 7);
    offset.QuadPart = 0x1000;
    CHECK(ZwMapViewOfSection(same, NtCurrentProcess(), (PVOID *)&second, 0, 0, &offset, &size, ViewUnmap, 0, PAGE_READONLY) == STATUS_MAPPED_ALIGNMENT);
    size = 0x30000;
    CHECK(ZwMapViewOfSection(same, NtCurrentProcess(), (PVOID *)&second, 0, 0, NULL, &size, ViewUnmap, 0, PAGE_READONLY) == STATUS_INVALID_VIEW_SIZE);
    TRY(ZwUnmapViewOfSection(NtCurrentProcess(), second));
    TRY(ZwClose(section));
    TRY(ZwClose(same));
    CHECK(first[0x10000 / 4] == 7);
    TRY(ZwUnmapViewOfSection(NtCurrentProcess(), (UCHAR *)first + 0x5000));
    CHECK(ZwUnmapViewOfSection(NtCurrentProcess(), first) == STATUS_NOT_MAPPED_VIEW);
    CHECK(ZwOpenSection(&same, SECTION_ALL_ACCESS, &attributes) == STATUS_OBJECT_NAME_NOT_FOUND);
    return STATUS_SUCCESS;
}

static NTSTATUS Processes(void) {
    OBJECT_ATTRIBUTES attributes;
    CLIENT_ID id = { (HANDLE)4, NULL };
    PROCESS_BASIC_INFORMATION basic;
    HANDLE process;
    ULONG length;
    PETHREAD thread;
    UCHAR buffer[200];
    InitializeObjectAttributes(&attributes, NULL, OBJ_KERNEL_HANDLE, NULL, NULL);
    TRY(ZwOpenProcess(&process, PROCESS_ALL_ACCESS, &attributes, &id));
    TRY(ZwQueryInformationProcess(process, ProcessBasicInformation, &basic, sizeof basic, &length));
    CHECK(basic.UniqueProcessId == 4 && length == sizeof basic);
    CHECK(ZwQueryInformationProcess(process, ProcessBasicInformation, &basic, 8, &length) == STATUS_INFO_LENGTH_MISMATCH);
    CHECK(ZwQueryInformationProcess(process, 27, buffer, 4, &length) == STATUS_INFO_LENGTH_MISMATCH && length == 30);
    TRY(ZwQueryInformationProcess(process, 27, buffer, sizeof buffer, &length));
    CHECK(((UNICODE_STRING *)buffer)->Length == 12 && ((UNICODE_STRING *)buffer)->Buffer[0] == L'S');
    TRY(ZwClose(process));
    id.UniqueProcess = (HANDLE)0x7FFFFFF4;
    CHECK(ZwOpenProcess(&process, PROCESS_ALL_ACCESS, &attributes, &id) == STATUS_INVALID_CID);
    CHECK(RtlCompareMemory(PsGetProcessImageFileName(PsInitialSystemProcess), "System", 7) == 7);
    TRY(PsLookupThreadByThreadId(PsGetCurrentThreadId(), &thread));
    CHECK(thread == PsGetCurrentThread() && IoThreadToProcess(thread) == PsInitialSystemProcess);
    ObDereferenceObject(thread);
    TRY(Sections());
    TRY(PsSetCreateProcessNotifyRoutineEx(OnProcess, FALSE));
    CHECK(PsSetCreateProcessNotifyRoutineEx(OnProcess, FALSE) == STATUS_INVALID_PARAMETER);
    TRY(PsSetCreateProcessNotifyRoutineEx(OnProcess, TRUE));
    return STATUS_SUCCESS;
}

static VOID NTAPI Unload(PDRIVER_OBJECT driver) { }

NTSTATUS NTAPI DriverEntry(PDRIVER_OBJECT driver, PUNICODE_STRING path) {
    NTSTATUS status;
    driver->DriverUnload = Unload;
    if (!NT_SUCCESS(status = Locks())) return status;
    if (!NT_SUCCESS(status = Devices(driver))) return status;
    if (!NT_SUCCESS(status = Memory())) return status;
    return Processes();
}
