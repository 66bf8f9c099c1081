//! Machine code as text.

use iced_x86::{Decoder, DecoderOptions, Formatter, IntelFormatter};
use object::Architecture;
use yaxpeax_arch::{Decoder as _, U8Reader};
use yaxpeax_arm::armv8::a64::InstDecoder;

/// What stands for bytes that are no instruction.
const NO_INSTRUCTION: &str = "<unknown>";
/// Length of every A64 instruction. Units: bytes.
const A64_LENGTH: u64 = 4;

/// An instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// Its address in the image.
    pub address: u64,
    /// What it does.
    pub text: String,
}

/// The instructions of code at an address. Empty for processors other than x86 and Arm64.
#[must_use]
pub fn decode(architecture: Architecture, code: &[u8], address: u64) -> Vec<Instruction> {
    match architecture {
        Architecture::X86_64 => x86(64, code, address),
        Architecture::I386 => x86(32, code, address),
        Architecture::Aarch64 => a64(code, address),
        _ => Vec::new(),
    }
}

fn x86(bits: u32, code: &[u8], address: u64) -> Vec<Instruction> {
    let mut decoder = Decoder::with_ip(bits, code, address, DecoderOptions::NONE);
    let mut formatter = IntelFormatter::new();
    let options = formatter.options_mut();
    options.set_space_after_operand_separator(true);
    options.set_hex_prefix("0x");
    options.set_hex_suffix("");
    options.set_uppercase_hex(false);
    options.set_branch_leading_zeros(false);
    let instruction = |decoded: iced_x86::Instruction| {
        let mut text = String::new();
        if decoded.is_invalid() {
            text.push_str(NO_INSTRUCTION);
        } else {
            formatter.format(&decoded, &mut text);
        }
        Instruction {
            address: decoded.ip(),
            text,
        }
    };
    decoder.iter().map(instruction).collect()
}

fn a64(code: &[u8], address: u64) -> Vec<Instruction> {
    let decoder = InstDecoder::default();
    let addresses = (0..).map(|index| address.wrapping_add(index * A64_LENGTH));
    let words = code.chunks_exact(4);
    addresses
        .zip(words)
        .map(|(address, word)| {
            let decoded = decoder.decode(&mut U8Reader::new(word));
            let text =
                decoded.map_or_else(|_| NO_INSTRUCTION.to_owned(), |found| found.to_string());
            Instruction { address, text }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(architecture: Architecture, code: &[u8]) -> Vec<String> {
        let decoded = decode(architecture, code, 0x1000);
        decoded
            .into_iter()
            .map(|i| format!("{:x} {}", i.address, i.text))
            .collect()
    }

    #[test]
    fn x86_is_decoded_with_its_targets() {
        let code = [0x48, 0x01, 0xD8, 0xEB, 0xFB, 0x06];
        assert_eq!(
            text(Architecture::X86_64, &code),
            [
                "1000 add rax, rbx",
                "1003 jmp short 0x1000",
                "1005 <unknown>"
            ]
        );
    }

    #[test]
    fn arm64_is_decoded_word_by_word() {
        // ldr x9, [sp, #0x20]; mov w8, w8; an unallocated word; ret
        let code = [
            0xE9, 0x13, 0x40, 0xF9, 0xE8, 0x03, 0x08, 0x2A, 0xFF, 0xFF, 0xFF, 0xFF, 0xC0, 0x03,
            0x5F, 0xD6,
        ];
        assert_eq!(
            text(Architecture::Aarch64, &code),
            [
                "1000 ldr x9, [sp, #0x20]",
                "1004 mov w8, w8",
                "1008 <unknown>",
                "100c ret"
            ]
        );
    }

    #[test]
    fn others_are_not_decoded() {
        assert_eq!(decode(Architecture::Mips, &[0; 8], 0), []);
    }
}
