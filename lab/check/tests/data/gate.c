/* A driver whose only system call is hidden from whoever reads its code: in the middle of an instruction. */
#include <ntddk.h>

static VOID Unload(PDRIVER_OBJECT driver)
{
    (void)driver;
}

NTSTATUS NTAPI DriverEntry(PDRIVER_OBJECT driver, PUNICODE_STRING path)
{
    (void)path;
    driver->DriverUnload = Unload;
    __asm__ volatile("movl $39, %%eax\n\t"
                     "leaq 1f+1(%%rip), %%rcx\n\t"
                     "jmp *%%rcx\n"
                     "1:\n\t"
                     "movl $0x9090050f, %%ecx\n\t"
                     : : : "rax", "rcx", "r11", "memory");
    return STATUS_SUCCESS;
}
