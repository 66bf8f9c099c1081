//! Exported variables.
#![expect(unsafe_code, reason = "drivers read these by address")]

use std::sync::OnceLock;

/// Type objects: opaque to drivers, which only pass the pointer on.
static TYPES: [u64; 8] = [0; 8];

/// A variable, shared with drivers.
struct Variables {
    words: Box<[u64]>,
}

// SAFETY: written once before it is shared; drivers only read these variables.
unsafe impl Send for Variables {}
// SAFETY: as above.
unsafe impl Sync for Variables {}

/// Highest user-mode address that probing accepts on 64-bit Windows.
const USER_PROBE_ADDRESS: u64 = 0x7FFF_FFFF_0000;

const NAMES: [&str; 12] = [
    "IoDeviceObjectType",
    "IoDriverObjectType",
    "IoFileObjectType",
    "PsProcessType",
    "PsThreadType",
    "ExEventObjectType",
    "SeTokenObjectType",
    "MmUserProbeAddress",
    "MmHighestUserAddress",
    "NtBuildNumber",
    "InitSafeBootMode",
    "KeNumberProcessors",
];

fn variables() -> &'static Variables {
    static VARIABLES: OnceLock<Variables> = OnceLock::new();
    VARIABLES.get_or_init(|| {
        let types = TYPES.iter().map(|object| &raw const *object as u64).take(7);
        let rest = [
            USER_PROBE_ADDRESS,
            USER_PROBE_ADDRESS - 1,
            u64::from(crate::shared_page::BUILD),
            0,
            64,
        ];
        Variables {
            words: types.chain(rest).collect(),
        }
    })
}

/// Address of an exported variable.
pub(crate) fn address(name: &str) -> Option<u64> {
    let index = NAMES.iter().position(|known| *known == name)?;
    Some(&raw const variables().words[index] as u64)
}

/// Kind of object that a type object stands for.
pub(crate) fn kind_of_type(object_type: u64) -> Option<crate::object::Kind> {
    use crate::object::Kind;
    let kinds = [
        Kind::Device,
        Kind::Driver,
        Kind::File,
        Kind::Process,
        Kind::Thread,
        Kind::Event,
    ];
    let words = &variables().words;
    kinds
        .into_iter()
        .zip(words.iter())
        .find_map(|(kind, word)| (*word == object_type).then_some(kind))
}
