//! Why a call is refused: one status each, so that a client can say it in words.

macro_rules! refusals {
    ($( $(#[doc = $doc:literal])+ $name:ident = $ntstatus:literal, $win32:literal, $words:literal; )*) => {
        /// Why the driver refuses a call.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Refusal { $( $(#[doc = $doc])+ $name, )* }

        impl Refusal {
            /// All of them, in the order of the table.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// The status the driver completes the request with.
            #[must_use]
            pub const fn ntstatus(self) -> u32 { match self { $(Self::$name => $ntstatus,)* } }

            /// What `GetLastError` says of that status (`RtlNtStatusToDosError`).
            #[must_use]
            pub const fn win32(self) -> u32 { match self { $(Self::$name => $win32,)* } }

            /// The reason in words.
            #[must_use]
            pub const fn words(self) -> &'static str { match self { $(Self::$name => $words,)* } }
        }
    };
}

refusals! {
    /// `STATUS_DEVICE_BUSY`: a warning, so that the reply, which names the holder, still reaches the caller.
    Busy = 0x8000_0011, 170, "a core or unit of the set is held by another";
    /// `STATUS_RESOURCE_NOT_OWNED`.
    NotOwner = 0xC000_0264, 288, "the caller does not hold a core or unit of the set";
    /// `STATUS_REQUEST_ABORTED`: told once, at the former owner's next call on such a core or unit.
    ForcedOut = 0xC000_0240, 1235, "another took a core or unit of the set over by force";
    /// `STATUS_INVALID_DEVICE_STATE`.
    WrongState = 0xC000_0184, 22, "a core or unit of the set is not in a state in which the call is legal";
    /// `STATUS_INVALID_PARAMETER`.
    BadRequest = 0xC000_000D, 87, "a count, index, flag or value of the input is invalid";
    /// `STATUS_INFO_LENGTH_MISMATCH`.
    BadInputLength = 0xC000_0004, 24, "the input is not as long as it says";
    /// `STATUS_BUFFER_TOO_SMALL`.
    OutputTooSmall = 0xC000_0023, 122, "the output buffer cannot hold the complete answer";
    /// `STATUS_NOT_SUPPORTED`.
    UnsupportedEvent = 0xC000_00BB, 50, "an event that a core or unit of the set does not have";
    /// `STATUS_QUOTA_EXCEEDED`.
    GroupTooLarge = 0xC000_0044, 1816, "a group needs more counters than a core of the set has free, or events more than a unit has";
    /// `STATUS_DEVICE_FEATURE_NOT_SUPPORTED`.
    NoInterrupt = 0xC000_0463, 316, "the system does not lend the interrupt of the counters: no sampling";
    /// `STATUS_ALREADY_REGISTERED`.
    Waiting = 0xC000_0718, 1242, "a wait for a core of the set is under way already";
    /// `STATUS_INSUFFICIENT_RESOURCES`.
    NoMemory = 0xC000_009A, 1450, "not enough memory";
    /// `STATUS_INVALID_DEVICE_REQUEST`.
    UnknownCall = 0xC000_0010, 1, "a code that is not in the table";
}

impl Refusal {
    /// The refusal that a status stands for.
    #[must_use]
    pub fn from_ntstatus(status: u32) -> Option<Self> {
        Self::ALL
            .iter()
            .copied()
            .find(|refusal| refusal.ntstatus() == status)
    }

    /// The refusal that a Win32 error code stands for.
    #[must_use]
    pub fn from_win32(error: u32) -> Option<Self> {
        Self::ALL
            .iter()
            .copied()
            .find(|refusal| refusal.win32() == error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_refusal_is_told_apart_by_either_number() {
        for &refusal in Refusal::ALL {
            assert_eq!(Refusal::from_ntstatus(refusal.ntstatus()), Some(refusal));
            assert_eq!(Refusal::from_win32(refusal.win32()), Some(refusal));
        }
    }

    #[test]
    fn each_refusal_is_a_status_with_a_name() {
        for &refusal in Refusal::ALL {
            assert!(
                nt::NTSTATUS::from_u32(refusal.ntstatus()).name().is_some(),
                "{refusal:?}"
            );
        }
    }

    #[test]
    fn only_busy_carries_output() {
        for &refusal in Refusal::ALL {
            let is_warning = refusal.ntstatus() >> 30 == 2;
            assert_eq!(is_warning, refusal == Refusal::Busy, "{refusal:?}");
        }
    }
}
