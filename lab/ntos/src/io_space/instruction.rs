//! The instructions that access registers in memory, carried out one access at a time.
//!
//! What compilers make of a volatile load or store: moves, with or without extension; comparisons, tests
//! and logic with an operand in memory; string moves. Source: Intel SDM vol. 2.

use iced_x86::{Instruction, Mnemonic, OpKind, Register};

use crate::fault::GREGS;
use crate::guest;

type Gregs = [i64; 23];

const RIP: usize = libc::REG_RIP as usize;
const RCX: usize = libc::REG_RCX as usize;
const RSI: usize = libc::REG_RSI as usize;
const RDI: usize = libc::REG_RDI as usize;
const RAX: usize = libc::REG_RAX as usize;
const EFL: usize = libc::REG_EFL as usize;

const CARRY: u64 = 1;
const PARITY: u64 = 1 << 2;
const ADJUST: u64 = 1 << 4;
const ZERO: u64 = 1 << 6;
const SIGN: u64 = 1 << 7;
const DIRECTION: u64 = 1 << 10;
const OVERFLOW: u64 = 1 << 11;

/// One access to a register.
#[derive(Clone, Copy, Debug)]
pub(super) struct Access {
    pub(super) bytes: u8,
    pub(super) is_write: bool,
}

/// What answers at addresses.
pub(super) trait Device {
    /// Whether an address is its.
    fn covers(&self, address: u64) -> bool;
    fn read(&self, address: u64, bytes: u8) -> u64;
    fn write(&self, address: u64, bytes: u8, value: u64);
}

/// What became of an instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Carried {
    /// Done; the instruction pointer is behind it, or at it for the next round of a string instruction.
    Done,
    /// Not one of ours: nothing was accessed.
    Unknown,
}

/// Carries out an instruction whose operand in memory is at an address.
pub(super) fn carry_out(
    instruction: &Instruction,
    address: u64,
    gregs: &mut Gregs,
    device: &impl Device,
) -> Carried {
    let done = match instruction.mnemonic() {
        Mnemonic::Movsb
        | Mnemonic::Movsw
        | Mnemonic::Movsd
        | Mnemonic::Movsq
        | Mnemonic::Stosb
        | Mnemonic::Stosw
        | Mnemonic::Stosd
        | Mnemonic::Stosq
            if instruction.is_string_instruction() =>
        {
            return string(instruction, gregs, device);
        }
        Mnemonic::Mov => moved(instruction, address, gregs, device),
        Mnemonic::Movzx | Mnemonic::Movsx | Mnemonic::Movsxd => {
            extended(instruction, address, gregs, device)
        }
        Mnemonic::Cmp
        | Mnemonic::Sub
        | Mnemonic::Add
        | Mnemonic::Test
        | Mnemonic::And
        | Mnemonic::Or
        | Mnemonic::Xor => calculated(instruction, address, gregs, device),
        _ => None,
    };
    if done.is_none() {
        return Carried::Unknown;
    }
    gregs[RIP] += instruction.len() as i64;
    Carried::Done
}

/// Bytes of the operand in memory, if a general-purpose register could hold it.
fn memory_bytes(instruction: &Instruction) -> Option<u8> {
    let bytes = u8::try_from(instruction.memory_size().size()).ok()?;
    matches!(bytes, 1 | 2 | 4 | 8).then_some(bytes)
}

fn mask(bytes: u8) -> u64 {
    u64::MAX >> (64 - 8 * u32::from(bytes))
}

/// A general-purpose register: where it is, and how far its part is shifted.
fn place(register: Register) -> Option<(usize, u32)> {
    if !register.is_gpr() {
        return None;
    }
    let shift = match register {
        Register::AH | Register::BH | Register::CH | Register::DH => 8,
        _ => 0,
    };
    Some((GREGS[register.full_register().number()], shift))
}

fn get(register: Register, gregs: &Gregs) -> Option<u64> {
    let (index, shift) = place(register)?;
    let bytes = u8::try_from(register.size()).ok()?;
    Some(gregs[index].cast_unsigned() >> shift & mask(bytes))
}

/// A write of 32 bits clears the upper half; a shorter one leaves the rest.
fn set(register: Register, value: u64, gregs: &mut Gregs) -> Option<()> {
    let (index, shift) = place(register)?;
    let bytes = u8::try_from(register.size()).ok()?;
    let old = gregs[index].cast_unsigned();
    let new = match bytes {
        8 => value,
        4 => value & mask(4),
        _ => old & !(mask(bytes) << shift) | (value & mask(bytes)) << shift,
    };
    gregs[index] = new.cast_signed();
    Some(())
}

/// The operand that is not in memory: a register or an immediate.
fn other(instruction: &Instruction, operand: u32, gregs: &Gregs) -> Option<u64> {
    match instruction.op_kind(operand) {
        OpKind::Register => get(instruction.op_register(operand), gregs),
        OpKind::Memory => None,
        _ => Some(instruction.immediate(operand)),
    }
}

fn moved(
    instruction: &Instruction,
    address: u64,
    gregs: &mut Gregs,
    device: &impl Device,
) -> Option<()> {
    let bytes = memory_bytes(instruction)?;
    if instruction.op0_kind() == OpKind::Register {
        place(instruction.op0_register())?;
        let value = device.read(address, bytes);
        return set(instruction.op0_register(), value, gregs);
    }
    let value = other(instruction, 1, gregs)?;
    device.write(address, bytes, value & mask(bytes));
    Some(())
}

fn extended(
    instruction: &Instruction,
    address: u64,
    gregs: &mut Gregs,
    device: &impl Device,
) -> Option<()> {
    let bytes = memory_bytes(instruction)?;
    let value = device.read(address, bytes) & mask(bytes);
    let unused = 64 - 8 * u32::from(bytes);
    let value = match instruction.mnemonic() {
        Mnemonic::Movzx => value,
        _ => ((value << unused).cast_signed() >> unused).cast_unsigned(),
    };
    set(instruction.op0_register(), value, gregs)
}

fn calculated(
    instruction: &Instruction,
    address: u64,
    gregs: &mut Gregs,
    device: &impl Device,
) -> Option<()> {
    let bytes = memory_bytes(instruction)?;
    let into_memory = instruction.op0_kind() == OpKind::Memory;
    let register = other(instruction, u32::from(into_memory), gregs)?;
    let memory = device.read(address, bytes) & mask(bytes);
    let (a, b) = if into_memory {
        (memory, register & mask(bytes))
    } else {
        (register, memory)
    };
    let (result, flags) = calculate(instruction.mnemonic(), a, b, bytes);
    let kept = gregs[EFL].cast_unsigned() & !(CARRY | PARITY | ADJUST | ZERO | SIGN | OVERFLOW);
    gregs[EFL] = (kept | flags).cast_signed();
    if matches!(instruction.mnemonic(), Mnemonic::Cmp | Mnemonic::Test) {
        return Some(());
    }
    if into_memory {
        device.write(address, bytes, result);
        return Some(());
    }
    set(instruction.op0_register(), result, gregs)
}

/// The result of an operation on so many bytes, and the flags it sets.
fn calculate(mnemonic: Mnemonic, a: u64, b: u64, bytes: u8) -> (u64, u64) {
    let sign = 1 << (8 * u32::from(bytes) - 1);
    let (result, carry, overflow) = match mnemonic {
        Mnemonic::Add => {
            let sum = a.wrapping_add(b) & mask(bytes);
            (sum, sum < a, (a ^ sum) & (b ^ sum) & sign != 0)
        }
        Mnemonic::Sub | Mnemonic::Cmp => {
            let difference = a.wrapping_sub(b) & mask(bytes);
            (difference, a < b, (a ^ b) & (a ^ difference) & sign != 0)
        }
        Mnemonic::Or => (a | b, false, false),
        Mnemonic::Xor => (a ^ b, false, false),
        _ => (a & b, false, false),
    };
    let flag = |is_set: bool, bit: u64| if is_set { bit } else { 0 };
    let flags = flag(carry, CARRY)
        | flag(overflow, OVERFLOW)
        | flag(result == 0, ZERO)
        | flag(result & sign != 0, SIGN)
        | flag((result & 0xFF).count_ones().is_multiple_of(2), PARITY)
        | flag((a ^ b ^ result) & 0x10 != 0, ADJUST);
    (result, flags)
}

/// One round of a string move or store; the instruction stays where it is until the last.
fn string(instruction: &Instruction, gregs: &mut Gregs, device: &impl Device) -> Carried {
    let Some(bytes) = memory_bytes(instruction) else {
        return Carried::Unknown;
    };
    let repeats = instruction.has_rep_prefix();
    if repeats && gregs[RCX] == 0 {
        gregs[RIP] += instruction.len() as i64;
        return Carried::Done;
    }
    let step = match gregs[EFL].cast_unsigned() & DIRECTION {
        0 => i64::from(bytes),
        _ => -i64::from(bytes),
    };
    let is_move = matches!(
        instruction.mnemonic(),
        Mnemonic::Movsb | Mnemonic::Movsw | Mnemonic::Movsd | Mnemonic::Movsq
    );
    let value = if is_move {
        let from = gregs[RSI].cast_unsigned();
        gregs[RSI] += step;
        load(from, bytes, device)
    } else {
        gregs[RAX].cast_unsigned() & mask(bytes)
    };
    let to = gregs[RDI].cast_unsigned();
    gregs[RDI] += step;
    store(to, bytes, value, device);
    if repeats {
        gregs[RCX] -= 1;
    }
    if !repeats || gregs[RCX] == 0 {
        gregs[RIP] += instruction.len() as i64;
    }
    Carried::Done
}

fn load(from: u64, bytes: u8, device: &impl Device) -> u64 {
    if device.covers(from) {
        return device.read(from, bytes) & mask(bytes);
    }
    match bytes {
        1 => guest::read(from as *const u8).into(),
        2 => guest::read(from as *const u16).into(),
        4 => guest::read(from as *const u32).into(),
        _ => guest::read(from as *const u64),
    }
}

fn store(to: u64, bytes: u8, value: u64, device: &impl Device) {
    if device.covers(to) {
        return device.write(to, bytes, value);
    }
    let bytes_of = value.to_le_bytes();
    guest::fill(to as *mut u8, &bytes_of[..usize::from(bytes)]);
}

#[cfg(test)]
mod tests;
