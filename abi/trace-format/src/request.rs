//! Device controls of a driver that can be traced.
//!
//! Buffered, of device type `FILE_DEVICE_UNKNOWN`, functions from [`FIRST_FUNCTION`]. A reader keeps its
//! own place, so there may be several, and nothing is lost with one that dies.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// First function number; the [calls](Call) follow in order.
pub const FIRST_FUNCTION: u16 = 0xF80;

/// A device control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Call {
    /// Gives [`Information`].
    Query = 0,
    /// Takes a [`Selection`]; begins or ends recording.
    Select = 1,
    /// Takes any number of [`Switch`]es.
    Switch = 2,
    /// Takes a [`ReadRequest`]; gives a [`ReadReply`] and slots.
    Read = 3,
}

impl Call {
    /// All calls.
    pub const ALL: [Self; 4] = [Self::Query, Self::Select, Self::Switch, Self::Read];

    /// Its code: reading access is enough for what changes nothing.
    ///
    /// Source: `CTL_CODE`, devioctl.h.
    #[must_use]
    pub const fn code(self) -> u32 {
        const FILE_DEVICE_UNKNOWN: u32 = 0x22;
        const FILE_READ_ACCESS: u32 = 1;
        const FILE_WRITE_ACCESS: u32 = 2;
        let access = match self {
            Self::Query | Self::Read => FILE_READ_ACCESS,
            Self::Select | Self::Switch => FILE_WRITE_ACCESS,
        };
        let function = FIRST_FUNCTION as u32 + self as u32;
        FILE_DEVICE_UNKNOWN << 16 | access << 14 | function << 2
    }

    /// The call of a code.
    #[must_use]
    pub fn from_code(code: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|call| call.code() == code)
    }
}

/// Two clocks read at the same moment.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct Clocks {
    /// The counter that events carry: TSC, or CNTVCT_EL0.
    pub ticks: u64,
    /// Wall time. Units: 100 ns since 1601, UTC.
    pub system_time: u64,
}

/// Who records, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Information {
    /// [`VERSION`](crate::site::VERSION).
    pub version: u32,
    /// `TimeDateStamp` of the driver's file header: with the next two, whose events these are.
    pub time_date_stamp: u32,
    /// `SizeOfImage`.
    pub image_bytes: u32,
    /// `CheckSum`.
    pub checksum: u32,
    /// Number of processors; each has a ring for events at any IRQL, then one for `DISPATCH_LEVEL` and above.
    pub processors: u32,
    /// Slots of each ring, a power of two.
    pub slots: u32,
    /// Number of switches.
    pub switches: u32,
    /// [`Mode`].
    pub mode: u32,
    /// Now.
    pub clocks: Clocks,
}

/// What becomes of events when a ring is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Mode {
    /// The oldest are overwritten: a flight recorder.
    Overwrite = 0,
    /// The first are kept, the rest counted, until recording begins anew.
    StopWhenFull = 1,
}

impl Mode {
    /// The mode of a number.
    #[must_use]
    pub fn from_number(number: u32) -> Option<Self> {
        [Self::Overwrite, Self::StopWhenFull]
            .into_iter()
            .find(|mode| *mode as u32 == number)
    }
}

/// Which events are recorded from now on: all others are switched off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Selection {
    /// Highest [`Level`](crate::Level); 0: none, which ends recording.
    pub level: u32,
    /// Bits of flags.
    pub flags: u32,
    /// [`Mode`].
    pub mode: u32,
    /// 1: forget what the rings hold.
    pub anew: u32,
}

/// One switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Switch {
    /// Which one: its place in section `.tren`.
    pub index: u32,
    /// 0 or 1.
    pub on: u32,
}

/// What is to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ReadRequest {
    /// Twice the processor; one more for its ring of `DISPATCH_LEVEL` and above.
    pub ring: u32,
    /// 0.
    pub reserved: u32,
    /// Position of the first slot that is wanted; the oldest there is, if it is gone.
    pub from: u64,
}

/// What was read; the slots follow. Those that are not complete are zeros.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct ReadReply {
    /// As requested.
    pub ring: u32,
    /// Number of slots that follow.
    pub slots: u32,
    /// Position of the first slot that follows.
    pub first: u64,
    /// Position that the next event will have.
    pub position: u64,
    /// Position of the first event since recording began anew.
    pub start: u64,
    /// Now.
    pub clocks: Clocks,
}

const _: () = assert!(size_of::<Information>() == 48 && size_of::<Selection>() == 16);
const _: () = assert!(size_of::<ReadRequest>() == 16 && size_of::<ReadReply>() == 48);

/// What a file of a trace begins with; [`Information`] and any number of [`ReadReply`]s follow, each
/// with its slots.
pub const FILE_MAGIC: [u8; 8] = *b"DRYTRC01";
