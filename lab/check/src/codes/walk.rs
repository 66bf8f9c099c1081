//! Follows code from a dispatch routine and notes what it compares.

use std::collections::{BTreeSet, HashMap, HashSet};

use iced_x86::{
    Code, ConditionCode, Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind,
    Register,
};
use lab_image::Image;

/// Instructions looked at, at most.
const BUDGET: usize = 200_000;
/// Calls below the dispatch routine that are followed.
const DEPTH: u32 = 6;
/// Entries of a jump table, at most.
const MAX_RANGE: u64 = 0x400;

/// What was seen on the way.
#[derive(Default)]
pub(super) struct Seen {
    /// Numbers that some value equals or is compared with.
    pub(super) compared: BTreeSet<u32>,
    /// Other immediate operands.
    pub(super) mentioned: BTreeSet<u32>,
    /// Offsets of data that the code refers to.
    pub(super) data: BTreeSet<u32>,
}

/// Looks at everything that `start` leads to.
pub(super) fn from(image: &Image, start: u32) -> Seen {
    let mut walk = Walk {
        image,
        seen: Seen::default(),
        functions: vec![(start, 0)],
        known: HashSet::from([start]),
        budget: BUDGET,
    };
    while let Some((rva, depth)) = walk.functions.pop() {
        walk.function(rva, depth);
    }
    walk.seen
}

struct Walk<'a> {
    image: &'a Image,
    seen: Seen,
    functions: Vec<(u32, u32)>,
    known: HashSet<u32>,
    budget: usize,
}

/// What is known of a register.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Value {
    /// `(x + add) / divisor` of an unknown x.
    Shifted { add: u32, divisor: u32 },
    /// An address in the image.
    Address(u32),
    /// A number on at least one way here: the base that an unknown is added to.
    Constant(u32),
}

/// A `cmp value, last; ja default`: the values 0 to `last` lead somewhere.
#[derive(Clone, Copy)]
struct Range {
    value: Value,
    last: u64,
    default: u32,
    /// A table of bytes that maps them to entries of a jump table.
    bytes: Option<u32>,
}

#[derive(Clone, Default)]
struct State {
    registers: HashMap<Register, Value>,
    range: Option<Range>,
    compared: Option<(Value, u64)>,
}

impl Walk<'_> {
    /// Every block of one function.
    fn function(&mut self, start: u32, depth: u32) {
        let mut blocks = vec![(start, State::default())];
        let mut done = HashSet::from([start]);
        while let Some((rva, state)) = blocks.pop() {
            let mut next = Vec::new();
            self.block(rva, state, depth, &mut next);
            blocks.extend(next.into_iter().filter(|(rva, _)| done.insert(*rva)));
        }
    }

    /// Instructions up to the end of a block; where it leads goes to `next`.
    fn block(&mut self, rva: u32, mut state: State, depth: u32, next: &mut Vec<(u32, State)>) {
        let Some(bytes) = code(self.image, rva) else {
            return;
        };
        let mut decoder = Decoder::with_ip(64, bytes, u64::from(rva), DecoderOptions::NONE);
        while decoder.can_decode() && self.budget > 0 {
            self.budget -= 1;
            let instruction = decoder.decode();
            if instruction.is_invalid() {
                break;
            }
            self.references(&instruction, depth);
            match instruction.flow_control() {
                FlowControl::Next => self.compute(&instruction, &mut state, next),
                FlowControl::Call => {
                    self.call(&instruction, depth);
                    state
                        .registers
                        .retain(|register, _| is_preserved(*register));
                    state.range = None;
                }
                FlowControl::IndirectCall => {
                    state
                        .registers
                        .retain(|register, _| is_preserved(*register));
                    state.range = None;
                }
                FlowControl::ConditionalBranch => {
                    let taken = self.branch(&instruction, &mut state);
                    next.extend(
                        offset(instruction.near_branch_target()).map(|target| (target, taken)),
                    );
                }
                FlowControl::UnconditionalBranch => {
                    next.extend(
                        offset(instruction.near_branch_target())
                            .map(|target| (target, state.clone())),
                    );
                    break;
                }
                _ => break,
            }
        }
        // A range whose table was not understood: all of it.
        if let Some(range) = state.range {
            for k in 0..=range.last {
                self.note(range.value, k);
            }
        }
    }

    fn call(&mut self, instruction: &Instruction, depth: u32) {
        if let Some(target) = offset(instruction.near_branch_target()) {
            self.enqueue(target, depth);
        }
    }

    fn enqueue(&mut self, rva: u32, depth: u32) {
        if depth < DEPTH && code(self.image, rva).is_some() && self.known.insert(rva) {
            self.functions.push((rva, depth + 1));
        }
    }

    /// Immediate operands, and data or routines that are referred to.
    fn references(&mut self, instruction: &Instruction, depth: u32) {
        if instruction.is_ip_rel_memory_operand()
            && let Some(rva) = offset(instruction.ip_rel_memory_address())
        {
            let executable = self
                .image
                .section_at(rva)
                .map(lab_image::Section::is_executable);
            match executable {
                // A routine whose address is taken: a handler.
                Some(true) if instruction.mnemonic() == Mnemonic::Lea => self.enqueue(rva, depth),
                Some(false) => {
                    self.seen.data.insert(rva);
                }
                _ => {}
            }
        }
        for operand in 0..instruction.op_count() {
            if is_immediate(instruction.op_kind(operand)) {
                self.seen
                    .mentioned
                    .insert(low(instruction.immediate(operand)));
            }
        }
    }

    /// The effect of an instruction on what is known.
    fn compute(
        &mut self,
        instruction: &Instruction,
        state: &mut State,
        next: &mut Vec<(u32, State)>,
    ) {
        self.select(instruction, state);
        if instruction.rflags_modified() != 0 {
            state.compared = None;
        }
        let target = register(instruction, 0);
        let by = (instruction.op_count() > 1 && is_immediate(instruction.op_kind(1)))
            .then(|| instruction.immediate(1));
        match (instruction.mnemonic(), target, by) {
            (Mnemonic::Cmp, Some(target), Some(by)) => {
                let value = state.value(target);
                self.note(value, by);
                state.compared = Some((value, by));
            }
            (Mnemonic::Cmp, None, Some(by)) => {
                self.note(UNKNOWN, by);
            }
            (Mnemonic::Cmp | Mnemonic::Test | Mnemonic::Bt, ..) => {}
            (Mnemonic::Sub, Some(target), Some(by)) if target != Register::RSP => {
                state.add(target, low(by).wrapping_neg());
            }
            (Mnemonic::Add, Some(target), Some(by)) if target != Register::RSP => {
                state.add(target, low(by));
            }
            (Mnemonic::Sub | Mnemonic::Add, Some(target), None) if target != Register::RSP => {
                let value = state.combined(instruction, target);
                state.set(target, value);
            }
            (Mnemonic::Dec, Some(target), _) => state.add(target, u32::MAX),
            (Mnemonic::Inc, Some(target), _) => state.add(target, 1),
            (Mnemonic::Shr | Mnemonic::Ror, Some(target), Some(by)) => state.divide(target, by),
            (Mnemonic::Rol, Some(target), Some(by)) => state.divide(target, 32u64.wrapping_sub(by)),
            (Mnemonic::Mov, Some(target), Some(by)) if instruction.op0_register().size() >= 4 => {
                state.set(target, Value::Constant(low(by)));
            }
            (Mnemonic::Mov, Some(target), None) if register(instruction, 1).is_some() => {
                let value = register(instruction, 1).map_or(UNKNOWN, |source| state.held(source));
                state.set(target, value);
            }
            (Mnemonic::Lea, Some(target), _) => {
                let value = state.address(instruction);
                state.set(target, value);
            }
            (Mnemonic::Movsxd | Mnemonic::Mov | Mnemonic::Movzx, Some(target), _) => {
                self.load(instruction, state, next);
                state.registers.remove(&target);
            }
            (_, Some(target), _) => {
                state.registers.remove(&target);
            }
            _ => {}
        }
        // `sub eax, n; je`: the flags say whether the difference is zero.
        let sets_zero = matches!(
            instruction.mnemonic(),
            Mnemonic::Sub | Mnemonic::Add | Mnemonic::Dec
        );
        if let (true, Some(target)) = (sets_zero, target) {
            state.compared = Some((state.value(target), 0));
        }
    }

    /// A conditional branch: on equality the compared number counts; "above" begins a table. Gives what is known
    /// where it is taken.
    fn branch(&mut self, instruction: &Instruction, state: &mut State) -> State {
        let mut taken = State {
            range: None,
            ..state.clone()
        };
        let Some((value, by)) = state.compared else {
            return taken;
        };
        let is_far = matches!(value, Value::Shifted { add, .. } if add != 0);
        let range = |default: u64| {
            (is_far && by <= MAX_RANGE).then_some(Range {
                value,
                last: by,
                default: low(default),
                bytes: None,
            })
        };
        match instruction.condition_code() {
            ConditionCode::e | ConditionCode::ne => self.note(value, by),
            ConditionCode::a => state.range = range(instruction.near_branch_target()),
            ConditionCode::be => taken.range = range(instruction.next_ip()),
            ConditionCode::b | ConditionCode::ae => self.note_below(value, by),
            _ => {}
        }
        taken
    }

    /// `cmp code - first, number; cmovb …`: a range without a table of jumps.
    fn select(&mut self, instruction: &Instruction, state: &State) {
        let Some((value, by)) = state.compared else {
            return;
        };
        match instruction.condition_code() {
            ConditionCode::b | ConditionCode::ae => self.note_below(value, by),
            ConditionCode::be | ConditionCode::a => self.note_below(value, by.saturating_add(1)),
            _ => {}
        }
    }

    /// All values of a range, unless it is the numbers from zero on.
    fn note_below(&mut self, value: Value, number: u64) {
        let is_far = matches!(value, Value::Shifted { add, .. } if add != 0);
        if is_far && number <= MAX_RANGE {
            (0..number).for_each(|k| self.note(value, k));
        }
    }

    /// A load that may be from the jump table of the range at hand.
    fn load(&mut self, instruction: &Instruction, state: &mut State, next: &mut Vec<(u32, State)>) {
        let Some(range) = state.range else { return };
        let base = instruction.memory_base();
        let index = instruction.memory_index();
        let (Some(Value::Address(start)), true) = (
            state.registers.get(&base.full_register()).copied(),
            index != Register::None,
        ) else {
            return;
        };
        let displacement = low(instruction.memory_displacement64());
        let table = start.wrapping_add(displacement);
        match instruction.code() {
            Code::Movzx_r32_rm8 | Code::Movzx_r64_rm8 => {
                state.range = Some(Range {
                    bytes: Some(table),
                    ..range
                });
            }
            // Relative to the table (LLVM) or to the image (MSVC).
            Code::Movsxd_r64_rm32 | Code::Mov_r32_rm32 if instruction.memory_index_scale() == 4 => {
                state.range = None;
                self.jump_table(range, start, table, next, state);
            }
            _ => {}
        }
    }

    fn jump_table(
        &mut self,
        range: Range,
        start: u32,
        table: u32,
        next: &mut Vec<(u32, State)>,
        state: &State,
    ) {
        for k in 0..=range.last {
            let entry = match range.bytes {
                Some(bytes) => self.byte(bytes.wrapping_add(low(k))).map(u64::from),
                None => Some(k),
            };
            let target = entry
                .and_then(|entry| self.word(table.wrapping_add(low(entry * 4))))
                .map(|relative| start.wrapping_add(relative));
            if target == Some(range.default) {
                continue;
            }
            self.note(range.value, k);
            next.extend(target.map(|target| (target, state.clone())));
        }
    }

    fn byte(&self, rva: u32) -> Option<u8> {
        self.image.stored_from(rva)?.first().copied()
    }

    fn word(&self, rva: u32) -> Option<u32> {
        let bytes = self.image.stored_from(rva)?.get(..4)?;
        Some(u32::from_le_bytes(bytes.try_into().ok()?))
    }

    /// The x for which `value` equals `by`.
    fn note(&mut self, value: Value, by: u64) {
        if let Value::Shifted { add, divisor } = value {
            let x = low(by).wrapping_mul(divisor).wrapping_sub(add);
            self.seen.compared.insert(x);
        }
    }
}

/// The stored code from an offset on.
fn code(image: &Image, rva: u32) -> Option<&[u8]> {
    let section = image.section_at(rva)?;
    section.is_executable().then(|| image.stored_from(rva))?
}

/// Nothing is known.
const UNKNOWN: Value = Value::Shifted { add: 0, divisor: 1 };

impl State {
    /// What a register holds.
    fn held(&self, register: Register) -> Value {
        self.registers.get(&register).copied().unwrap_or(UNKNOWN)
    }

    /// What a register holds, where numbers do not count: another way here may have left another one.
    fn value(&self, register: Register) -> Value {
        match self.held(register) {
            Value::Constant(_) => UNKNOWN,
            value => value,
        }
    }

    /// The sum or difference of a register and another operand, of which one is a number.
    fn combined(&self, instruction: &Instruction, target: Register) -> Value {
        let source = register(instruction, 1).map_or(UNKNOWN, |source| self.held(source));
        let is_sum = instruction.mnemonic() == Mnemonic::Add;
        match (self.held(target), source) {
            (Value::Constant(base), value) | (value, Value::Constant(base)) if is_sum => {
                moved(value, base)
            }
            (value, Value::Constant(base)) => moved(value, base.wrapping_neg()),
            _ => UNKNOWN,
        }
    }

    fn set(&mut self, register: Register, value: Value) {
        self.registers.insert(register, value);
    }

    fn add(&mut self, register: Register, by: u32) {
        self.set(register, moved(self.value(register), by));
    }

    fn divide(&mut self, register: Register, bits: u64) {
        let value = match self.value(register) {
            Value::Shifted { add, divisor } if bits < 8 => Value::Shifted {
                add,
                divisor: divisor << bits,
            },
            _ => UNKNOWN,
        };
        self.set(register, value);
    }

    /// What `lea` computes.
    fn address(&self, instruction: &Instruction) -> Value {
        if instruction.is_ip_rel_memory_operand() {
            return Value::Address(low(instruction.ip_rel_memory_address()));
        }
        let displacement = low(instruction.memory_displacement64());
        let base = instruction.memory_base().full_register();
        if instruction.memory_index() == Register::None {
            return moved(self.value(base), displacement);
        }
        let index = instruction.memory_index().full_register();
        match (self.held(base), self.held(index)) {
            (Value::Constant(number), value) | (value, Value::Constant(number))
                if instruction.memory_index_scale() == 1 =>
            {
                moved(value, number.wrapping_add(displacement))
            }
            _ => UNKNOWN,
        }
    }
}

/// A value with a number added.
fn moved(value: Value, by: u32) -> Value {
    match value {
        Value::Shifted { add, divisor } => Value::Shifted {
            add: add.wrapping_add(by.wrapping_mul(divisor)),
            divisor,
        },
        Value::Address(rva) => Value::Address(rva.wrapping_add(by)),
        Value::Constant(number) => Value::Constant(number.wrapping_add(by)),
    }
}

/// The full register that is operand `index`.
fn register(instruction: &Instruction, index: u32) -> Option<Register> {
    let is_register =
        instruction.op_count() > index && instruction.op_kind(index) == OpKind::Register;
    is_register.then(|| instruction.op_register(index).full_register())
}

fn is_immediate(kind: OpKind) -> bool {
    matches!(
        kind,
        OpKind::Immediate8
            | OpKind::Immediate16
            | OpKind::Immediate32
            | OpKind::Immediate64
            | OpKind::Immediate8to16
            | OpKind::Immediate8to32
            | OpKind::Immediate8to64
            | OpKind::Immediate32to64
    )
}

/// Whether a call leaves a register as it was.
fn is_preserved(register: Register) -> bool {
    use Register::{R12, R13, R14, R15, RBP, RBX, RDI, RSI};
    matches!(register, RBX | RBP | RSI | RDI | R12 | R13 | R14 | R15)
}

/// The low half: codes, offsets and displacements have 32 bits.
#[expect(
    clippy::cast_possible_truncation,
    reason = "the low half is what is meant"
)]
const fn low(value: u64) -> u32 {
    value as u32
}

/// An address as an offset in the image, where it can be one.
fn offset(address: u64) -> Option<u32> {
    u32::try_from(address).ok().filter(|rva| *rva != 0)
}
