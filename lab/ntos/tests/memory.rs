//! User programs' memory and paged memory, touched with and without care by a driver that clang builds.

mod clang;

use clang::{build, read};
use lab_ntos::{
    Client, Completion, Config, FileId, Guard, Loaded, Machine, Privilege, Stopped, UserAddresses,
};
use nt::NTSTATUS;
use nt::status::{STATUS_ACCESS_VIOLATION, STATUS_INVALID_PARAMETER, STATUS_SUCCESS};

const NEITHER: u32 = 3;
const BUFFERED: u32 = 0;

struct Lab {
    machine: Box<Machine>,
    file: FileId,
}

impl Lab {
    /// The driver in a machine; tests build it each for itself.
    fn new(name: &str, config: Config) -> Self {
        let file = read(&build("memory.c", name, &[]));
        let machine = Machine::new(config).expect("a machine");
        match machine.load(&file) {
            Ok(Loaded::Running(_)) => {}
            other => panic!("{other:?}"),
        }
        let client = Client {
            process: 1000,
            privilege: Privilege::Administrator,
        };
        let opened = machine.open(r"\Device\Memory", 0x8000_0000, client);
        let file = opened
            .expect("no rule is broken")
            .expect("the device opens");
        Self { machine, file }
    }

    fn call(&self, function: u32, method: u32, output: &mut [u8]) -> Completion {
        self.machine
            .ioctl(self.file, code(function, method), &[1, 2, 3, 4], output)
            .unwrap_or_else(|stopped| panic!("function {function}: {stopped}"))
    }

    fn call_at(&self, function: u32, addresses: UserAddresses) -> Result<Completion, Stopped> {
        self.machine
            .ioctl_at(self.file, code(function, NEITHER), addresses)
    }

    /// The names of the rules broken since the last time.
    fn broken(&self) -> Vec<&'static str> {
        let findings = self.machine.take_findings();
        findings.iter().map(|finding| finding.rule).collect()
    }
}

fn code(function: u32, method: u32) -> u32 {
    0x22 << 16 | function << 2 | method
}

fn status(completion: Completion) -> NTSTATUS {
    completion.status
}

#[test]
fn memory_of_programs_is_judged_by_how_it_is_touched() {
    let lab = Lab::new("memory-user", Config::default());
    for (function, broken) in [
        (2, &["user-memory-unprobed"][..]),
        (3, &["user-memory-unguarded"]),
        (4, &["user-memory-unprobed", "user-memory-unguarded"]),
        (5, &[]),
        (7, &["paged-memory-at-dispatch"]),
    ] {
        for _ in 0..2 {
            assert_eq!(status(lab.call(function, NEITHER, &mut [])), STATUS_SUCCESS);
            assert_eq!(lab.broken(), broken, "function {function}");
        }
    }
}

#[test]
fn careful_drivers_and_system_buffers_are_not_accused() {
    let lab = Lab::new("memory-careful", Config::default());
    let mut output = [0; 4];
    let completion = lab.call(1, NEITHER, &mut output);
    assert_eq!((status(completion), output), (STATUS_SUCCESS, [1, 2, 3, 4]));
    assert_eq!(status(lab.call(6, BUFFERED, &mut output)), STATUS_SUCCESS);
    assert_eq!(output, [3; 4]);
    assert!(lab.broken().is_empty());
}

#[test]
fn hostile_addresses_reach_the_driver_as_they_are() {
    let lab = Lab::new("memory-hostile", Config::default());
    let kernel = std::ptr::from_ref(&lab) as u64;
    for input in [
        0x2_0000,
        kernel,
        0xFFFF_8000_0000_0000,
        u64::MAX - 1,
        0x0FFF_FFFF_FFFE,
    ] {
        let addresses = UserAddresses {
            input,
            input_len: 4,
            output: input,
            output_len: 4,
        };
        for function in [1, 5] {
            let completion = lab.call_at(function, addresses).expect("no stop");
            assert_eq!(
                status(completion),
                STATUS_ACCESS_VIOLATION,
                "{function}: {input:#x}"
            );
        }
    }
    assert!(lab.broken().is_empty());
    let other = lab
        .machine
        .ioctl_at(lab.file, code(6, BUFFERED), UserAddresses::default());
    assert_eq!(status(other.expect("no stop")), STATUS_INVALID_PARAMETER);
    // Without a probe, a kernel address is read like any other; one where nothing is stops the machine.
    let addresses = UserAddresses {
        input: 0xFFFF_8000_0000_0000,
        ..UserAddresses::default()
    };
    let stopped = lab.call_at(2, addresses).expect_err("a stop");
    assert_eq!(stopped.0.rule, "page-fault");
}

#[test]
fn paged_memory_is_not_to_be_had_at_dispatch_level() {
    let lab = Lab::new("memory-paged", Config::default());
    for (function, broken) in [
        (8, &["paged-memory-at-dispatch"][..]),
        (9, &[]),
        (10, &[]),
        (11, &["paged-memory-at-dispatch"]),
        (12, &["paged-memory-at-dispatch"]),
        (13, &[]),
    ] {
        for _ in 0..2 {
            assert_eq!(status(lab.call(function, NEITHER, &mut [])), STATUS_SUCCESS);
            assert_eq!(lab.broken(), broken, "function {function}");
        }
    }
    let relaxed = Config {
        force_irql: false,
        ..Config::default()
    };
    let lab = Lab::new("memory-relaxed", relaxed);
    for function in 8..=13 {
        assert_eq!(status(lab.call(function, NEITHER, &mut [])), STATUS_SUCCESS);
    }
    assert!(lab.broken().is_empty());
}

#[test]
fn an_access_before_a_block_faults_with_the_guard_in_front() {
    let behind = Lab::new("memory-behind", Config::default());
    assert_eq!(status(behind.call(14, NEITHER, &mut [])), STATUS_SUCCESS);
    let front = Config {
        guard: Guard::Front,
        ..Config::default()
    };
    let lab = Lab::new("memory-front", front);
    let stopped = lab.machine.ioctl(lab.file, code(14, NEITHER), &[], &mut []);
    let finding = stopped.expect_err("a stop").0;
    assert_eq!(finding.rule, "pool-underrun");
    let access = finding.access.as_ref().expect("an access");
    let target = access.target.as_deref().unwrap_or_default();
    assert!(target.starts_with("byte -4 of 64 bytes"), "{target}");
}
