//! What happens when the machine has stopped: the routines that drivers registered for that are called.
//!
//! Each runs on a thread of its own at `HIGH_LEVEL`, on the processor that stopped, and nothing else runs.
//! A routine that breaks a rule is given up: that is a finding beside the one the machine stopped at.

use lab_verifier::RuleId;
use nt::base::GUID;
use nt::ke::HIGH_LEVEL;
use nt::sysinfo::{
    KB_SECONDARY_DATA_FLAG_ADDITIONAL_DATA, KBUGCHECK_CALLBACK_RECORD,
    KBUGCHECK_REASON_CALLBACK_RECORD, KBUGCHECK_SECONDARY_DUMP_DATA,
    KBUGCHECK_SECONDARY_DUMP_DATA_EX, KbCallbackSecondaryDumpData,
    KbCallbackSecondaryMultiPartDumpData,
};

use crate::findings::Stop;
use crate::guest::{self, get, set};
use crate::locate::Raw;
use crate::machine::Machine;
use crate::pool::Owner;
use crate::process::SYSTEM_PROCESS;
use crate::resources::Held;
use crate::sched::{Job, State, ThreadId};

/// Bytes that a routine may give in one call. Windows does not say how many it allows.
const MOST_IN_A_CALL: u32 = 64 << 10;
/// Bytes of the buffer that the kernel lends to a routine.
const LENT: u32 = 4096;
/// Calls of one routine, at most.
const MOST_CALLS: u32 = 1 << 16;
/// Times that a routine may give control back, at most: nothing is there that it could wait for.
const MOST_SWITCHES: u32 = 10_000;
/// Type of the dump that is written: the kernel's memory, with a bitmap.
pub(crate) const DUMP_TYPE: u32 = 6;

/// Data that a driver gave for a dump, with its tag.
pub(crate) type Given = ([u8; 16], Vec<u8>);

/// A registered routine.
#[derive(Clone, Copy)]
struct Registered {
    record: u64,
    routine: u64,
    /// `None`: of `KeRegisterBugCheckCallback`.
    reason: Option<i32>,
}

impl Machine {
    /// Calls the routines for bug checks, once.
    ///
    /// While instructions are stepped, or what the kernel keeps was in use when it stopped, none is called.
    pub(crate) fn call_bug_check_routines(&self, stop: &Stop, raw: &Raw) {
        if self.stepper.is_open() || raw.rule == RuleId::HostFault || !self.is_consistent() {
            return;
        }
        if self.found.routines_called.replace(true) {
            return;
        }
        let routines = self.bug_check_routines(raw);
        if routines.is_empty() {
            return;
        }
        self.enter();
        let lent = self.pool.borrow_mut().allocate(
            u64::from(LENT),
            u32::from_le_bytes(*b"Dump"),
            false,
            Owner::Kernel,
            0,
        );
        let crash = Crash {
            machine: self,
            stop,
            cpu: raw.cpu.index,
            lent: lent.unwrap_or(0),
        };
        for registered in routines {
            crash.call(registered);
        }
    }

    /// Whether what is looked at here, and by every kernel call, is nobody's: a context that was given up
    /// in the middle of a call may have it.
    pub(crate) fn is_consistent(&self) -> bool {
        self.pool.try_borrow_mut().is_ok()
            && self.objects.try_borrow_mut().is_ok()
            && self.resources.try_borrow_mut().is_ok()
            && self.modules.try_borrow_mut().is_ok()
            && self.free_threads.try_borrow_mut().is_ok()
            && self.processes.try_borrow_mut().is_ok()
    }

    /// What is registered, those with a reason first: what is in memory that is gone is a finding.
    fn bug_check_routines(&self, raw: &Raw) -> Vec<Registered> {
        let resources = self.resources.borrow();
        let plain = resources.held(Held::BugCheckCallback);
        let reasoned = resources.held(Held::BugCheckReasonCallback);
        let records: Vec<_> = reasoned
            .map(|record| (record, true))
            .chain(plain.map(|record| (record, false)))
            .collect();
        drop(resources);
        let mut registered = Vec::new();
        for (record, has_reason) in records {
            if !self.is_resident(record, size_of::<KBUGCHECK_REASON_CALLBACK_RECORD>() as u64) {
                self.note(&Raw {
                    rule: RuleId::BugCheckCallbackFailed,
                    parameters: [record, 0, 0, 0],
                    what: format!(
                        "the record at {record:#x} of a routine for bug checks is in memory that is gone"
                    ),
                    ..raw.clone()
                });
                continue;
            }
            let (routine, reason) = if has_reason {
                let record = record as *const KBUGCHECK_REASON_CALLBACK_RECORD;
                (
                    get!(record.cast_mut(), CallbackRoutine),
                    Some(get!(record.cast_mut(), Reason)),
                )
            } else {
                let record = record as *mut KBUGCHECK_CALLBACK_RECORD;
                (get!(record, CallbackRoutine), None)
            };
            registered.push(Registered {
                record,
                routine: routine as u64,
                reason,
            });
        }
        registered
    }

    /// Runs a routine of the driver after the machine has stopped; false if it does not come to its end.
    fn call_stopped(&self, cpu: usize, function: u64, args: [u64; 4]) -> bool {
        let process = self.process(SYSTEM_PROCESS).unwrap_or_default();
        let Ok(id) = self.free_thread(process) else {
            return false;
        };
        let thread = self.thread(id);
        thread.job.set(Job::Call { function, args });
        thread.irql.set(HIGH_LEVEL);
        thread.state.set(State::Runnable);
        thread.ticks.set(0);
        self.cpus[cpu].take_requests();
        self.found.in_routine.set(true);
        let ended = self.run_alone(cpu, id);
        self.found.in_routine.set(false);
        if ended {
            self.reuse_thread(id);
        }
        ended
    }

    fn run_alone(&self, cpu: usize, id: ThreadId) -> bool {
        for _ in 0..MOST_SWITCHES {
            self.active.set(self.active.get() + 1);
            self.resume(cpu, id);
            match self.thread(id).state.get() {
                State::Free => return true,
                State::Runnable if self.found.broken_in_routine.borrow().is_none() => {}
                _ => return false,
            }
        }
        false
    }
}

/// The stop that routines are called for.
struct Crash<'a> {
    machine: &'a Machine,
    stop: &'a Stop,
    cpu: usize,
    /// Address of the buffer that is lent to routines.
    lent: u64,
}

impl Crash<'_> {
    fn call(&self, registered: Registered) {
        let outcome = match registered.reason {
            None => self.tell(registered),
            Some(reason) if reason == KbCallbackSecondaryDumpData => self.ask_once(registered),
            Some(reason) if reason == KbCallbackSecondaryMultiPartDumpData => self.ask(registered),
            // For devices that show what is written, and for other kinds of dumps.
            Some(_) => Ok(()),
        };
        if let Err(what) = outcome {
            self.failed(registered, what);
        }
    }

    /// A routine that is told.
    fn tell(&self, registered: Registered) -> Result<(), String> {
        let record = registered.record as *mut KBUGCHECK_CALLBACK_RECORD;
        let (buffer, length) = (get!(record, Buffer) as u64, u64::from(get!(record, Length)));
        self.run(registered, [buffer, length, 0, 0])
    }

    /// A routine that gives data in one piece: asked how long they are, then for them.
    fn ask_once(&self, registered: Registered) -> Result<(), String> {
        let mut data = Box::new(self.question().base());
        let place = &raw mut *data;
        let length = size_of::<KBUGCHECK_SECONDARY_DUMP_DATA>() as u64;
        let arguments = [
            i64::from(KbCallbackSecondaryDumpData).cast_unsigned(),
            registered.record,
            place as u64,
            length,
        ];
        self.run(registered, arguments)?;
        set!(place, OutBuffer = self.lent as *mut _);
        self.run(registered, arguments)?;
        let (from, bytes) = (get!(place, OutBuffer) as u64, get!(place, OutBufferLength));
        let piece = self.piece(from, bytes)?;
        self.give(get!(place, Guid), piece);
        Ok(())
    }

    /// A routine that gives data piece by piece.
    fn ask(&self, registered: Registered) -> Result<(), String> {
        let mut data = Box::new(self.question());
        let place = &raw mut *data;
        let length = size_of::<KBUGCHECK_SECONDARY_DUMP_DATA_EX>() as u64;
        let arguments = [
            i64::from(KbCallbackSecondaryMultiPartDumpData).cast_unsigned(),
            registered.record,
            place as u64,
            length,
        ];
        let mut all = Vec::new();
        for _ in 0..MOST_CALLS {
            set!(place, OutBuffer = self.lent as *mut _);
            set!(place, OutBufferLength = 0u32);
            set!(place, Flags = 0u32);
            self.run(registered, arguments)?;
            let (from, bytes) = (get!(place, OutBuffer) as u64, get!(place, OutBufferLength));
            let piece = self.piece(from, bytes)?;
            let is_last = get!(place, Flags) & KB_SECONDARY_DATA_FLAG_ADDITIONAL_DATA == 0;
            all.extend(piece);
            if is_last {
                self.give(get!(place, Guid), all);
                return Ok(());
            }
        }
        Err(format!("wants to be called again after {MOST_CALLS} calls"))
    }

    fn question(&self) -> KBUGCHECK_SECONDARY_DUMP_DATA_EX {
        let parameter = |index: usize| guest::size(self.stop.parameters[index]);
        KBUGCHECK_SECONDARY_DUMP_DATA_EX {
            InBuffer: self.lent as *mut _,
            InBufferLength: if self.lent == 0 { 0 } else { LENT },
            MaximumAllowed: MOST_IN_A_CALL,
            Guid: GUID {
                Data1: 0,
                Data2: 0,
                Data3: 0,
                Data4: [0; 8],
            },
            OutBuffer: std::ptr::null_mut(),
            OutBufferLength: 0,
            Context: std::ptr::null_mut(),
            Flags: 0,
            DumpType: DUMP_TYPE,
            BugCheckCode: self.stop.code,
            BugCheckParameter1: parameter(0),
            BugCheckParameter2: parameter(1),
            BugCheckParameter3: parameter(2),
            BugCheckParameter4: parameter(3),
        }
    }

    fn run(&self, registered: Registered, arguments: [u64; 4]) -> Result<(), String> {
        if self
            .machine
            .call_stopped(self.cpu, registered.routine, arguments)
        {
            Ok(())
        } else {
            Err("does not come to its end".into())
        }
    }

    /// What a routine gave.
    fn piece(&self, from: u64, bytes: u32) -> Result<Vec<u8>, String> {
        if from == 0 || bytes == 0 {
            return Ok(Vec::new());
        }
        if bytes > MOST_IN_A_CALL {
            return Err(format!(
                "gives {bytes} bytes; it was allowed {MOST_IN_A_CALL}"
            ));
        }
        if !self.machine.is_resident(from, u64::from(bytes)) {
            return Err(format!(
                "gives {bytes} bytes at {from:#x}, which are not all in nonpaged memory"
            ));
        }
        Ok(guest::bytes(from as *const u8, guest::size(bytes.into())))
    }

    fn give(&self, guid: GUID, data: Vec<u8>) {
        if data.is_empty() {
            return;
        }
        let mut tag = [0; 16];
        tag[..4].copy_from_slice(&guid.Data1.to_le_bytes());
        tag[4..6].copy_from_slice(&guid.Data2.to_le_bytes());
        tag[6..8].copy_from_slice(&guid.Data3.to_le_bytes());
        tag[8..].copy_from_slice(&guid.Data4);
        self.machine.found.given.borrow_mut().push((tag, data));
    }

    /// Records that a routine failed: where it broke a rule, or at its beginning.
    fn failed(&self, registered: Registered, what: String) {
        let broken = self.machine.found.broken_in_routine.take();
        let (at, what) = match &broken {
            Some(raw) => (raw.registers.rip, raw.what.clone()),
            None => (registered.routine, what),
        };
        let reason = registered.reason.unwrap_or(0);
        let raw = self.machine.at_site(
            RuleId::BugCheckCallbackFailed,
            [registered.record, i64::from(reason).cast_unsigned(), at, 0],
            format!(
                "the routine for bug checks at {:#x}: {what}",
                registered.routine
            ),
            registered.routine,
        );
        let raw = broken.map_or(raw.clone(), |broken| Raw {
            rule: raw.rule,
            parameters: raw.parameters,
            what: raw.what,
            ..broken
        });
        self.machine.note(&raw);
    }
}

trait Base {
    fn base(&self) -> KBUGCHECK_SECONDARY_DUMP_DATA;
}

impl Base for KBUGCHECK_SECONDARY_DUMP_DATA_EX {
    /// The part that every version has.
    fn base(&self) -> KBUGCHECK_SECONDARY_DUMP_DATA {
        KBUGCHECK_SECONDARY_DUMP_DATA {
            InBuffer: self.InBuffer,
            InBufferLength: self.InBufferLength,
            MaximumAllowed: self.MaximumAllowed,
            Guid: GUID {
                Data1: 0,
                Data2: 0,
                Data3: 0,
                Data4: [0; 8],
            },
            OutBuffer: self.OutBuffer,
            OutBufferLength: self.OutBufferLength,
        }
    }
}
