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
use std::mem::offset_of;

use crate::layout::{
    HOST_RSP, LOCKED_TARGET, PENDING, SLOT_API, SLOT_R12, SLOT_R13, SLOT_R14, SLOT_R15, SLOT_RBP,
    SLOT_RBX, SLOT_RDI, SLOT_RSI, SLOT_RSP, STEP_TARGET,
};
use crate::unwind::Registers;

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
        "5:",
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
        "bt eax, 31",
        "jc 6f",
        "mov r11, rax",
        "mov rax, [rsp + 0x30]",
        "mov rsp, [rsp + 0x38]",
        "test r11d, r11d",
        "jnz 4f",
        "ret",
        "4:",
        "pushfq",
        "or [rsp], r11",
        "popfq",
        "ret",
        // An exception, in place of the return. These are the driver's still: host code preserves them.
        "6:",
        "sub rsp, 0xA0",
        "movups [rsp], xmm6",
        "movups [rsp + 0x10], xmm7",
        "movups [rsp + 0x20], xmm8",
        "movups [rsp + 0x30], xmm9",
        "movups [rsp + 0x40], xmm10",
        "movups [rsp + 0x50], xmm11",
        "movups [rsp + 0x60], xmm12",
        "movups [rsp + 0x70], xmm13",
        "movups [rsp + 0x80], xmm14",
        "movups [rsp + 0x90], xmm15",
        "mov rdi, rsp",
        "call {raised}",
        "ud2",
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
        "jmp 5b",
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
        raised = sym crate::seh::enter_raised,
        violation = sym crate::thunk::contract_violation,
    )
}

/// Like [`thunk`], for a machine that several host threads run: the kernel's
/// lock is held while the export runs.
#[unsafe(naked)]
pub(crate) unsafe extern "sysv64" fn locking_thunk() {
    naked_asm!(
        "mov gs:[{target}], r11",
        "lea r11, [rip + {locked}]",
        "jmp {thunk}",
        target = const LOCKED_TARGET,
        locked = sym locked_call,
        thunk = sym thunk,
    )
}

/// As [`locking_thunk`], for C variadic exports.
#[unsafe(naked)]
pub(crate) unsafe extern "sysv64" fn locking_variadic_thunk() {
    naked_asm!(
        "mov gs:[{target}], r11",
        "lea r11, [rip + {locked}]",
        "jmp {thunk}",
        target = const LOCKED_TARGET,
        locked = sym locked_call,
        thunk = sym variadic_thunk,
    )
}

/// What [`thunk`] calls for [`locking_thunk`]: takes the lock, calls the
/// export with the arguments as they are, and releases the lock. Where the
/// thunk goes on is kept in the spare word of its frame.
#[unsafe(naked)]
unsafe extern "sysv64" fn locked_call() {
    naked_asm!(
        "pop rax",
        "mov [rsp + 0x88], rax",
        "sub rsp, 0x60",
        "mov [rsp], rcx",
        "mov [rsp + 8], rdx",
        "mov [rsp + 0x10], r8",
        "mov [rsp + 0x18], r9",
        "movups [rsp + 0x20], xmm0",
        "movups [rsp + 0x30], xmm1",
        "movups [rsp + 0x40], xmm2",
        "movups [rsp + 0x50], xmm3",
        "call {enter}",
        "mov rcx, [rsp]",
        "mov rdx, [rsp + 8]",
        "mov r8, [rsp + 0x10]",
        "mov r9, [rsp + 0x18]",
        "movups xmm0, [rsp + 0x20]",
        "movups xmm1, [rsp + 0x30]",
        "movups xmm2, [rsp + 0x40]",
        "movups xmm3, [rsp + 0x50]",
        "add rsp, 0x60",
        "call qword ptr gs:[{target}]",
        "sub rsp, 0x30",
        "mov [rsp + 0x20], rax",
        "call {leave}",
        "mov rax, [rsp + 0x20]",
        "add rsp, 0x30",
        "jmp qword ptr [rsp + 0x88]",
        target = const LOCKED_TARGET,
        enter = sym crate::parallel::enter,
        leave = sym crate::parallel::leave,
    )
}

/// Goes to the routine that the processor's block names, with the trap flag set.
#[unsafe(naked)]
pub(crate) unsafe extern "sysv64" fn step_entry() {
    naked_asm!(
        "pushfq",
        "or dword ptr [rsp], 0x100",
        "popfq",
        "jmp qword ptr gs:[{target}]",
        target = const STEP_TARGET,
    )
}

/// Where the signal handler sends driver code that is interrupted, with the
/// address to go on at pushed on its stack: keeps every register, calls
/// [`crate::step::preempt`] on the host stack, and goes on.
///
/// Vector registers are kept with `xsave`, in what processors up to AVX-512
/// need; its header must be zero before.
#[unsafe(naked)]
pub(crate) unsafe extern "sysv64" fn interrupted() {
    naked_asm!(
        "mov gs:[{rbx}], rbx",
        "mov gs:[{rbp}], rbp",
        "mov gs:[{rsi}], rsi",
        "mov gs:[{rdi}], rdi",
        "mov gs:[{r12}], r12",
        "mov gs:[{r13}], r13",
        "mov gs:[{r14}], r14",
        "mov gs:[{r15}], r15",
        "mov dword ptr gs:[{api}], 0x7FFFFFFF",
        "mov gs:[{rsp_}], rsp",
        "mov rsp, gs:[{host_rsp}]",
        "push qword ptr gs:[{rsp_}]",
        "pushfq",
        "push rax",
        "push rcx",
        "push rdx",
        "push rbx",
        "push rbp",
        "push rsi",
        "push rdi",
        "push r8",
        "push r9",
        "push r10",
        "push r11",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "cld",
        "mov rbp, rsp",
        "sub rsp, {area}",
        "and rsp, -64",
        "xor eax, eax",
        "lea rdi, [rsp + 512]",
        "mov ecx, 8",
        "rep stosq",
        "mov eax, {components}",
        "xor edx, edx",
        "xsave64 [rsp]",
        "mov rbx, rsp",
        "sub rsp, 0x40",
        "mov dword ptr [rsp + 0x38], {default}",
        "ldmxcsr [rsp + 0x38]",
        "call {preempt}",
        "mov eax, {components}",
        "xor edx, edx",
        "xrstor64 [rbx]",
        "mov rsp, rbp",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop r11",
        "pop r10",
        "pop r9",
        "pop r8",
        "pop rdi",
        "pop rsi",
        "pop rbp",
        "pop rbx",
        "pop rdx",
        "pop rcx",
        "pop rax",
        "popfq",
        "pop rsp",
        "ret",
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
        host_rsp = const HOST_RSP,
        area = const XSAVE_AREA,
        components = const XSAVE_COMPONENTS,
        default = const MXCSR_DEFAULT,
        preempt = sym crate::step::preempt,
    )
}

/// Room for the components below in the standard format, and alignment.
const XSAVE_AREA: usize = 4096;
/// x87, SSE, AVX and the three of AVX-512.
const XSAVE_COMPONENTS: u32 = 0xE7;

/// Whether an address is the first instruction of a routine that saves the
/// flags with it and restores them at its end, the trap flag among them.
pub(crate) fn saves_flags_first(address: u64) -> bool {
    [
        patched_rdmsr as *const () as u64,
        patched_rdpmc as *const () as u64,
        patched_wrmsr as *const () as u64,
        patched_cpuid as *const () as u64,
    ]
    .contains(&address)
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

/// Sets every register, and goes on at `rip`.
///
/// # Safety
/// The 8 bytes below the new stack pointer are writable and unused, and the
/// code at `rip` may run in place of the caller's.
#[unsafe(naked)]
pub(crate) unsafe extern "sysv64" fn resume(registers: *const Registers) -> ! {
    naked_asm!(
        "mov rcx, rdi",
        "mov rax, [rcx + {gpr} + 0x20]",
        "mov rdx, [rcx + {rip}]",
        "mov [rax - 8], rdx",
        "ldmxcsr [rcx + {mxcsr}]",
        "movups xmm0, [rcx + {xmm}]",
        "movups xmm1, [rcx + {xmm} + 0x10]",
        "movups xmm2, [rcx + {xmm} + 0x20]",
        "movups xmm3, [rcx + {xmm} + 0x30]",
        "movups xmm4, [rcx + {xmm} + 0x40]",
        "movups xmm5, [rcx + {xmm} + 0x50]",
        "movups xmm6, [rcx + {xmm} + 0x60]",
        "movups xmm7, [rcx + {xmm} + 0x70]",
        "movups xmm8, [rcx + {xmm} + 0x80]",
        "movups xmm9, [rcx + {xmm} + 0x90]",
        "movups xmm10, [rcx + {xmm} + 0xA0]",
        "movups xmm11, [rcx + {xmm} + 0xB0]",
        "movups xmm12, [rcx + {xmm} + 0xC0]",
        "movups xmm13, [rcx + {xmm} + 0xD0]",
        "movups xmm14, [rcx + {xmm} + 0xE0]",
        "movups xmm15, [rcx + {xmm} + 0xF0]",
        "push qword ptr [rcx + {flags}]",
        "popfq",
        "mov rax, [rcx + {gpr}]",
        "mov rdx, [rcx + {gpr} + 0x10]",
        "mov rbx, [rcx + {gpr} + 0x18]",
        "mov rbp, [rcx + {gpr} + 0x28]",
        "mov rsi, [rcx + {gpr} + 0x30]",
        "mov rdi, [rcx + {gpr} + 0x38]",
        "mov r8, [rcx + {gpr} + 0x40]",
        "mov r9, [rcx + {gpr} + 0x48]",
        "mov r10, [rcx + {gpr} + 0x50]",
        "mov r11, [rcx + {gpr} + 0x58]",
        "mov r12, [rcx + {gpr} + 0x60]",
        "mov r13, [rcx + {gpr} + 0x68]",
        "mov r14, [rcx + {gpr} + 0x70]",
        "mov r15, [rcx + {gpr} + 0x78]",
        "mov rsp, [rcx + {gpr} + 0x20]",
        "mov rcx, [rcx + {gpr} + 0x8]",
        "jmp qword ptr [rsp - 8]",
        gpr = const offset_of!(Registers, gpr),
        rip = const offset_of!(Registers, rip),
        flags = const offset_of!(Registers, flags),
        xmm = const offset_of!(Registers, xmm),
        mxcsr = const offset_of!(Registers, mxcsr),
    )
}

/// Calls `routine(data)`, host code that owns nothing; 0 when it returned, 1
/// when it was broken off by [`attempt_failed`].
///
/// # Safety
/// `recovery` is writable; while it is not 0 it holds what the stack pointer
/// must be for [`attempt_failed`].
#[unsafe(naked)]
pub(crate) unsafe extern "sysv64" fn attempt(
    routine: unsafe extern "sysv64" fn(*mut u8),
    data: *mut u8,
    recovery: *mut u64,
) -> u64 {
    naked_asm!(
        "push rbp",
        "push rbx",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "push rdx",
        "mov [rdx], rsp",
        "mov rax, rdi",
        "mov rdi, rsi",
        "call rax",
        "xor eax, eax",
        "pop rdx",
        "mov qword ptr [rdx], 0",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbx",
        "pop rbp",
        "ret",
    )
}

/// Where a fault in an [`attempt`] goes on, on the stack it left.
#[unsafe(naked)]
pub(crate) unsafe extern "sysv64" fn attempt_failed() {
    naked_asm!(
        "mov eax, 1",
        "pop rdx",
        "mov qword ptr [rdx], 0",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbx",
        "pop rbp",
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

/// Where a patched access returns to that is refused: faults in place of the instruction that was patched.
#[unsafe(naked)]
pub(crate) unsafe extern "sysv64" fn refused() {
    naked_asm!("ud2")
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
