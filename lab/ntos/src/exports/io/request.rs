//! Requests that drivers make themselves.

use std::ffi::c_void;
use std::ptr;

use nt::base::KernelMode;
use nt::io::{METHOD_BUFFERED, METHOD_NEITHER};
use nt::irp::{DEVICE_OBJECT, IO_STATUS_BLOCK, IRP, IRP_MJ_READ};
use nt::ke::{DISPATCH_LEVEL, KEVENT};

use crate::guest::{self, get, set};
use crate::irp::Origin;
use crate::machine::Machine;

/// An IOCTL that the driver sends.
pub(in crate::exports) struct Control {
    pub(in crate::exports) code: u32,
    pub(in crate::exports) major: u8,
    pub(in crate::exports) input: *mut c_void,
    pub(in crate::exports) input_len: u32,
    pub(in crate::exports) output: *mut c_void,
    pub(in crate::exports) output_len: u32,
}

impl Machine {
    /// Makes a threaded IRP an IOCTL, with its buffers as the code's method wants them.
    pub(in crate::exports) fn fill_control(&self, irp: *mut IRP, control: &Control) {
        let stack = get!(irp, CurrentStackLocation).wrapping_sub(1);
        set!(stack, MajorFunction = control.major);
        set!(
            stack,
            Parameters.DeviceIoControl.IoControlCode = control.code
        );
        set!(
            stack,
            Parameters.DeviceIoControl.InputBufferLength = control.input_len
        );
        set!(
            stack,
            Parameters.DeviceIoControl.OutputBufferLength = control.output_len
        );
        set!(irp, UserBuffer = control.output);
        let input = control.input as u64;
        match control.code & 3 {
            METHOD_NEITHER => {
                set!(
                    stack,
                    Parameters.DeviceIoControl.Type3InputBuffer = control.input
                );
            }
            METHOD_BUFFERED => {
                let len = control.input_len.max(control.output_len);
                self.buffer_threaded(irp, input, len, control.input_len);
            }
            _ => {
                self.buffer_threaded(irp, input, control.input_len, control.input_len);
                if control.output_len != 0 {
                    let mdl = self.locked_mdl(control.output as u64, control.output_len as usize);
                    set!(irp, MdlAddress = mdl);
                }
            }
        }
    }

    pub(super) fn requestor(&self, irp: *mut IRP) -> u64 {
        self.irp_block(irp);
        let thread = get!(irp, Thread) as u64;
        self.thread_at(thread)
            .map_or(0, |id| self.thread(id).process.get())
    }

    /// An IRP that the I/O manager frees at completion.
    pub(in crate::exports) fn threaded_irp(
        &self,
        device: *mut DEVICE_OBJECT,
        event: *mut KEVENT,
        iosb: *mut IO_STATUS_BLOCK,
    ) -> *mut IRP {
        if self.must_fail() {
            return ptr::null_mut();
        }
        self.build_threaded(device, event, iosb)
    }

    /// As [`Self::threaded_irp`], where the kernel can't do without.
    pub(in crate::exports) fn build_threaded(
        &self,
        device: *mut DEVICE_OBJECT,
        event: *mut KEVENT,
        iosb: *mut IO_STATUS_BLOCK,
    ) -> *mut IRP {
        let irp = self.allocate_irp(get!(device, StackSize), Origin::Threaded, self.call_site());
        if !irp.is_null() {
            set!(irp, RequestorMode = KernelMode);
            set!(irp, UserEvent = event);
            set!(irp, UserIosb = iosb);
            set!(irp, Thread = self.current_thread_object() as *mut c_void);
        }
        irp
    }

    /// A read, write, flush or shutdown IRP, with its buffer as the device wants it.
    #[expect(
        clippy::too_many_arguments,
        reason = "the kernel's own function has them"
    )]
    pub(in crate::exports) fn fsd_request(
        &self,
        major: u32,
        device: *mut DEVICE_OBJECT,
        buffer: *mut c_void,
        length: u32,
        offset: *const i64,
        event: *mut KEVENT,
        iosb: *mut IO_STATUS_BLOCK,
    ) -> *mut IRP {
        let irp = self.threaded_irp(device, event, iosb);
        if irp.is_null() {
            return irp;
        }
        let stack = get!(irp, CurrentStackLocation).wrapping_sub(1);
        set!(stack, MajorFunction = u8::try_from(major).unwrap_or(0));
        set!(stack, Parameters.ReadWrite.Length = length);
        if !offset.is_null() {
            set!(stack, Parameters.ReadWrite.ByteOffset = guest::read(offset));
        }
        set!(irp, UserBuffer = buffer);
        let reads = major == u32::from(IRP_MJ_READ);
        if length != 0 && crate::irp::transfer(device) & nt::io::DO_DIRECT_IO != 0 {
            set!(
                irp,
                MdlAddress = self.locked_mdl(buffer as u64, length as usize)
            );
        } else if crate::irp::transfer(device) & nt::io::DO_BUFFERED_IO != 0 {
            self.buffer_threaded(irp, buffer as u64, length, if reads { 0 } else { length });
        }
        irp
    }

    /// Gives a threaded IRP a system buffer with the caller's input in it.
    pub(in crate::exports) fn buffer_threaded(
        &self,
        irp: *mut IRP,
        input: u64,
        len: u32,
        input_len: u32,
    ) {
        if len == 0 {
            return;
        }
        let data = guest::bytes(input as *const u8, input_len as usize);
        if let Ok(buffer) = self.buffers.borrow_mut().take(&data, len as usize) {
            set!(irp, SystemBuffer = buffer.address as *mut c_void);
            self.resources
                .borrow_mut()
                .threaded_buffers
                .insert(irp as u64, buffer);
        }
    }

    /// Copies what a threaded IRP returned to its caller's buffer.
    pub(crate) fn copy_back(&self, irp: *mut IRP) {
        let mdl = get!(irp, MdlAddress);
        if !mdl.is_null() {
            self.drop_mdl(mdl);
            set!(irp, MdlAddress = ptr::null_mut());
        }
        let Some(buffer) = self
            .resources
            .borrow_mut()
            .threaded_buffers
            .remove(&(irp as u64))
        else {
            return;
        };
        let output = get!(irp, UserBuffer);
        let information = get!(irp, IoStatus.Information).min(buffer.len);
        if !output.is_null() && !get!(irp, IoStatus.Status).is_error() {
            guest::fill(
                output.cast(),
                &guest::bytes(buffer.address as *const u8, information),
            );
        }
        self.buffers.borrow_mut().put(buffer);
    }

    /// Frees the system buffer of an IRP that the driver built and frees itself.
    pub(crate) fn drop_threaded_buffer(&self, irp: *mut IRP) {
        let buffer = self
            .resources
            .borrow_mut()
            .threaded_buffers
            .remove(&(irp as u64));
        if let Some(buffer) = buffer {
            self.buffers.borrow_mut().put(buffer);
        }
    }

    /// Calls a cancel routine as the I/O manager does: cancel lock held, old IRQL in the IRP.
    pub(crate) fn call_with_cancel_lock(&self, irp: *mut IRP, routine: u64, arguments: [u64; 4]) {
        let old = self.raise(DISPATCH_LEVEL);
        self.acquire(self.cancel_lock.as_ptr());
        set!(irp, CancelIrql = old);
        self.call_expecting(routine, arguments, old);
    }
}
