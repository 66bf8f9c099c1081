//! Drivers in `cargo test`: a dock that reads well and fails with the whole story.

use std::fmt;
use std::path::Path;

use lab_ntos::{Client, Completion, FileId, Machine, PoolLevel, Privilege, Stopped};
use nt::NTSTATUS;

use crate::dock::{Dock, DockError, Options};
use crate::file::{Read, ReadError, read_driver};

/// `GENERIC_READ | GENERIC_WRITE`.
pub const READ_WRITE: u32 = 0xC000_0000;
/// Process id of whoever opens a device if nobody else is named.
const PROCESS: u64 = 1000;

/// A driver that is about to be docked.
pub struct Builder {
    read: Read,
    options: Options,
}

impl Dock {
    /// Reads a driver, to be docked.
    ///
    /// ```no_run
    /// use lab_dock::Dock;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// const ECHO: u32 = 0x0022_2000;
    /// let dock = Dock::of("target/drivers/x86_64/echo.sys")?.cpus(2).seed(7).start()?;
    /// let echo = dock.open(r"\\.\Echo")?;
    /// assert_eq!(echo.ioctl(ECHO).input(b"hello").output(16).call()?, b"hello");
    /// assert!(echo.ioctl(0x0022_3FFC).call().is_err_and(|error| error.status().is_some()));
    /// echo.close()?;
    /// // Unloads the driver: anything it did wrong or left behind fails the test, in words.
    /// dock.finish().assert_clean();
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Errors: the file can't be read, or is no driver.
    pub fn of(path: impl AsRef<Path>) -> Result<Builder, ReadError> {
        Ok(Builder {
            read: read_driver(path.as_ref())?,
            options: Options::default(),
        })
    }

    /// Opens a device as an administrator, to read and write.
    ///
    /// Errors: the kernel or the driver refused, or the machine stopped.
    pub fn open(&self, path: &str) -> Result<Handle<'_>, CallError> {
        let client = Client {
            process: PROCESS,
            privilege: Privilege::Administrator,
        };
        self.open_as(path, READ_WRITE, client)
    }

    /// Opens a device as somebody, with some access.
    ///
    /// Errors: the kernel or the driver refused, or the machine stopped.
    pub fn open_as(
        &self,
        path: &str,
        access: u32,
        client: Client,
    ) -> Result<Handle<'_>, CallError> {
        let file = self.machine().open(path, access, client)?;
        Ok(Handle {
            machine: self.machine(),
            file: file.map_err(CallError::Refused)?,
        })
    }
}

impl Builder {
    /// Number of virtual processors.
    #[must_use]
    pub fn cpus(mut self, cpus: usize) -> Self {
        self.options.cpus = cpus;
        self
    }

    /// Order in which processors take turns.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.options.seed = seed;
        self
    }

    /// How strictly pool is checked.
    #[must_use]
    pub fn pool(mut self, pool: PoolLevel) -> Self {
        self.options.pool = pool;
        self
    }

    /// Everything else about the machine.
    #[must_use]
    pub fn options(mut self, change: impl FnOnce(&mut Options)) -> Self {
        change(&mut self.options);
        self
    }

    /// Makes the machine and loads the driver. What it prints goes to standard error, which tests show when they fail.
    ///
    /// Errors: no machine, a driver that can't be loaded, or `DriverEntry` failed or broke a rule.
    pub fn start(self) -> Result<Dock, DockError> {
        Dock::new(&self.read.driver, self.options, |text| eprint!("{text}"))
    }
}

/// An open file of a device. What is open at the end is closed when the driver is unloaded.
#[derive(Clone, Copy)]
pub struct Handle<'a> {
    machine: &'a Machine,
    file: FileId,
}

impl<'a> Handle<'a> {
    /// Begins a control request: no input, no room for output.
    pub fn ioctl(self, code: u32) -> Ioctl<'a> {
        Ioctl {
            handle: self,
            code,
            input: &[],
            output: 0,
        }
    }

    /// Reads up to `len` bytes at the start of the device.
    ///
    /// Errors: the driver refused, or the machine stopped.
    pub fn read(self, len: usize) -> Result<Vec<u8>, CallError> {
        let mut output = vec![0; len];
        let completion = self.machine.read(self.file, 0, &mut output)?;
        taken(completion, output)
    }

    /// Writes to the start of the device; gives the bytes that were taken.
    ///
    /// Errors: the driver refused, or the machine stopped.
    pub fn write(self, data: &[u8]) -> Result<usize, CallError> {
        let completion = self.machine.write(self.file, 0, data)?;
        if completion.status.is_success() {
            Ok(completion.information)
        } else {
            Err(CallError::Refused(completion.status))
        }
    }

    /// Closes it.
    ///
    /// Errors: the machine stopped.
    pub fn close(self) -> Result<(), CallError> {
        self.machine.close(self.file)?;
        Ok(())
    }

    /// The file, for calls of the machine.
    #[must_use]
    pub fn file(self) -> FileId {
        self.file
    }
}

/// A control request that is about to be sent.
#[must_use = "a request is sent by `call`"]
pub struct Ioctl<'a> {
    handle: Handle<'a>,
    code: u32,
    input: &'a [u8],
    output: usize,
}

impl<'a> Ioctl<'a> {
    /// Bytes of input.
    pub fn input(mut self, input: &'a [u8]) -> Self {
        self.input = input;
        self
    }

    /// Room for output, in bytes.
    pub fn output(mut self, len: usize) -> Self {
        self.output = len;
        self
    }

    /// Sends it and waits for its end: the output.
    ///
    /// Errors: the driver refused, or the machine stopped.
    pub fn call(self) -> Result<Vec<u8>, CallError> {
        let mut output = vec![0; self.output];
        let Handle { machine, file } = self.handle;
        let completion = machine.ioctl(file, self.code, self.input, &mut output)?;
        taken(completion, output)
    }
}

fn taken(completion: Completion, mut output: Vec<u8>) -> Result<Vec<u8>, CallError> {
    if !completion.status.is_success() {
        return Err(CallError::Refused(completion.status));
    }
    output.truncate(completion.information);
    Ok(output)
}

/// Why a call has no result.
#[derive(Clone, thiserror::Error)]
pub enum CallError {
    /// The kernel or the driver refused.
    #[error("refused: {0}")]
    Refused(NTSTATUS),
    /// The driver broke a rule, and the machine stopped.
    #[error("the machine has stopped\n{0}")]
    Stopped(#[from] Stopped),
}

impl CallError {
    /// The status of a refusal.
    #[must_use]
    pub fn status(&self) -> Option<NTSTATUS> {
        match self {
            Self::Refused(status) => Some(*status),
            Self::Stopped(_) => None,
        }
    }
}

/// As it is displayed: what `unwrap` and `?` in a test print is the finding's text.
impl fmt::Debug for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
