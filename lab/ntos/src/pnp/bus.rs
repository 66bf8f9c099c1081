//! The bus driver: what is at the bottom of every stack that is enumerated.
#![expect(unsafe_code, reason = "its routine is one that drivers could call")]

use nt::NTSTATUS;
use nt::irp::{
    DEVICE_OBJECT, IRP, IRP_MJ_PNP, IRP_MJ_POWER, IRP_MJ_SYSTEM_CONTROL, PDRIVER_DISPATCH,
};
use nt::plugplay::{
    BusQueryDeviceID, BusQueryHardwareIDs, BusQueryInstanceID, DEVICE_RELATIONS,
    IRP_MN_CANCEL_REMOVE_DEVICE, IRP_MN_CANCEL_STOP_DEVICE, IRP_MN_QUERY_CAPABILITIES,
    IRP_MN_QUERY_DEVICE_RELATIONS, IRP_MN_QUERY_ID, IRP_MN_QUERY_REMOVE_DEVICE,
    IRP_MN_QUERY_STOP_DEVICE, IRP_MN_REMOVE_DEVICE, IRP_MN_START_DEVICE, IRP_MN_STOP_DEVICE,
    IRP_MN_SURPRISE_REMOVAL, TargetDeviceRelation,
};
use nt::po::{IRP_MN_QUERY_POWER, IRP_MN_SET_POWER};
use nt::status::{STATUS_INSUFFICIENT_RESOURCES, STATUS_INVALID_DEVICE_REQUEST, STATUS_SUCCESS};

use crate::guest::{self, get, set};
use crate::machine::{Machine, current};
use crate::pool::Owner;

/// The dispatch routine of the bus, as its driver object has it.
pub(super) fn dispatch_routine() -> PDRIVER_DISPATCH {
    dispatch
}

/// Its address: the kernel calls [`Machine::bus_dispatch`] in its place.
pub(crate) fn bus_routine() -> u64 {
    dispatch as *const () as u64
}

unsafe extern "efiapi" fn dispatch(device: *mut DEVICE_OBJECT, irp: *mut IRP) -> NTSTATUS {
    crate::exports::guard(|| current().bus_dispatch(device, irp))
}

impl Machine {
    /// Answers an IRP that has come down to the bus.
    pub(crate) fn bus_dispatch(&self, device: *mut DEVICE_OBJECT, irp: *mut IRP) -> NTSTATUS {
        let stack = get!(irp, CurrentStackLocation);
        let minor = get!(stack, MinorFunction);
        let status = match get!(stack, MajorFunction) {
            IRP_MJ_PNP => self.bus_pnp(device, irp, minor),
            IRP_MJ_POWER => {
                let known = matches!(minor, IRP_MN_SET_POWER | IRP_MN_QUERY_POWER);
                known.then_some(STATUS_SUCCESS)
            }
            IRP_MJ_SYSTEM_CONTROL => None,
            _ => Some(STATUS_INVALID_DEVICE_REQUEST),
        };
        // What it does not handle keeps the status it came with.
        let status = status.unwrap_or_else(|| get!(irp, IoStatus.Status));
        set!(irp, IoStatus.Status = status);
        self.complete_irp(irp);
        status
    }

    fn bus_pnp(&self, device: *mut DEVICE_OBJECT, irp: *mut IRP, minor: u8) -> Option<NTSTATUS> {
        let [first, ..] = get!(get!(irp, CurrentStackLocation), Parameters.Others);
        let kind = i32::try_from(first as u64 & 0xFFFF_FFFF).unwrap_or(-1);
        match minor {
            IRP_MN_START_DEVICE
            | IRP_MN_QUERY_STOP_DEVICE
            | IRP_MN_CANCEL_STOP_DEVICE
            | IRP_MN_STOP_DEVICE
            | IRP_MN_QUERY_REMOVE_DEVICE
            | IRP_MN_CANCEL_REMOVE_DEVICE
            | IRP_MN_REMOVE_DEVICE
            | IRP_MN_SURPRISE_REMOVAL
            | IRP_MN_QUERY_CAPABILITIES => Some(STATUS_SUCCESS),
            IRP_MN_QUERY_ID => {
                let text = self.identity(device, kind)?;
                Some(
                    self.answer_with(
                        irp,
                        &text
                            .encode_utf16()
                            .flat_map(u16::to_le_bytes)
                            .collect::<Vec<u8>>(),
                    ),
                )
            }
            IRP_MN_QUERY_DEVICE_RELATIONS if kind == TargetDeviceRelation => {
                let list = [1u64, device as u64].map(u64::to_le_bytes).concat();
                debug_assert!(list.len() == size_of::<DEVICE_RELATIONS>());
                let status = self.answer_with(irp, &list);
                if status.is_success() {
                    // Whoever asked dereferences it.
                    self.objects
                        .borrow_mut()
                        .reference(device as u64, self.call_site());
                }
                Some(status)
            }
            _ => None,
        }
    }

    /// Puts an answer into pool, which whoever asked frees.
    fn answer_with(&self, irp: *mut IRP, bytes: &[u8]) -> NTSTATUS {
        let tag = u32::from_le_bytes(*b"PnpA");
        let site = self.call_site();
        let block =
            self.pool
                .borrow_mut()
                .allocate(bytes.len() as u64, tag, true, Owner::Driver, site);
        let Some(block) = block else {
            return STATUS_INSUFFICIENT_RESOURCES;
        };
        guest::fill(block as *mut u8, bytes);
        set!(irp, IoStatus.Information = guest::size(block));
        STATUS_SUCCESS
    }

    /// An identity of a device, terminated as its kind is.
    fn identity(&self, device: *mut DEVICE_OBJECT, kind: i32) -> Option<String> {
        Some(match kind {
            k if k == BusQueryDeviceID => "DRYDOCK\\Device\0".to_owned(),
            k if k == BusQueryHardwareIDs => "DRYDOCK\\Device\0\0".to_owned(),
            k if k == BusQueryInstanceID => format!("{}\0", self.instance_of(device)),
            _ => return None,
        })
    }

    /// What tells a device of the bus from the others: its number.
    pub(crate) fn instance_of(&self, device: *mut DEVICE_OBJECT) -> String {
        let objects = self.objects.borrow();
        let name = objects
            .get(device as u64)
            .and_then(|object| object.name.clone());
        let name = name.unwrap_or_default();
        name.rsplit('\\').next().unwrap_or_default().to_owned()
    }
}
