//! What users are told.

use nt::NTSTATUS;
use nt::status::STATUS_SUCCESS;

use super::Request;
use super::tools::{bytes, complete, current, free, keep};

super::pairs! {
    "uninitialized-output": Whole uninitialized_output, output_written;
    "kernel-address-output": Whole kernel_address_output, output_written;
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
