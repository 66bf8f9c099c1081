/* A driver that finds devices by firmware's description and accesses their registers: well, and with
 * -DWRONG, -DLEAVE, -DUNMAP or -DODD badly. */
#include "check.h"

NTSTATUS NTAPI ZwQuerySystemInformation(ULONG, PVOID, ULONG, PULONG);

typedef struct { ULONG provider; LONG action; ULONG id; ULONG length; UCHAR table[512]; } FIRMWARE;

static volatile UCHAR *registers;
static const SIZE_T length = 0x600;

#define AT(offset) (*(volatile ULONG *)(registers + (offset)))
#define COUNTER(n) (0x10 + 0x28 * (n))

static NTSTATUS Apmt(void) {
    static FIRMWARE ask = { 'ACPI', 1, 0x544D5041, sizeof ask.table };
    FIRMWARE small = { 'ACPI', 1, 0x544D5041, 0 };
    FIRMWARE none = { 'ACPI', 1, 0x54445344, sizeof none.table };
    ULONG returned;
    CHECK(ZwQuerySystemInformation(76, &small, 16, &returned) == STATUS_BUFFER_TOO_SMALL);
    CHECK(small.length == 36 + 56);
    CHECK(ZwQuerySystemInformation(76, &none, sizeof none, &returned) == STATUS_NOT_FOUND);
    none.provider = 'RSMB';
    CHECK(ZwQuerySystemInformation(76, &none, sizeof none, &returned) == STATUS_NOT_IMPLEMENTED);
    CHECK(ZwQuerySystemInformation(76, &ask, 8, &returned) == STATUS_INFO_LENGTH_MISMATCH);
    TRY(ZwQuerySystemInformation(76, &ask, sizeof ask, &returned));
    CHECK(ask.length == small.length && *(ULONG *)ask.table == 0x544D5041);
    CHECK(*(ULONGLONG *)(ask.table + 36 + 20) == 0x1000000010000);
    return STATUS_SUCCESS;
}

static NTSTATUS BootResource(CM_PARTIAL_RESOURCE_DESCRIPTOR *found) {
    static UCHAR buffer[256];
    KEY_VALUE_PARTIAL_INFORMATION *value = (void *)buffer;
    UNICODE_STRING path, name;
    OBJECT_ATTRIBUTES attributes;
    HANDLE key;
    ULONG returned;
    RtlInitUnicodeString(&path, L"\\Registry\\Machine\\System\\CurrentControlSet\\Enum\\ACPI\\ARMHD620\\0\\LogConf");
    RtlInitUnicodeString(&name, L"BootConfig");
    InitializeObjectAttributes(&attributes, &path, OBJ_CASE_INSENSITIVE | OBJ_KERNEL_HANDLE, NULL, NULL);
    TRY(ZwOpenKey(&key, KEY_READ, &attributes));
    TRY(ZwQueryValueKey(key, &name, KeyValuePartialInformation, value, sizeof buffer, &returned));
    ZwClose(key);
    CHECK(value->Type == REG_RESOURCE_LIST);
    CM_RESOURCE_LIST *list = (void *)value->Data;
    CHECK(list->Count == 1 && list->List[0].PartialResourceList.Count == 1);
    *found = list->List[0].PartialResourceList.PartialDescriptors[0];
    return STATUS_SUCCESS;
}

static NTSTATUS Count(void) {
    LARGE_INTEGER wait = { .QuadPart = -100000 };
    ULONG before, after, copied[2];
    for (int part = 0; part < 16; part += 4)
        AT(COUNTER(0) + part) = 0;
    AT(8) = 0;
    before = AT(COUNTER(0) + 0x20);
    AT(COUNTER(0) + 0x10) = 0x12 << 2 | 1;
    KeDelayExecutionThread(KernelMode, FALSE, &wait);
    AT(COUNTER(0) + 0x10) &= ~1u;
    after = AT(COUNTER(0) + 0x20);
    /* 360 events each microsecond, for 10 ms and the time that calls take. */
    CHECK(after - before >= 3600000 && after - before < 3700000);
    KeDelayExecutionThread(KernelMode, FALSE, &wait);
    CHECK(AT(COUNTER(0) + 0x20) == after);
    CHECK(AT(COUNTER(0) + 0x10) == 0x12 << 2);
    CHECK((AT(8) & 1) == (after < before));
    __movsd((PULONG)copied, (PULONG)(registers + COUNTER(0) + 8), 2);
    CHECK(copied[0] == 0 && copied[1] == 0);
    return STATUS_SUCCESS;
}

static VOID Unload(DRIVER_OBJECT *driver) {
#if defined(UNMAP)
    MmUnmapIoSpace((PVOID)registers, length - 1);
#elif !defined(LEAVE)
    MmUnmapIoSpace((PVOID)registers, length);
#endif
}

NTSTATUS NTAPI DriverEntry(DRIVER_OBJECT *driver, UNICODE_STRING *path) {
    CM_PARTIAL_RESOURCE_DESCRIPTOR memory;
    PHYSICAL_ADDRESS nowhere = { .QuadPart = 0x1234000 };
    TRY(Apmt());
    TRY(BootResource(&memory));
    CHECK(memory.Type == CmResourceTypeMemory && memory.u.Memory.Length == length);
    CHECK(MmMapIoSpace(nowhere, 4096, MmNonCached) == NULL);
    registers = MmMapIoSpace(memory.u.Memory.Start, length, MmNonCached);
    CHECK(registers != NULL && ((ULONG_PTR)registers & 0xFFF) == 0xA00);
    driver->DriverUnload = Unload;
#ifdef WRONG
    volatile UCHAR byte = registers[COUNTER(0) + 0x20];
    CHECK(byte == 0xFF);
    CHECK(AT(COUNTER(10)) == 0xFFFFFFFF);
    *(volatile ULONGLONG *)(registers + COUNTER(0)) = 1;
    AT(4) = 1;
    return STATUS_SUCCESS;
#endif
#ifdef ODD
    __asm__ volatile("lock incl (%0)" : : "r"(registers + COUNTER(0)) : "memory");
#endif
    return Count();
}
