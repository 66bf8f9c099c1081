//! `wperf-driver.sys` in the lab, and clients of it in the test's process.

use std::cell::RefCell;

use lab_devices::{Architectural, Event, Model};
use lab_dock::{Dock, Options, Read};
use lab_ntos::{Client as Process, Completion, FileId, Machine, Privilege, Stopped};
use wperf_abi::client::{Client, Reply, Transport};
use wperf_abi::record::{AcquireMode, AssignEvent, EventCount, ReadHeader};
use wperf_abi::{CLIENT_PATH, EventCode, EventFilter};

use crate::{READ_WRITE, read};

/// Process of the first client.
pub const OWNER: u64 = 1000;
/// Process of the second.
pub const STRANGER: u64 = 2000;
/// Resolution of the system's clock.
pub const CLOCK_NS: u64 = 100;
/// What the client's own buffer holds before a call.
const BEFORE: u8 = 0x5A;

/// Docks the driver. It is read and analysed once per thread.
#[must_use]
pub fn dock(options: Options) -> Dock {
    thread_local! {
        static DRIVER: RefCell<Option<Read>> = const { RefCell::new(None) };
    }
    DRIVER.with_borrow_mut(|driver| {
        let read = driver.get_or_insert_with(|| read("wperf-driver"));
        Dock::new(&read.driver, options, |_| {}).unwrap_or_else(|error| panic!("{error}"))
    })
}

/// The driver leaves without a finding and leaves nothing behind.
pub fn unload_cleanly(dock: Dock) {
    let verdict = dock.finish();
    assert!(verdict.is_clean(), "{verdict}");
}

/// An open handle on the device.
#[derive(Clone, Copy)]
pub struct Handle<'m> {
    /// The machine it is of.
    pub machine: &'m Machine,
    /// The handle.
    pub file: FileId,
}

impl<'m> Handle<'m> {
    /// Opens the device for reading and writing, as an administrator's process.
    #[must_use]
    pub fn open(machine: &'m Machine, process: u64) -> Self {
        let client = Process {
            process,
            privilege: Privilege::Administrator,
        };
        match machine.open(CLIENT_PATH, READ_WRITE, client) {
            Ok(Ok(file)) => Self { machine, file },
            other => panic!("{CLIENT_PATH}: {other:?}"),
        }
    }

    /// Calls with bytes, into a buffer of this length; gives the status and what was returned.
    ///
    /// Whatever the call: the driver breaks no rule, returns no byte that it did not write, and none
    /// past those it says it returned.
    #[must_use]
    pub fn call(&self, code: u32, input: &[u8], output_len: usize) -> (u32, Vec<u8>) {
        let mut output = vec![BEFORE; output_len];
        let completion = self.ioctl(code, input, &mut output);
        let status = completion.status.to_u32();
        let returned = match completion.status.is_error() {
            true => 0,
            false => completion.information,
        };
        assert!(
            output[returned..].iter().all(|&byte| byte == BEFORE),
            "{code:#x} returns {returned} bytes and changes more"
        );
        output.truncate(returned);
        if let Some(finding) = self.machine.take_findings().first() {
            panic!("{code:#x}: {finding}");
        }
        (status, output)
    }

    fn ioctl(&self, code: u32, input: &[u8], output: &mut [u8]) -> Completion {
        match self.machine.ioctl(self.file, code, input, output) {
            Ok(completion) => completion,
            Err(Stopped(finding)) => panic!("{finding}"),
        }
    }

    /// Closes the handle.
    pub fn close(self) {
        let status = self.machine.close(self.file).expect("no rule broken");
        assert!(status.is_success());
    }

    /// The typed calls over this handle.
    #[must_use]
    pub fn client(self) -> Client<Self> {
        Client::new(self)
    }
}

impl Transport for Handle<'_> {
    type Error = Stopped;

    fn call(&mut self, code: u32, input: &[u8], output: &mut [u8]) -> Result<Reply, Stopped> {
        let completion = self.machine.ioctl(self.file, code, input, output)?;
        let status = completion.status.to_u32();
        Ok(Reply::from_ntstatus(status, completion.information))
    }
}

/// The typed calls of a client.
pub type Perf<'m> = Client<Handle<'m>>;

/// Opens the device for typed calls.
#[must_use]
pub fn perf(machine: &Machine, process: u64) -> Perf<'_> {
    Handle::open(machine, process).client()
}

/// A client that holds these cores with these events assigned.
#[must_use]
pub fn assigned<'m>(machine: &'m Machine, cores: &[u32], events: &[AssignEvent]) -> Perf<'m> {
    let mut perf = perf(machine, OWNER);
    perf.acquire(AcquireMode::NORMAL, cores)
        .expect("the cores are free");
    perf.assign(cores, events, 10)
        .expect("the events can be counted");
    perf
}

/// Counts for so long of virtual time; gives the totals of each core after the stop.
pub fn count(perf: &mut Perf<'_>, machine: &Machine, cores: &[u32], ns: u64) -> Vec<Totals> {
    perf.start(cores).expect("assigned");
    machine.sleep_ns(ns).expect("no rule broken");
    perf.stop(cores).expect("counting");
    cores
        .iter()
        .map(|&core| perf.read(core).expect("assigned"))
        .collect()
}

/// What a core has counted.
pub type Totals = (ReadHeader, Vec<EventCount>);

/// An event in a group, counted everywhere.
#[must_use]
pub fn event(code: Architectural, group: u16) -> AssignEvent {
    filtered(code, group, EventFilter::NONE)
}

/// An event in a group, not counted in some modes.
#[must_use]
pub fn filtered(code: Architectural, group: u16, filter: EventFilter) -> AssignEvent {
    let code = EventCode(code.code().into());
    AssignEvent {
        code,
        filter,
        group,
    }
}

/// What the model counts of an event on a processor between two instants.
#[must_use]
pub fn expected(core: u32, event: &AssignEvent, from_ns: u64, to_ns: u64) -> u64 {
    let counted = Event {
        code: u16::try_from(event.code.0).expect("an event of the hardware"),
        user: event.filter.counts_user(),
        kernel: event.filter.counts_kernel(),
    };
    let cpu = core as usize;
    Model::total(cpu, counted, to_ns) - Model::total(cpu, counted, from_ns)
}

/// Each count is what the model counts in the time that the event was on a counter.
pub fn assert_exact(core: u32, events: &[AssignEvent], (head, counts): &Totals) {
    assert_eq!(counts.len(), events.len());
    for (count, event) in counts.iter().zip(events) {
        let right = expected(core, event, 0, count.running_ns);
        // Rounding of the model's rates: each start, and each window.
        let slack = head.rotations + 4;
        assert!(
            count.value.abs_diff(right) <= slack,
            "core {core}: {count:?}, not {right}"
        );
        assert_eq!((count.code, count.group), (event.code, event.group));
        assert_eq!(count.enabled_ns, head.enabled_ns);
    }
}
