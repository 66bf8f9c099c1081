//! Events of every kind that there is, for a recorder and a session of ETW.

use super::{File, TAG, TestDriver};
use core::sync::atomic::Ordering;
use kernel::Result;
use kernel::irp::Buffer;
use kernel::status::STATUS_INVALID_PARAMETER;
use kernel::tracing::Recorder;
use trace::format::Level;
use trace::{
    ControlCode, Flag, Guid, Hex, Irp, NTSTATUS, Pointer, ScsiStatus, Srb, cold, cold_error,
    cold_scope,
};

const KINDS: Flag = Flag::new(0, "KINDS");
const OTHER: Flag = Flag::new(7, "OTHER");

trace::names! {
    /// Names that become a list, with a gap.
    Listed { 0 => "none", 1 => "one", 3 => "three parts" }
}
trace::names! {
    /// Names that cannot.
    Sparse { 0 => "zero", 0x1000 => "far, far away", 0xFFFF_FFFF_FFFF => "a name of sixty-four letters, of which each is sent, to the last" }
}

/// Slots of a ring.
const SLOTS: usize = 128;

/// Makes another recorder, with a relay, unless that has been done.
pub(super) fn record(driver: &TestDriver, _: &File, _: &mut Buffer<'_>) -> Result<()> {
    let mut place = driver.recorder.lock();
    if !driver.is_relayed.swap(true, Ordering::Relaxed) {
        // There is one at a time.
        *place = None;
        let mut recorder = Recorder::try_new(TAG, SLOTS)?;
        recorder.relay(
            TAG,
            trace::provider!("KernelTest", "0b6f2b52-7f0e-4d0a-8a43-9d1d3c3f51aa"),
        );
        recorder.select(Level::Verbose, u32::MAX);
        *place = Some(recorder);
    }
    Ok(())
}

/// Events of every kind, made of a number and of bytes.
pub(super) fn kinds(_: &TestDriver, _: &File, buffer: &mut Buffer<'_>) -> Result<()> {
    let Some((number, bytes)) = buffer.input().split_first_chunk() else {
        return Err(STATUS_INVALID_PARAMETER);
    };
    let word = u64::from_le_bytes(*number);
    let [b0, b1, b2, b3, ..] = *number;
    let (byte, half) = (b0, u16::from_le_bytes([b0, b1]));
    let low = u32::from_le_bytes([b0, b1, b2, b3]);
    let signed = i64::from_le_bytes(*number);
    let text = core::str::from_utf8(bytes).unwrap_or("no UTF-8");
    let somewhere: *const u8 = bytes.as_ptr();
    cold!(Information, KINDS, "unsigned", byte: u8 = byte, half: u16 = half, low: u32 = low, word: u64 = word, size: usize = bytes.len());
    cold!(Information, KINDS, "signed 100 %", byte: i8 = byte.cast_signed(), half: i16 = half.cast_signed(), low: i32 = low.cast_signed(), word: i64 = signed);
    cold!(Warning, KINDS, "hexadecimal", word: Hex = Hex(word), code: ControlCode = ControlCode(low), is_odd: bool = byte & 1 == 1);
    cold!(Verbose, OTHER, "hidden", pointer: Pointer = somewhere.into(), irp: Irp = somewhere.into(), srb: Srb = somewhere.into());
    cold_error!(OTHER, "statuses", known: NTSTATUS = STATUS_INVALID_PARAMETER, any: NTSTATUS = NTSTATUS::from_u32(low), scsi: ScsiStatus = ScsiStatus(byte & 0x3F));
    cold!(Critical, KINDS, "names", listed: Listed = Listed(word & 3), far: Sparse = Sparse(word & 0x1000), any: Sparse = Sparse(word), long: Sparse = Sparse(0xFFFF_FFFF_FFFF));
    let mut guid = [byte; 16];
    if let Some(start) = guid.first_chunk_mut() {
        *start = *number;
    }
    cold!(Information, KINDS, "guid", before: u8 = byte, guid: Guid = Guid(guid), after: u16 = half);
    cold!(Information, KINDS, "text", text: &str = text, bytes: &[u8] = bytes, after: u32 = low);
    cold!(Information, KINDS, "bytes", before: bool = byte & 2 == 2, first: &[u8] = bytes, second: &[u8] = number, text: &str = "");
    cold_scope!(KINDS, number: u64 = word);
    Ok(())
}
