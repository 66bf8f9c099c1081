//! Processes and threads as drivers see them.

use lab_verifier::RuleId;
use nt::NTSTATUS;
use nt::base::LIST_ENTRY;
use nt::ke::{DISPATCHER_HEADER, PROCESS_OBJECT, THREAD_OBJECT};
use nt::status::STATUS_INSUFFICIENT_RESOURCES;

use crate::fiber::Fiber;
use crate::guest::{self, field, set};
use crate::machine::Machine;
use crate::object::Kind;
use crate::pool::Owner;
use crate::sched::{Job, State, Thread, ThreadId};

/// Bytes of the opaque process and thread structures; drivers know only the header.
const OBJECT_SIZE: u64 = 0x800;
/// Where in a process object its program's name is: bytes, at most 15 and a terminator.
pub(crate) const IMAGE_NAME: usize = 0x5A8;
/// Process id of the kernel itself.
pub(crate) const SYSTEM_PROCESS: u64 = 4;

/// A process that drivers can see.
#[derive(Clone, Debug)]
pub(crate) struct Process {
    pub(crate) address: u64,
    pub(crate) id: u64,
    /// Files it has open.
    pub(crate) files: u32,
    /// When it was first seen (100 ns since 1601).
    pub(crate) started: i64,
}

impl Machine {
    /// Allocates an object of the kernel, zeroed.
    pub(crate) fn allocate_object(&self, size: u64, tag: &[u8; 4], kind: Kind) -> Option<u64> {
        let tag = u32::from_le_bytes(*tag);
        let site = self.call_site();
        let address = self
            .pool
            .borrow_mut()
            .allocate(size, tag, false, Owner::Kernel, site)?;
        guest::set_bytes(address as *mut u8, 0, usize::try_from(size).unwrap_or(0));
        self.objects.borrow_mut().insert(address, kind);
        Some(address)
    }

    /// Frees an object of the kernel.
    pub(crate) fn free_object(&self, address: u64) {
        self.objects.borrow_mut().remove(address);
        // The kernel's own block: nothing to tell the driver about.
        let _ = self.pool.borrow_mut().free(address, 0, self.call_site());
    }

    fn dispatcher_object(&self, kind: Kind, tag: &[u8; 4], object_type: u8) -> Option<u64> {
        let address = self.allocate_object(OBJECT_SIZE, tag, kind)?;
        let header = address as *mut DISPATCHER_HEADER;
        set!(header, Type = object_type);
        let list: *mut LIST_ENTRY = field!(header, WaitListHead);
        set!(list, Flink = list);
        set!(list, Blink = list);
        Some(address)
    }

    /// The object of the process with this id, made at first sight.
    pub(crate) fn process(&self, id: u64) -> Result<u64, NTSTATUS> {
        if let Some(process) = self
            .processes
            .borrow()
            .iter()
            .find(|process| process.id == id)
        {
            return Ok(process.address);
        }
        let address = self
            .dispatcher_object(Kind::Process, b"Proc", PROCESS_OBJECT)
            .ok_or(STATUS_INSUFFICIENT_RESOURCES)?;
        let path = self.process_path(id);
        let name = path.rsplit('\\').next().unwrap_or_default();
        let name: Vec<u8> = name.bytes().take(15).collect();
        guest::fill((address as *mut u8).wrapping_add(IMAGE_NAME), &name);
        self.processes.borrow_mut().push(Process {
            address,
            id,
            files: 0,
            started: self.clock.filetime().cast_signed(),
        });
        Ok(address)
    }

    /// Path of the program of a process, as Windows would spell it: of a process of the host, its own.
    #[expect(clippy::unused_self, reason = "a fact of the machine's processes")]
    pub(crate) fn process_path(&self, id: u64) -> String {
        if id == SYSTEM_PROCESS {
            return "System".into();
        }
        let path = std::fs::read_link(format!("/proc/{id}/exe")).unwrap_or_default();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let name = if name.is_empty() { "client" } else { &name };
        format!(r"\Device\HarddiskVolume1\{name}.exe")
    }

    /// Id of the process at an address.
    pub(crate) fn process_id(&self, address: u64) -> Option<u64> {
        self.processes
            .borrow()
            .iter()
            .find(|process| process.address == address)
            .map(|process| process.id)
    }

    /// Stops when an address that should be a process is none.
    pub(crate) fn check_process(&self, address: u64) {
        if self.process_id(address).is_none() {
            self.violate(
                RuleId::BadObject,
                [address, 0, 0, 0],
                format!("{address:#x} is no process"),
            );
        }
    }

    /// Makes a process the running thread's.
    pub(crate) fn enter_process(&self, address: u64) {
        if let Some(id) = self.running.get() {
            self.thread(id).process.set(address);
        }
    }

    /// Counts the files a process has open; it disappears with the last one.
    pub(crate) fn add_files(&self, id: u64, change: i32) {
        let mut processes = self.processes.borrow_mut();
        let Some(index) = processes.iter().position(|process| process.id == id) else {
            return;
        };
        let process = &mut processes[index];
        process.files = process.files.saturating_add_signed(change);
        let (gone, address) = (process.files == 0 && id != SYSTEM_PROCESS, process.address);
        let referenced = self
            .objects
            .borrow()
            .get(address)
            .is_some_and(|object| object.references > 1);
        if gone && !referenced {
            processes.swap_remove(index);
            drop(processes);
            self.free_object(address);
        }
    }

    /// A thread without a job, of the given process.
    pub(crate) fn free_thread(&self, process: u64) -> Result<ThreadId, NTSTATUS> {
        let free = self.free_threads.borrow_mut().pop();
        let id = match free {
            Some(id) => id,
            None => self.add_thread()?,
        };
        self.thread(id).process.set(process);
        Ok(id)
    }

    /// Puts a thread that ended its job back.
    pub(crate) fn reuse_thread(&self, id: ThreadId) {
        self.free_threads.borrow_mut().push(id);
    }

    /// Makes a thread.
    pub(crate) fn add_thread(&self) -> Result<ThreadId, NTSTATUS> {
        let object = self
            .dispatcher_object(Kind::Thread, b"Thre", THREAD_OBJECT)
            .ok_or(STATUS_INSUFFICIENT_RESOURCES)?;
        let id = ThreadId(self.thread_count());
        let fiber = Fiber::new(id).map_err(|_| STATUS_INSUFFICIENT_RESOURCES)?;
        self.push_thread(Thread {
            fiber: fiber.into(),
            object: object.into(),
            process: 0.into(),
            state: State::Free.into(),
            job: Job::None.into(),
            result: 0.into(),
            irql: 0.into(),
            affinity: None.into(),
            wait: None.into(),
            wait_result: 0.into(),
            priority: 8.into(),
            is_system_thread: false.into(),
            cpu: 0.into(),
            unchecked: None.into(),
            depth: 0.into(),
            timing: false.into(),
            away: 0.into(),
            ticks: 0.into(),
            seh: crate::seh::State::default(),
        });
        Ok(id)
    }

    /// The thread whose object is at an address.
    pub(crate) fn thread_at(&self, object: u64) -> Option<ThreadId> {
        (0..self.thread_count())
            .map(ThreadId)
            .find(|id| self.thread(*id).object.get() == object)
    }
}
