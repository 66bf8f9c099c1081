//! What is asked of a dock, and what it answers.

use core::fmt;
use serde::{Deserialize, Serialize};

/// An open file object of the docked driver, named by the dock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Handle(pub u32);

/// What a handle may be used for: the desired access of `IRP_MJ_CREATE`.
///
/// Source: `FILE_READ_DATA`, `FILE_WRITE_DATA`, wdm.h.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Access(pub u32);

impl Access {
    /// No data access: device attributes and `FILE_ANY_ACCESS` control codes only.
    pub const NONE: Self = Self(0);
    /// `FILE_READ_DATA`.
    pub const READ: Self = Self(1);
    /// `FILE_WRITE_DATA`.
    pub const WRITE: Self = Self(2);
    /// `FILE_READ_DATA | FILE_WRITE_DATA`.
    pub const READ_WRITE: Self = Self(3);

    /// Whether every right of `other` is among these.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// How the driver completed a request.
///
/// Source: \[MS-ERREF\] §2.3.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct NtStatus(pub u32);

impl NtStatus {
    /// `STATUS_SUCCESS`.
    pub const SUCCESS: Self = Self(0);

    /// Whether this is success or information (`NT_SUCCESS`).
    #[must_use]
    pub const fn is_success(self) -> bool {
        self.0 < 0x8000_0000
    }

    /// Whether this is an error, for which the I/O manager copies no output back.
    #[must_use]
    pub const fn is_error(self) -> bool {
        self.0 >= 0xC000_0000
    }
}

impl fmt::Debug for NtStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NtStatus({:#010X})", self.0)
    }
}

impl fmt::Display for NtStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#010X}", self.0)
    }
}

/// What a client asks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// First message of a connection. Answer: [`Reply::Welcome`].
    Hello {
        /// The client's [`PROTOCOL_VERSION`](super::PROTOCOL_VERSION).
        version: u32,
    },
    /// Opens a device (`IRP_MJ_CREATE`). Answer: [`Reply::Opened`], or the driver's refusal in [`Reply::Completed`].
    Open {
        /// Win32 name, e.g. `\\.\WperfDriver`.
        device: String,
        /// Desired access.
        access: Access,
    },
    /// Sends a control code (`IRP_MJ_DEVICE_CONTROL`). Answer: [`Reply::Completed`].
    Ioctl {
        /// From [`Reply::Opened`].
        handle: Handle,
        /// The I/O control code.
        code: u32,
        /// Input buffer.
        #[serde(with = "serde_bytes")]
        input: Vec<u8>,
        /// Length of the output buffer in bytes.
        output_len: u32,
    },
    /// Reads (`IRP_MJ_READ`). Answer: [`Reply::Completed`].
    Read {
        /// From [`Reply::Opened`].
        handle: Handle,
        /// Byte offset.
        offset: u64,
        /// Length of the output buffer in bytes.
        len: u32,
    },
    /// Writes (`IRP_MJ_WRITE`). Answer: [`Reply::Completed`].
    Write {
        /// From [`Reply::Opened`].
        handle: Handle,
        /// Byte offset.
        offset: u64,
        /// What to write.
        #[serde(with = "serde_bytes")]
        data: Vec<u8>,
    },
    /// Closes a handle (`IRP_MJ_CLEANUP`, `IRP_MJ_CLOSE`). Answer: [`Reply::Done`].
    Close {
        /// From [`Reply::Opened`].
        handle: Handle,
    },
    /// Says that virtual processor `cpu` executes host process `pid`: its PMU counts that process. Answer: [`Reply::Done`].
    Attach {
        /// Index of the lab's virtual processor.
        cpu: u32,
        /// Host process id.
        pid: u32,
    },
    /// Ends what [`Request::Attach`] began. Answer: [`Reply::Done`].
    Detach {
        /// Index of the lab's virtual processor.
        cpu: u32,
    },
    /// Asks what is docked. Answer: [`Reply::Described`].
    Describe,
    /// Unloads the driver and ends the dock. Answer: [`Reply::Done`].
    Stop,
}

/// How an I/O request ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Completion {
    /// `IoStatus.Status`.
    pub status: NtStatus,
    /// `IoStatus.Information`: bytes transferred.
    pub information: u64,
    /// Output bytes, as many as the I/O manager copies back.
    #[serde(with = "serde_bytes")]
    pub output: Vec<u8>,
}

/// What is docked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Description {
    /// The driver's file name without extension, e.g. `wperf-driver`.
    pub driver: String,
    /// Where the virtual PMU takes its counts from, e.g. `model` or `perf`.
    pub pmu_source: String,
    /// Number of virtual processors.
    pub cpus: u32,
    /// Time since the driver was loaded, in milliseconds.
    pub uptime_ms: u64,
    /// Open handles over all clients.
    pub open_handles: u32,
}

/// What a dock answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reply {
    /// Answer to [`Request::Hello`].
    Welcome {
        /// The dock's [`PROTOCOL_VERSION`](super::PROTOCOL_VERSION).
        version: u32,
        /// The docked driver's name.
        driver: String,
    },
    /// Answer to [`Request::Open`].
    Opened {
        /// Names the file object in later requests.
        handle: Handle,
    },
    /// The driver completed the request, successfully or not.
    Completed(Completion),
    /// Done, nothing to tell.
    Done,
    /// Answer to [`Request::Describe`].
    Described(Description),
    /// The dock itself refused (no such device, handle or CPU, process not found, message out of place).
    Refused {
        /// Why, in words.
        reason: String,
    },
    /// The driver stopped the system; the dock is gone with it.
    Stopped {
        /// The stop report, as text.
        report: String,
    },
}
