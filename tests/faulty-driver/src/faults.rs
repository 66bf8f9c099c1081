//! The faults, each in a function of its own so that the report can name it.
#![expect(
    unsafe_code,
    reason = "a driver without the safe API, because it has to break rules"
)]
#![expect(
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    reason = "nothing here is safe: the lab is there to catch it"
)]

use core::arch::asm;
use core::hint::black_box;
use core::ptr;

use faulty_driver::Fault;
use nt::ex::{ExAllocatePoolWithTag, ExFreePoolWithTag, NonPagedPoolNx};
use nt::ke::{
    KEVENT, KTIMER, KeAcquireSpinLockRaiseToDpc, KeBugCheckEx, KeInitializeEvent,
    KeInitializeTimer, KeLowerIrql, KeRaiseIrqlToDpcLevel, KeReleaseSpinLock, KeSetEvent,
    KeSetTimer, KeWaitForSingleObject,
};

#[link(name = "ntoskrnl.exe", kind = "raw-dylib", modifiers = "+verbatim")]
unsafe extern "system" {
    fn KeFrobnicateProcessor(much: u64) -> u64;
}

const TAG: u32 = u32::from_le_bytes(*b"Flty");

unsafe fn pool(bytes: usize) -> *mut u8 {
    unsafe { ExAllocatePoolWithTag(NonPagedPoolNx, bytes, TAG).cast() }
}

/// Uses a value as far as the compiler can tell.
fn keep<T>(value: T) {
    let _ = black_box(value);
}

/// Does what was asked.
pub(crate) unsafe fn commit(fault: Fault, argument: u64) {
    unsafe {
        match fault {
            Fault::NullWrite => null_write(),
            Fault::WildRead => wild_read(),
            Fault::CallNull => call_null(),
            Fault::DivideByZero => divide_by_zero(),
            Fault::StackOverflow => {
                overflow_the_stack(argument);
            }
            Fault::Breakpoint => asm!("int3"),
            Fault::WriteToConstant => write_to_constant(),
            Fault::PoolOverrun => pool_overrun(),
            Fault::PoolUseAfterFree => pool_use_after_free(),
            Fault::PoolDoubleFree => pool_double_free(),
            Fault::PoolWrongTag => ExFreePoolWithTag(pool(32).cast(), TAG + 1),
            Fault::PoolSlop => pool_slop(),
            Fault::BadFree => ExFreePoolWithTag(0x1234_5678 as *mut _, TAG),
            Fault::ZeroBytes => keep(pool(0)),
            Fault::RecursiveSpinLock => recursive_spin_lock(),
            Fault::UnownedSpinLock => unowned_spin_lock(),
            Fault::IrqlLeftRaised => keep(KeRaiseIrqlToDpcLevel()),
            Fault::LowerAbove => KeLowerIrql(2),
            Fault::WrongIrqlForApi => wrong_irql_for_api(),
            Fault::WaitAtDispatch => wait(true),
            Fault::WaitForever => wait(false),
            Fault::BadMsr => keep(read_msr(0x4000_0F00)),
            Fault::FastFail => asm!("int 0x29", in("ecx") 5),
            Fault::BugCheck => KeBugCheckEx(0xDEAD, 1, 2, 3, 4),
            Fault::LeakPool => keep(pool(100)),
            Fault::LeakTimer => keep(timer_in_pool()),
            Fault::UnknownImport => keep(KeFrobnicateProcessor(1)),
            Fault::FreeQueuedTimer => ExFreePoolWithTag(timer_in_pool().cast(), TAG),
            Fault::BadPointerToKernel => keep(KeSetEvent(0x10 as *mut KEVENT, 0, 0)),
            Fault::SystemCall => {
                asm!("syscall", in("rax") 39, out("rcx") _, out("r11") _, lateout("rax") _)
            }
            Fault::Work => work(),
            Fault::ReadCounter => keep(read_counter(argument)),
            Fault::Spin => loop {
                asm!("pause");
            },
            Fault::Echo
            | Fault::CompleteTwice
            | Fault::NotCompleted
            | Fault::PendsForever
            | Fault::PendsUntilCancelled
            | Fault::TooMuchInformation => {}
        }
    }
    // Else the last call would be a jump, and this function gone from the stack.
    keep(argument);
}

#[inline(never)]
unsafe fn null_write() {
    unsafe { black_box(8 as *mut u64).write_volatile(1) }
}

#[inline(never)]
unsafe fn wild_read() {
    unsafe {
        let _ = black_box(black_box(0x7000_0000_0000 as *const u64).read_volatile());
    }
}

#[inline(never)]
unsafe fn call_null() {
    unsafe { asm!("xor eax, eax", "call rax", out("rax") _) }
}

#[inline(never)]
unsafe fn divide_by_zero() {
    unsafe {
        asm!("xor ecx, ecx", "div ecx", out("rcx") _, inout("rax") 1u64 => _, inout("rdx") 0u64 => _)
    }
}

#[inline(never)]
#[expect(unconditional_recursion, reason = "that is the fault")]
fn overflow_the_stack(depth: u64) -> u64 {
    let frame = black_box([depth; 64]);
    overflow_the_stack(depth + 1) + black_box(frame)[3]
}

static CONSTANT: u64 = 7;

#[inline(never)]
unsafe fn write_to_constant() {
    unsafe { black_box(&raw const CONSTANT).cast_mut().write_volatile(8) }
}

#[inline(never)]
unsafe fn pool_overrun() {
    unsafe { pool(64).add(64).write_volatile(1) }
}

#[inline(never)]
unsafe fn pool_use_after_free() {
    unsafe {
        let block = pool(64);
        ExFreePoolWithTag(block.cast(), TAG);
        let _ = black_box(block.read_volatile());
    }
}

#[inline(never)]
unsafe fn pool_double_free() {
    unsafe {
        let block = pool(64);
        ExFreePoolWithTag(block.cast(), TAG);
        ExFreePoolWithTag(block.cast(), TAG);
        // Else the second call would be a jump, and this function gone from the stack.
        keep(block);
    }
}

#[inline(never)]
unsafe fn pool_slop() {
    unsafe {
        let block = pool(20);
        block.add(21).write_volatile(1);
        ExFreePoolWithTag(block.cast(), TAG);
        keep(block);
    }
}

#[inline(never)]
unsafe fn recursive_spin_lock() {
    let mut lock = 0;
    unsafe {
        KeAcquireSpinLockRaiseToDpc(&mut lock);
        KeAcquireSpinLockRaiseToDpc(&mut lock);
    }
}

#[inline(never)]
unsafe fn unowned_spin_lock() {
    let mut lock = 0;
    unsafe {
        let old = KeRaiseIrqlToDpcLevel();
        KeReleaseSpinLock(&mut lock, old);
    }
}

#[inline(never)]
unsafe fn wrong_irql_for_api() {
    unsafe {
        KeRaiseIrqlToDpcLevel();
        keep(nt::zw::ZwClose(ptr::null_mut()));
    }
}

#[inline(never)]
unsafe fn wait(at_dispatch: bool) {
    unsafe {
        let mut event = core::mem::zeroed::<KEVENT>();
        KeInitializeEvent(&mut event, 0, 0);
        if at_dispatch {
            KeRaiseIrqlToDpcLevel();
        }
        KeWaitForSingleObject((&raw mut event).cast(), 0, 0, 0, ptr::null());
    }
}

#[inline(never)]
unsafe fn timer_in_pool() -> *mut KTIMER {
    unsafe {
        let timer = pool(size_of::<KTIMER>()).cast::<KTIMER>();
        KeInitializeTimer(timer);
        KeSetTimer(timer, -10_000_000, ptr::null_mut());
        timer
    }
}

#[inline(never)]
unsafe fn read_msr(register: u32) -> u64 {
    let (low, high): (u32, u32);
    unsafe { asm!("rdmsr", in("ecx") register, out("eax") low, out("edx") high) };
    u64::from(low) | u64::from(high) << 32
}

/// Reads general counter 0 so many times, in a form that the lab can patch.
#[inline(never)]
unsafe fn read_counter(times: u64) -> u64 {
    let mut sum = 0u64;
    for _ in 0..times {
        let value: u64;
        unsafe {
            asm!("rdpmc", "shl rdx, 32", "or rax, rdx", in("ecx") 0, out("rax") value, out("rdx") _, options(nomem, nostack))
        };
        sum = sum.wrapping_add(value);
    }
    sum
}

/// Takes, uses and gives back pool and a lock, eight times.
#[inline(never)]
unsafe fn work() {
    let mut lock = 0;
    for size in (64..).step_by(64).take(8) {
        unsafe {
            let block = pool(size);
            if block.is_null() {
                return;
            }
            let old = KeAcquireSpinLockRaiseToDpc(&mut lock);
            ptr::write_bytes(block, 1, size);
            KeReleaseSpinLock(&mut lock, old);
            ExFreePoolWithTag(block.cast(), TAG);
        }
    }
}
