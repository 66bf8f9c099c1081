/* A driver that stops the system in DriverEntry, with routines registered for
 * that. BAD says what is wrong with one of them; without it, nothing is. */
#include "check.h"

#ifndef BAD
#define BAD 0
#endif

typedef struct {
    PVOID InBuffer;
    ULONG InBufferLength, MaximumAllowed;
    GUID Guid;
    PVOID OutBuffer;
    ULONG OutBufferLength;
    PVOID Context;
    ULONG Flags, DumpType, BugCheckCode;
    ULONG_PTR Parameter1, Parameter2, Parameter3, Parameter4;
} PARTS;

static KBUGCHECK_CALLBACK_RECORD told;
static KBUGCHECK_REASON_CALLBACK_RECORD small, large, bad;
static UCHAR data[0x30000], buffer[8];
static KSPIN_LOCK lock;
static void *paged;

static const GUID smallTag = { 1, 2, 3, { 4, 5, 6, 7, 8, 9, 10, 11 } };
static const GUID largeTag = { 2, 2, 3, { 4, 5, 6, 7, 8, 9, 10, 11 } };

static void NTAPI Told(PVOID place, ULONG length) {
    if (place == buffer && length == sizeof buffer && KeGetCurrentIrql() == HIGH_LEVEL) DbgPrint("told ");
}

/* Eight bytes, in the system's buffer. */
static void NTAPI Small(KBUGCHECK_CALLBACK_REASON reason, PVOID record, PVOID place, ULONG length) {
    KBUGCHECK_SECONDARY_DUMP_DATA *question = place;
    if (reason != KbCallbackSecondaryDumpData || record != &small || length != sizeof *question) return;
    if (question->OutBuffer) RtlFillMemory(question->InBuffer, 8, 0x5A);
    DbgPrint(question->OutBuffer ? "data " : "size ");
    question->Guid = smallTag;
    question->OutBuffer = question->InBuffer;
    question->OutBufferLength = 8;
}

/* All of data, in as many pieces as it takes. */
static void NTAPI Large(KBUGCHECK_CALLBACK_REASON reason, PVOID record, PVOID place, ULONG length) {
    PARTS *question = place;
    ULONG_PTR done = (ULONG_PTR)question->Context;
    ULONG rest = sizeof data - done;
    if (record != &large || length != sizeof *question || question->BugCheckCode != 0xBEEF) return;
    if (question->Parameter1 != 1 || question->Parameter4 != 4 || KeGetCurrentIrql() != HIGH_LEVEL) return;
    question->Guid = largeTag;
    question->OutBuffer = data + done;
    question->OutBufferLength = rest < question->MaximumAllowed ? rest : question->MaximumAllowed;
    question->Context = (PVOID)(done + question->OutBufferLength);
    question->Flags = question->OutBufferLength < rest ? 1 : 0;
}

static void NTAPI Bad(KBUGCHECK_CALLBACK_REASON reason, PVOID record, PVOID place, ULONG length) {
    PARTS *question = place;
    KIRQL irql;
    question->OutBuffer = data;
    question->OutBufferLength = 8;
    switch (BAD) {
        case 1: *(volatile int *)(ULONG_PTR)(record ? 8 : 0) = 1; break;
        case 2: question->OutBufferLength = question->MaximumAllowed + 1; break;
        case 3: question->OutBuffer = paged; break;
        case 4: for (;;) YieldProcessor(); break;
        case 5: KeWaitForSingleObject(&lock, Executive, KernelMode, FALSE, NULL); break;
        case 6: question->Flags = 1; break;
    }
}

NTSTATUS NTAPI DriverEntry(PDRIVER_OBJECT driver, PUNICODE_STRING path) {
    for (ULONG i = 0; i < sizeof data; i++) data[i] = (UCHAR)(i * 7 >> 3);
    paged = ExAllocatePoolWithTag(PagedPool, 64, TAG);
    CHECK(KeRegisterBugCheckCallback(&told, (PVOID)Told, buffer, sizeof buffer, "told"));
    CHECK(KeRegisterBugCheckReasonCallback(&small, (PVOID)Small, KbCallbackSecondaryDumpData, "small"));
    CHECK(!KeRegisterBugCheckReasonCallback(&small, (PVOID)Small, KbCallbackSecondaryDumpData, "small"));
    if (BAD == 7) {
        PKBUGCHECK_REASON_CALLBACK_RECORD gone = ExAllocatePoolWithTag(NonPagedPool, sizeof *gone, TAG);
        gone->State = 0;
        CHECK(KeRegisterBugCheckReasonCallback(gone, (PVOID)Bad, 5, "gone"));
        ExFreePoolWithTag(gone, TAG);
    } else if (BAD) {
        CHECK(KeRegisterBugCheckReasonCallback(&bad, (PVOID)Bad, 5, "bad"));
    }
    CHECK(KeRegisterBugCheckReasonCallback(&large, (PVOID)Large, 5, "large"));
    KeBugCheckEx(0xBEEF, 1, 2, 3, 4);
    return STATUS_SUCCESS;
}
