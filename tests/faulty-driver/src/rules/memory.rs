//! Memory, and what the processor refuses.

mod mdl;

use core::arch::asm;
use core::hint::black_box;
use core::ptr;

use mdl::{
    mdl_freed_locked, mdl_freed_mapped, mdl_locked_and_mapped, mdl_locked_twice,
    mdl_map_must_succeed, mdl_mapped_unlocked, mdl_of_nonpaged_pool, mdl_of_paged_pool,
    mdl_unlock_nonpaged, mdl_unlocked_twice,
};
use nt::base::UNICODE_STRING;
use nt::io::IoDeleteSymbolicLink;
use nt::ke::{
    KEVENT, KeBugCheckEx, KeGetCurrentIrql, KeInitializeEvent, KeStallExecutionProcessor,
    KeWaitForSingleObject,
};
use nt::mm::{MmIsAddressValid, MmUnmapIoSpace};
use nt::rtl::{RtlCopyMemory, RtlMoveMemory};

use super::tools::{Shared, bytes, free, keep, zeroed_event};
use crate::driver::wide;

#[link(name = "ntoskrnl.exe", kind = "raw-dylib", modifiers = "+verbatim")]
unsafe extern "system" {
    fn KeFrobnicateProcessor(much: u64) -> u64;
}

super::pairs! {
    "driver-bugcheck": Plain driver_bugcheck, nothing_to_stop_for;
    "page-fault": Plain page_fault, asked_whether_valid;
    "null-pointer": Plain null_pointer, write_to_variable;
    "access-violation": Plain access_violation, asked_whether_valid;
    "write-read-only": Plain write_read_only, write_to_variable;
    "execute-no-execute": Plain execute_no_execute, call_through_pointer;
    "illegal-instruction": Plain illegal_instruction, legal_instructions;
    "privileged-instruction": Plain privileged_instruction, legal_instructions;
    "divide-error": Plain divide_error, legal_instructions;
    "breakpoint": Plain breakpoint, legal_instructions;
    "fast-fail": Plain fast_fail, legal_instructions;
    "stack-overflow": Plain stack_overflow, much_stack;
    "system-call": Plain system_call, call_through_pointer;
    "mdl-mapped-unlocked": Plain mdl_mapped_unlocked, mdl_locked_and_mapped;
    "mdl-unlocked-twice": Plain mdl_unlocked_twice, mdl_locked_and_mapped;
    "mdl-unlock-nonpaged": Plain mdl_unlock_nonpaged, mdl_of_nonpaged_pool;
    "mdl-locked-twice": Plain mdl_locked_twice, mdl_locked_and_mapped;
    "mdl-freed-locked": Plain mdl_freed_locked, mdl_locked_and_mapped;
    "mdl-freed-mapped": Plain mdl_freed_mapped, mdl_of_nonpaged_pool;
    "mdl-of-paged-pool": Plain mdl_of_paged_pool, mdl_of_nonpaged_pool;
    "mdl-map-must-succeed": Plain mdl_map_must_succeed, mdl_locked_and_mapped;
    "mapping-invalid": Plain mapping_invalid, asked_whether_valid;
    "memory-overlap": Plain memory_overlap, moved;
    "string-malformed": Plain string_malformed, string_well_formed;
    "wait-forever": Plain wait_forever, wait_a_moment;
    "hang": Plain hang, busy_a_moment;
    "unknown-import": Plain unknown_import, legal_instructions;
}

#[inline(never)]
unsafe fn driver_bugcheck() {
    unsafe { KeBugCheckEx(0xDEAD, 1, 2, 3, 4) }
}

unsafe fn nothing_to_stop_for() {
    unsafe {
        if KeGetCurrentIrql() > 15 {
            KeBugCheckEx(0xDEAD, 1, 2, 3, 4);
        }
    }
}

const NOWHERE: u64 = 0x7000_0000_0000;

#[inline(never)]
unsafe fn page_fault() {
    unsafe { keep(black_box(NOWHERE as *const u64).read_volatile()) }
}

unsafe fn asked_whether_valid() {
    unsafe { keep(MmIsAddressValid(NOWHERE as *mut _)) }
}

#[inline(never)]
unsafe fn null_pointer() {
    unsafe { black_box(8 as *mut u64).write_volatile(1) }
}

static VARIABLE: Shared<u64> = Shared::new(7);

unsafe fn write_to_variable() {
    VARIABLE.write(8);
}

#[inline(never)]
unsafe fn access_violation() {
    unsafe { keep(black_box(0x8000_0000_0000_0000_u64 as *const u64).read_volatile()) }
}

static CONSTANT: u64 = 7;

#[inline(never)]
unsafe fn write_read_only() {
    unsafe { black_box(&raw const CONSTANT).cast_mut().write_volatile(8) }
}

#[inline(never)]
unsafe fn execute_no_execute() {
    unsafe {
        let block = bytes(64);
        // ret
        block.write_volatile(0xC3);
        asm!("call {}", in(reg) block);
        free(block);
    }
}

unsafe fn call_through_pointer() {
    unsafe {
        keep(black_box(
            KeGetCurrentIrql as unsafe extern "system" fn() -> u8,
        )())
    }
}

#[inline(never)]
unsafe fn illegal_instruction() {
    unsafe { asm!("ud2") }
}

unsafe fn legal_instructions() {
    unsafe {
        asm!("xor edx, edx", "mov eax, 7", "mov ecx, 2", "div ecx", out("eax") _, out("ecx") _, out("edx") _);
        asm!("cpuid", inout("eax") 0 => _, inout("ecx") 0 => _, out("edx") _, out("r8") _,);
    }
}

#[inline(never)]
unsafe fn privileged_instruction() {
    unsafe { asm!("rdmsr", in("ecx") 0x4000_0F00_u32, out("eax") _, out("edx") _) }
}

#[inline(never)]
unsafe fn divide_error() {
    unsafe {
        asm!("xor ecx, ecx", "div ecx", out("rcx") _, inout("rax") 1u64 => _, inout("rdx") 0u64 => _)
    }
}

#[inline(never)]
unsafe fn breakpoint() {
    unsafe { asm!("int3") }
}

#[inline(never)]
unsafe fn fast_fail() {
    unsafe { asm!("int 0x29", in("ecx") 5) }
}

#[inline(never)]
unsafe fn stack_overflow() {
    keep(deeper(u64::MAX));
}

unsafe fn much_stack() {
    keep(deeper(20));
}

#[inline(never)]
fn deeper(levels: u64) -> u64 {
    let frame = black_box([levels; 64]);
    match levels {
        0 => 0,
        levels => deeper(levels - 1) + black_box(frame)[3],
    }
}

#[inline(never)]
unsafe fn system_call() {
    unsafe { asm!("syscall", in("rax") 39, out("rcx") _, out("r11") _, lateout("rax") _) }
}

#[inline(never)]
unsafe fn mapping_invalid() {
    unsafe {
        MmUnmapIoSpace(VARIABLE.get().cast(), 8);
        keep(0);
    }
}

#[inline(never)]
unsafe fn memory_overlap() {
    unsafe {
        let block = bytes(64);
        RtlCopyMemory(block.add(8), block, 16);
        free(block);
    }
}

unsafe fn moved() {
    unsafe {
        let block = bytes(64);
        RtlMoveMemory(block.add(8), block, 16);
        RtlCopyMemory(block.add(16), block, 16);
        free(block);
    }
}

static NAME: [u16; 17] = wide(b"\\DosDevices\\Thing");

fn name(len: u16) -> UNICODE_STRING {
    UNICODE_STRING {
        Length: len,
        MaximumLength: 34,
        Buffer: NAME.as_ptr().cast_mut(),
    }
}

#[inline(never)]
unsafe fn string_malformed() {
    unsafe { keep(IoDeleteSymbolicLink(&name(33))) }
}

unsafe fn string_well_formed() {
    unsafe { keep(IoDeleteSymbolicLink(&name(34))) }
}

unsafe fn wait_for_nothing(timeout: *const i64) {
    unsafe {
        let mut event: KEVENT = zeroed_event();
        KeInitializeEvent(&mut event, 0, 0);
        keep(KeWaitForSingleObject(
            (&raw mut event).cast(),
            0,
            0,
            0,
            timeout,
        ));
    }
}

unsafe fn wait_forever() {
    unsafe { wait_for_nothing(ptr::null()) }
}

unsafe fn wait_a_moment() {
    unsafe { wait_for_nothing(&-10_000) }
}

#[inline(never)]
unsafe fn hang() {
    loop {
        unsafe { asm!("pause") }
    }
}

unsafe fn busy_a_moment() {
    for _ in 0..100 {
        unsafe { KeStallExecutionProcessor(50) }
    }
}

#[inline(never)]
unsafe fn unknown_import() {
    unsafe { keep(KeFrobnicateProcessor(1)) }
}
