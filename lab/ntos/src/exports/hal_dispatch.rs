//! `HalDispatchTable`: services of the hardware abstraction layer that are
//! reached through a table, and exported by no name.
#![expect(unsafe_code, reason = "services have foreign signatures")]

use std::ffi::c_void;
use std::sync::OnceLock;

use nt::hal::{HAL_DISPATCH_ROUTINES, HAL_DISPATCH_VERSION, HalProfileSourceInterruptHandler};
use nt::status::{STATUS_INFO_LENGTH_MISMATCH, STATUS_NOT_IMPLEMENTED, STATUS_SUCCESS};
use nt::{Contract, Effects, Export, NTSTATUS};

use super::guard;
use crate::guest;
use crate::machine::current;
use crate::thunk::{MAX_UNKNOWN_IMPORTS, thunks};

/// Contracts of the services that the lab provides, in the order of the table.
static CONTRACTS: [Contract; 2] = [
    contract("HalQuerySystemInformation"),
    contract("HalSetSystemInformation"),
];

const fn contract(name: &'static str) -> Contract {
    Contract {
        name,
        irql_mask: 1,
        irql: "== PASSIVE_LEVEL",
        effects: Effects::NONE,
        variadic: false,
    }
}

/// The services, which no import can be bound to.
pub(crate) fn services() -> impl Iterator<Item = Export> {
    let addresses = [
        query_system_information as *const c_void,
        set_system_information as *const c_void,
    ];
    let services = CONTRACTS.iter().zip(addresses);
    services.map(|(contract, address)| Export { contract, address })
}

/// Address of the table. Routines that the lab does not provide are bound as unknown imports are.
pub(crate) fn hal_dispatch() -> u64 {
    static TABLE: OnceLock<[u64; HAL_DISPATCH_ROUTINES + 1]> = OnceLock::new();
    let table = TABLE.get_or_init(|| {
        let mut table = [thunks().unknown(MAX_UNKNOWN_IMPORTS - 1); HAL_DISPATCH_ROUTINES + 1];
        table[0] = u64::from(HAL_DISPATCH_VERSION);
        for (slot, index) in table[1..].iter_mut().zip(0..CONTRACTS.len()) {
            *slot = thunks().service(index);
        }
        table
    });
    table.as_ptr() as u64
}

/// The machine has no information of these classes.
unsafe extern "efiapi" fn query_system_information(
    _class: i32,
    _size: u32,
    _buffer: *mut c_void,
    returned: *mut u32,
) -> NTSTATUS {
    guard(|| {
        guest::write(returned, 0);
        STATUS_NOT_IMPLEMENTED
    })
}

unsafe extern "efiapi" fn set_system_information(
    class: i32,
    size: u32,
    buffer: *mut c_void,
) -> NTSTATUS {
    guard(|| {
        if class != HalProfileSourceInterruptHandler {
            return STATUS_NOT_IMPLEMENTED;
        }
        if size != 8 {
            return STATUS_INFO_LENGTH_MISMATCH;
        }
        current().set_profile_handler(guest::read(buffer.cast_const().cast()));
        STATUS_SUCCESS
    })
}
