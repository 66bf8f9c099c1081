/* A function driver: attaches to what the bus enumerates, starts, stops, goes. */
#include "check.h"
#include <initguid.h>

DEFINE_GUID(CLASS, 0x11112222, 0x3333, 0x4444, 0x55, 0x55, 0x66, 0x66, 0x77, 0x77, 0x88, 0x88);

typedef struct {
    PDEVICE_OBJECT self, lower, physical;
    IO_REMOVE_LOCK lock;
    UNICODE_STRING link;
    BOOLEAN started, gone;
} EXTENSION;

static NTSTATUS NTAPI Wake(PDEVICE_OBJECT device, PIRP irp, PVOID event) {
    KeSetEvent(event, 0, FALSE);
    return STATUS_MORE_PROCESSING_REQUIRED;
}

static NTSTATUS Forward(EXTENSION *device, PIRP irp) {
    KEVENT event;
    KeInitializeEvent(&event, NotificationEvent, FALSE);
    IoCopyCurrentIrpStackLocationToNext(irp);
    IoSetCompletionRoutine(irp, Wake, &event, TRUE, TRUE, TRUE);
    if (IoCallDriver(device->lower, irp) == STATUS_PENDING)
        KeWaitForSingleObject(&event, Executive, KernelMode, FALSE, NULL);
    return irp->IoStatus.Status;
}

static NTSTATUS Finish(PIRP irp, NTSTATUS status) {
    irp->IoStatus.Status = status;
    IoCompleteRequest(irp, IO_NO_INCREMENT);
    return status;
}

static NTSTATUS Start(EXTENSION *device) {
    ULONG length;
    WCHAR id[40];
    HANDLE key;
    TRY(IoGetDeviceProperty(device->physical, DevicePropertyHardwareID, sizeof id, id, &length));
    CHECK(id[0] == L'D' && length == 32);
    CHECK(IoGetDeviceProperty(device->physical, DevicePropertyHardwareID, 2, id, &length) == STATUS_BUFFER_TOO_SMALL);
    CHECK(IoGetDeviceProperty(device->self, DevicePropertyHardwareID, sizeof id, id, &length) == STATUS_INVALID_DEVICE_REQUEST);
    TRY(IoOpenDeviceRegistryKey(device->physical, PLUGPLAY_REGKEY_DEVICE, KEY_READ, &key));
    TRY(ZwClose(key));
    TRY(IoSetDeviceInterfaceState(&device->link, TRUE));
    device->started = TRUE;
    return STATUS_SUCCESS;
}

static VOID Stop(EXTENSION *device) {
    if (device->started)
        IoSetDeviceInterfaceState(&device->link, FALSE);
    device->started = FALSE;
}

static NTSTATUS NTAPI OnPnp(PDEVICE_OBJECT object, PIRP irp) {
    EXTENSION *device = object->DeviceExtension;
    NTSTATUS status = IoAcquireRemoveLock(&device->lock, irp);
    if (!NT_SUCCESS(status))
        return Finish(irp, status);
    switch (IoGetCurrentIrpStackLocation(irp)->MinorFunction) {
    case IRP_MN_START_DEVICE:
        status = Forward(device, irp);
        if (NT_SUCCESS(status))
            status = Start(device);
        IoReleaseRemoveLock(&device->lock, irp);
        return Finish(irp, status);
#ifdef REFUSE
    case IRP_MN_QUERY_STOP_DEVICE:
    case IRP_MN_QUERY_REMOVE_DEVICE:
        IoReleaseRemoveLock(&device->lock, irp);
        return Finish(irp, STATUS_UNSUCCESSFUL);
#else
    case IRP_MN_QUERY_STOP_DEVICE:
    case IRP_MN_QUERY_REMOVE_DEVICE:
#endif
    case IRP_MN_CANCEL_STOP_DEVICE:
    case IRP_MN_CANCEL_REMOVE_DEVICE:
        irp->IoStatus.Status = STATUS_SUCCESS;
        break;
    case IRP_MN_SURPRISE_REMOVAL:
#ifdef TWICE
        ExFreePool(device->link.Buffer);
#endif
    case IRP_MN_STOP_DEVICE:
        Stop(device);
        irp->IoStatus.Status = STATUS_SUCCESS;
        break;
    case IRP_MN_REMOVE_DEVICE:
        Stop(device);
        irp->IoStatus.Status = STATUS_SUCCESS;
        IoSkipCurrentIrpStackLocation(irp);
        status = IoCallDriver(device->lower, irp);
        IoReleaseRemoveLockAndWait(&device->lock, irp);
        RtlFreeUnicodeString(&device->link);
#ifndef STAY
        IoDetachDevice(device->lower);
        IoDeleteDevice(object);
#endif
        return status;
    }
    IoSkipCurrentIrpStackLocation(irp);
    status = IoCallDriver(device->lower, irp);
    IoReleaseRemoveLock(&device->lock, irp);
    return status;
}

static NTSTATUS NTAPI OnSystemControl(PDEVICE_OBJECT object, PIRP irp) {
    EXTENSION *device = object->DeviceExtension;
    IoSkipCurrentIrpStackLocation(irp);
    return IoCallDriver(device->lower, irp);
}

static NTSTATUS NTAPI OnPower(PDEVICE_OBJECT object, PIRP irp) {
    EXTENSION *device = object->DeviceExtension;
    NTSTATUS status = IoAcquireRemoveLock(&device->lock, irp);
    PoStartNextPowerIrp(irp);
    if (!NT_SUCCESS(status))
        return Finish(irp, status);
    IoSkipCurrentIrpStackLocation(irp);
    status = PoCallDriver(device->lower, irp);
    IoReleaseRemoveLock(&device->lock, irp);
    return status;
}

static NTSTATUS NTAPI OnFile(PDEVICE_OBJECT object, PIRP irp) {
    EXTENSION *device = object->DeviceExtension;
    PIO_STACK_LOCATION stack = IoGetCurrentIrpStackLocation(irp);
    irp->IoStatus.Information = 0;
    if (stack->MajorFunction == IRP_MJ_READ && stack->Parameters.Read.Length) {
        *(UCHAR *)irp->AssociatedIrp.SystemBuffer = 0x42;
        irp->IoStatus.Information = 1;
    }
    return Finish(irp, device->started ? STATUS_SUCCESS : STATUS_DEVICE_NOT_READY);
}

static NTSTATUS NTAPI AddDevice(PDRIVER_OBJECT driver, PDEVICE_OBJECT physical) {
    PDEVICE_OBJECT object;
    EXTENSION *device;
    NTSTATUS status = IoCreateDevice(driver, sizeof *device, NULL, FILE_DEVICE_UNKNOWN, FILE_DEVICE_SECURE_OPEN, FALSE, &object);
    if (!NT_SUCCESS(status))
        return status;
    device = object->DeviceExtension;
    device->self = object;
    device->physical = physical;
    IoInitializeRemoveLock(&device->lock, TAG, 0, 0);
    status = IoRegisterDeviceInterface(physical, &CLASS, NULL, &device->link);
    if (!NT_SUCCESS(status)) {
        IoDeleteDevice(object);
        return status;
    }
    device->lower = IoAttachDeviceToDeviceStack(object, physical);
    object->Flags |= DO_BUFFERED_IO | DO_POWER_PAGABLE;
    object->Flags &= ~DO_DEVICE_INITIALIZING;
    return STATUS_SUCCESS;
}

static VOID NTAPI Unload(PDRIVER_OBJECT driver) { }

NTSTATUS NTAPI DriverEntry(PDRIVER_OBJECT driver, PUNICODE_STRING path) {
    driver->DriverUnload = Unload;
    driver->DriverExtension->AddDevice = AddDevice;
    driver->MajorFunction[IRP_MJ_PNP] = OnPnp;
    driver->MajorFunction[IRP_MJ_POWER] = OnPower;
    driver->MajorFunction[IRP_MJ_SYSTEM_CONTROL] = OnSystemControl;
    driver->MajorFunction[IRP_MJ_CREATE] = OnFile;
    driver->MajorFunction[IRP_MJ_CLEANUP] = OnFile;
    driver->MajorFunction[IRP_MJ_CLOSE] = OnFile;
    driver->MajorFunction[IRP_MJ_READ] = OnFile;
    return STATUS_SUCCESS;
}
