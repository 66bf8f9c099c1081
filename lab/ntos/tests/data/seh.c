/* A driver that raises, faults and handles, built by clang: structured
 * exceptions as a compiler for Windows makes them. DriverEntry fails with the
 * number of the line at which something was not as Windows has it. With CASE
 * it does one thing that Windows stops at. */
#define __USE_MINGW_ANSI_STDIO 0
#include <ntifs.h>

#define CHECK(condition) do { if (!(condition)) return 0xE0000000 | __LINE__; } while (0)
#define TRY(call) do { NTSTATUS line = (call); if (!NT_SUCCESS(line)) return line; } while (0)
/* clang 14 covers calls only: what faults must be one. */
#define FAR __attribute__((noinline))

/* A user program's address at which nothing is mapped. */
#define USER ((volatile ULONG *)0x20000)

typedef struct {
    ULONG64 pc, base;
    void *entry;
    ULONG64 frame, target;
    CONTEXT *context;
    void *handler;
    ULONG *data;
    void *history;
    ULONG scope, fill;
} DISPATCHER;

NTSYSAPI VOID NTAPI RtlUnwindEx(PVOID, PVOID, PEXCEPTION_RECORD, PVOID, PCONTEXT, PVOID);
NTSYSAPI VOID NTAPI RtlCaptureContext(PCONTEXT);
NTSYSAPI PVOID NTAPI RtlLookupFunctionEntry(ULONG64, PULONG64, PVOID);
NTSYSAPI PVOID NTAPI RtlVirtualUnwind(ULONG, ULONG64, ULONG64, PVOID, PCONTEXT, PVOID *, PULONG64, PVOID);

static volatile ULONG Trace;
static void Step(ULONG digit) { Trace = Trace * 16 + digit; }

FAR static ULONG Load(volatile ULONG *p) { return *p; }
FAR static void Store(volatile ULONG *p, ULONG value) { *p = value; }
FAR static void Divide(ULONG by) { __asm__ volatile("xorl %%edx, %%edx\ndivl %%ecx" : : "a"(1), "c"(by) : "edx"); }
FAR static void Illegal(void) { __asm__ volatile("ud2"); }
FAR static void Raise(NTSTATUS status) { ExRaiseStatus(status); }

static EXCEPTION_RECORD Seen;
static LONG Look(EXCEPTION_POINTERS *pointers, LONG answer) {
    Seen = *pointers->ExceptionRecord;
    return answer;
}

FAR static NTSTATUS Codes(void) {
    ULONG code = 0;
    __try { Load(USER); } __except (Look(GetExceptionInformation(), 1)) { code = GetExceptionCode(); }
    CHECK(code == STATUS_ACCESS_VIOLATION);
    CHECK(Seen.NumberParameters == 2 && Seen.ExceptionInformation[0] == 0 && Seen.ExceptionInformation[1] == (ULONG_PTR)USER);
    CHECK(Seen.ExceptionAddress >= (PVOID)Load && Seen.ExceptionAddress < (PVOID)Store);
    __try { Store(USER, 1); } __except (Look(GetExceptionInformation(), 1)) { code = 1; }
    CHECK(code == 1 && Seen.ExceptionInformation[0] == 1);
    __try { Load(NULL); } __except (EXCEPTION_EXECUTE_HANDLER) { code = 2; }
    CHECK(code == 2);
    __try { Load((void *)0x8000000000000010); } __except (Look(GetExceptionInformation(), 1)) { code = 3; }
    CHECK(code == 3 && Seen.ExceptionCode == STATUS_ACCESS_VIOLATION && Seen.ExceptionInformation[1] == ~0ULL);
    __try { Divide(0); } __except (GetExceptionCode() == STATUS_INTEGER_DIVIDE_BY_ZERO) { code = 4; }
    CHECK(code == 4);
    __try { Illegal(); } __except (GetExceptionCode() == STATUS_ILLEGAL_INSTRUCTION) { code = 5; }
    CHECK(code == 5);
    __try { Raise(STATUS_DATA_ERROR); } __except (Look(GetExceptionInformation(), 1)) { code = 6; }
    CHECK(code == 6 && Seen.ExceptionCode == STATUS_DATA_ERROR && Seen.ExceptionFlags == EXCEPTION_NONCONTINUABLE);
    __try { ExRaiseAccessViolation(); } __except (GetExceptionCode() == STATUS_ACCESS_VIOLATION) { code = 7; }
    CHECK(code == 7);
    __try { ExRaiseDatatypeMisalignment(); } __except (GetExceptionCode() == STATUS_DATATYPE_MISALIGNMENT) { code = 8; }
    CHECK(code == 8);
    return STATUS_SUCCESS;
}

/* What is in preserved registers when the exception is raised is there in the handler. */
FAR static NTSTATUS Registers(ULONG64 a, ULONG64 b, ULONG64 c, ULONG64 d) {
    volatile ULONG64 local = a ^ d;
    ULONG64 e = a + b, f = c + d, g = a * d;
    ULONG handled = 0;
    __try {
        Raise(STATUS_DATA_ERROR);
    } __except (EXCEPTION_EXECUTE_HANDLER) { handled = 1; }
    CHECK(handled && local == (a ^ d) && e == a + b && f == c + d && g == a * d);
    return STATUS_SUCCESS;
}

FAR static void Finally(void) {
    __try { Step(1); Raise(STATUS_DATA_ERROR); }
    __finally { Step(AbnormalTermination() ? 2 : 3); }
}
FAR static void Pass(void) {
    __try { Finally(); }
    __except (Step(4), EXCEPTION_CONTINUE_SEARCH) { Step(5); }
}
FAR static NTSTATUS Order(void) {
    Trace = 0;
    __try {
        __try { Pass(); } __finally { Step(6); }
    } __except (Step(7), EXCEPTION_EXECUTE_HANDLER) { Step(8); }
    /* The filters first, then the blocks from the inside out. */
    CHECK(Trace == 0x147268);
    Trace = 0;
    __try { Step(1); } __finally { Step(AbnormalTermination() ? 2 : 3); }
    CHECK(Trace == 0x13);
    return STATUS_SUCCESS;
}

/* A filter that faults and handles that itself, and one that lets it out. */
FAR static LONG OwnTrouble(void) {
    __try { Load(USER); } __except (EXCEPTION_EXECUTE_HANDLER) { Step(2); }
    return EXCEPTION_EXECUTE_HANDLER;
}
FAR static LONG Trouble(void) { Step(2); Raise(STATUS_UNSUCCESSFUL); return 0; }
FAR static void InnerTrouble(void) {
    __try { Step(1); Raise(STATUS_DATA_ERROR); }
    __except (GetExceptionCode() == STATUS_DATA_ERROR ? Trouble() : EXCEPTION_CONTINUE_SEARCH) { Step(9); }
}
FAR static NTSTATUS Nested(void) {
    NTSTATUS code = 0;
    Trace = 0;
    __try { Step(1); Raise(STATUS_DATA_ERROR); } __except (OwnTrouble()) { Step(3); code = GetExceptionCode(); }
    CHECK(Trace == 0x123 && code == STATUS_DATA_ERROR);
    Trace = 0;
    __try { InnerTrouble(); } __except (EXCEPTION_EXECUTE_HANDLER) { Step(3); code = GetExceptionCode(); }
    CHECK(Trace == 0x123 && code == STATUS_UNSUCCESSFUL);
    return STATUS_SUCCESS;
}

/* A __finally block that raises while it is run for an exception: it is not run again. */
FAR static void Collide(void) {
    __try {
        /* clang 14 has the scopes of adjacent calls overlap by a byte: the nop keeps them apart. */
        __try { Step(1); Raise(STATUS_DATA_ERROR); __asm__ volatile("nop"); }
        __finally { Step(2); Raise(STATUS_UNSUCCESSFUL); }
    } __finally { Step(3); }
}
FAR static NTSTATUS Collided(void) {
    NTSTATUS code = 0;
    Trace = 0;
    __try { Collide(); } __except (EXCEPTION_EXECUTE_HANDLER) { Step(4); code = GetExceptionCode(); }
    CHECK(Trace == 0x1234 && code == STATUS_UNSUCCESSFUL);
    /* Handled inside the block: the first exception goes on to its handler. */
    Trace = 0;
    __try {
        __try { Step(1); Raise(STATUS_DATA_ERROR); }
        __finally {
            Step(2);
            __try { Raise(STATUS_UNSUCCESSFUL); } __except (EXCEPTION_EXECUTE_HANDLER) { Step(3); }
        }
    } __except (EXCEPTION_EXECUTE_HANDLER) { Step(4); code = GetExceptionCode(); }
    CHECK(Trace == 0x1234 && code == STATUS_DATA_ERROR);
    return STATUS_SUCCESS;
}

static ULONG Good = 42;
FAR static ULONG LoadAt(ULONG *p) {
    ULONG value;
    __asm__ volatile("movl (%%rcx), %%eax" : "=a"(value) : "c"(p) : "memory");
    return value;
}
static LONG Mend(EXCEPTION_POINTERS *pointers) {
    pointers->ContextRecord->Rcx = (ULONG64)&Good;
    return EXCEPTION_CONTINUE_EXECUTION;
}
static LONG Skip(EXCEPTION_POINTERS *pointers) {
    pointers->ContextRecord->Rip += 2; /* ud2 */
    return EXCEPTION_CONTINUE_EXECUTION;
}
FAR static NTSTATUS Continue(void) {
    ULONG value = 0;
    EXCEPTION_RECORD record = { 0 };
    __try { value = LoadAt((ULONG *)USER); } __except (Mend(GetExceptionInformation())) { value = 1; }
    CHECK(value == 42);
    __try { Illegal(); value = 2; } __except (Skip(GetExceptionInformation())) { value = 3; }
    CHECK(value == 2);
    record.ExceptionCode = STATUS_DATA_ERROR;
    record.NumberParameters = 1;
    record.ExceptionInformation[0] = 7;
    __try { RtlRaiseException(&record); value = 4; }
    __except (Look(GetExceptionInformation(), EXCEPTION_CONTINUE_EXECUTION)) { value = 5; }
    CHECK(value == 4 && Seen.ExceptionInformation[0] == 7 && Seen.ExceptionFlags == 0);
    return STATUS_SUCCESS;
}

FAR static NTSTATUS HostCode(void) {
    char buffer[16];
    ULONG code = 0, n;
    __try { memcpy(buffer, (void *)USER, 16); } __except (Look(GetExceptionInformation(), 1)) { code = 1; }
    CHECK(code == 1 && Seen.ExceptionCode == STATUS_ACCESS_VIOLATION && Seen.ExceptionInformation[1] == (ULONG_PTR)USER);
    __try { memset((void *)USER, 0, 16); } __except (Look(GetExceptionInformation(), 1)) { code = 2; }
    CHECK(code == 2 && Seen.ExceptionInformation[0] == 1);
    __try { ProbeForRead((void *)USER, 16, 4); code = 3; } __except (EXCEPTION_EXECUTE_HANDLER) { }
    CHECK(code == 3);
    __try { ProbeForRead((char *)USER + 1, 16, 4); } __except (GetExceptionCode() == STATUS_DATATYPE_MISALIGNMENT) { code = 4; }
    CHECK(code == 4);
    __try { ProbeForRead(buffer, 16, 1); } __except (GetExceptionCode() == STATUS_ACCESS_VIOLATION) { code = 5; }
    CHECK(code == 5);
    __try { ProbeForRead((char *)MmHighestUserAddress - 8, 16, 1); } __except (GetExceptionCode() == STATUS_ACCESS_VIOLATION) { code = 6; }
    CHECK(code == 6);
    __try { ProbeForWrite((void *)USER, 16, 4); } __except (Look(GetExceptionInformation(), 1)) { code = 7; }
    CHECK(code == 7 && Seen.ExceptionCode == STATUS_ACCESS_VIOLATION);
    __try { ProbeForRead(buffer, 0, 1); code = 8; } __except (EXCEPTION_EXECUTE_HANDLER) { }
    CHECK(code == 8);
    /* Whatever was raised, the next call is an ordinary one. */
    for (n = 0; n < 1000; n++) {
        __try { memcpy(buffer, (void *)USER, 16); } __except (EXCEPTION_EXECUTE_HANDLER) { code += n; }
        memset(buffer, 1, 16);
    }
    CHECK(code == 8 + 499500 && buffer[3] == 1);
    CHECK((PVOID)&code > MmHighestUserAddress && (PVOID)Codes > MmHighestUserAddress);
    return STATUS_SUCCESS;
}

FAR static NTSTATUS Mdls(void) {
    NTSTATUS code = 0;
    MDL *mdl = IoAllocateMdl((void *)USER, 16, FALSE, FALSE, NULL);
    CHECK(mdl != NULL);
    __try { MmProbeAndLockPages(mdl, UserMode, IoReadAccess); } __except (EXCEPTION_EXECUTE_HANDLER) { code = GetExceptionCode(); }
    IoFreeMdl(mdl);
    CHECK(code == STATUS_ACCESS_VIOLATION);
    return STATUS_SUCCESS;
}

/* A language handler of the driver's own, as the stack cookie's is. */
static ULONG HandlerCalls, HandlerFlags;
void Landing(void);
int Personality(EXCEPTION_RECORD *record, void *frame, CONTEXT *context, DISPATCHER *dispatcher) {
    HandlerCalls++;
    HandlerFlags |= record->ExceptionFlags;
    if (*dispatcher->data != 0x1234 || dispatcher->frame != (ULONG64)frame || dispatcher->base == 0)
        return 9;
    if (record->ExceptionFlags & 0x66)
        return 1;
    RtlUnwindEx(frame, Landing, record, (void *)77, context, dispatcher->history);
    return 9;
}
void RaiseForPersonality(void) { Raise(STATUS_DATA_ERROR); }
ULONG64 Guarded(void);
__asm__(
    ".globl Guarded\n.globl Landing\n"
    ".seh_proc Guarded\n"
    "Guarded:\n"
    "pushq %rbx\n.seh_pushreg %rbx\n"
    "subq $48, %rsp\n.seh_stackalloc 48\n"
    ".seh_handler Personality, @except, @unwind\n"
    ".seh_endprologue\n"
    "movl $5, %ebx\n"
    "call RaiseForPersonality\n"
    "nop\n"
    "Landing:\n"
    "addq %rbx, %rax\n"
    "addq $48, %rsp\n"
    "popq %rbx\n"
    "ret\n"
    ".seh_handlerdata\n.long 0x1234\n.text\n"
    ".seh_endproc\n");

FAR static NTSTATUS Foreign(void) {
    ULONG64 base = 0, establisher = 0;
    PVOID data = NULL;
    CONTEXT context;
    CHECK(Guarded() == 82);
    CHECK(HandlerCalls == 2 && (HandlerFlags & 0x22) == 0x22);
    RtlCaptureContext(&context);
    CHECK(context.Rip > (ULONG64)Foreign && context.Rsp < (ULONG64)&context + 0x600);
    PVOID entry = RtlLookupFunctionEntry((ULONG64)Landing, &base, NULL);
    CHECK(entry != NULL);
    return STATUS_SUCCESS;
}

static VOID NTAPI Unload(PDRIVER_OBJECT driver) { }

#ifdef CASE
FAR static ULONG Recurse(ULONG n) {
    volatile char big[1024];
    big[n % 1024] = 1;
    return n == 0 ? 0 : Recurse(n + 1) + big[3];
}
FAR static LONG NotContinuable(void) { return EXCEPTION_CONTINUE_EXECUTION; }
static NTSTATUS Case(void) {
    KIRQL old;
    __try {
        switch (CASE) {
        case 1: Load((volatile ULONG *)0xFFFF800000001000); break;
        case 2: KeRaiseIrql(DISPATCH_LEVEL, &old); Load(USER); break;
        case 3: Recurse(1); break;
        case 4: KeRaiseIrql(DISPATCH_LEVEL, &old); memset((void *)USER, 0, 16); break;
        case 5: memset((void *)0xFFFF800000001000, 0, 16); break;
        }
    } __except (EXCEPTION_EXECUTE_HANDLER) { return STATUS_SUCCESS; }
    switch (CASE) {
    case 6: Raise(STATUS_DATA_ERROR); break;
    case 7: Load(NULL); break;
    case 8: __try { Raise(STATUS_DATA_ERROR); } __except (NotContinuable()) { } break;
    case 9: ProbeForWrite((void *)USER, 16, 1); break;
    }
    return STATUS_SUCCESS;
}
#endif

NTSTATUS NTAPI DriverEntry(PDRIVER_OBJECT driver, PUNICODE_STRING path) {
    driver->DriverUnload = Unload;
#ifdef CASE
    return Case();
#endif
#ifdef BENCH
    ULONG n, sum = 0;
    for (n = 0; n < BENCH; n++) {
        __try { Raise(STATUS_DATA_ERROR); } __except (EXCEPTION_EXECUTE_HANDLER) { sum++; }
    }
    return sum == BENCH ? STATUS_SUCCESS : STATUS_UNSUCCESSFUL;
#endif
    TRY(Codes());
    TRY(Registers(1, 2, 3, 4));
    TRY(Order());
    TRY(Nested());
    TRY(Collided());
    TRY(Continue());
    TRY(HostCode());
    TRY(Mdls());
    return Foreign();
}
