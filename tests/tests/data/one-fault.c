/* Drivers with one fault each, that shows in one way of exercising them only. */
#include <ntddk.h>

#define IOCTL(n) CTL_CODE(FILE_DEVICE_UNKNOWN, 0x800 + (n), METHOD_BUFFERED, FILE_ANY_ACCESS)
#define TAG 'ecaR'

static PVOID volatile Kept;
static volatile LONG Inside;
static volatile LONG Version;

#ifdef SWAP
/* Keeps a new block and frees the one before, without a lock: two that do so at once free the same one. */
static NTSTATUS Serve(void) {
    PVOID block = ExAllocatePoolWithTag(NonPagedPoolNx, 64, TAG);
    PVOID before;
    if (!block)
        return STATUS_INSUFFICIENT_RESOURCES;
#ifdef LOCKED
    before = InterlockedExchangePointer(&Kept, block);
#else
    before = Kept;
    Kept = block;
#endif
    if (before)
        ExFreePoolWithTag(before, TAG);
    return STATUS_SUCCESS;
}
#endif

#ifdef OVERLAP
/* Fails where the other has moved on since this one looked, and still is inside: that takes two processors that
 * both run, each in the midst of the other. */
static NTSTATUS Serve(void) {
    LONG seen;
    InterlockedIncrement(&Inside);
    seen = Version;
    for (volatile ULONG i = 0; i < 2000000; i += 1)
        if ((i & 0xFFF) == 0)
            InterlockedIncrement(&Version);
    if (Version - seen > 2000000 / 0x1000 + 20 && Inside > 1)
        *(volatile ULONG *)8 = 1;
    InterlockedDecrement(&Inside);
    return STATUS_SUCCESS;
}
#endif

#ifdef BEFORE
/* Looks at the byte before its block. */
static NTSTATUS Serve(void) {
    NTSTATUS status;
    volatile UCHAR *block = ExAllocatePoolWithTag(NonPagedPoolNx, 64, TAG);
    if (!block)
        return STATUS_INSUFFICIENT_RESOURCES;
    status = block[-1] == 0xEE ? STATUS_UNSUCCESSFUL : STATUS_SUCCESS;
    ExFreePoolWithTag((PVOID)block, TAG);
    return status;
}
#endif

#ifdef LOOP
/* Never ends, and calls the kernel all the time. */
static KEVENT Event;
static NTSTATUS Serve(void) {
    LARGE_INTEGER none;
    none.QuadPart = 0;
    KeInitializeEvent(&Event, NotificationEvent, FALSE);
    for (;;) {
        KeDelayExecutionThread(KernelMode, FALSE, &none);
        KeSetEvent(&Event, 0, FALSE);
        KeClearEvent(&Event);
    }
}
#endif

static NTSTATUS NTAPI Control(PDEVICE_OBJECT device, PIRP irp) {
    NTSTATUS status = STATUS_INVALID_DEVICE_REQUEST;
    if (IoGetCurrentIrpStackLocation(irp)->Parameters.DeviceIoControl.IoControlCode == IOCTL(0))
        status = Serve();
    irp->IoStatus.Information = 0;
    irp->IoStatus.Status = status;
    IoCompleteRequest(irp, IO_NO_INCREMENT);
    return status;
}

static NTSTATUS NTAPI Succeed(PDEVICE_OBJECT device, PIRP irp) {
    irp->IoStatus.Status = STATUS_SUCCESS;
    irp->IoStatus.Information = 0;
    IoCompleteRequest(irp, IO_NO_INCREMENT);
    return STATUS_SUCCESS;
}

static void NTAPI Unload(PDRIVER_OBJECT driver) {
    UNICODE_STRING link;
    RtlInitUnicodeString(&link, L"\\DosDevices\\Races");
    IoDeleteSymbolicLink(&link);
    if (Kept)
        ExFreePoolWithTag(Kept, TAG);
    IoDeleteDevice(driver->DeviceObject);
}

NTSTATUS NTAPI DriverEntry(PDRIVER_OBJECT driver, PUNICODE_STRING path) {
    UNICODE_STRING name, link;
    PDEVICE_OBJECT device;
    NTSTATUS status;
    RtlInitUnicodeString(&name, L"\\Device\\Races");
    RtlInitUnicodeString(&link, L"\\DosDevices\\Races");
    driver->DriverUnload = Unload;
    driver->MajorFunction[IRP_MJ_CREATE] = Succeed;
    driver->MajorFunction[IRP_MJ_CLEANUP] = Succeed;
    driver->MajorFunction[IRP_MJ_CLOSE] = Succeed;
    driver->MajorFunction[IRP_MJ_DEVICE_CONTROL] = Control;
    status = IoCreateDevice(driver, 0, &name, FILE_DEVICE_UNKNOWN, FILE_DEVICE_SECURE_OPEN, FALSE, &device);
    if (!NT_SUCCESS(status))
        return status;
    status = IoCreateSymbolicLink(&link, &name);
    if (!NT_SUCCESS(status))
        IoDeleteDevice(device);
    return status;
}
