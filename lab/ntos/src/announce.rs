//! Telling drivers of processes: a client starts when it first opens a device, and ends with its last file.

use nt::NTSTATUS;
use nt::process::{CLIENT_ID, PS_CREATE_NOTIFY_INFO};
use nt::status::STATUS_SUCCESS;

use crate::findings::Stopped;
use crate::guest;
use crate::machine::Machine;
use crate::process::SYSTEM_PROCESS;
use crate::request::Client;
use crate::resources::Held;

impl Machine {
    /// Tells of a client that is new; the status with which a driver refuses its process.
    pub(crate) fn announce_client(&self, client: Client) -> Result<Result<(), NTSTATUS>, Stopped> {
        let known = self
            .processes
            .borrow()
            .iter()
            .any(|process| process.id == client.process);
        if known {
            return Ok(Ok(()));
        }
        let process = match self.process(client.process) {
            Ok(process) => process,
            Err(status) => return Ok(Err(status)),
        };
        self.tell(
            Held::ProcessNotifyRoutine,
            [SYSTEM_PROCESS, client.process, 1],
        )?;
        let refused = self.tell_of_creation(process, client.process)?;
        if !refused.is_success() {
            self.add_files(client.process, 0);
            return Ok(Err(refused));
        }
        Ok(Ok(()))
    }

    /// Tells of a client that has ended, if it has.
    pub(crate) fn announce_end(&self, client: Client) -> Result<(), Stopped> {
        let lives = self
            .processes
            .borrow()
            .iter()
            .any(|process| process.id == client.process && process.files > 0);
        if lives {
            return Ok(());
        }
        self.tell(
            Held::ProcessNotifyRoutine,
            [SYSTEM_PROCESS, client.process, 0],
        )?;
        // The object may be gone: the routines are told its id, and null for what they can't touch any more.
        self.tell(Held::ProcessNotifyRoutineEx, [0, client.process, 0])
    }

    /// Calls every routine of a kind, in the order of their addresses.
    fn tell(&self, kind: Held, [first, second, third]: [u64; 3]) -> Result<(), Stopped> {
        let routines: Vec<u64> = self.resources.borrow().held(kind).collect();
        for routine in routines {
            self.run_call(routine, [first, second, third, 0])?;
        }
        Ok(())
    }

    /// Calls the routines that may refuse a process.
    fn tell_of_creation(&self, process: u64, id: u64) -> Result<NTSTATUS, Stopped> {
        let routines: Vec<u64> = self
            .resources
            .borrow()
            .held(Held::ProcessNotifyRoutineEx)
            .collect();
        if routines.is_empty() {
            return Ok(STATUS_SUCCESS);
        }
        let mut units: Vec<u16> = self.process_path(id).encode_utf16().chain([0]).collect();
        let bytes = u16::try_from(2 * units.len()).unwrap_or(u16::MAX);
        let name = nt::base::UNICODE_STRING {
            Length: bytes - 2,
            MaximumLength: bytes,
            Buffer: units.as_mut_ptr(),
        };
        let mut info = PS_CREATE_NOTIFY_INFO {
            Size: size_of::<PS_CREATE_NOTIFY_INFO>(),
            Flags: 1,
            ParentProcessId: SYSTEM_PROCESS as *mut _,
            CreatingThreadId: CLIENT_ID {
                UniqueProcess: guest::size(SYSTEM_PROCESS),
                UniqueThread: 4,
            },
            FileObject: std::ptr::null_mut(),
            ImageFileName: &raw const name,
            CommandLine: &raw const name,
            CreationStatus: STATUS_SUCCESS,
        };
        let place = &raw mut info;
        for routine in routines {
            self.run_call(routine, [process, id, place as u64, 0])?;
        }
        Ok(guest::get!(place, CreationStatus))
    }
}
