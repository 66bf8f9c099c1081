//! Pool.

use core::hint::black_box;

use nt::ex::{
    ExAllocatePoolWithTag, ExFreePool, ExFreePoolWithTag, NonPagedPool, NonPagedPoolNx, PagedPool,
};
use nt::ke::{APC_LEVEL, DISPATCH_LEVEL, KeLowerIrql, KfRaiseIrql};
use nt::mm::{MmAllocateContiguousMemory, MmFreeContiguousMemory};

use super::tools::{TAG, bytes, free, keep, paged};

super::pairs! {
    "pool-overrun": Plain pool_overrun, last_byte;
    "pool-use-after-free": Plain pool_use_after_free, use_before_free;
    "pool-corruption": Plain pool_corruption, last_byte_of_an_odd_length;
    "pool-corruption-before": Plain pool_corruption_before, first_byte;
    "pool-double-free": Plain pool_double_free, two_blocks_freed;
    "pool-bad-free": Plain pool_bad_free, freed_by_its_address;
    "pool-wrong-tag": Plain pool_wrong_tag, freed_without_a_tag;
    "pool-wrong-function": Plain pool_wrong_function, each_its_function;
    "pool-zero-bytes": Plain pool_zero_bytes, one_byte;
    "pool-tag-zero": Plain pool_tag_zero, tag_one;
    "pool-executable": Plain pool_executable, not_executable;
    "pool-irql": Plain pool_irql, paged_at_apc_level;
    "pool-irql-nonpaged": Plain pool_irql_nonpaged, nonpaged_at_dispatch;
    "pool-free-irql": Plain pool_free_irql, paged_freed_at_apc_level;
    "pool-free-irql-nonpaged": Plain pool_free_irql_nonpaged, nonpaged_freed_at_dispatch;
    "pool-leak": Plain pool_leak, one_byte;
}

/// Above any level that code of a driver without interrupts comes to.
const DEVICE_LEVEL: u8 = 5;

#[inline(never)]
unsafe fn pool_overrun() {
    unsafe { bytes(64).add(64).write_volatile(1) }
}

unsafe fn last_byte() {
    unsafe {
        let block = bytes(64);
        block.add(63).write_volatile(1);
        free(block);
    }
}

#[inline(never)]
unsafe fn pool_use_after_free() {
    unsafe {
        let block = bytes(64);
        free(block);
        keep(block.read_volatile());
    }
}

unsafe fn use_before_free() {
    unsafe {
        let block = bytes(64);
        keep(block.read_volatile());
        free(block);
    }
}

#[inline(never)]
unsafe fn pool_corruption() {
    unsafe {
        let block = bytes(20);
        block.add(21).write_volatile(1);
        free(block);
    }
}

unsafe fn last_byte_of_an_odd_length() {
    unsafe {
        let block = bytes(21);
        block.add(20).write_volatile(1);
        free(block);
    }
}

#[inline(never)]
unsafe fn pool_corruption_before() {
    unsafe {
        let block = bytes(64);
        black_box(block.sub(1)).write_volatile(1);
        free(block);
    }
}

unsafe fn first_byte() {
    unsafe {
        let block = bytes(64);
        block.write_volatile(1);
        free(block);
    }
}

#[inline(never)]
unsafe fn pool_double_free() {
    unsafe {
        let block = bytes(64);
        free(block);
        free(block);
    }
}

unsafe fn two_blocks_freed() {
    unsafe {
        free(bytes(64));
        free(bytes(64));
    }
}

#[inline(never)]
unsafe fn pool_bad_free() {
    unsafe {
        let block = bytes(64);
        free(block.add(16));
        free(block);
    }
}

unsafe fn freed_by_its_address() {
    unsafe { free(bytes(64).add(16).sub(16)) }
}

#[inline(never)]
unsafe fn pool_wrong_tag() {
    unsafe {
        ExFreePoolWithTag(bytes(32).cast(), TAG + 1);
        keep(0);
    }
}

unsafe fn freed_without_a_tag() {
    unsafe { ExFreePool(bytes(32).cast()) }
}

#[inline(never)]
unsafe fn pool_wrong_function() {
    unsafe {
        let memory = MmAllocateContiguousMemory(4096, i64::MAX);
        ExFreePool(memory);
        keep(memory);
    }
}

unsafe fn each_its_function() {
    unsafe {
        MmFreeContiguousMemory(MmAllocateContiguousMemory(4096, i64::MAX));
        free(bytes(4096));
    }
}

#[inline(never)]
unsafe fn pool_zero_bytes() {
    unsafe { free(ExAllocatePoolWithTag(NonPagedPoolNx, 0, TAG)) }
}

unsafe fn one_byte() {
    unsafe { free(ExAllocatePoolWithTag(NonPagedPoolNx, 1, TAG)) }
}

#[inline(never)]
unsafe fn pool_tag_zero() {
    unsafe {
        let block = ExAllocatePoolWithTag(NonPagedPoolNx, 16, 0);
        ExFreePool(block);
        keep(block);
    }
}

unsafe fn tag_one() {
    unsafe { ExFreePool(ExAllocatePoolWithTag(NonPagedPoolNx, 16, 1)) }
}

#[inline(never)]
unsafe fn pool_executable() {
    unsafe { free(ExAllocatePoolWithTag(NonPagedPool, 16, TAG)) }
}

unsafe fn not_executable() {
    unsafe {
        free(ExAllocatePoolWithTag(NonPagedPoolNx, 16, TAG));
        free(ExAllocatePoolWithTag(PagedPool, 16, TAG));
    }
}

/// Allocates at one IRQL and frees at another.
#[inline(always)]
unsafe fn at(allocate: u8, release: u8, allocator: unsafe fn(usize) -> *mut u8) {
    unsafe {
        let old = KfRaiseIrql(allocate);
        let block = allocator(16);
        KeLowerIrql(old);
        let old = KfRaiseIrql(release);
        free(block);
        KeLowerIrql(old);
        keep(old);
    }
}

/// Does not touch it: paged pool at `DISPATCH_LEVEL` is no place to write to.
unsafe fn untouched(len: usize) -> *mut u8 {
    unsafe { ExAllocatePoolWithTag(NonPagedPoolNx, len, TAG).cast() }
}

#[inline(never)]
unsafe fn pool_irql() {
    unsafe { at(DISPATCH_LEVEL, 0, paged) }
}

unsafe fn paged_at_apc_level() {
    unsafe { at(APC_LEVEL, 0, paged) }
}

#[inline(never)]
unsafe fn pool_irql_nonpaged() {
    unsafe { at(DEVICE_LEVEL, 0, untouched) }
}

unsafe fn nonpaged_at_dispatch() {
    unsafe { at(DISPATCH_LEVEL, 0, untouched) }
}

#[inline(never)]
unsafe fn pool_free_irql() {
    unsafe { at(0, DISPATCH_LEVEL, paged) }
}

unsafe fn paged_freed_at_apc_level() {
    unsafe { at(0, APC_LEVEL, paged) }
}

#[inline(never)]
unsafe fn pool_free_irql_nonpaged() {
    unsafe { at(0, DEVICE_LEVEL, untouched) }
}

unsafe fn nonpaged_freed_at_dispatch() {
    unsafe { at(0, DISPATCH_LEVEL, untouched) }
}

#[inline(never)]
unsafe fn pool_leak() {
    unsafe { keep(bytes(100)) }
}
