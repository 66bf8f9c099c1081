/*
 * bcryptprimitives.dll for a Wine that lacks it (8.0): the one function that Rust's standard library imports.
 */
#include <windows.h>
#include <ntsecapi.h>

/* Fills a buffer with random bytes; Windows documents that it always succeeds. */
__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE data, SIZE_T length)
{
    while (length > 0) {
        ULONG part = length > MAXLONG ? MAXLONG : (ULONG)length;
        if (!RtlGenRandom(data, part))
            return FALSE;
        data += part;
        length -= part;
    }
    return TRUE;
}
