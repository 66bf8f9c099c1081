//! What users are told.

use core::arch::asm;
use core::ffi::c_void;
use core::ptr;

use nt::NTSTATUS;
use nt::status::STATUS_SUCCESS;
use nt::sysinfo::ZwQuerySystemInformation;
use nt::vm::{ZwAllocateVirtualMemory, ZwFreeVirtualMemory};

use super::Request;
use super::tools::{Shared, bytes, complete, current, free, keep};

super::pairs! {
    "uninitialized-output": Whole uninitialized_output, output_written;
    "kernel-address-output": Whole kernel_address_output, output_written;
    "any-access-privileged": Plain any_access_privileged, any_access_privileged;
    "zw-user-address": Plain zw_user_address, zw_kernel_address;
}

unsafe fn output(request: &Request) -> (*mut u8, usize) {
    unsafe {
        let parameters = (*current(request.irp)).Parameters.DeviceIoControl;
        let buffer = (*request.irp).SystemBuffer.cast();
        (buffer, parameters.OutputBufferLength as usize)
    }
}

unsafe fn fill(buffer: *mut u8, len: usize) {
    for index in 0..len {
        unsafe { buffer.add(index).write_volatile(0) };
    }
}

/// All but the four bytes of padding in a structure.
#[inline(never)]
unsafe fn uninitialized_output(request: &Request) -> NTSTATUS {
    unsafe {
        let (buffer, len) = output(request);
        fill(buffer, len - 12);
        fill(buffer.add(len - 8), 8);
        complete(request.irp, STATUS_SUCCESS, len);
        keep(len);
        STATUS_SUCCESS
    }
}

unsafe fn output_written(request: &Request) -> NTSTATUS {
    unsafe {
        let (buffer, len) = output(request);
        fill(buffer, len);
        buffer.cast::<u64>().write_volatile(0x1234_5678_9ABC);
        complete(request.irp, STATUS_SUCCESS, len)
    }
}

#[inline(never)]
unsafe fn kernel_address_output(request: &Request) -> NTSTATUS {
    unsafe {
        let (buffer, len) = output(request);
        fill(buffer, len);
        let block = bytes(16);
        buffer.add(8).cast::<u64>().write_volatile(block as u64);
        free(block);
        complete(request.irp, STATUS_SUCCESS, len);
        keep(len);
        STATUS_SUCCESS
    }
}

/// The same twice: the codes that ask for it differ.
#[inline(never)]
unsafe fn any_access_privileged() {
    unsafe { asm!("out dx, al", in("dx") 0x80_u16, in("al") 0_u8) }
}

/// `NtCurrentProcess`.
const THIS_PROCESS: *mut c_void = usize::MAX as *mut c_void;
/// `SystemBasicInformation`, and its length.
const BASIC: (i32, u32) = (0, 64);
static LEN: Shared<u32> = Shared::new(0);

unsafe fn ask(buffer: *mut c_void) {
    unsafe {
        keep(ZwQuerySystemInformation(
            BASIC.0,
            buffer,
            BASIC.1,
            LEN.get(),
        ))
    }
}

#[inline(never)]
unsafe fn zw_user_address() {
    unsafe {
        let (mut base, mut size) = (ptr::null_mut(), 4096);
        // MEM_COMMIT | MEM_RESERVE, PAGE_READWRITE.
        let status = ZwAllocateVirtualMemory(THIS_PROCESS, &mut base, 0, &mut size, 0x3000, 4);
        if status == STATUS_SUCCESS {
            keep(ZwQuerySystemInformation(BASIC.0, base, BASIC.1, LEN.get()));
            size = 0;
            // MEM_RELEASE.
            keep(ZwFreeVirtualMemory(
                THIS_PROCESS,
                &mut base,
                &mut size,
                0x8000,
            ));
        }
    }
}

unsafe fn zw_kernel_address() {
    unsafe {
        let block = bytes(64);
        ask(block.cast());
        free(block);
    }
}
