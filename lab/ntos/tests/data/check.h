/* What every driver of these tests begins with. DriverEntry fails with the
 * number of the line at which something was not as Windows has it. */
#define __USE_MINGW_ANSI_STDIO 0
#include <ntifs.h>
#include <ntddk.h>
#include <stdarg.h>

#define CHECK(condition) do { if (!(condition)) return 0xE0000000 | __LINE__; } while (0)
#define TRY(call) do { NTSTATUS outcome = (call); if (!NT_SUCCESS(outcome)) return 0xE0000000 | __LINE__; } while (0)
#define TAG 'tseT'
