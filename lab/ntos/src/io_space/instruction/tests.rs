//! Instructions on a register, compared with what the processor of the host does on memory.

use std::cell::{Cell, RefCell};

use iced_x86::{Decoder, DecoderOptions};

use super::*;

/// A register of four bytes, and what was done to it.
struct Register4 {
    value: Cell<u64>,
    accesses: RefCell<Vec<(u8, bool)>>,
}

const ADDRESS: u64 = 0x5000;

impl Device for Register4 {
    fn covers(&self, address: u64) -> bool {
        address == ADDRESS
    }
    fn read(&self, address: u64, bytes: u8) -> u64 {
        assert_eq!(address, ADDRESS);
        self.accesses.borrow_mut().push((bytes, false));
        self.value.get()
    }
    fn write(&self, address: u64, bytes: u8, value: u64) {
        assert_eq!(address, ADDRESS);
        self.accesses.borrow_mut().push((bytes, true));
        self.value.set(value);
    }
}

struct Ran {
    gregs: Gregs,
    value: u64,
    accesses: Vec<(u8, bool)>,
    carried: Carried,
}

/// Runs an instruction whose memory operand is `[rdi]`, with `rax` given.
fn run(code: &[u8], rax: u64, value: u64) -> Ran {
    let instruction = Decoder::with_ip(64, code, 0x1000, DecoderOptions::NONE).decode();
    let device = Register4 {
        value: Cell::new(value),
        accesses: RefCell::default(),
    };
    let mut gregs = [0; 23];
    gregs[RIP] = 0x1000;
    gregs[RAX] = rax.cast_signed();
    gregs[RDI] = ADDRESS.cast_signed();
    gregs[EFL] = 0x202;
    let carried = carry_out(&instruction, ADDRESS, &mut gregs, &device);
    Ran {
        gregs,
        value: device.value.get(),
        accesses: device.accesses.take(),
        carried,
    }
}

impl Ran {
    fn rax(&self) -> u64 {
        self.gregs[RAX].cast_unsigned()
    }
}

#[test]
fn moves_have_the_width_that_the_code_says_and_touch_once() {
    let loaded = run(&[0x8B, 0x07], u64::MAX, 0x8000_0001);
    assert_eq!(
        (loaded.rax(), loaded.accesses),
        (0x8000_0001, vec![(4, false)])
    );
    let loaded = run(&[0x8A, 0x07], 0x1122, 0xFF);
    assert_eq!((loaded.rax(), loaded.accesses), (0x11FF, vec![(1, false)]));
    let loaded = run(&[0x8A, 0x27], 0x1122, 0xFF);
    assert_eq!(loaded.rax(), 0xFF22, "into ah");
    let stored = run(&[0x48, 0x89, 0x07], 7, 0);
    assert_eq!((stored.value, stored.accesses), (7, vec![(8, true)]));
    let stored = run(&[0xC7, 0x07, 0xFE, 0xFF, 0xFF, 0xFF], 0, 0);
    assert_eq!(
        (stored.value, stored.accesses),
        (0xFFFF_FFFE, vec![(4, true)])
    );
    assert_eq!(stored.gregs[RIP], 0x1006);
}

#[test]
fn extensions_keep_the_sign_or_do_not() {
    assert_eq!(run(&[0x0F, 0xB6, 0x07], u64::MAX, 0x80).rax(), 0x80);
    assert_eq!(run(&[0x0F, 0xBE, 0x07], 0, 0x80).rax(), 0xFFFF_FF80);
    assert_eq!(
        run(&[0x48, 0x63, 0x07], 0, 0x8000_0000).rax(),
        0xFFFF_FFFF_8000_0000
    );
}

#[test]
fn logic_and_comparisons_set_the_flags_that_the_processor_sets() {
    const CALCULATED: u64 = CARRY | PARITY | ZERO | SIGN | OVERFLOW;
    // cmp, test, and, or, xor, add and sub of [rdi] and eax, result in memory where there is one.
    type Host = fn(u32, u32) -> (u32, u64);
    let forms: [(u8, Host); 7] = [
        (0x39, |m, r| host::cmp(m, r)),
        (0x85, |m, r| host::test(m, r)),
        (0x21, |m, r| host::and(m, r)),
        (0x09, |m, r| host::or(m, r)),
        (0x31, |m, r| host::xor(m, r)),
        (0x01, |m, r| host::add(m, r)),
        (0x29, |m, r| host::sub(m, r)),
    ];
    let values = [
        0u32,
        1,
        2,
        0x7FFF_FFFF,
        0x8000_0000,
        0xFFFF_FFFF,
        0xFFFF_0000,
        0x55,
    ];
    for (opcode, host) in forms {
        for memory in values {
            for register in values {
                let ran = run(&[opcode, 0x07], register.into(), memory.into());
                let (result, flags) = host(memory, register);
                assert_eq!(
                    ran.value,
                    u64::from(result),
                    "{opcode:#x} {memory:#x} {register:#x}"
                );
                let ours = ran.gregs[EFL].cast_unsigned() & CALCULATED;
                assert_eq!(
                    ours,
                    flags & CALCULATED,
                    "{opcode:#x} {memory:#x} {register:#x}"
                );
            }
        }
    }
}

#[test]
fn a_comparison_does_not_write_and_logic_reads_then_writes() {
    assert_eq!(run(&[0x39, 0x07], 1, 1).accesses, [(4, false)]);
    assert_eq!(
        run(&[0x83, 0x0F, 0x01], 0, 4).accesses,
        [(4, false), (4, true)]
    );
    let ran = run(&[0x23, 0x07], 0b0110, 0b0011);
    assert_eq!((ran.rax(), ran.accesses), (0b0010, vec![(4, false)]));
}

#[test]
fn a_string_store_takes_one_round_at_a_time() {
    let code = [0xF3, 0xAB];
    let instruction = Decoder::with_ip(64, &code, 0x1000, DecoderOptions::NONE).decode();
    let device = Register4 {
        value: Cell::new(0),
        accesses: RefCell::default(),
    };
    let mut gregs = [0; 23];
    (gregs[RIP], gregs[RCX], gregs[RAX]) = (0x1000, 2, 9);
    gregs[RDI] = ADDRESS.cast_signed();
    assert_eq!(
        carry_out(&instruction, ADDRESS, &mut gregs, &device),
        Carried::Done
    );
    assert_eq!((gregs[RIP], gregs[RCX], gregs[RDI]), (0x1000, 1, 0x5004));
    gregs[RDI] = ADDRESS.cast_signed();
    assert_eq!(
        carry_out(&instruction, ADDRESS, &mut gregs, &device),
        Carried::Done
    );
    assert_eq!((gregs[RIP], gregs[RCX]), (0x1002, 0));
    assert_eq!(device.accesses.take(), [(4, true), (4, true)]);
}

#[test]
fn what_is_not_known_touches_nothing() {
    // lock inc, movups, xchg.
    for code in [&[0xF0, 0xFF, 0x07][..], &[0x0F, 0x10, 0x07], &[0x87, 0x07]] {
        let ran = run(code, 1, 2);
        assert_eq!((ran.carried, ran.accesses), (Carried::Unknown, vec![]));
        assert_eq!(ran.gregs[RIP], 0x1000);
    }
}

/// What the processor itself makes of an operation, with the flags.
#[expect(unsafe_code, reason = "asks the processor")]
mod host {
    macro_rules! ask {
        ($($name:ident $operation:literal;)*) => { $(
            pub(super) fn $name(mut a: u32, b: u32) -> (u32, u64) {
                let flags: u64;
                // SAFETY: registers, flags and the stack, which is as before.
                unsafe {
                    std::arch::asm!(
                        concat!($operation, " {0:e}, {1:e}"), "pushfq", "pop {2}",
                        inout(reg) a, in(reg) b, lateout(reg) flags,
                    );
                }
                (a, flags)
            }
        )* };
    }
    ask! { cmp "cmp"; test "test"; and "and"; or "or"; xor "xor"; add "add"; sub "sub"; }
}
