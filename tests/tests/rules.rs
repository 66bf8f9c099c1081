//! Every rule of the table: the driver breaks it and is told so, and comes close to it and is not.

use std::path::Path;
use std::time::Duration;

use e2e::{dock, open, read};
use faulty_driver::{BREAK, CORRECT, CORRECT_WAYS, DEVICE, NEAR_MISS, NEAR_MISS_WRITE};
use lab_dock::{Dock, Options};
use lab_ntos::{Loaded, Stopped};
use lab_verifier::{Finding, Frame, Leak, RULES, Rule, RuleId, Severity};

/// Where a rule is tested that the faulty driver does not break by a call.
enum Elsewhere {
    /// Nowhere: no driver can break it in the lab, and why.
    Never(&'static str),
    /// In this file, by this test.
    At(&'static str, &'static str),
}
use Elsewhere::{At, Never};

const HERE: &str = "tests/tests/rules.rs";
const CHECK: &str = "tests/tests/check.rs";
const WORKERS: &str = "tests/tests/check_workers.rs";
const INTERRUPTS: &str = "lab/ntos/tests/interrupts.rs";
const DEVICES: &str = "lab/ntos/tests/devices.rs";
const MEMORY: &str = "lab/ntos/tests/memory.rs";
const TOO_LONG: &str = "routines_that_take_too_long_are_stopped_each_under_its_own_rule";
const AS_TOUCHED: &str = "memory_of_programs_is_judged_by_how_it_is_touched";
const SECTIONS: &str = "sections_that_memory_integrity_refuses_are_found_at_load";

/// Rules without a pair, and where else they are tested: their tests need another machine, another
/// driver, or more than one call.
const ELSEWHERE: &[(RuleId, Elsewhere)] = &[
    (RuleId::HostFault, Never("only the lab itself can break it")),
    (
        RuleId::DpcLeft,
        Never("a DPC can't outlast DriverUnload: a processor below DISPATCH_LEVEL runs it at once"),
    ),
    (
        RuleId::MappingLeft,
        At(DEVICES, "a_mapping_that_is_left_is_told_with_the_device"),
    ),
    (
        RuleId::DeviceRegister,
        At(
            DEVICES,
            "an_access_that_the_device_has_no_register_for_is_a_finding_and_the_driver_goes_on",
        ),
    ),
    (
        RuleId::PoolUnderrun,
        At(
            MEMORY,
            "an_access_before_a_block_faults_with_the_guard_in_front",
        ),
    ),
    (
        RuleId::UnhandledException,
        At(
            "lab/ntos/tests/seh.rs",
            "an_exception_that_nobody_handles_is_a_finding_at_its_place",
        ),
    ),
    (RuleId::UserMemoryUnprobed, At(MEMORY, AS_TOUCHED)),
    (RuleId::UserMemoryUnguarded, At(MEMORY, AS_TOUCHED)),
    (
        RuleId::PagedMemoryAtDispatch,
        At(MEMORY, "paged_memory_is_not_to_be_had_at_dispatch_level"),
    ),
    (
        RuleId::InterruptLeft,
        At(INTERRUPTS, "an_interrupt_left_connected_is_told"),
    ),
    (RuleId::DpcWatchdog, At(INTERRUPTS, TOO_LONG)),
    (RuleId::IsrTooLong, At(INTERRUPTS, TOO_LONG)),
    (RuleId::IrqlTooLong, At(INTERRUPTS, TOO_LONG)),
    (RuleId::SpinLockTooLong, At(INTERRUPTS, TOO_LONG)),
    (
        RuleId::FootprintGrowth,
        At(
            "lab/check/src/scenario/load_unload.rs",
            "a_machine_that_holds_more_than_after_the_first_cycle_has_grown",
        ),
    ),
    (
        RuleId::BugCheckCallbackFailed,
        At(
            "lab/ntos/tests/bug_check.rs",
            "a_routine_that_fails_is_a_finding_beside_the_stop",
        ),
    ),
    (
        RuleId::CancelIgnored,
        At(WORKERS, "a_cancelled_request_has_to_complete"),
    ),
    (
        RuleId::WorkerLost,
        At(
            CHECK,
            "a_case_that_kills_its_worker_is_a_finding_of_its_own",
        ),
    ),
    (
        RuleId::SectionUnaligned,
        At(
            "lab/ntos/src/integrity.rs",
            "sections_that_memory_integrity_refuses_are_found",
        ),
    ),
    (RuleId::SectionWritableExecutable, At(HERE, SECTIONS)),
    (RuleId::ImportsExecutable, At(HERE, SECTIONS)),
    (
        RuleId::IrpHandlerMissing,
        At(
            HERE,
            "a_driver_of_a_stack_passes_on_what_it_does_not_handle",
        ),
    ),
];

/// Rules that are reported on account of another routine than the one named after them: one that has
/// returned by then, or the last that can go on.
const NAMED_BY_ROUTINE: &[(RuleId, &str)] = &[
    (RuleId::Deadlock, "first_then_second"),
    (RuleId::IrqlChangedByDispatch, "control"),
    (RuleId::ApcDisableChanged, "control"),
    (RuleId::IrpBadReturn, "control"),
    (RuleId::IrpPendingNotMarked, "control"),
    (RuleId::IrpMarkedNotPending, "control"),
    (RuleId::IrpStatusMismatch, "control"),
    (RuleId::IrpNeverCompleted, "control"),
];

/// Rules found when nothing of the driver runs any more that could be named.
const NAMELESS: &[RuleId] = &[RuleId::WaitForever, RuleId::TimerLeft, RuleId::ThreadLeft];

/// Rules that another one comes before.
const FOLLOWS: &[(RuleId, RuleId)] = &[(RuleId::Deadlock, RuleId::LockOrder)];

/// Rules that need another processor to be broken.
const TWO_PROCESSORS: &[RuleId] = &[RuleId::SpinLockWrongOwner, RuleId::Deadlock];

/// What came of a call, in order: findings, the stop, what was left.
struct Outcome {
    rules: Vec<&'static str>,
    findings: Vec<Finding>,
    text: String,
    leaks: Vec<Leak>,
    stopped: bool,
}

fn options(rule: RuleId) -> Options {
    Options {
        cpus: if TWO_PROCESSORS.contains(&rule) { 2 } else { 1 },
        hang_limit: Duration::from_secs(1),
        ..Options::default()
    }
}

/// Does it on a machine of its own, and unloads the driver if it can go on.
fn perform(rule: &Rule, code: u32) -> Outcome {
    ask(rule.name, code, options(rule.id))
}

fn ask(name: &str, code: u32, options: Options) -> Outcome {
    let mut dock = dock("faulty-driver", options);
    let file = open(dock.machine(), DEVICE);
    let mut output = [0; 64];
    let called = dock
        .machine()
        .ioctl(file, code, name.as_bytes(), &mut output);
    if let Ok(completion) = &called {
        let unknown = completion.status == nt::status::STATUS_OBJECT_NAME_NOT_FOUND;
        assert!(!unknown, "the driver knows nothing of {name}");
    }
    let closed = called.and_then(|_| dock.machine().close(file));
    conclude(&mut dock, closed.err())
}

fn conclude(dock: &mut Dock, stop: Option<Stopped>) -> Outcome {
    let (leaks, stop) = match stop {
        Some(stop) => (Vec::new(), Some(stop)),
        None => match dock.unload() {
            Ok(leaks) => (leaks, None),
            Err(stop) => (Vec::new(), Some(stop)),
        },
    };
    let stopped = stop.is_some();
    let mut findings = dock.machine().take_findings();
    findings.extend(stop.map(|Stopped(finding)| (*finding).clone()));
    let texts = findings
        .iter()
        .map(ToString::to_string)
        .chain(leaks.iter().map(ToString::to_string));
    Outcome {
        rules: findings
            .iter()
            .map(|finding| finding.rule)
            .chain(leaks.iter().map(|leak| leak.rule))
            .collect(),
        text: texts.collect::<Vec<_>>().join("\n"),
        findings,
        leaks,
        stopped,
    }
}

impl Outcome {
    /// Functions that the reports of a rule name.
    fn functions(&self, rule: &Rule) -> Vec<String> {
        let findings = self.findings.iter().filter(|found| found.rule == rule.name);
        let stacks = findings.flat_map(|finding| finding.stack.iter().chain([&finding.at]));
        let leaks = self.leaks.iter().filter(|leak| leak.rule == rule.name);
        let places = leaks.filter_map(|leak| leak.taken_at.as_ref());
        let name = |frame: &Frame| frame.function.clone();
        stacks.chain(places).filter_map(name).collect()
    }
}

/// What is wrong with how a broken rule was reported.
fn judge_broken(rule: &Rule, outcome: &Outcome) -> Option<String> {
    let first = outcome.rules.first().copied().unwrap_or("nothing");
    let before = FOLLOWS.iter().find(|(follower, _)| *follower == rule.id);
    let expected = before.map_or(rule.name, |(_, before)| before.rule().name);
    if first != expected || !outcome.rules.contains(&rule.name) {
        return Some(format!(
            "broken: {expected} expected first, {:?} found",
            outcome.rules
        ));
    }
    let hard = rule.severity == Severity::Hard;
    if hard && !outcome.stopped {
        return Some("broken: a hard rule did not stop the machine".into());
    }
    let own = outcome
        .findings
        .iter()
        .find(|finding| finding.rule == rule.name);
    let stops = own.is_some()
        && outcome
            .findings
            .last()
            .is_some_and(|last| last.rule == rule.name);
    if !hard && outcome.stopped && stops {
        return Some("broken: a soft rule stopped the machine".into());
    }
    if let (Some(finding), Some(subcode)) = (own, rule.subcode)
        && finding.parameters[0] != subcode
    {
        return Some(format!("broken: sub-code {:#x}", finding.parameters[0]));
    }
    let routine = NAMED_BY_ROUTINE.iter().find(|(named, _)| *named == rule.id);
    let own_name = rule.name.replace('-', "_");
    let function = routine.map_or(own_name.as_str(), |(_, routine)| routine);
    let functions = outcome.functions(rule);
    let named = functions.iter().any(|name| name.contains(function));
    (!named && !NAMELESS.contains(&rule.id))
        .then(|| format!("broken: {function} is not among {functions:?}"))
}

/// What one rule forbids to some is a near miss for others.
fn near_miss(rule: RuleId) -> u32 {
    match rule {
        RuleId::AnyAccessPrivileged => NEAR_MISS_WRITE,
        _ => NEAR_MISS,
    }
}

fn is_paired(rule: &Rule) -> bool {
    !ELSEWHERE.iter().any(|(id, _)| *id == rule.id)
}

#[test]
fn every_rule_is_found_broken_and_its_near_miss_is_clean() {
    let mut wrong = Vec::new();
    for rule in RULES.iter().filter(|rule| is_paired(rule)) {
        let broken = perform(rule, BREAK);
        if let Some(what) = judge_broken(rule, &broken) {
            wrong.push(format!("{}: {what}\n{}", rule.name, broken.text));
        }
        let near = perform(rule, near_miss(rule.id));
        if !near.rules.is_empty() {
            wrong.push(format!("{}: near miss: {}", rule.name, near.text));
        }
    }
    assert!(wrong.is_empty(), "{}: {}", wrong.len(), wrong.join("\n\n"));
}

#[test]
fn what_correct_drivers_do_breaks_no_rule() {
    let mut wrong = Vec::new();
    for name in CORRECT_WAYS {
        for cpus in [1, 2] {
            let options = Options {
                cpus,
                hang_limit: Duration::from_secs(1),
                ..Options::default()
            };
            let outcome = ask(name, CORRECT, options);
            if !outcome.rules.is_empty() {
                wrong.push(format!("{name}, {cpus} processors: {}", outcome.text));
            }
        }
    }
    assert!(wrong.is_empty(), "{}: {}", wrong.len(), wrong.join("\n\n"));
}

#[test]
fn a_lock_order_names_both_places_without_a_deadlock() {
    let outcome = perform(RuleId::LockOrder.rule(), BREAK);
    assert!(!outcome.stopped, "{}", outcome.text);
    let finding = &outcome.findings[0];
    assert_eq!(finding.others.len(), 1, "{finding}");
    let stacks = [&finding.stack, &finding.others[0].stack];
    for stack in stacks {
        let named = |name| {
            stack.iter().any(|frame| {
                frame
                    .function
                    .as_deref()
                    .is_some_and(|function| function.contains(name))
            })
        };
        assert!(named("lock_order") && named("control"), "{finding}");
    }
}

#[test]
fn one_run_gives_many_findings() {
    let dock = dock("faulty-driver", Options::default());
    let file = open(dock.machine(), DEVICE);
    let soft = [
        "pool-double-free",
        "pool-zero-bytes",
        "mdl-freed-locked",
        "irp-completed-twice",
        "spin-lock-not-owned",
        "bad-handle",
    ];
    for _ in 0..2 {
        for name in soft {
            let called = dock
                .machine()
                .ioctl(file, BREAK, name.as_bytes(), &mut [0; 64]);
            called.expect("the machine goes on");
        }
    }
    let findings = dock.machine().take_findings();
    let found: Vec<&str> = findings.iter().map(|finding| finding.rule).collect();
    assert_eq!(found, soft);
    assert!(findings.iter().all(|finding| finding.count == 2));
}

/// Characteristics of a section: may be executed, may be written.
const EXECUTE: u32 = 0x2000_0000;
const WRITE: u32 = 0x8000_0000;

/// The faulty driver with more characteristics of one section.
fn with_section(name: &str, more: u32) -> lab_dock::Read {
    let folder = tempfile::tempdir().expect("a folder");
    let mut bytes = std::fs::read(e2e::driver_path("faulty-driver")).expect("the driver");
    let mut field = [0; 8];
    field[..name.len()].copy_from_slice(name.as_bytes());
    let at = bytes
        .windows(8)
        .position(|window| window == field)
        .expect("the section's header")
        + 36;
    let old = u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
    bytes[at..at + 4].copy_from_slice(&(old | more).to_le_bytes());
    let path = folder.path().join("patched.sys");
    std::fs::write(&path, bytes).expect("written");
    lab_dock::read_driver(&path).unwrap_or_else(|error| panic!("{error}"))
}

/// Rules that are found broken when a driver is loaded and unloaded.
fn load(read: &lab_dock::Read) -> Vec<&'static str> {
    let machine = Options::default().machine(|_| {}).expect("a machine");
    match machine.load(&read.driver) {
        Ok(Loaded::Running(driver)) => {
            assert!(machine.unload(driver).is_ok_and(|left| left.is_empty()))
        }
        other => panic!("{other:?}"),
    }
    let findings = machine.take_findings();
    findings.iter().map(|finding| finding.rule).collect()
}

#[test]
fn sections_that_memory_integrity_refuses_are_found_at_load() {
    let found = load(&with_section(".data", EXECUTE));
    assert_eq!(found, ["section-writable-executable"]);
    let found = load(&with_section(".text", WRITE));
    assert_eq!(found, ["section-writable-executable"]);
    let found = load(&with_section(".rdata", EXECUTE));
    assert_eq!(found, ["imports-in-code"]);
    assert_eq!(load(&with_section(".rdata", 0)), [""; 0], "unchanged");
}

#[test]
fn a_driver_of_a_stack_passes_on_what_it_does_not_handle() {
    let named = |name: &str| {
        let mut read = read("faulty-driver");
        read.driver.name = name.into();
        load(&read)
    };
    assert_eq!(named("faulty-no-handlers"), ["irp-handler-missing"; 1]);
    assert_eq!(named("faulty-stack"), [""; 0]);
    assert_eq!(named("faulty"), [""; 0], "no AddDevice");
}

#[test]
fn what_is_tested_elsewhere_is_listed_once_and_tested_there() {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for (id, place) in ELSEWHERE {
        let rule = id.rule().name;
        let times = ELSEWHERE.iter().filter(|(other, _)| other == id).count();
        assert_eq!(times, 1, "{rule}");
        let (file, test) = match place {
            At(file, test) => (file, test),
            Never(reason) => {
                assert!(!reason.is_empty(), "{rule}");
                continue;
            }
        };
        let text = std::fs::read_to_string(workspace.join(file)).expect(file);
        let start = text.find(&format!("#[test]\nfn {test}("));
        let start = start.or_else(|| text.find(&format!("    #[test]\n    fn {test}(")));
        let start = start.unwrap_or_else(|| panic!("{rule}: no test {test} in {file}"));
        let rest = &text[start + 10..];
        let body = &rest[..rest.find("#[test]").unwrap_or(rest.len())];
        let named = [format!("\"{rule}\""), format!("RuleId::{id:?}")];
        assert!(
            named.iter().any(|name| body.contains(name)),
            "{rule}: {test} in {file} does not name it"
        );
    }
}
