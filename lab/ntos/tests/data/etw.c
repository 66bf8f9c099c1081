/* A driver with the code that WPP makes: it registers, takes the session from the callback, and sends messages. */
#define RUN_WPP
#include "check.h"
#include <evntrace.h>

typedef struct { USHORT LoggerId; UCHAR Level; UCHAR Internal; ULONG Flags; } CONTEXT_OF_SESSION;
typedef VOID (NTAPI *CALLBACK)(const GUID *, UCHAR, PVOID, PVOID);
NTSTATUS NTAPI EtwRegisterClassicProvider(const GUID *, ULONG, CALLBACK, PVOID, PULONGLONG);
NTSTATUS NTAPI EtwUnregister(ULONGLONG);

static const GUID Control = { 0x11223344, 0x5566, 0x7788, { 1, 2, 3, 4, 5, 6, 7, 8 } };
static const GUID Messages = { 0xAABBCCDD, 0x1122, 0x3344, { 9, 8, 7, 6, 5, 4, 3, 2 } };
static ULONGLONG Registration, Logger;
static ULONG Told;
static NTSTATUS Query;

#define SEND(number, ...) WmiTraceMessage(Logger, 43, (GUID *)&Messages, number, __VA_ARGS__, (PVOID)0, (SIZE_T)0)

static NTSTATUS Ask(void) {
    UCHAR node[48] = { 0 };
    ULONG value, length;
    ULONGLONG handle;
    *(ULONGLONG *)(node + 8) = Logger;
    TRY(WmiQueryTraceInformation(2, &value, sizeof value, &length, node));
    CHECK(value == 0x30 && length == 4);
    TRY(WmiQueryTraceInformation(3, &value, sizeof value, NULL, node));
    CHECK(value == 4);
    TRY(WmiQueryTraceInformation(1, &handle, sizeof handle, NULL, node));
    CHECK(handle == Logger);
    TRY(WmiQueryTraceInformation(6, &handle, sizeof handle, NULL, NULL));
    CHECK(handle == Logger);
    CHECK(WmiQueryTraceInformation(3, &handle, sizeof handle, &length, node) == STATUS_INFO_LENGTH_MISMATCH && length == 4);
    CHECK(WmiQueryTraceInformation(3, &value, sizeof value, NULL, NULL) == STATUS_INVALID_PARAMETER_MIX);
    CHECK(WmiQueryTraceInformation(99, &value, sizeof value, NULL, node) == STATUS_INVALID_INFO_CLASS);
    *(ULONGLONG *)(node + 8) = 77;
    CHECK(WmiQueryTraceInformation(3, &value, sizeof value, NULL, node) == STATUS_INVALID_HANDLE);
    return STATUS_SUCCESS;
}

static VOID NTAPI Enabled(const GUID *guid, UCHAR code, PVOID wanted, PVOID context) {
    CONTEXT_OF_SESSION *session = wanted;
    ULONG number = 0x01020304;
    KIRQL irql;
    Told += (ULONG_PTR)context;
    if (code == 1) {
        Logger = *(ULONGLONG *)wanted;
        Query = Ask();
        SEND(10, &number, (SIZE_T)4, "text", (SIZE_T)5);
        SEND(11, &session->Level, (SIZE_T)1, &session->Flags, (SIZE_T)4);
        KeRaiseIrql(HIGH_LEVEL, &irql);
        WmiTraceMessage(Logger, 2, (GUID *)&Messages, 12, (PVOID)0, (SIZE_T)0);
        KeLowerIrql(irql);
    } else {
        SEND(13, &Told, (SIZE_T)4);
        Logger = 0;
    }
}

static VOID NTAPI Unload(PDRIVER_OBJECT driver) {
#ifndef LEAVE
    EtwUnregister(Registration);
#endif
}

NTSTATUS NTAPI DriverEntry(PDRIVER_OBJECT driver, PUNICODE_STRING path) {
    driver->DriverUnload = Unload;
    Logger = 0x4000;
    CHECK(SEND(1, &Told, (SIZE_T)4) == STATUS_INVALID_HANDLE);
    TRY(EtwRegisterClassicProvider(&Control, 0, Enabled, (PVOID)3, &Registration));
    TRY(Query);
#ifdef TOO_LONG
    CHECK(SEND(1, driver, (SIZE_T)0x10000) == STATUS_NO_MEMORY);
#endif
    return STATUS_SUCCESS;
}
