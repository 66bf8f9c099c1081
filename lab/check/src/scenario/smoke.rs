//! Sends each control code with inputs of many lengths and contents, over several handles.

use lab_ntos::FileId;

use super::{Effort, Plan, Scenario, random};
use crate::bench::{Bench, Halt, Outcome};
use crate::case::{Call, Case, Content};
use crate::found;
use crate::interface::{ADMINISTRATOR, READ_WRITE, USER};

/// Lengths of input and output: none, too short for anything, small numbers of words, typical, a page and one byte, huge.
const LENGTHS: [u32; 8] = [0, 1, 4, 8, 64, 512, 4097, HUGE];
/// Contents of input.
const CONTENTS: [Content; 5] = [
    Content::Zeros,
    Content::One,
    Content::Ones,
    Content::Small,
    Content::Random,
];
/// Huge requests are tried with fewer contents.
const HUGE: u32 = 1 << 20;
/// Codes that are no driver's: what does it say to them?
const STRANGE: [u32; 3] = [0, 0xFFFF_FFFF, 0x22_3FFC];

pub(super) struct Smoke;

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
        let cases: Vec<Case> = codes.iter().map(|code| self.case(*code, plan)).collect();
        let front = |case: &Case| Case {
            guard_front: true,
            iterations: case.iterations.min(plan.effort.pick(25, 200)),
            ..case.clone()
        };
        let front: Vec<Case> = cases.iter().map(front).collect();
        [cases, front].concat()
    }

    fn follow(&self, case: &Case, outcome: &Outcome, plan: &Plan<'_>) -> Vec<Case> {
        // Go on behind the step that stopped the machine, on a new one; the further, the larger the gap.
        let start = case.start + outcome.steps + 1 + case.start / 2;
        // A code that hangs would hang again, and again for as long.
        let hangs = outcome
            .findings
            .iter()
            .any(|found| found::is_too_long(&found.rule));
        if !outcome.stopped || hangs || start as usize >= steps(0, plan.effort).len() {
            return Vec::new();
        }
        vec![Case {
            start,
            ..case.clone()
        }]
    }

    fn lacks(&self, case: &Case) -> Option<&'static str> {
        let Some(call) = case.calls.first() else {
            return Some("no request");
        };
        let last = steps(call.code, Effort::Normal).len();
        (case.start as usize >= last).then_some("it begins behind the last step")
    }

    fn run(&self, bench: &mut Bench<'_>) -> Result<(), Halt> {
        let Some(&Call { code, .. }) = bench.case.calls.first() else {
            return Ok(());
        };
        if !bench.load()? {
            return Ok(());
        }
        let handles = open_all(bench)?;
        let mut random = random(bench.case);
        let first = bench.case.start as usize;
        let until = first + bench.case.iterations as usize;
        let all = steps(code, Effort::Normal);
        // Handles take turns.
        let turns = handles.iter().cycle();
        for (call, handle) in all.iter().zip(turns).take(until).skip(first) {
            bench.request(*handle, call, &mut random)?;
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
            calls: vec![Call::typical(code)],
            seed: plan.seed ^ u64::from(code),
            iterations: u32::try_from(steps(code, plan.effort).len()).unwrap_or(u32::MAX),
            ..Case::of(self.name())
        }
    }
}

/// Requests of a case, the most telling first.
fn steps(code: u32, effort: Effort) -> Vec<Call> {
    let mut steps = Vec::new();
    for content in CONTENTS {
        for input in LENGTHS {
            for output in LENGTHS {
                if (input == 0 || input.max(output) == HUGE) && content != Content::Zeros {
                    continue;
                }
                steps.push(Call {
                    code,
                    input,
                    output,
                    content,
                });
            }
        }
    }
    steps.truncate(effort.pick(100, usize::MAX));
    steps
}

/// An administrator's two handles and a user's, as far as they may be opened.
fn open_all(bench: &mut Bench<'_>) -> Result<Vec<FileId>, Halt> {
    let mut handles = Vec::new();
    for path in &bench.paths.clone() {
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
    let (reads, writes) = (
        handles_it(nt::irp::IRP_MJ_READ),
        handles_it(nt::irp::IRP_MJ_WRITE),
    );
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
