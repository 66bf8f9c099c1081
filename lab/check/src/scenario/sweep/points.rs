//! Instructions before which an event can make a difference.
//!
//! What comes between two instructions that touch nothing but registers and
//! the own stack comes, for everybody else, at the same moment. So only the
//! others are points: those that access memory by anything but the stack
//! pointer, and those that change what may interrupt.

use std::collections::HashMap;

use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic, OpKind, Register};
use lab_image::Image;

/// Rounds of a loop that are looked at.
const ROUNDS: u32 = 3;
/// Bytes of the longest instruction.
const LONGEST: usize = 15;

/// The telling ones of a window's instructions, by their number in it.
pub(super) fn telling(image: &Image, base: u64, path: &[u64]) -> Vec<u64> {
    let mut rounds: HashMap<u64, u32> = HashMap::new();
    let mut points = Vec::new();
    for (number, address) in (0..).zip(path) {
        let round = rounds.entry(*address).or_default();
        *round += 1;
        if *round <= ROUNDS && is_telling(image, base, *address) {
            points.push(number);
        }
    }
    points
}

fn is_telling(image: &Image, base: u64, address: u64) -> bool {
    let rva = address
        .checked_sub(base)
        .and_then(|rva| u32::try_from(rva).ok());
    match rva.and_then(|rva| image.stored_from(rva)) {
        Some(bytes) => {
            let bytes = &bytes[..bytes.len().min(LONGEST)];
            tells(&Decoder::with_ip(64, bytes, address, DecoderOptions::NONE).decode())
        }
        // Beside the image: where a privileged instruction was moved to.
        None => true,
    }
}

fn tells(instruction: &Instruction) -> bool {
    if matches!(instruction.mnemonic(), Mnemonic::Lea | Mnemonic::Nop) {
        return false;
    }
    instruction.is_privileged()
        || instruction.mnemonic() == Mnemonic::Popfq
        || (0..instruction.op_count()).any(|operand| touches_memory(instruction, operand))
}

fn touches_memory(instruction: &Instruction, operand: u32) -> bool {
    match instruction.op_kind(operand) {
        OpKind::Memory => instruction.memory_base() != Register::RSP,
        OpKind::Register => instruction.op_register(operand).is_cr(),
        OpKind::MemorySegSI
        | OpKind::MemorySegRSI
        | OpKind::MemorySegEDI
        | OpKind::MemorySegRDI
        | OpKind::MemoryESDI
        | OpKind::MemoryESEDI
        | OpKind::MemoryESRDI => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tells_of(bytes: &[u8]) -> bool {
        tells(&Decoder::with_ip(64, bytes, 0, DecoderOptions::NONE).decode())
    }

    #[test]
    fn what_others_can_see_and_what_lets_others_in_is_a_point() {
        let telling: [&[u8]; 7] = [
            &[0x8B, 0x05, 0, 0, 0, 0],             // mov eax, [rip]
            &[0x89, 0x08],                         // mov [rax], ecx
            &[0xFF, 0x15, 0, 0, 0, 0],             // call [rip]: the kernel
            &[0xFA],                               // cli
            &[0x44, 0x0F, 0x22, 0xC0],             // mov cr8, rax
            &[0xF3, 0x48, 0xA5],                   // rep movsq
            &[0xF0, 0x0F, 0xB1, 0x0D, 0, 0, 0, 0], // lock cmpxchg [rip], ecx
        ];
        for bytes in telling {
            assert!(tells_of(bytes), "{bytes:x?}");
        }
        let silent: [&[u8]; 6] = [
            &[0x01, 0xC8],                   // add eax, ecx
            &[0x48, 0x8D, 0x05, 0, 0, 0, 0], // lea rax, [rip]
            &[0x48, 0x8B, 0x44, 0x24, 8],    // mov rax, [rsp + 8]
            &[0x53],                         // push rbx
            &[0xE8, 0, 0, 0, 0],             // call
            &[0xC3],                         // ret
        ];
        for bytes in silent {
            assert!(!tells_of(bytes), "{bytes:x?}");
        }
    }
}
