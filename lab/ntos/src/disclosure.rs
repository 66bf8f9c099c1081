//! What a driver tells user programs that it should not.
//!
//! The part of a system buffer that a request brings no data for is filled
//! with [`FILL`]. Where four or more bytes of it come back at the place where
//! they were put, within what the driver says it returned, the driver never
//! wrote them. The fill is eight bytes that are all different and all above
//! 0x7F: zeroes, small numbers and text never match four of them. Output
//! that a driver copies from pool it did not fill is told by the eight bytes
//! of the pool's own fill, in their order.
//!
//! An address of the kernel is an aligned word that points to pool, an IRP,
//! a kernel stack or the driver's image.

use lab_verifier::RuleId;
use nt::io::{METHOD_BUFFERED, METHOD_NEITHER};
use nt::irp::{IO_STACK_LOCATION, IRP, IRP_MJ_DEVICE_CONTROL, IRP_MJ_READ};
use nt::mm::MDL_MAPPED_TO_SYSTEM_VA;

use crate::guest::{self, field, get};
use crate::irp::{IrpBlock, first_location, transfer};
use crate::machine::Machine;
use crate::{memory, pool};

/// What unused parts of system buffers are filled with, by offset in the buffer modulo its length.
pub(crate) const FILL: [u8; 8] = [0xCB, 0x9D, 0xE7, 0xB3, 0xF1, 0x8E, 0xD5, 0xAA];
/// Bytes of [`FILL`] in a row that are no accident.
const RUN: usize = 4;
/// Longest output that is looked at.
const MAX: usize = 64 * 1024;

/// What a request returns: where it is, how long it is, and up to where the client itself filled it.
struct Output {
    address: u64,
    len: usize,
    /// `None` where the buffer is the client's own.
    input_len: Option<usize>,
}

impl Machine {
    /// Looks at what a completed request returns to a user program.
    pub(crate) fn check_output(&self, block: *mut IrpBlock) {
        if !self.judges_output {
            return;
        }
        let irp: *mut IRP = field!(block, irp);
        if get!(irp, IoStatus.Status).is_error() || get!(irp, IoStatus.Information) == 0 {
            return;
        }
        let Some(output) = output_of(irp) else { return };
        let bytes = guest::bytes(output.address as *const u8, output.len);
        let from = output.input_len.unwrap_or(0).min(output.len);
        let unwritten = match output.input_len {
            Some(_) => unwritten(&bytes, from),
            None => None,
        };
        let stale =
            unwritten.or_else(|| fresh_pool(&bytes[from..]).map(|(at, len)| (at + from, len)));
        if let Some((at, len)) = stale {
            self.report(
                RuleId::UninitializedOutput,
                [0, irp as u64, at as u64, len as u64],
                format!(
                    "{len} bytes from byte {at} of {} bytes of output were never written",
                    output.len
                ),
            );
        }
        self.check_addresses(irp, &bytes);
    }

    fn check_addresses(&self, irp: *mut IRP, bytes: &[u8]) {
        let words = bytes.chunks_exact(8).map(|word| {
            let mut value = [0; 8];
            value.copy_from_slice(word);
            u64::from_le_bytes(value)
        });
        let found = words
            .enumerate()
            .find_map(|(index, word)| Some((index * 8, word, self.kernel_address(word)?)));
        if let Some((at, address, target)) = found {
            self.report(
                RuleId::KernelAddressOutput,
                [0, irp as u64, at as u64, address],
                format!("the output holds the address {address:#x} at byte {at}: {target}"),
            );
        }
    }

    /// What an address of the kernel points to; `None` if it is none.
    fn kernel_address(&self, address: u64) -> Option<String> {
        if !memory::is_kernel(address) {
            return None;
        }
        if self.pool.borrow().holds(address) {
            return self.describe(address);
        }
        if self.irps.borrow().contains(address) {
            return Some("an IRP".into());
        }
        let stack = self
            .running
            .get()
            .is_some_and(|id| self.on_kernel_stack(id, address));
        if stack {
            return Some("a kernel stack".into());
        }
        self.describe(address)
    }
}

fn output_of(irp: *mut IRP) -> Option<Output> {
    let stack: *mut IO_STACK_LOCATION = first_location(irp);
    let information = get!(irp, IoStatus.Information);
    let (system, limit, input_len) = match get!(stack, MajorFunction) {
        IRP_MJ_DEVICE_CONTROL => {
            let parameters = get!(stack, Parameters.DeviceIoControl);
            let method = parameters.IoControlCode & 3;
            if method == METHOD_NEITHER {
                return None;
            }
            (
                method == METHOD_BUFFERED,
                parameters.OutputBufferLength,
                parameters.InputBufferLength,
            )
        }
        IRP_MJ_READ => {
            let buffered = transfer(get!(stack, DeviceObject)) & nt::io::DO_BUFFERED_IO != 0;
            (buffered, get!(stack, Parameters.ReadWrite.Length), 0)
        }
        _ => return None,
    };
    let len = information.min(limit as usize).min(MAX);
    let (address, input_len) = if system {
        (get!(irp, SystemBuffer) as u64, Some(input_len as usize))
    } else {
        // A driver writes to it where it mapped it.
        let mdl = get!(irp, MdlAddress);
        if mdl.is_null() || get!(mdl, MdlFlags) & MDL_MAPPED_TO_SYSTEM_VA == 0 {
            return None;
        }
        (get!(mdl, MappedSystemVa) as u64, None)
    };
    (address != 0 && len != 0).then_some(Output {
        address,
        len,
        input_len,
    })
}

/// The longest run of bytes that still are the buffer's fill: where, and how many.
fn unwritten(bytes: &[u8], from: usize) -> Option<(usize, usize)> {
    let found = longest(
        &bytes[from..],
        from,
        |at, byte| byte == FILL[at % FILL.len()],
        RUN,
    )?;
    Some((found.0 + from, found.1))
}

/// Bytes of new pool: where, and how many.
fn fresh_pool(bytes: &[u8]) -> Option<(usize, usize)> {
    let is_fresh = |window: &[u8]| window == pool::FRESH;
    let at = bytes.windows(pool::FRESH.len()).position(is_fresh)?;
    let fill = pool::FRESH.iter().cycle();
    let len = bytes[at..]
        .iter()
        .zip(fill)
        .take_while(|(byte, fill)| byte == fill);
    Some((at, len.count()))
}

/// The longest run, of at least `least`, of bytes for which `is_fill` holds.
fn longest(
    bytes: &[u8],
    offset: usize,
    is_fill: impl Fn(usize, u8) -> bool,
    least: usize,
) -> Option<(usize, usize)> {
    let (mut best, mut run) = ((0, 0), 0);
    for (at, byte) in bytes.iter().enumerate() {
        run = if is_fill(at + offset, *byte) {
            run + 1
        } else {
            0
        };
        if run > best.1 {
            best = (at + 1 - run, run);
        }
    }
    (best.1 >= least).then_some(best)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(len: usize) -> Vec<u8> {
        (0..len).map(|at| FILL[at % 8]).collect()
    }

    #[test]
    fn bytes_that_nobody_wrote_are_found_where_they_are() {
        let mut bytes = filled(32);
        bytes[..12].fill(0);
        bytes[16..].fill(0);
        assert_eq!(
            unwritten(&bytes, 0),
            Some((12, 4)),
            "padding in a structure"
        );
        assert_eq!(
            unwritten(&bytes, 13),
            None,
            "three bytes may be an accident"
        );
    }

    #[test]
    fn what_the_client_sent_and_what_moved_is_not_unwritten() {
        let bytes = filled(16);
        assert_eq!(unwritten(&bytes, 16), None);
        let moved: Vec<u8> = filled(17)[1..].to_vec();
        assert_eq!(unwritten(&moved, 0), None);
    }
}
