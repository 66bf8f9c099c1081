//! `DeviceIoControl`.

use nt::NTSTATUS;
use nt::io::{METHOD_BUFFERED, METHOD_NEITHER};
use nt::irp::{IO_STACK_LOCATION, IRP, IRP_MJ_DEVICE_CONTROL};
use nt::status::{STATUS_INSUFFICIENT_RESOURCES, STATUS_INVALID_PARAMETER};

use super::{Ask, Completion, FileId, Request};
use crate::buffers::Buffer;
use crate::findings::Stopped;
use crate::guest::set;
use crate::machine::Machine;

/// Where a program says its buffers are: any numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct UserAddresses {
    /// `Type3InputBuffer`.
    pub input: u64,
    /// Bytes of input.
    pub input_len: u32,
    /// `UserBuffer`.
    pub output: u64,
    /// Bytes of output.
    pub output_len: u32,
}

impl Machine {
    /// `DeviceIoControl`, to its end. Output is copied as the I/O manager does: not for an error.
    pub fn ioctl(
        &self,
        file: FileId,
        code: u32,
        input: &[u8],
        output: &mut [u8],
    ) -> Result<Completion, Stopped> {
        match self.begin_ioctl(file, code, input, output.len())? {
            Ok(request) => self.wait_for(request, output),
            Err(status) => Ok(Completion {
                status,
                information: 0,
            }),
        }
    }

    /// `DeviceIoControl` of a `METHOD_NEITHER` code with any addresses for buffers, as a hostile
    /// program can give them. Nothing is copied in or out.
    ///
    /// Gives `STATUS_INVALID_PARAMETER` for a code of another method: there, the I/O manager itself
    /// refuses bad addresses.
    pub fn ioctl_at(
        &self,
        file: FileId,
        code: u32,
        addresses: UserAddresses,
    ) -> Result<Completion, Stopped> {
        self.check_running()?;
        let begun = if code & 3 == METHOD_NEITHER {
            self.check_access(file, code >> 14 & 3)
                .and_then(|()| self.begin_at(file, code, addresses, None, None, 0))
        } else {
            Err(STATUS_INVALID_PARAMETER)
        };
        match begun {
            Ok(request) => self.wait_for(request, &mut []),
            Err(status) => Ok(Completion {
                status,
                information: 0,
            }),
        }
    }

    /// Starts a `DeviceIoControl`; see [`Self::poll`] and [`Self::finish`].
    #[inline]
    pub fn begin_ioctl(
        &self,
        file: FileId,
        code: u32,
        input: &[u8],
        output_len: usize,
    ) -> Result<Result<Request, NTSTATUS>, Stopped> {
        self.check_running()?;
        if let Err(status) = self.check_access(file, code >> 14 & 3) {
            return Ok(Err(status));
        }
        let Some((first, second)) = self.ioctl_buffers(code, input, output_len) else {
            return Ok(Err(STATUS_INSUFFICIENT_RESOURCES));
        };
        let at = |buffer: Option<Buffer>| buffer.map_or(0, |buffer| buffer.address);
        let len = |len: usize| u32::try_from(len).unwrap_or(u32::MAX);
        let addresses = UserAddresses {
            input: at(first),
            input_len: len(input.len()),
            output: at(second),
            output_len: len(output_len),
        };
        Ok(self.begin_at(file, code, addresses, first, second, output_len))
    }

    #[inline]
    fn begin_at(
        &self,
        file: FileId,
        code: u32,
        addresses: UserAddresses,
        buffer: Option<Buffer>,
        output: Option<Buffer>,
        output_len: usize,
    ) -> Result<Request, NTSTATUS> {
        let neither = code & 3 == METHOD_NEITHER;
        let fill = move |stack: *mut IO_STACK_LOCATION, irp: *mut IRP| {
            let UserAddresses {
                input,
                input_len,
                output,
                output_len,
            } = addresses;
            set!(stack, Parameters.DeviceIoControl.IoControlCode = code);
            set!(
                stack,
                Parameters.DeviceIoControl.InputBufferLength = input_len
            );
            set!(
                stack,
                Parameters.DeviceIoControl.OutputBufferLength = output_len
            );
            if neither {
                set!(
                    stack,
                    Parameters.DeviceIoControl.Type3InputBuffer = input as *mut _
                );
                set!(irp, UserBuffer = output as *mut _);
            }
        };
        let ask = Ask {
            major: IRP_MJ_DEVICE_CONTROL,
            fill: &fill,
            buffer,
            output,
            output_len,
        };
        self.begin(file, ask, neither)
    }

    /// The buffers of an IOCTL by its method: system or input, and output.
    #[inline]
    fn ioctl_buffers(
        &self,
        code: u32,
        input: &[u8],
        output_len: usize,
    ) -> Option<(Option<Buffer>, Option<Buffer>)> {
        let method = code & 3;
        let take = |data, len| {
            if method == METHOD_NEITHER {
                self.take_user_buffer(data, len)
            } else {
                self.buffers.borrow_mut().take(data, len)
            }
        };
        let first_len = if method == METHOD_BUFFERED {
            input.len().max(output_len)
        } else {
            input.len()
        };
        let first = (first_len != 0).then(|| take(input, first_len));
        let separate = method != METHOD_BUFFERED && output_len != 0;
        let second = separate.then(|| take(&[], output_len));
        Some((first.transpose().ok()?, second.transpose().ok()?))
    }
}
