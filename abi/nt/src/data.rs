//! Variables that the kernel image exports.

macro_rules! variables {
    ($($(#[doc = $doc:literal])+ $name:ident)*) => {
        /// An exported variable.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
        pub enum Variable {
            $( $(#[doc = $doc])+ $name, )*
        }

        impl Variable {
            /// Every variable.
            pub const ALL: &'static [Self] = &[$( Self::$name ),*];

            /// Its exported name.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $( Self::$name => stringify!($name), )*
                }
            }

            /// What it holds, in words.
            #[must_use]
            pub const fn meaning(self) -> &'static str {
                match self {
                    $( Self::$name => concat!($($doc),+).trim_ascii(), )*
                }
            }
        }
    };
}

variables! {
    /// Type of device objects.
    IoDeviceObjectType
    /// Type of driver objects.
    IoDriverObjectType
    /// Type of file objects.
    IoFileObjectType
    /// Type of processes.
    PsProcessType
    /// Type of threads.
    PsThreadType
    /// Type of events.
    ExEventObjectType
    /// Type of access tokens.
    SeTokenObjectType
    /// Type of sections.
    MmSectionObjectType
    /// The system process.
    PsInitialSystemProcess
    /// First address that probing refuses.
    MmUserProbeAddress
    /// Last address of user programs.
    MmHighestUserAddress
    /// First address of the kernel.
    MmSystemRangeStart
    /// Build number of the kernel (UINT16).
    NtBuildNumber
    /// Kind of safe mode the system booted in (UINT32); 0 = none.
    InitSafeBootMode
    /// Number of processors of group 0 (UINT8).
    KeNumberProcessors
    /// Whether a kernel debugger is enabled (BOOLEAN).
    KdDebuggerEnabled
    /// Whether no kernel debugger is attached (BOOLEAN).
    KdDebuggerNotPresent
    /// Whether the ANSI code page has double-byte characters (BOOLEAN).
    NlsMbCodePageTag
    /// Whether physical addresses have more than 32 bits (BOOLEAN).
    Mm64BitPhysicalAddress
    /// Type of jobs.
    PsJobType
    /// `HAL_DISPATCH`: services of the hardware abstraction layer that are not exported by name.
    HalDispatchTable
    /// Points to `SE_EXPORTS`: well-known privileges and SIDs.
    SeExports
}

impl Variable {
    /// The variable of this name.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|known| known.name() == name)
    }
}
