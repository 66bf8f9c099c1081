//! The few routines that can't be written in Rust: changing stacks.
//!
//! A fiber has two stacks. Driver code runs on its *kernel stack* (24 KiB, as
//! on Windows, so that overflows are true), host code on its *host stack*.
//! [`call_driver`] goes from host to kernel stack, a thunk goes back:
//!
//! ```text
//!  host stack:   fiber_main → call_driver ┐     ┌ export → call_driver ┐   ┌ export
//!  kernel stack:                          └ DriverEntry → …            └ DPC → …
//! ```
#![expect(unsafe_code, reason = "naked functions: stack and register switching")]

use std::arch::naked_asm;

use crate::layout::{
    HOST_RSP, PENDING, SLOT_API, SLOT_R12, SLOT_R13, SLOT_R14, SLOT_R15, SLOT_RBP, SLOT_RBX,
    SLOT_RDI, SLOT_RSI, SLOT_RSP,
};

/// Calls `function` with `args` on the stack that ends at `stack`.
///
/// # Safety
/// `gs` points at the current processor's block; `stack` is 16-byte aligned
/// and the memory below it is a kernel stack of the running fiber; `function`
/// is code with the Win64 convention.
#[unsafe(naked)]
pub(crate) unsafe extern "sysv64" fn call_driver(
    function: u64,
    args: *const [u64; 4],
    stack: u64,
) -> u64 {
    naked_asm!(
        "push rbp",
        "push rbx",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "push qword ptr gs:[{host_rsp}]",
        "sub rsp, 16",
        "mov gs:[{host_rsp}], rsp",
        "mov rsp, rdx",
        "sub rsp, 0x20",
        "mov rax, rdi",
        "mov r10, rsi",
        "mov rcx, [r10]",
        "mov rdx, [r10 + 8]",
        "mov r8, [r10 + 16]",
        "mov r9, [r10 + 24]",
        "call rax",
        "cld",
        "mov rsp, gs:[{host_rsp}]",
        "stmxcsr [rsp]",
        "mov ecx, [rsp]",
        "and ecx, {control}",
        "cmp ecx, {default}",
        "je 2f",
        "mov dword ptr [rsp], {default}",
        "ldmxcsr [rsp]",
        "2:",
        "add rsp, 16",
        "pop qword ptr gs:[{host_rsp}]",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbx",
        "pop rbp",
        "ret",
        host_rsp = const HOST_RSP,
        control = const !MXCSR_FLAGS & 0xFFFF,
        default = const MXCSR_DEFAULT,
    )
}

/// Exception flags of MXCSR, which say what happened and control nothing.
const MXCSR_FLAGS: u32 = 0x3F;
/// Round to nearest, every exception masked: what Rust code expects.
const MXCSR_DEFAULT: u32 = 0x1F80;

/// The common part of every thunk. In: eax = mask of legal IRQLs, r10d =
/// index of the export, r11 = its implementation; the rest as the driver's
/// call left it. Saves what identifies the call, checks the contract, calls
/// on the host stack, and looks for pending work on the way out.
///
/// Twelve stack arguments are copied: more than any export takes.
#[unsafe(naked)]
pub(crate) unsafe extern "sysv64" fn thunk() {
    naked_asm!(
        "mov gs:[{rbx}], rbx",
        "mov gs:[{rbp}], rbp",
        "mov gs:[{rsi}], rsi",
        "mov gs:[{rdi}], rdi",
        "mov gs:[{r12}], r12",
        "mov gs:[{r13}], r13",
        "mov gs:[{r14}], r14",
        "mov gs:[{r15}], r15",
        "mov gs:[{api}], r10d",
        "mov gs:[{rsp_}], rsp",
        "movzx r10d, byte ptr gs:[{irql}]",
        "bt eax, r10d",
        "mov rax, rsp",
        "mov rsp, gs:[{host_rsp}]",
        "jnc 3f",
        "4:",
        "sub rsp, 0x90",
        "mov [rsp + 0x80], rax",
        "movups xmm4, [rax + 0x28]",
        "movups xmm5, [rax + 0x38]",
        "movups [rsp + 0x20], xmm4",
        "movups [rsp + 0x30], xmm5",
        "movups xmm4, [rax + 0x48]",
        "movups xmm5, [rax + 0x58]",
        "movups [rsp + 0x40], xmm4",
        "movups [rsp + 0x50], xmm5",
        "movups xmm4, [rax + 0x68]",
        "movups xmm5, [rax + 0x78]",
        "movups [rsp + 0x60], xmm4",
        "movups [rsp + 0x70], xmm5",
        "call r11",
        "mov rsp, [rsp + 0x80]",
        "cmp dword ptr gs:[{pending}], 0",
        "jne 2f",
        "ret",
        "2:",
        "mov r11, rsp",
        "mov rsp, gs:[{host_rsp}]",
        "sub rsp, 0x40",
        "mov [rsp + 0x38], r11",
        "mov [rsp + 0x30], rax",
        "call {leave}",
        "mov rax, [rsp + 0x30]",
        "mov rsp, [rsp + 0x38]",
        "ret",
        // Reported; then the call is made all the same, with the arguments it came with.
        "3:",
        "sub rsp, 0x90",
        "mov [rsp + 0x20], rax",
        "mov [rsp + 0x28], r11",
        "mov [rsp + 0x30], rcx",
        "mov [rsp + 0x38], rdx",
        "mov [rsp + 0x40], r8",
        "mov [rsp + 0x48], r9",
        "movups [rsp + 0x50], xmm0",
        "movups [rsp + 0x60], xmm1",
        "movups [rsp + 0x70], xmm2",
        "movups [rsp + 0x80], xmm3",
        "call {violation}",
        "mov rax, [rsp + 0x20]",
        "mov r11, [rsp + 0x28]",
        "mov rcx, [rsp + 0x30]",
        "mov rdx, [rsp + 0x38]",
        "mov r8, [rsp + 0x40]",
        "mov r9, [rsp + 0x48]",
        "movups xmm0, [rsp + 0x50]",
        "movups xmm1, [rsp + 0x60]",
        "movups xmm2, [rsp + 0x70]",
        "movups xmm3, [rsp + 0x80]",
        "add rsp, 0x90",
        "jmp 4b",
        rbx = const SLOT_RBX,
        rbp = const SLOT_RBP,
        rsi = const SLOT_RSI,
        rdi = const SLOT_RDI,
        r12 = const SLOT_R12,
        r13 = const SLOT_R13,
        r14 = const SLOT_R14,
        r15 = const SLOT_R15,
        api = const SLOT_API,
        rsp_ = const SLOT_RSP,
        irql = const nt::kpcr::IRQL,
        host_rsp = const HOST_RSP,
        pending = const PENDING,
        leave = sym crate::sched::leave_kernel,
        violation = sym crate::thunk::contract_violation,
    )
}

/// Like [`thunk`], for C variadic exports: spills the register arguments to
/// their home slots, which makes them one array with the stack arguments,
/// and passes its address.
#[unsafe(naked)]
pub(crate) unsafe extern "sysv64" fn variadic_thunk() {
    naked_asm!(
        "mov [rsp + 8], rcx",
        "mov [rsp + 16], rdx",
        "mov [rsp + 24], r8",
        "mov [rsp + 32], r9",
        "lea rcx, [rsp + 8]",
        "jmp {thunk}",
        thunk = sym thunk,
    )
}

/// Saves this context to `*from` and resumes the one saved at `to`.
///
/// Floating-point control is not switched: host code runs with the default,
/// and [`call_driver`] restores it after a driver has had its way.
///
/// # Safety
/// `to` was saved by this function, or prepared by [`crate::fiber`], on a
/// stack that nothing else runs on.
#[unsafe(naked)]
pub(crate) unsafe extern "sysv64" fn switch(from: *mut u64, to: u64) {
    naked_asm!(
        "push rbp",
        "push rbx",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "mov [rdi], rsp",
        "mov rsp, rsi",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbx",
        "pop rbp",
        "ret",
    )
}

/// `__chkstk`: touches each page of the `rax` bytes below the caller's stack pointer, so that an
/// overflow meets the guard page; every register is kept.
#[unsafe(naked)]
pub(crate) unsafe extern "sysv64" fn check_stack() {
    naked_asm!(
        "push r10",
        "push r11",
        "lea r10, [rsp + 0x18]",
        "mov r11, r10",
        "sub r10, rax",
        "2:",
        "sub r11, 0x1000",
        "cmp r11, r10",
        "jbe 3f",
        "test [r11], r11b",
        "jmp 2b",
        "3:",
        "test [r10], r10b",
        "pop r11",
        "pop r10",
        "ret",
    )
}

/// Where a new fiber starts: r12 holds its thread.
#[unsafe(naked)]
pub(crate) unsafe extern "sysv64" fn fiber_entry() {
    naked_asm!(
        "mov rdi, r12",
        "call {main}",
        "ud2",
        main = sym crate::sched::fiber_main,
    )
}

/// What a patched register access calls: ecx = register, for a write edx:eax
/// = value, for a read edx:eax = result; every other register and the flags
/// are preserved. Runs the access on the host stack. Its last argument is the
/// driver's stack pointer, with `SAVED_WORDS` saved words and the return
/// address of the site above it.
macro_rules! patched_access {
    ($(#[$doc:meta])* $name:ident => $access:path { $($arguments:literal)* } { $($result:literal)* }) => {
        $(#[$doc])*
        #[unsafe(naked)]
        pub(crate) unsafe extern "sysv64" fn $name() {
            naked_asm!(
                "pushfq",
                "push rax",
                "push rcx",
                "push rdx",
                "push rsi",
                "push rdi",
                "push r8",
                "push r9",
                "push r10",
                "push r11",
                "mov r8, rsp",
                "mov rsp, gs:[{host_rsp}]",
                "sub rsp, 0x80",
                "mov [rsp + 0x70], r8",
                "movups [rsp], xmm0",
                "movups [rsp + 0x10], xmm1",
                "movups [rsp + 0x20], xmm2",
                "movups [rsp + 0x30], xmm3",
                "movups [rsp + 0x40], xmm4",
                "movups [rsp + 0x50], xmm5",
                $($arguments,)*
                "call {access}",
                "movups xmm0, [rsp]",
                "movups xmm1, [rsp + 0x10]",
                "movups xmm2, [rsp + 0x20]",
                "movups xmm3, [rsp + 0x30]",
                "movups xmm4, [rsp + 0x40]",
                "movups xmm5, [rsp + 0x50]",
                "mov rsp, [rsp + 0x70]",
                $($result,)*
                "pop r11",
                "pop r10",
                "pop r9",
                "pop r8",
                "pop rdi",
                "pop rsi",
                "pop rdx",
                "pop rcx",
                "pop rax",
                "popfq",
                "ret",
                host_rsp = const HOST_RSP,
                access = sym $access,
            )
        }
    };
}

/// Words that a patched access saves on the driver's stack.
pub(crate) const SAVED_WORDS: u64 = 10;
/// Which of them are rdx, rcx and rax.
pub(crate) const SAVED_RDX: u64 = 6;
pub(crate) const SAVED_RCX: u64 = 7;
pub(crate) const SAVED_RAX: u64 = 8;

patched_access! {
    /// The routine of patched `rdmsr` sites.
    patched_rdmsr => crate::emulate::rdmsr_patched
    { "mov edi, ecx" "mov rsi, r8" }
    // The saved rdx and rax become the result.
    { "mov rdx, rax" "shr rdx, 32" "mov eax, eax" "mov [rsp + 0x30], rdx" "mov [rsp + 0x40], rax" }
}
patched_access! {
    /// The routine of patched `rdpmc` sites.
    patched_rdpmc => crate::emulate::rdpmc_patched
    { "mov edi, ecx" "mov rsi, r8" }
    { "mov rdx, rax" "shr rdx, 32" "mov eax, eax" "mov [rsp + 0x30], rdx" "mov [rsp + 0x40], rax" }
}
patched_access! {
    /// The routine of patched `wrmsr` sites.
    patched_wrmsr => crate::emulate::wrmsr_patched
    { "mov edi, ecx" "mov esi, eax" "shl rdx, 32" "or rsi, rdx" "mov rdx, r8" }
    { }
}
patched_access! {
    /// The routine of patched `cpuid` sites: the access replaces the saved rax, rcx and rdx itself.
    patched_cpuid => crate::emulate::cpuid_patched
    { "mov edi, eax" "mov esi, ecx" "mov rdx, r8" }
    { "mov rbx, rax" }
}
