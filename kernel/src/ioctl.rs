//! Device controls by table: what a code expects is checked before its routine runs.

use crate::driver::Driver;
use crate::irp::Buffer;
use crate::{Result, status};

/// One device control of a driver.
pub struct Call<D: Driver> {
    /// Its code: [`buffered`].
    pub code: u32,
    /// Length of its input, exactly.
    pub input_bytes: usize,
    /// Length of its output, at least.
    pub output_bytes: usize,
    /// What it does. IRQL: `PASSIVE_LEVEL`.
    pub run: fn(&D, &D::File, &mut Buffer<'_>) -> Result<()>,
}

/// Who may send a device control, by the access a handle was opened with (devioctl.h).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequiredAccess {
    /// Every handle.
    Any,
    /// One that may read.
    Read,
    /// One that may write.
    Write,
}

/// The code of a buffered device control; functions of drivers begin at 0x800.
///
/// IRQL: any.
/// Source: `CTL_CODE`, devioctl.h.
#[must_use]
pub const fn buffered(function: u16, access: RequiredAccess) -> u32 {
    use nt::io;
    let access = match access {
        RequiredAccess::Any => io::FILE_ANY_ACCESS,
        RequiredAccess::Read => io::FILE_READ_DATA,
        RequiredAccess::Write => io::FILE_WRITE_DATA,
    };
    // The field has 12 bits.
    let function = function as u32 & 0xFFF;
    io::ctl_code(
        io::FILE_DEVICE_UNKNOWN,
        function,
        io::METHOD_BUFFERED,
        access,
    )
}

/// Finds the call in the table, checks its lengths, and runs it.
///
/// IRQL: `PASSIVE_LEVEL`.
/// Errors: `STATUS_INVALID_DEVICE_REQUEST` for a code that is not in the table,
/// `STATUS_INFO_LENGTH_MISMATCH` for another length of input, `STATUS_BUFFER_TOO_SMALL` for too
/// little room; or what the call says.
pub fn dispatch<D: Driver>(
    table: &[Call<D>],
    driver: &D,
    file: &D::File,
    code: u32,
    buffer: &mut Buffer<'_>,
) -> Result<()> {
    let call = table
        .iter()
        .find(|call| call.code == code)
        .ok_or(status::STATUS_INVALID_DEVICE_REQUEST)?;
    if buffer.input().len() != call.input_bytes {
        return Err(status::STATUS_INFO_LENGTH_MISMATCH);
    }
    buffer.check_room(call.output_bytes)?;
    (call.run)(driver, file, buffer)
}
