//! Stop codes (bugcheckcodes.h).

/// A stop code. Open: a driver may pass any value to `KeBugCheckEx`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(transparent)]
pub struct StopCode(pub u32);

macro_rules! stop_codes {
    ($($name:ident = $value:literal;)*) => {
        $( pub const $name: StopCode = StopCode($value); )*

        impl StopCode {
            /// The symbolic name, if this crate knows one.
            #[must_use]
            pub const fn name(self) -> Option<&'static str> {
                match self.0 {
                    $( $value => Some(stringify!($name)), )*
                    _ => None,
                }
            }
        }
    };
}

stop_codes! {
    IRQL_NOT_LESS_OR_EQUAL = 0x0A;
    SPIN_LOCK_ALREADY_OWNED = 0x0F;
    SPIN_LOCK_NOT_OWNED = 0x10;
    BAD_POOL_HEADER = 0x19;
    KMODE_EXCEPTION_NOT_HANDLED = 0x1E;
    SYSTEM_SERVICE_EXCEPTION = 0x3B;
    INVALID_PROCESS_DETACH_ATTEMPT = 0x06;
    NO_MORE_IRP_STACK_LOCATIONS = 0x35;
    MULTIPLE_IRP_COMPLETE_REQUESTS = 0x44;
    IRQL_GT_ZERO_AT_SYSTEM_SERVICE = 0x4A;
    PAGE_FAULT_IN_NONPAGED_AREA = 0x50;
    DRIVER_LEFT_LOCKED_PAGES_IN_PROCESS = 0xCB;
    SYSTEM_THREAD_EXCEPTION_NOT_HANDLED = 0x7E;
    UNEXPECTED_KERNEL_MODE_TRAP = 0x7F;
    ATTEMPTED_SWITCH_FROM_DPC = 0xB8;
    ATTEMPTED_WRITE_TO_READONLY_MEMORY = 0xBE;
    SPECIAL_POOL_DETECTED_MEMORY_CORRUPTION = 0xC1;
    BAD_POOL_CALLER = 0xC2;
    DRIVER_VERIFIER_DETECTED_VIOLATION = 0xC4;
    DRIVER_CORRUPTED_EXPOOL = 0xC5;
    DRIVER_CAUGHT_MODIFYING_FREED_POOL = 0xC6;
    TIMER_OR_DPC_INVALID = 0xC7;
    IRQL_UNEXPECTED_VALUE = 0xC8;
    DRIVER_VERIFIER_IOMANAGER_VIOLATION = 0xC9;
    PAGE_FAULT_IN_FREED_SPECIAL_POOL = 0xCC;
    PAGE_FAULT_BEYOND_END_OF_ALLOCATION = 0xCD;
    DRIVER_UNLOADED_WITHOUT_CANCELLING_PENDING_OPERATIONS = 0xCE;
    DRIVER_IRQL_NOT_LESS_OR_EQUAL = 0xD1;
    DRIVER_PAGE_FAULT_IN_FREED_SPECIAL_POOL = 0xD5;
    DRIVER_PAGE_FAULT_BEYOND_END_OF_ALLOCATION = 0xD6;
    SYSTEM_PTE_MISUSE = 0xDA;
    MANUALLY_INITIATED_CRASH = 0xE2;
    WORKER_INVALID = 0xE4;
    THREAD_STUCK_IN_DEVICE_DRIVER = 0xEA;
    ATTEMPTED_EXECUTE_OF_NOEXECUTE_MEMORY = 0xFC;
    KERNEL_SECURITY_CHECK_FAILURE = 0x139;
    WHEA_UNCORRECTABLE_ERROR = 0x124;
    DPC_WATCHDOG_VIOLATION = 0x133;
    VIDEO_DRIVER_INIT_FAILURE = 0xB4;
}
