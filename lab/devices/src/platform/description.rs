//! How firmware describes the devices: the table APMT, and what the plug-and-play manager writes down of
//! an ACPI device's boot resources.

use super::{Kind, Placed, Platform};

/// Boot resources of one instance of an ACPI device.
pub struct BootResource {
    /// Name of the device: the key below `Enum\ACPI`.
    pub id: &'static str,
    /// Name of the instance: the key below it.
    pub instance: String,
    /// A `CM_RESOURCE_LIST`, as `LogConf\BootConfig` holds it.
    pub list: Vec<u8>,
}

impl Platform {
    /// What the registry has of the devices that are ACPI devices.
    pub fn boot_resources(&self) -> impl Iterator<Item = BootResource> {
        let controllers = self.devices().iter();
        controllers
            .filter(|device| device.kind == Kind::Dmc620)
            .map(|device| BootResource {
                id: "ARMHD620",
                instance: device.number.to_string(),
                list: resource_list(device),
            })
    }
}

/// Source: wdm.h, `CM_RESOURCE_LIST`: one full descriptor (bus type -1: none) of version and revision 1,
/// with one partial descriptor of memory (type 3, exclusive to the device, readable and writable).
fn resource_list(device: &Placed) -> Vec<u8> {
    let range = &device.pages[0];
    let length = u32::try_from(range.end - range.start).unwrap_or(0);
    let mut list = Vec::new();
    list.extend(1u32.to_le_bytes());
    list.extend(u32::MAX.to_le_bytes());
    list.extend(0u32.to_le_bytes());
    list.extend([1, 0, 1, 0]);
    list.extend(1u32.to_le_bytes());
    list.extend([3, 1, 0, 0]);
    list.extend(range.start.to_le_bytes());
    list.extend(length.to_le_bytes());
    list.extend([0; 4]);
    list
}

const DUAL_PAGE: u8 = 1;
/// Types of APMT nodes.
const MEMORY_CONTROLLER: u8 = 0;
const PCIE_ROOT: u8 = 2;

/// The table APMT of a machine; `None` where there is nothing for it to describe.
///
/// Source: ACPI for the Arm performance monitoring unit architecture, DEN0117: a header of 36 bytes, nodes
/// of 56.
#[must_use]
pub fn apmt(platform: &Platform) -> Option<Vec<u8>> {
    let devices = platform.devices().iter();
    let nodes: Vec<Vec<u8>> = devices
        .filter(|device| device.kind != Kind::Dmc620)
        .zip(0..)
        .map(|(device, id)| node(device, id))
        .collect();
    if nodes.is_empty() {
        return None;
    }
    let length = 36 + nodes.iter().map(Vec::len).sum::<usize>();
    let mut table = Vec::with_capacity(length);
    table.extend(b"APMT");
    table.extend(u32::try_from(length).unwrap_or(0).to_le_bytes());
    // Revision and checksum.
    table.extend([0, 0]);
    table.extend(b"DRYDCKLABORATR");
    table.extend(1u32.to_le_bytes());
    table.extend(b"DRYD");
    table.extend(1u32.to_le_bytes());
    table.extend(nodes.concat());
    let sum = table.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte));
    table[9] = sum.wrapping_neg();
    Some(table)
}

fn node(device: &Placed, id: u32) -> Vec<u8> {
    let second = device.pages.get(1).map(|range| range.start);
    let flags = if second.is_some() { DUAL_PAGE } else { 0 };
    let kind = match device.kind {
        Kind::CsPmu => PCIE_ROOT,
        Kind::CsPmu64 | Kind::Dmc620 => MEMORY_CONTROLLER,
    };
    let mut node = Vec::with_capacity(56);
    node.extend(56u16.to_le_bytes());
    node.extend([flags, kind]);
    node.extend(id.to_le_bytes());
    node.extend(u64::from(device.number).to_le_bytes());
    node.extend(0u32.to_le_bytes());
    node.extend(device.pages[0].start.to_le_bytes());
    node.extend(second.unwrap_or(0).to_le_bytes());
    // No interrupt, no affinity, and identification by PMIIDR.
    node.extend([0; 20]);
    node
}
