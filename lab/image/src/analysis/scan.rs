//! Byte patterns that make a function worth decoding.
//!
//! A pattern may match in the middle of an instruction; that costs a decoding, never a wrong answer. What matters is
//! that no instruction that mapping must change is without its pattern.

use core::ops::Range;

/// Second bytes, after 0x0F, of the instructions that mapping changes.
///
/// 00 sldt str · 01 sgdt sidt smsw vmcall vmmcall · 05 syscall · 20 22 mov cr8 · 30 32 33 wrmsr rdmsr rdpmc ·
/// 34 sysenter · A2 cpuid · AE wrfsbase wrgsbase. Source: AMD64 APM volume 3, appendix A, "Secondary Opcode Map".
const SECOND: [u8; 11] = [
    0x00, 0x01, 0x05, 0x20, 0x22, 0x30, 0x32, 0x33, 0x34, 0xa2, 0xae,
];

/// Offsets in `code` at which an instruction of interest may be, ascending.
///
/// The offset of a two-byte opcode is that of its 0x0F; prefixes come before it.
pub(super) fn candidates(code: &[u8]) -> Vec<u32> {
    let mut found = Vec::new();
    for at in memchr::memchr_iter(0x0f, code) {
        if code.get(at + 1).is_some_and(|next| SECOND.contains(next)) {
            found.push(offset(at));
        }
    }
    for at in memchr::memmem::find_iter(code, &[0xcd, 0x80]) {
        found.push(offset(at));
    }
    found.sort_unstable();
    found
}

/// Offsets of bytes that may be `cli` or `sti`; `pushf` and `popf` matter only in their company.
pub(super) fn interrupt_flag(code: &[u8]) -> impl Iterator<Item = u32> {
    memchr::memchr2_iter(0xfa, 0xfb, code).map(offset)
}

/// Whether `range` of `code` has a byte that may be `pushf` or `popf`.
pub(super) fn has_flags_access(code: &[u8], range: Range<usize>) -> bool {
    code.get(range)
        .is_some_and(|bytes| memchr::memchr2(0x9c, 0x9d, bytes).is_some())
}

/// Sections are at most 256 MiB long.
fn offset(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}
