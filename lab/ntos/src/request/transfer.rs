//! Reading and writing.

use nt::io::{DO_BUFFERED_IO, DO_DIRECT_IO};
use nt::irp::{IO_STACK_LOCATION, IRP, IRP_MJ_READ, IRP_MJ_WRITE};
use nt::status::STATUS_INSUFFICIENT_RESOURCES;

use super::{Ask, Completion, FileId};
use crate::findings::Stopped;
use crate::guest::{get, set};
use crate::irp::transfer;
use crate::machine::Machine;

impl Machine {
    /// Reads from a device.
    pub fn read(
        &self,
        file: FileId,
        offset: u64,
        output: &mut [u8],
    ) -> Result<Completion, Stopped> {
        self.transfer(file, IRP_MJ_READ, offset, &[], output)
    }

    /// Writes to a device.
    pub fn write(&self, file: FileId, offset: u64, data: &[u8]) -> Result<Completion, Stopped> {
        self.transfer(file, IRP_MJ_WRITE, offset, data, &mut [])
    }

    fn transfer(
        &self,
        file: FileId,
        major: u8,
        offset: u64,
        data: &[u8],
        output: &mut [u8],
    ) -> Result<Completion, Stopped> {
        self.check_running()?;
        let needed = if major == IRP_MJ_READ { 1 } else { 2 };
        if let Err(status) = self.check_access(file, needed) {
            return Ok(Completion {
                status,
                information: 0,
            });
        }
        let len = data.len().max(output.len());
        let device = match self.file_object(file) {
            // As the top of the stack wants them, which gets the request.
            Ok(object) => self.top_of_stack(get!(object, DeviceObject)),
            Err(status) => {
                return Ok(Completion {
                    status,
                    information: 0,
                });
            }
        };
        let method = transfer(device);
        let neither = method & (DO_BUFFERED_IO | DO_DIRECT_IO) == 0;
        let taken = if neither {
            self.take_user_buffer(data, len)
        } else {
            self.buffers.borrow_mut().take(data, len)
        };
        let Ok(buffer) = taken else {
            return Ok(Completion {
                status: STATUS_INSUFFICIENT_RESOURCES,
                information: 0,
            });
        };
        let buffer = (len != 0).then_some(buffer);
        let fill = |stack: *mut IO_STACK_LOCATION, irp: *mut IRP| {
            set!(
                stack,
                Parameters.ReadWrite.Length = u32::try_from(len).unwrap_or(u32::MAX)
            );
            set!(
                stack,
                Parameters.ReadWrite.ByteOffset = offset.cast_signed()
            );
            if neither {
                set!(
                    irp,
                    UserBuffer = buffer.map_or(0, |buffer| buffer.address) as *mut _
                );
            }
        };
        let buffered = method & DO_BUFFERED_IO != 0;
        let (system, user) = if buffered {
            (buffer, None)
        } else {
            (None, buffer)
        };
        let ask = Ask {
            major,
            fill: &fill,
            buffer: system,
            output: user,
            output_len: output.len(),
        };
        match self.begin(file, ask, neither) {
            Ok(request) => self.wait_for(request, output),
            Err(status) => Ok(Completion {
                status,
                information: 0,
            }),
        }
    }
}
