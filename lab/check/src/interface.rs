//! What of a driver can be exercised.

use lab_ntos::{Client, Privilege, Survey};
use nt::irp::IRP_MJ_DEVICE_CONTROL;
use serde::{Deserialize, Serialize};

use crate::codes;

/// Who opens devices: an administrator's process.
pub const ADMINISTRATOR: Client = Client {
    process: 1000,
    privilege: Privilege::Administrator,
};
/// Somebody else's.
pub const USER: Client = Client {
    process: 2000,
    privilege: Privilege::User,
};
/// `GENERIC_READ | GENERIC_WRITE`.
pub const READ_WRITE: u32 = 0xC000_0000;

/// What a loaded driver offers to its users.
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Interface {
    /// Paths of devices that can be named.
    pub paths: Vec<String>,
    /// Devices without a name.
    pub unnamed: usize,
    /// Control codes found in its dispatch routine.
    pub codes: Vec<u32>,
    /// Offset of the dispatch routine for control codes.
    pub control: Option<u32>,
    /// Major functions that it handles.
    pub majors: Vec<u8>,
    /// Whether its devices come from plug and play.
    pub adds_devices: bool,
    /// Whether it can be unloaded.
    pub unloads: bool,
}

impl Interface {
    /// Sees what there is in a driver that was surveyed.
    #[must_use]
    pub fn of(survey: &Survey, image: &lab_image::Image) -> Self {
        let control = survey.dispatch[usize::from(IRP_MJ_DEVICE_CONTROL)];
        let paths = paths(&survey.devices);
        Self {
            unnamed: survey.devices.len() - paths.len(),
            paths,
            codes: control
                .map(|rva| codes::find(image, rva))
                .unwrap_or_default(),
            control,
            majors: (0u8..28)
                .filter(|major| survey.dispatch[usize::from(*major)].is_some())
                .collect(),
            adds_devices: survey.adds_devices,
            unloads: survey.unloads,
        }
    }
}

/// How to open those devices that can be opened.
pub(crate) fn paths(devices: &[lab_ntos::Device]) -> Vec<String> {
    let path = |device: &lab_ntos::Device| {
        let link = device.links.first().cloned();
        link.or_else(|| device.name.clone())
    };
    devices.iter().filter_map(path).collect()
}
