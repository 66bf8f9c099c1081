/* The C runtime and the run-time library. */
#include "check.h"

int _strnicmp(const char *, const char *, size_t);
int sprintf_s(char *, size_t, const char *, ...);
int swprintf_s(wchar_t *, size_t, const wchar_t *, ...);
int _snprintf_s(char *, size_t, size_t, const char *, ...);
int strcpy_s(char *, size_t, const char *);
int strcat_s(char *, size_t, const char *);
int wcscpy_s(wchar_t *, size_t, const wchar_t *);
int memcpy_s(void *, size_t, const void *, size_t);
unsigned long strtoul(const char *, char **, int);
int atoi(const char *);
size_t mbstowcs(wchar_t *, const char *, size_t);
void qsort(void *, size_t, size_t, int (*)(const void *, const void *));
void *bsearch(const void *, const void *, size_t, size_t, int (*)(const void *, const void *));
char *_strupr(char *);
char *_itoa(int, char *, int);
int isspace(int);
NTSTATUS RtlUTF8ToUnicodeN(PWSTR, ULONG, PULONG, PCCH, ULONG);
NTSTATUS RtlUnicodeToUTF8N(PCHAR, ULONG, PULONG, PCWSTR, ULONG);
NTSTATUS RtlInt64ToUnicodeString(ULONGLONG, ULONG, PUNICODE_STRING);
BOOLEAN FsRtlIsNameInExpression(PUNICODE_STRING, PUNICODE_STRING, BOOLEAN, PWCH);
CCHAR NTAPI RtlFindMostSignificantBit(ULONGLONG);
CCHAR NTAPI RtlFindLeastSignificantBit(ULONGLONG);

static int Compare(const void *a, const void *b) {
    return *(const int *)a < *(const int *)b ? -1 : *(const int *)a > *(const int *)b;
}

static NTSTATUS Runtime(void) {
    char text[16], *end;
    wchar_t wide[16];
    int numbers[] = { 5, -3, 9, 0, 7, 5, -8, 2 }, wanted = 7, index;
    CHECK(_strnicmp("Device", "deViCE7", 6) == 0 && _strnicmp("a", "B", 3) < 0);
    CHECK(sprintf_s(text, sizeof text, "%d-%s", 12, "ab") == 5 && text[5] == 0);
    CHECK(sprintf_s(text, 4, "%d", 12345) == -1 && text[0] == 0);
    CHECK(_snprintf_s(text, 4, (size_t)-1, "%d", 12345) == -1 && text[2] == '3' && text[3] == 0);
    CHECK(swprintf_s(wide, 16, L"%04x", 0xAB) == 4 && wide[2] == L'a');
    CHECK(strcpy_s(text, sizeof text, "one") == 0 && strcat_s(text, sizeof text, "two") == 0);
    CHECK(RtlCompareMemory(text, "onetwo", 7) == 7);
    CHECK(strcat_s(text, 8, "three") == 34 && text[0] == 0);
    CHECK(wcscpy_s(wide, 3, L"abc") == 34 && wide[0] == 0);
    CHECK(memcpy_s(text, 2, "abc", 3) == 34 && memcpy_s(text, 3, "abc", 3) == 0);
    CHECK(strtoul("0x1Fz", &end, 0) == 31 && *end == 'z');
    CHECK(atoi(" -17x") == -17);
    CHECK(mbstowcs(wide, "hi", 16) == 2 && wide[1] == L'i' && wide[2] == 0);
    CHECK(RtlCompareMemory(_itoa(-42, text, 10), "-42", 4) == 4);
    CHECK(RtlCompareMemory(_strupr(text + 3), "", 1) == 1 && isspace('\t') && !isspace('x'));
    qsort(numbers, 8, sizeof(int), Compare);
    for (index = 0; index < 7; index++)
        CHECK(numbers[index] <= numbers[index + 1]);
    CHECK(bsearch(&wanted, numbers, 8, sizeof(int), Compare) == &numbers[6]);
    wanted = 6;
    CHECK(bsearch(&wanted, numbers, 8, sizeof(int), Compare) == NULL);
    return STATUS_SUCCESS;
}

static NTSTATUS Strings(void) {
    UNICODE_STRING upper, text, first, rest, pattern;
    ANSI_STRING narrow;
    WCHAR units[40];
    CHAR bytes[40];
    ULONG length, value;
    GUID guid;
    LARGE_INTEGER time;
    RtlInitUnicodeString(&text, L"\\Device\\Thing");
    TRY(RtlUpcaseUnicodeString(&upper, &text, TRUE));
    CHECK(upper.Length == text.Length && upper.Buffer[1] == L'D' && upper.Buffer[2] == L'E');
    CHECK(RtlEqualUnicodeString(&upper, &text, TRUE) && !RtlEqualUnicodeString(&upper, &text, FALSE));
    RtlInitUnicodeString(&first, L"\\device");
    CHECK(RtlPrefixUnicodeString(&first, &text, TRUE) && !RtlPrefixUnicodeString(&first, &text, FALSE));
    RtlInitUnicodeString(&pattern, L"\\DEVICE\\*");
    CHECK(FsRtlIsNameInExpression(&pattern, &text, TRUE, NULL) && !FsRtlIsNameInExpression(&pattern, &text, FALSE, NULL));
    RtlFreeUnicodeString(&upper);
    CHECK(RtlUpcaseUnicodeChar(L'q') == L'Q' && RtlUpcaseUnicodeChar(0xE4) == 0xC4);

    RtlInitUnicodeString(&text, L"{12345678-9ABC-DEF0-0123-456789ABCDEF}");
    TRY(RtlGUIDFromString(&text, &guid));
    CHECK(guid.Data1 == 0x12345678 && guid.Data3 == 0xDEF0 && guid.Data4[7] == 0xEF);
    text.Length -= 2;
    CHECK(RtlGUIDFromString(&text, &guid) == STATUS_INVALID_PARAMETER);

    TRY(RtlUTF8ToUnicodeN(units, sizeof units, &length, "a\xC3\xA9\xF0\x9F\x98\x80", 7));
    CHECK(length == 8 && units[1] == 0xE9 && units[2] == 0xD83D);
    TRY(RtlUnicodeToUTF8N(bytes, sizeof bytes, &length, units, 8));
    CHECK(length == 7 && RtlCompareMemory(bytes, "a\xC3\xA9\xF0\x9F\x98\x80", 7) == 7);
    CHECK(RtlUTF8ToUnicodeN(units, 2, &length, "ab", 2) == STATUS_BUFFER_TOO_SMALL && length == 2);
    CHECK(RtlUTF8ToUnicodeN(units, sizeof units, &length, "a\xFF", 2) == STATUS_SOME_NOT_MAPPED);
    TRY(RtlUnicodeToMultiByteN(bytes, sizeof bytes, &length, L"xyz", 6));
    CHECK(length == 3 && bytes[2] == 'z');
    narrow.Buffer = bytes; narrow.Length = 3; narrow.MaximumLength = 3;
    CHECK(RtlxAnsiStringToUnicodeSize(&narrow) == 8);
    TRY(RtlCharToInteger("0x20", 0, &value));
    CHECK(value == 32);
    text.Buffer = units; text.MaximumLength = sizeof units; text.Length = 0;
    TRY(RtlInt64ToUnicodeString(0x123456789AULL, 16, &text));
    CHECK(text.Length == 20 && units[0] == L'1' && units[9] == L'A');
    time.QuadPart = 116444736000000000LL + 77 * 10000000LL;
    CHECK(RtlTimeToSecondsSince1970(&time, &value) && value == 77);
    CHECK(!RtlTimeToSecondsSince1980(&time, &value));
    CHECK(RtlFindMostSignificantBit(0x8001) == 15 && RtlFindLeastSignificantBit(0x8002) == 1 && RtlFindLeastSignificantBit(0) == -1);
    return STATUS_SUCCESS;
}

static NTSTATUS Bitmaps(void) {
    ULONG bits[2] = { 0, 0 };
    RTL_BITMAP map;
    RtlInitializeBitMap(&map, bits, 50);
    CHECK(RtlNumberOfSetBits(&map) == 0 && RtlAreBitsClear(&map, 0, 50) && !RtlAreBitsClear(&map, 0, 51));
    RtlSetBits(&map, 4, 30);
    CHECK(RtlNumberOfSetBits(&map) == 30 && bits[0] == 0xFFFFFFF0);
    CHECK(RtlFindClearBits(&map, 5, 0) == 34 && RtlFindClearBitsAndSet(&map, 4, 40) == 40);
    CHECK(RtlFindClearBits(&map, 20, 0) == 0xFFFFFFFF);
    RtlClearBit(&map, 5);
    CHECK(!RtlAreBitsSet(&map, 4, 2) && RtlTestBit(&map, 4));
    RtlClearAllBits(&map);
    CHECK(bits[0] == 0 && RtlFindSetBits(&map, 1, 0) == 0xFFFFFFFF);
    return STATUS_SUCCESS;
}

static VOID NTAPI Unload(PDRIVER_OBJECT driver) { }

NTSTATUS NTAPI DriverEntry(PDRIVER_OBJECT driver, PUNICODE_STRING path) {
    NTSTATUS status;
    driver->DriverUnload = Unload;
    if (!NT_SUCCESS(status = Runtime())) return status;
    if (!NT_SUCCESS(status = Strings())) return status;
    return Bitmaps();
}
