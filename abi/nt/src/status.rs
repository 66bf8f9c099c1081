//! NTSTATUS values (ntstatus.h).

/// The result of a kernel call. Open: any value may arrive from outside.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct NTSTATUS(pub i32);

impl NTSTATUS {
    /// From the unsigned spelling that tables use.
    #[must_use]
    pub const fn from_u32(value: u32) -> Self {
        Self(value.cast_signed())
    }

    /// The unsigned spelling that tables use.
    #[must_use]
    pub const fn to_u32(self) -> u32 {
        self.0.cast_unsigned()
    }

    /// `NT_SUCCESS`: success and informational values (ntdef.h).
    #[must_use]
    pub const fn is_success(self) -> bool {
        self.0 >= 0
    }

    /// `NT_ERROR`: severity 3 (ntdef.h).
    #[must_use]
    pub const fn is_error(self) -> bool {
        self.to_u32() >> 30 == 3
    }
}

macro_rules! statuses {
    ($($name:ident = $value:literal;)*) => {
        $( pub const $name: NTSTATUS = NTSTATUS::from_u32($value); )*

        impl NTSTATUS {
            /// The symbolic name, if this crate knows one.
            #[must_use]
            pub const fn name(self) -> Option<&'static str> {
                match self.to_u32() {
                    $( $value => Some(stringify!($name)), )*
                    _ => None,
                }
            }
        }
    };
}

statuses! {
    STATUS_SUCCESS = 0x0000_0000;
    STATUS_WAIT_1 = 0x0000_0001;
    STATUS_ABANDONED_WAIT_0 = 0x0000_0080;
    STATUS_USER_APC = 0x0000_00C0;
    STATUS_ALERTED = 0x0000_0101;
    STATUS_TIMEOUT = 0x0000_0102;
    STATUS_PENDING = 0x0000_0103;
    STATUS_SOME_NOT_MAPPED = 0x0000_0107;
    STATUS_OBJECT_NAME_EXISTS = 0x4000_0000;
    STATUS_BUFFER_OVERFLOW = 0x8000_0005;
    STATUS_PARTIAL_COPY = 0x8000_000D;
    STATUS_NO_MORE_ENTRIES = 0x8000_001A;
    STATUS_DATATYPE_MISALIGNMENT = 0x8000_0002;
    STATUS_BREAKPOINT = 0x8000_0003;
    STATUS_DEVICE_BUSY = 0x8000_0011;
    STATUS_UNSUCCESSFUL = 0xC000_0001;
    STATUS_NOT_IMPLEMENTED = 0xC000_0002;
    STATUS_INVALID_INFO_CLASS = 0xC000_0003;
    STATUS_INFO_LENGTH_MISMATCH = 0xC000_0004;
    STATUS_ACCESS_VIOLATION = 0xC000_0005;
    STATUS_INVALID_HANDLE = 0xC000_0008;
    STATUS_INVALID_CID = 0xC000_000B;
    STATUS_INVALID_PARAMETER = 0xC000_000D;
    STATUS_NO_SUCH_DEVICE = 0xC000_000E;
    STATUS_NO_SUCH_FILE = 0xC000_000F;
    STATUS_INVALID_DEVICE_REQUEST = 0xC000_0010;
    STATUS_END_OF_FILE = 0xC000_0011;
    STATUS_MORE_PROCESSING_REQUIRED = 0xC000_0016;
    STATUS_NO_MEMORY = 0xC000_0017;
    STATUS_CONFLICTING_ADDRESSES = 0xC000_0018;
    STATUS_ILLEGAL_INSTRUCTION = 0xC000_001D;
    STATUS_ACCESS_DENIED = 0xC000_0022;
    STATUS_BUFFER_TOO_SMALL = 0xC000_0023;
    STATUS_OBJECT_TYPE_MISMATCH = 0xC000_0024;
    STATUS_NONCONTINUABLE_EXCEPTION = 0xC000_0025;
    STATUS_INVALID_DISPOSITION = 0xC000_0026;
    STATUS_UNWIND = 0xC000_0027;
    STATUS_INVALID_PARAMETER_MIX = 0xC000_0030;
    STATUS_OBJECT_NAME_INVALID = 0xC000_0033;
    STATUS_OBJECT_NAME_NOT_FOUND = 0xC000_0034;
    STATUS_OBJECT_NAME_COLLISION = 0xC000_0035;
    STATUS_OBJECT_PATH_NOT_FOUND = 0xC000_003A;
    STATUS_OBJECT_PATH_SYNTAX_BAD = 0xC000_003B;
    STATUS_DATA_ERROR = 0xC000_003E;
    STATUS_SHARING_VIOLATION = 0xC000_0043;
    STATUS_QUOTA_EXCEEDED = 0xC000_0044;
    STATUS_INVALID_PAGE_PROTECTION = 0xC000_0045;
    STATUS_MUTANT_NOT_OWNED = 0xC000_0046;
    STATUS_SEMAPHORE_LIMIT_EXCEEDED = 0xC000_0047;
    STATUS_DELETE_PENDING = 0xC000_0056;
    STATUS_UNKNOWN_REVISION = 0xC000_0058;
    STATUS_REVISION_MISMATCH = 0xC000_0059;
    STATUS_INVALID_OWNER = 0xC000_005A;
    STATUS_PRIVILEGE_NOT_HELD = 0xC000_0061;
    STATUS_INVALID_ACL = 0xC000_0077;
    STATUS_INVALID_SID = 0xC000_0078;
    STATUS_INVALID_SECURITY_DESCR = 0xC000_0079;
    STATUS_PROCEDURE_NOT_FOUND = 0xC000_007A;
    STATUS_INTEGER_DIVIDE_BY_ZERO = 0xC000_0094;
    STATUS_INTEGER_OVERFLOW = 0xC000_0095;
    STATUS_PRIVILEGED_INSTRUCTION = 0xC000_0096;
    STATUS_ALLOTTED_SPACE_EXCEEDED = 0xC000_0099;
    STATUS_INSUFFICIENT_RESOURCES = 0xC000_009A;
    STATUS_MEMORY_NOT_ALLOCATED = 0xC000_00A0;
    STATUS_DEVICE_NOT_READY = 0xC000_00A3;
    STATUS_BAD_IMPERSONATION_LEVEL = 0xC000_00A5;
    STATUS_IO_TIMEOUT = 0xC000_00B5;
    STATUS_NOT_SUPPORTED = 0xC000_00BB;
    STATUS_INVALID_PARAMETER_1 = 0xC000_00EF;
    STATUS_INVALID_PARAMETER_2 = 0xC000_00F0;
    STATUS_INVALID_PARAMETER_3 = 0xC000_00F1;
    STATUS_INTERNAL_ERROR = 0xC000_00E5;
    STATUS_INVALID_PARAMETER_4 = 0xC000_00F2;
    STATUS_STACK_OVERFLOW = 0xC000_00FD;
    STATUS_BAD_DESCRIPTOR_FORMAT = 0xC000_00E7;
    STATUS_NOT_MAPPED_VIEW = 0xC000_0019;
    STATUS_NAME_TOO_LONG = 0xC000_0106;
    STATUS_INVALID_ADDRESS = 0xC000_0141;
    STATUS_KEY_DELETED = 0xC000_017C;
    STATUS_CANCELLED = 0xC000_0120;
    STATUS_CANNOT_DELETE = 0xC000_0121;
    STATUS_FILE_CLOSED = 0xC000_0128;
    STATUS_INVALID_DEVICE_STATE = 0xC000_0184;
    STATUS_IO_DEVICE_ERROR = 0xC000_0185;
    STATUS_NOT_FOUND = 0xC000_0225;
    STATUS_INVALID_BUFFER_SIZE = 0xC000_0206;
    STATUS_RETRY = 0xC000_022D;
    STATUS_WAS_LOCKED = 0x4000_0019;
    STATUS_RESOURCE_NOT_OWNED = 0xC000_0264;
    STATUS_DEVICE_REMOVED = 0xC000_02B6;
    STATUS_RESOURCE_IN_USE = 0xC000_0708;
    STATUS_DRIVER_INTERNAL_ERROR = 0xC000_0183;
    STATUS_REQUEST_ABORTED = 0xC000_0240;
    STATUS_CONNECTION_ABORTED = 0xC000_0241;
}

impl core::fmt::Debug for NTSTATUS {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        core::fmt::Display::fmt(self, f)
    }
}

impl core::fmt::Display for NTSTATUS {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self.name() {
            Some(name) => write!(f, "{name} ({:#010X})", self.to_u32()),
            None => write!(f, "NTSTATUS {:#010X}", self.to_u32()),
        }
    }
}
