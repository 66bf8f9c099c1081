/* A driver that counts, with and without what keeps a count right when an
 * interrupt, a DPC or another processor counts at the same time. */
#include <ntddk.h>

#define IOCTL(n) CTL_CODE(FILE_DEVICE_UNKNOWN, 0x800 + (n), METHOD_BUFFERED, FILE_ANY_ACCESS)
#define VECTOR 0x51
#define LINE_IRQL 5

static volatile ULONG Count, Serviced, InStep;
static PKINTERRUPT Interrupt;
static KSPIN_LOCK Lock;
static KDPC Dpc, IsrDpc;
static KTIMER Timer;
static volatile ULONG Locking;
static volatile ULONG64 SampledRip;
static volatile ULONG Samples, DpcsOfIsr;

static void Add(void) {
    ULONG count = Count;
    count += 1;
    Count = count;
}

static BOOLEAN NTAPI Service(PKINTERRUPT interrupt, PVOID context) {
    Serviced += 1;
    if (KeGetCurrentIrql() != LINE_IRQL || context != (PVOID)7)
        KeBugCheckEx(0xE2, __LINE__, KeGetCurrentIrql(), 0, 0);
#ifdef RAISES
    KIRQL old;
    KeRaiseIrql(LINE_IRQL + 1, &old);
    return TRUE;
#endif
#ifdef SLOW
    for (volatile ULONG i = 0;; i += 1) ;
#endif
    Add();
    KeInsertQueueDpc(&IsrDpc, NULL, NULL);
    return TRUE;
}

static BOOLEAN NTAPI AddInStep(PVOID context) {
    if (KeGetCurrentIrql() != LINE_IRQL)
        KeBugCheckEx(0xE2, __LINE__, 0, 0, 0);
    Add();
    return TRUE;
}

static void NTAPI OnIsrDpc(PKDPC dpc, PVOID context, PVOID a, PVOID b) { DpcsOfIsr += 1; }

static void NTAPI OnDpc(PKDPC dpc, PVOID context, PVOID a, PVOID b) {
#ifdef SLOW
    for (volatile ULONG i = 0;; i += 1) ;
#endif
    if (Locking)
        KeAcquireSpinLockAtDpcLevel(&Lock);
    Add();
    if (Locking)
        KeReleaseSpinLockFromDpcLevel(&Lock);
}

static void NTAPI OnSample(void *frame) {
    Samples += 1;
    SampledRip = *(ULONG64 *)((char *)frame + 0x168);
}

static ULONG64 __attribute__((noinline)) Busy(ULONG rounds) {
    ULONG64 sum = 1;
    double x = 1.0;
    for (ULONG i = 0; i < rounds; i += 1) {
        sum = sum * 31 + i;
        x = x * 1.5 + (double)i;
    }
    return sum ^ (ULONG64)x;
}

static NTSTATUS NTAPI Control(PDEVICE_OBJECT device, PIRP irp) {
    PIO_STACK_LOCATION stack = IoGetCurrentIrpStackLocation(irp);
    ULONG64 *out = irp->AssociatedIrp.SystemBuffer;
    LARGE_INTEGER due;
    KIRQL old;
    irp->IoStatus.Information = 0;
    switch (stack->Parameters.DeviceIoControl.IoControlCode) {
    case IOCTL(0): /* adds, with nothing held */
        Add();
        break;
    case IOCTL(1): /* adds in step with the interrupt */
        KeSynchronizeExecution(Interrupt, AddInStep, NULL);
        break;
    case IOCTL(2): /* what was counted */
        out[0] = Count;
        out[1] = Serviced;
        out[2] = Samples;
        out[3] = SampledRip;
        out[4] = DpcsOfIsr;
        irp->IoStatus.Information = 40;
        break;
    case IOCTL(3): /* adds under the spin lock */
        KeAcquireSpinLock(&Lock, &old);
        Add();
        KeReleaseSpinLock(&Lock, old);
        break;
    case IOCTL(4): /* the timer's DPC takes the lock from now on */
        Locking = 1;
        break;
    case IOCTL(5): /* the timer's DPC will add in a second */
        due.QuadPart = -10000000;
        KeSetTimer(&Timer, due, &Dpc);
        break;
    case IOCTL(6): /* computes */
        out[0] = Busy(40);
        irp->IoStatus.Information = 8;
        break;
    case IOCTL(7): /* adds in step, by hand, with DPCs and interrupts held off */
        old = KeAcquireInterruptSpinLock(Interrupt);
        Add();
        KeReleaseInterruptSpinLock(Interrupt, old);
        break;
    case IOCTL(8): /* adds with interrupts disabled on this processor */
        __asm__ volatile("cli");
        Add();
        __asm__ volatile("sti");
        break;
    case IOCTL(9): /* never lowers the IRQL */
        KeRaiseIrql(DISPATCH_LEVEL, &old);
        for (volatile ULONG i = 0;; i += 1) ;
    case IOCTL(10): /* never releases the lock */
        KeAcquireSpinLock(&Lock, &old);
        for (;;)
            KeStallExecutionProcessor(1);
    case IOCTL(11): /* queues the DPC while at DISPATCH_LEVEL, and adds below it */
        KeRaiseIrql(DISPATCH_LEVEL, &old);
        KeInsertQueueDpc(&Dpc, NULL, NULL);
        KeLowerIrql(old);
        Add();
        break;
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
    void *none = NULL;
    UNICODE_STRING link;
    KeCancelTimer(&Timer);
#ifndef LEAVE
    HalSetSystemInformation(HalProfileSourceInterruptHandler, sizeof none, &none);
    IoDisconnectInterrupt(Interrupt);
#endif
    KeFlushQueuedDpcs();
    RtlInitUnicodeString(&link, L"\\DosDevices\\Count");
    IoDeleteSymbolicLink(&link);
    IoDeleteDevice(driver->DeviceObject);
}

NTSTATUS NTAPI DriverEntry(PDRIVER_OBJECT driver, PUNICODE_STRING path) {
    UNICODE_STRING name, link;
    PDEVICE_OBJECT device;
    void *handler = OnSample;
    NTSTATUS status;
    RtlInitUnicodeString(&name, L"\\Device\\Count");
    RtlInitUnicodeString(&link, L"\\DosDevices\\Count");
    driver->DriverUnload = Unload;
    driver->MajorFunction[IRP_MJ_CREATE] = Succeed;
    driver->MajorFunction[IRP_MJ_CLEANUP] = Succeed;
    driver->MajorFunction[IRP_MJ_CLOSE] = Succeed;
    driver->MajorFunction[IRP_MJ_DEVICE_CONTROL] = Control;
    KeInitializeSpinLock(&Lock);
    KeInitializeDpc(&Dpc, OnDpc, NULL);
    KeInitializeDpc(&IsrDpc, OnIsrDpc, NULL);
    KeInitializeTimer(&Timer);
    if (IoConnectInterrupt(&Interrupt, Service, NULL, NULL, 0x77, 5, 5, Latched, FALSE, 1, FALSE) != STATUS_INVALID_PARAMETER || Interrupt)
        return STATUS_UNSUCCESSFUL;
    status = IoConnectInterrupt(&Interrupt, Service, (PVOID)7, NULL, VECTOR, LINE_IRQL, LINE_IRQL, Latched, FALSE, KeQueryActiveProcessors(), FALSE);
    if (!NT_SUCCESS(status))
        return status;
    status = HalSetSystemInformation(HalProfileSourceInterruptHandler, sizeof handler, &handler);
    if (!NT_SUCCESS(status))
        return status;
    status = IoCreateDevice(driver, 0, &name, FILE_DEVICE_UNKNOWN, FILE_DEVICE_SECURE_OPEN, FALSE, &device);
    if (!NT_SUCCESS(status))
        return status;
    return IoCreateSymbolicLink(&link, &name);
}
