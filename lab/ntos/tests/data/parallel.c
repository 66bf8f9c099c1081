/* A driver for several host threads: what it does overlaps. */
#include <ntddk.h>

#define IOCTL(n) CTL_CODE(FILE_DEVICE_UNKNOWN, 0x800 + (n), METHOD_BUFFERED, FILE_ANY_ACCESS)
#define PROCESSORS 8

static volatile ULONG Count, Wrong;
static volatile LONG Atomic;
static KSPIN_LOCK Lock;
static KDPC Dpcs[PROCESSORS];
static KEVENT Event;

static void Add(void) {
    ULONG count = Count;
    count += 1;
    Count = count;
}

static void NTAPI OnDpc(PKDPC dpc, PVOID context, PVOID a, PVOID b) {
    if (KeGetCurrentIrql() != DISPATCH_LEVEL || KeGetCurrentProcessorNumberEx(NULL) != (ULONG)(ULONG_PTR)context)
        Wrong += 1;
    KeAcquireSpinLockAtDpcLevel(&Lock);
    Add();
    KeReleaseSpinLockFromDpcLevel(&Lock);
}

static ULONG_PTR NTAPI OnIpi(ULONG_PTR context) {
    if (KeGetCurrentIrql() < IPI_LEVEL)
        Wrong += 1;
    Add(); /* everybody else waits */
    return KeGetCurrentProcessorNumberEx(NULL);
}

static NTSTATUS NTAPI Control(PDEVICE_OBJECT device, PIRP irp) {
    PIO_STACK_LOCATION stack = IoGetCurrentIrpStackLocation(irp);
    ULONG *out = irp->AssociatedIrp.SystemBuffer;
    LARGE_INTEGER due;
    KIRQL old;
    irp->IoStatus.Information = 0;
    switch (stack->Parameters.DeviceIoControl.IoControlCode) {
    case IOCTL(0): /* adds, with nothing held */
        for (ULONG i = 0; i < 4000000; i += 1)
            Add();
        break;
    case IOCTL(1): /* adds under the spin lock */
        for (ULONG i = 0; i < 500; i += 1) {
            KeAcquireSpinLock(&Lock, &old);
            Add();
            KeReleaseSpinLock(&Lock, old);
        }
        break;
    case IOCTL(2): /* adds atomically */
        for (ULONG i = 0; i < 200000; i += 1)
            InterlockedIncrement(&Atomic);
        break;
    case IOCTL(3): /* what was counted */
        out[0] = Count;
        out[1] = Atomic;
        out[2] = Wrong;
        irp->IoStatus.Information = 12;
        break;
    case IOCTL(4): /* works a little, then writes to null */
        for (ULONG i = 0; i < 10; i += 1)
            KeQueryInterruptTime();
        *(volatile ULONG *)8 = 1;
        break;
    case IOCTL(5): /* never ends, and calls nothing */
        for (;;) ;
    case IOCTL(6): /* calls all processors */
        for (ULONG i = 0; i < 20; i += 1)
            KeIpiGenericCall(OnIpi, 0);
        break;
    case IOCTL(7): /* queues a DPC to each processor, and waits for them */
        for (ULONG i = 0; i < 50; i += 1) {
            for (ULONG cpu = 0; cpu < KeQueryActiveProcessorCount(NULL); cpu += 1)
                if (KeInsertQueueDpc(&Dpcs[cpu], NULL, NULL))
                    InterlockedIncrement(&Atomic);
            KeFlushQueuedDpcs();
        }
        break;
    case IOCTL(8): /* sleeps and wakes, on whichever processor */
        for (ULONG i = 0; i < 50; i += 1) {
            due.QuadPart = -10;
            KeDelayExecutionThread(KernelMode, FALSE, &due);
            KeWaitForSingleObject(&Event, Executive, KernelMode, FALSE, NULL);
            KeSetEvent(&Event, 0, FALSE);
        }
        break;
    case IOCTL(9): { /* allocates and frees */
        for (ULONG i = 0; i < 200; i += 1) {
            UCHAR *block = ExAllocatePoolWithTag(NonPagedPoolNx, 16 + i, 'llaP');
            if (!block)
                break;
            for (ULONG j = 0; j < 16 + i; j += 1)
                block[j] = (UCHAR)i;
            ExFreePoolWithTag(block, 'llaP');
        }
        break;
    }
    }
    irp->IoStatus.Status = STATUS_SUCCESS;
    IoCompleteRequest(irp, IO_NO_INCREMENT);
    return STATUS_SUCCESS;
}

static NTSTATUS NTAPI Succeed(PDEVICE_OBJECT device, PIRP irp) {
    irp->IoStatus.Status = STATUS_SUCCESS;
    irp->IoStatus.Information = 0;
    IoCompleteRequest(irp, IO_NO_INCREMENT);
    return STATUS_SUCCESS;
}

static void NTAPI Unload(PDRIVER_OBJECT driver) {
    UNICODE_STRING link;
    RtlInitUnicodeString(&link, L"\\DosDevices\\Parallel");
    IoDeleteSymbolicLink(&link);
    IoDeleteDevice(driver->DeviceObject);
}

NTSTATUS NTAPI DriverEntry(PDRIVER_OBJECT driver, PUNICODE_STRING path) {
    UNICODE_STRING name, link;
    PDEVICE_OBJECT device;
    NTSTATUS status;
    RtlInitUnicodeString(&name, L"\\Device\\Parallel");
    RtlInitUnicodeString(&link, L"\\DosDevices\\Parallel");
    driver->DriverUnload = Unload;
    driver->MajorFunction[IRP_MJ_CREATE] = Succeed;
    driver->MajorFunction[IRP_MJ_CLEANUP] = Succeed;
    driver->MajorFunction[IRP_MJ_CLOSE] = Succeed;
    driver->MajorFunction[IRP_MJ_DEVICE_CONTROL] = Control;
    KeInitializeSpinLock(&Lock);
    KeInitializeEvent(&Event, SynchronizationEvent, TRUE);
    for (ULONG cpu = 0; cpu < PROCESSORS; cpu += 1) {
        KeInitializeDpc(&Dpcs[cpu], OnDpc, (PVOID)(ULONG_PTR)cpu);
        KeSetTargetProcessorDpc(&Dpcs[cpu], (CCHAR)cpu);
    }
    status = IoCreateDevice(driver, 0, &name, FILE_DEVICE_UNKNOWN, FILE_DEVICE_SECURE_OPEN, FALSE, &device);
    if (!NT_SUCCESS(status))
        return status;
    return IoCreateSymbolicLink(&link, &name);
}
