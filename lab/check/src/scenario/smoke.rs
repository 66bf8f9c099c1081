//! Sends each control code with inputs of many lengths and contents, over several handles.

use lab_ntos::FileId;
use rand::{Rng, SeedableRng};
use rand_xorshift::XorShiftRng;

use super::{Effort, Plan, Scenario};
use crate::bench::{Bench, Halt, Outcome};
use crate::case::Case;
use crate::interface::{ADMINISTRATOR, READ_WRITE, USER};

/// Lengths of input and output: none, too short for anything, typical, a page and one byte, huge.
const LENGTHS: [usize; 7] = [0, 1, 8, 64, 512, 4097, 1 << 20];
/// Contents of input.
const CONTENTS: [Content; 4] = [Content::Zeros, Content::Ones, Content::Small, Content::Random];
/// Handles that requests go through.
const HANDLES: u32 = 3;
/// Lengths of huge requests are tried with fewer contents.
const HUGE: usize = 1 << 20;
/// Codes that are no driver's: what does it say to them?
const STRANGE: [u32; 3] = [0, 0xFFFF_FFFF, 0x22_3FFC];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Content {
    Zeros,
    Ones,
    /// Little-endian numbers from 1 on: plausible counts and indices.
    Small,
    Random,
}

pub(super) struct Smoke;

/// One request of a case.
struct Step {
    input: usize,
    output: usize,
    content: Content,
    handle: u32,
}

impl Scenario for Smoke {
    fn name(&self) -> &'static str {
        "ioctl-smoke"
    }

    fn about(&self) -> &'static str {
        "sends each control code with inputs of many lengths and contents; reads and writes"
    }

    fn comes_late(&self) -> bool {
        false
    }

    fn plan(&self, plan: &Plan<'_>) -> Vec<Case> {
        if plan.interface.paths.is_empty() {
            return Vec::new();
        }
        let mut codes = plan.interface.codes.clone();
        codes.extend(STRANGE);
        codes.iter().map(|code| self.case(*code, plan)).collect()
    }

    fn follow(&self, case: &Case, outcome: &Outcome, plan: &Plan<'_>) -> Vec<Case> {
        // Go on behind the step that stopped the machine, on a new one; the further, the larger the gap.
        let start = case.start + outcome.steps + 1 + case.start / 2;
        if !outcome.stopped || start as usize >= steps(plan.effort).len() {
            return Vec::new();
        }
        vec![Case { start, ..case.clone() }]
    }

    fn run(&self, bench: &mut Bench<'_>) -> Result<(), Halt> {
        let Some(&code) = bench.case.codes.first() else {
            return Ok(());
        };
        if !bench.load()? {
            return Ok(());
        }
        let handles = open_all(bench)?;
        let mut random = XorShiftRng::seed_from_u64(bench.case.seed ^ u64::from(code));
        let all = steps(Effort::Normal);
        let first = bench.case.start as usize;
        let until = first + bench.case.iterations as usize;
        let mut output = vec![0; HUGE];
        for step in all.iter().take(until).skip(first) {
            let handle = handles.get(step.handle as usize).or(handles.first());
            let Some(&handle) = handle else { break };
            let input = step.content.bytes(step.input, &mut random);
            bench.request(handle, code, &input, &mut output[..step.output])?;
            bench.step();
        }
        transfers(bench, &handles)?;
        for handle in handles {
            bench.machine.close(handle)?;
        }
        bench.unload()
    }
}

impl Smoke {
    fn case(&self, code: u32, plan: &Plan<'_>) -> Case {
        Case {
            codes: vec![code],
            seed: plan.seed,
            iterations: u32::try_from(steps(plan.effort).len()).unwrap_or(u32::MAX),
            ..Case::of(self.name())
        }
    }
}

/// Steps of a case, the most telling first.
fn steps(effort: Effort) -> Vec<Step> {
    let mut steps = Vec::new();
    for content in CONTENTS {
        for input in LENGTHS {
            for output in LENGTHS {
                if (input == 0 || input.max(output) == HUGE) && content != Content::Zeros {
                    continue;
                }
                let handle = u32::try_from(steps.len()).unwrap_or(0) % HANDLES;
                steps.push(Step { input, output, content, handle });
            }
        }
    }
    steps.truncate(effort.pick(60, usize::MAX));
    steps
}

impl Content {
    fn bytes(self, len: usize, random: &mut XorShiftRng) -> Vec<u8> {
        match self {
            Self::Zeros => vec![0; len],
            Self::Ones => vec![0xFF; len],
            Self::Small => (1u32..).flat_map(u32::to_le_bytes).take(len).collect(),
            Self::Random => {
                let mut bytes = vec![0; len];
                random.fill_bytes(&mut bytes);
                bytes
            }
        }
    }
}

/// An administrator's two handles and a user's, as far as they may be opened.
fn open_all(bench: &mut Bench<'_>) -> Result<Vec<FileId>, Halt> {
    let mut handles = Vec::new();
    let interface = bench.interface;
    for path in &interface.paths {
        let before = handles.len();
        for (access, client) in [
            (READ_WRITE, ADMINISTRATOR),
            (0x8000_0000, ADMINISTRATOR),
            (READ_WRITE, USER),
        ] {
            handles.extend(bench.open(path, access, client)?);
        }
        if handles.len() > before {
            break;
        }
    }
    Ok(handles)
}

/// Reads and writes of several lengths, which most drivers refuse.
fn transfers(bench: &mut Bench<'_>, handles: &[FileId]) -> Result<(), Halt> {
    let Some(&handle) = handles.first() else {
        return Ok(());
    };
    let handles_it = |major| bench.interface.majors.contains(&major);
    let (reads, writes) = (handles_it(nt::irp::IRP_MJ_READ), handles_it(nt::irp::IRP_MJ_WRITE));
    for len in [0usize, 1, 4096] {
        if reads {
            bench.machine.read(handle, 0, &mut vec![0; len])?;
        }
        if writes {
            bench.machine.write(handle, 0, &vec![0x5A; len])?;
        }
    }
    Ok(())
}
