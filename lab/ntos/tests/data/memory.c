/* A driver whose IOCTLs treat user programs' memory and paged memory well or
 * badly, by their function number. It compares no address with the bounds of
 * user memory itself. */
#define __USE_MINGW_ANSI_STDIO 0
#include <ntifs.h>

#ifndef MmLockPagableCodeSection
#define MmLockPagableCodeSection(address) MmLockPagableDataSection((PVOID)(address))
#endif
#define FAR __attribute__((noinline))

FAR static ULONG Load(volatile ULONG *p) { return *p; }
FAR static void Store(volatile ULONG *p, ULONG value) { *p = value; }

__attribute__((section("PAGE"), noinline)) ULONG PagedCode(volatile ULONG *p) { return *p + 1; }
__attribute__((section("PAGEDATA"))) volatile ULONG PagedData[1024] = { 7 };

static ULONG InIrp(IO_STACK_LOCATION *stack) { return stack->Parameters.DeviceIoControl.InputBufferLength; }

static NTSTATUS Copy(void *out, void *in, ULONG length) {
    __try {
        ProbeForRead(in, length, 1);
        ProbeForWrite(out, length, 1);
        memcpy(out, in, length);
    } __except (EXCEPTION_EXECUTE_HANDLER) { return GetExceptionCode(); }
    return STATUS_SUCCESS;
}

static NTSTATUS Locked(void *in) {
    NTSTATUS status = STATUS_SUCCESS;
    ULONG *mapped;
    MDL *mdl = IoAllocateMdl(in, 4, FALSE, FALSE, NULL);
    if (mdl == NULL)
        return STATUS_NO_MEMORY;
    __try { MmProbeAndLockPages(mdl, UserMode, IoReadAccess); }
    __except (EXCEPTION_EXECUTE_HANDLER) { status = GetExceptionCode(); }
    if (NT_SUCCESS(status)) {
        mapped = MmGetSystemAddressForMdlSafe(mdl, NormalPagePriority);
        if (mapped <= (ULONG *)0x100000000000 || Load(mapped) != Load(in))
            status = STATUS_DATA_ERROR;
        MmUnlockPages(mdl);
    }
    IoFreeMdl(mdl);
    return status;
}

static NTSTATUS PagedPoolAt(KIRQL irql, BOOLEAN lock) {
    KIRQL old;
    NTSTATUS status = STATUS_SUCCESS;
    MDL *mdl = NULL;
    ULONG *block = ExAllocatePoolWithTag(PagedPool, 64, 'tseT');
    if (block == NULL)
        return STATUS_NO_MEMORY;
    block[0] = 5;
    if (lock) {
        mdl = IoAllocateMdl(block, 64, FALSE, FALSE, NULL);
        MmProbeAndLockPages(mdl, KernelMode, IoModifyAccess);
    }
    KeRaiseIrql(DISPATCH_LEVEL, &old);
    if (irql < DISPATCH_LEVEL)
        KeLowerIrql(old);
    if (Load(block) != 5)
        status = STATUS_DATA_ERROR;
    Store(block + 1, 6);
    if (irql >= DISPATCH_LEVEL)
        KeLowerIrql(old);
    if (lock) {
        MmUnlockPages(mdl);
        IoFreeMdl(mdl);
    }
    if (block[1] != 6)
        status = STATUS_DATA_ERROR;
    ExFreePoolWithTag(block, 'tseT');
    return status;
}

static NTSTATUS PageSectionsAt(KIRQL irql, BOOLEAN code) {
    KIRQL old;
    ULONG got;
    KeRaiseIrql(DISPATCH_LEVEL, &old);
    if (irql < DISPATCH_LEVEL)
        KeLowerIrql(old);
    got = code ? PagedCode((ULONG[]){ 7 }) : Load(&PagedData[0]) + 1;
    if (irql >= DISPATCH_LEVEL)
        KeLowerIrql(old);
    return got == 8 ? STATUS_SUCCESS : STATUS_DATA_ERROR;
}

static NTSTATUS LockedCode(void) {
    NTSTATUS status;
    void *handle = MmLockPagableCodeSection(PagedCode);
    status = PageSectionsAt(DISPATCH_LEVEL, TRUE);
    MmUnlockPagableImageSection(handle);
    return status;
}

static NTSTATUS Before(void) {
    ULONG *block = ExAllocatePoolWithTag(NonPagedPoolNx, 64, 'tseT');
    ULONG got = Load(block - 1);
    ExFreePoolWithTag(block, 'tseT');
    return got ? STATUS_SUCCESS : STATUS_DATA_ERROR;
}

static NTSTATUS NTAPI OnControl(PDEVICE_OBJECT device, PIRP irp) {
    IO_STACK_LOCATION *stack = IoGetCurrentIrpStackLocation(irp);
    ULONG code = stack->Parameters.DeviceIoControl.IoControlCode, length = InIrp(stack), n = 0;
    void *in = stack->Parameters.DeviceIoControl.Type3InputBuffer, *out = irp->UserBuffer;
    NTSTATUS status = STATUS_SUCCESS;
    ULONG word = 0;
    KIRQL old;
    switch (code >> 2 & 0xFFF) {
    case 1: status = Copy(out, in, length); n = length; break;
    case 2: __try { Load(in); } __except (EXCEPTION_EXECUTE_HANDLER) { status = GetExceptionCode(); } break;
    case 3:
        __try { ProbeForRead(in, 4, 1); } __except (EXCEPTION_EXECUTE_HANDLER) { status = GetExceptionCode(); }
        if (NT_SUCCESS(status)) memcpy(&word, in, 4);
        break;
    case 4: word = Load(in); break;
    case 5: status = Locked(in); break;
    case 6: memset(irp->AssociatedIrp.SystemBuffer, 3, length); n = length; break;
    case 7: KeRaiseIrql(DISPATCH_LEVEL, &old); word = Load(in); KeLowerIrql(old); break;
    case 8: status = PagedPoolAt(DISPATCH_LEVEL, FALSE); break;
    case 9: status = PagedPoolAt(PASSIVE_LEVEL, FALSE); break;
    case 10: status = PagedPoolAt(DISPATCH_LEVEL, TRUE); break;
    case 11: status = PageSectionsAt(DISPATCH_LEVEL, TRUE); break;
    case 12: status = PageSectionsAt(DISPATCH_LEVEL, FALSE); break;
    case 13: status = PageSectionsAt(PASSIVE_LEVEL, TRUE); if (NT_SUCCESS(status)) status = PageSectionsAt(PASSIVE_LEVEL, FALSE); break;
    case 14: status = Before(); break;
    case 15: status = LockedCode(); break;
    }
    irp->IoStatus.Information = NT_SUCCESS(status) ? n : 0;
    irp->IoStatus.Status = status;
    IoCompleteRequest(irp, IO_NO_INCREMENT);
    return status;
}

static NTSTATUS NTAPI OnFile(PDEVICE_OBJECT device, PIRP irp) {
    irp->IoStatus.Information = 0;
    irp->IoStatus.Status = STATUS_SUCCESS;
    IoCompleteRequest(irp, IO_NO_INCREMENT);
    return STATUS_SUCCESS;
}

static VOID NTAPI Unload(PDRIVER_OBJECT driver) { IoDeleteDevice(driver->DeviceObject); }

NTSTATUS NTAPI DriverEntry(PDRIVER_OBJECT driver, PUNICODE_STRING path) {
    UNICODE_STRING name;
    PDEVICE_OBJECT device;
    driver->DriverUnload = Unload;
    driver->MajorFunction[IRP_MJ_CREATE] = OnFile;
    driver->MajorFunction[IRP_MJ_CLEANUP] = OnFile;
    driver->MajorFunction[IRP_MJ_CLOSE] = OnFile;
    driver->MajorFunction[IRP_MJ_DEVICE_CONTROL] = OnControl;
    RtlInitUnicodeString(&name, L"\\Device\\Memory");
    return IoCreateDevice(driver, 0, &name, FILE_DEVICE_UNKNOWN, FILE_DEVICE_SECURE_OPEN, FALSE, &device);
}
