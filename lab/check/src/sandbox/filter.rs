//! The filter of system calls: which ones, and from where.

use core::ops::Range;

use seccompiler::sock_filter;

/// Instructions of the filter's machine (linux/filter.h).
const LOAD: u16 = 0x20;
const JUMP_EQUAL: u16 = 0x15;
const JUMP_AT_LEAST: u16 = 0x35;
const JUMP_ANY_BIT: u16 = 0x45;
const RETURN: u16 = 0x06;

/// Offsets in `struct seccomp_data`.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
const ADDRESS_LOW: u32 = 8;
const ADDRESS_HIGH: u32 = 12;
const FIRST_ARGUMENT: u32 = 16;

/// `AUDIT_ARCH_X86_64`.
const X86_64: u32 = 0xC000_003E;
/// `SECCOMP_RET_KILL_PROCESS`.
const KILL: u32 = 0x8000_0000;
/// `SECCOMP_RET_TRAP`: a SIGSYS.
const TRAP: u32 = 0x0003_0000;
/// `SECCOMP_RET_ALLOW`.
const ALLOW: u32 = 0x7FFF_0000;
/// `SECCOMP_RET_ERRNO` with EPERM.
const NOT_PERMITTED: u32 = 0x0005_0000 | 1;
/// `SECCOMP_RET_ERRNO` with ENOSYS.
const NOT_THERE: u32 = 0x0005_0000 | 38;

/// What a running machine and its host threads need, by x86-64 number.
const ALLOWED: [(u32, &str); 45] = [
    (0, "read"),
    (1, "write"),
    (3, "close"),
    (7, "poll"),
    (9, "mmap"),
    (10, "mprotect"),
    (11, "munmap"),
    (12, "brk"),
    (13, "rt_sigaction"),
    (14, "rt_sigprocmask"),
    (15, "rt_sigreturn"),
    (17, "pread64"),
    (18, "pwrite64"),
    (19, "readv"),
    (20, "writev"),
    (24, "sched_yield"),
    (25, "mremap"),
    (27, "mincore"),
    (28, "madvise"),
    (35, "nanosleep"),
    (39, "getpid"),
    (60, "exit"),
    (72, "fcntl"),
    (77, "ftruncate"),
    (96, "gettimeofday"),
    (131, "sigaltstack"),
    (158, "arch_prctl"),
    (186, "gettid"),
    (202, "futex"),
    (204, "sched_getaffinity"),
    (219, "restart_syscall"),
    (222, "timer_create"),
    (223, "timer_settime"),
    (224, "timer_gettime"),
    (226, "timer_delete"),
    (228, "clock_gettime"),
    (229, "clock_getres"),
    (230, "clock_nanosleep"),
    (231, "exit_group"),
    (234, "tgkill"),
    (271, "ppoll"),
    (273, "set_robust_list"),
    (318, "getrandom"),
    (319, "memfd_create"),
    (334, "rseq"),
];
const CLONE: u32 = 56;
const CLONE3: u32 = 435;
/// A new thread, not a process.
const CLONE_THREAD: u32 = 0x0001_0000;

/// Installs the filter for all threads of a process whose code is in these ranges.
///
/// Errors: in words why not.
pub(super) fn install(own_code: &[Range<u64>]) -> Result<(), String> {
    let program = program(own_code)?;
    lab_ntos::catch_system_calls();
    seccompiler::apply_filter_all_threads(&program).map_err(|error| error.to_string())
}

fn program(own_code: &[Range<u64>]) -> Result<Vec<sock_filter>, String> {
    let mut program = vec![
        load(ARCHITECTURE),
        jump(JUMP_EQUAL, X86_64, 1, 0),
        give(KILL),
    ];
    program.extend(from_own_code(own_code)?);
    program.push(load(NUMBER));
    for (number, _) in ALLOWED {
        program.extend([jump(JUMP_EQUAL, number, 0, 1), give(ALLOW)]);
    }
    // The C library falls back to clone, whose flags can be seen.
    program.extend([jump(JUMP_EQUAL, CLONE3, 0, 1), give(NOT_THERE)]);
    program.extend([
        jump(JUMP_EQUAL, CLONE, 0, 3),
        load(FIRST_ARGUMENT),
        jump(JUMP_ANY_BIT, CLONE_THREAD, 0, 1),
        give(ALLOW),
        give(NOT_PERMITTED),
    ]);
    Ok(program)
}

/// Goes on if the call comes from one of the ranges, and else traps.
fn from_own_code(ranges: &[Range<u64>]) -> Result<Vec<sock_filter>, String> {
    let mut tests = Vec::new();
    for range in ranges {
        // The address is that of the next instruction: the end of a range belongs to it, its start does not.
        let (start, end) = (range.start + 1, range.end + 1);
        let (high, low) = halves(start);
        if halves(end).0 != high {
            return Err(format!("code that crosses a boundary of 4 GiB at {start:#x}"));
        }
        tests.push([
            load(ADDRESS_HIGH),
            jump(JUMP_EQUAL, high, 0, 4),
            load(ADDRESS_LOW),
            jump(JUMP_AT_LEAST, low, 0, 2),
            jump(JUMP_AT_LEAST, halves(end).1, 1, 0),
            // Placeholder: the way out, which depends on what follows.
            jump(JUMP_AT_LEAST, 0, 0, 0),
        ]);
    }
    let len = 6 * tests.len() + 1;
    let mut program: Vec<_> = tests.into_iter().flatten().collect();
    for at in (5..program.len()).step_by(6) {
        let ahead = u8::try_from(len - at - 1).map_err(|_| "too many pieces of code".to_owned())?;
        program[at] = jump(JUMP_AT_LEAST, 0, ahead, ahead);
    }
    program.push(give(TRAP));
    Ok(program)
}

fn halves(address: u64) -> (u32, u32) {
    #[expect(clippy::cast_possible_truncation, reason = "the halves are what is meant")]
    let halves = ((address >> 32) as u32, address as u32);
    halves
}

const fn load(offset: u32) -> sock_filter {
    jump(LOAD, offset, 0, 0)
}

const fn give(value: u32) -> sock_filter {
    jump(RETURN, value, 0, 0)
}

const fn jump(code: u16, k: u32, jt: u8, jf: u8) -> sock_filter {
    sock_filter { code, jt, jf, k }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a program as the kernel would.
    fn decide(program: &[sock_filter], number: u32, address: u64, argument: u32) -> u32 {
        let (high, low) = halves(address);
        let field = |offset| match offset {
            NUMBER => number,
            ARCHITECTURE => X86_64,
            ADDRESS_LOW => low,
            ADDRESS_HIGH => high,
            FIRST_ARGUMENT => argument,
            _ => panic!("no field at {offset}"),
        };
        let (mut at, mut value) = (0, 0);
        loop {
            let sock_filter { code, jt, jf, k } = program[at];
            let taken = match code {
                LOAD => {
                    value = field(k);
                    at += 1;
                    continue;
                }
                RETURN => return k,
                JUMP_EQUAL => value == k,
                JUMP_AT_LEAST => value >= k,
                JUMP_ANY_BIT => value & k != 0,
                _ => panic!("no instruction {code:#x}"),
            };
            at += 1 + usize::from(if taken { jt } else { jf });
        }
    }

    #[test]
    fn only_the_hosts_own_code_calls_and_only_what_it_may() {
        let ranges = [0x5555_0000_1000..0x5555_0000_3000, 0x7FFF_0000_0000..0x7FFF_0000_1000];
        let program = program(&ranges).expect("few ranges");
        for inside in [0x5555_0000_1002, 0x5555_0000_3000, 0x7FFF_0000_0FFF] {
            assert_eq!(decide(&program, 1, inside, 0), ALLOW, "{inside:#x}");
            assert_eq!(decide(&program, 59, inside, 0), NOT_PERMITTED);
            assert_eq!(decide(&program, CLONE, inside, CLONE_THREAD | 0x100), ALLOW);
            assert_eq!(decide(&program, CLONE, inside, 0x11), NOT_PERMITTED);
            assert_eq!(decide(&program, CLONE3, inside, 0), NOT_THERE);
            // The same numbers of the other system-call table of this processor.
            assert_eq!(decide(&program, 0x4000_0001, inside, 0), NOT_PERMITTED);
        }
        for outside in [0, 0x5555_0000_1000, 0x5555_0000_3001, 0x5556_0000_1002, 0x7FFF_0000_1001] {
            assert_eq!(decide(&program, 1, outside, 0), TRAP, "{outside:#x}");
        }
    }

    #[test]
    fn a_list_that_is_too_long_for_the_filter_is_refused() {
        let ranges: Vec<_> = (1..100u64).map(|n| n << 32..(n << 32) + 0x1000).collect();
        assert!(program(&ranges).is_err());
    }
}
