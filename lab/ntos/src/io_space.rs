//! Devices whose registers are in memory.
//!
//! What `MmMapIoSpace` gives is a page that nobody can access. Each access faults, and the fault handler
//! carries the instruction out against the device ([`instruction`]): at the exact width, once, at the
//! machine's time. An access that the device has no register for is a finding; a read then gives ones, a
//! write is lost, as on a bus without an answer.

mod instruction;

use lab_verifier::RuleId;
use nt::cm::REG_RESOURCE_LIST;

use crate::fault::{Touch, registers_of};
use crate::machine::Machine;
use crate::memory;
use instruction::{Access, Carried, Device as Bus};
use lab_devices::platform::Wrong;

/// Where the plug-and-play manager writes down ACPI devices.
const ACPI_DEVICES: &str = r"\Registry\Machine\System\CurrentControlSet\Enum\ACPI";

/// Device memory that a driver mapped. Unmapped when it is dropped.
#[derive(Debug)]
pub(crate) struct IoMapping {
    /// Physical address of the first byte.
    physical: u64,
    /// As the driver asked for. Units: bytes.
    pub(crate) len: usize,
    /// Whose registers they are.
    pub(crate) device: String,
    /// Where the driver asked for them.
    pub(crate) site: u64,
    pages: (u64, usize),
}

impl Drop for IoMapping {
    fn drop(&mut self) {
        memory::unmap(self.pages.0, self.pages.1);
    }
}

impl Machine {
    /// Writes the devices into the registry, as the plug-and-play manager does when it finds them.
    pub(crate) fn describe_devices(&self) {
        let mut resources = self.resources.borrow_mut();
        for device in self.platform.boot_resources() {
            let path = format!(r"{ACPI_DEVICES}\{}\{}\LogConf", device.id, device.instance);
            let key = resources.registry.make(&path);
            key.set("BootConfig", REG_RESOURCE_LIST, device.list);
        }
    }

    /// Maps device memory: null where no device is, or when there are no addresses left.
    pub(crate) fn map_io_space(&self, physical: u64, len: usize) -> u64 {
        let Some(spot) = self.platform.at(physical).filter(|_| len != 0) else {
            return 0;
        };
        if self.must_fail() {
            return 0;
        }
        let inside = usize::try_from(physical % memory::PAGE as u64).unwrap_or(0);
        let Some(bytes) = inside.checked_add(len) else {
            return 0;
        };
        let bytes = bytes.next_multiple_of(memory::PAGE);
        let Ok(pages) = memory::map(bytes, libc::PROT_NONE) else {
            return 0;
        };
        let address = pages as u64 + inside as u64;
        let mapping = IoMapping {
            physical,
            len,
            device: self.platform.device(spot).name.clone(),
            site: self.call_site(),
            pages: (pages as u64, bytes),
        };
        self.resources
            .borrow_mut()
            .mappings
            .insert(address, mapping);
        address
    }

    /// Unmaps device memory, which must be mapped exactly so.
    pub(crate) fn unmap_io_space(&self, address: u64, len: usize) {
        let mapping = self.resources.borrow_mut().mappings.remove(&address);
        if mapping.is_none_or(|mapping| mapping.len != len) {
            self.report(
                RuleId::MappingInvalid,
                [address, len as u64, 0, 0],
                format!("{len} bytes of device memory at {address:#x} were unmapped that are not mapped so"),
            );
        }
    }

    /// The physical address that is mapped at an address, if it is device memory.
    fn physical_of(&self, address: u64) -> Option<u64> {
        let resources = self.resources.try_borrow().ok()?;
        let (start, mapping) = resources.mappings.range(..=address).next_back()?;
        let inside = address - start;
        (inside < mapping.len as u64).then(|| mapping.physical + inside)
    }

    /// For the fault handler: carries out an access of a driver to device memory; false if it is none.
    pub(crate) fn access_device(&self, address: u64, context: &mut libc::mcontext_t) -> bool {
        if self.physical_of(address).is_none() {
            return false;
        }
        let registers = registers_of(context);
        let Some(instruction) = self.decode(registers.rip) else {
            return false;
        };
        let bus = OneAccess {
            machine: self,
            registers,
            address,
        };
        instruction::carry_out(&instruction, address, &mut context.gregs, &bus) == Carried::Done
    }

    /// Words for an instruction that touched device memory and could not be carried out.
    pub(crate) fn device_access_words(&self, rip: u64, address: u64) -> Option<String> {
        self.physical_of(address)?;
        let instruction = self.decode(rip)?;
        Some(format!(
            "`{instruction}` of device memory at {address:#x}: the lab carries out moves, comparisons and logic there, not this"
        ))
    }
}

/// The device that one instruction accesses.
struct OneAccess<'m> {
    machine: &'m Machine,
    registers: crate::unwind::Registers,
    address: u64,
}

impl OneAccess<'_> {
    /// Reports an access that the device has no register for.
    fn refuse(&self, access: Access, wrong: Wrong, physical: u64, name: &str) {
        let kind = if access.is_write { "write" } else { "read" };
        let what = format!(
            "{kind} of {} bytes at offset {:#x} of {name}: the device has {}",
            access.bytes,
            self.offset(physical),
            wrong.words()
        );
        self.note(access, physical, kind, what);
    }

    fn offset(&self, physical: u64) -> u64 {
        self.machine
            .platform
            .at(physical)
            .map_or(0, |spot| spot.offset)
    }

    fn note(&self, access: Access, physical: u64, kind: &'static str, what: String) {
        let touch = Touch {
            address: self.address,
            kind,
            registers: self.registers,
            in_host: false,
            in_call: true,
        };
        let parameters = [
            self.address,
            physical,
            u64::from(access.bytes),
            u64::from(access.is_write),
        ];
        self.machine
            .note_touch(&touch, RuleId::DeviceRegister, parameters, what);
    }
}

impl Bus for OneAccess<'_> {
    fn covers(&self, address: u64) -> bool {
        self.machine.physical_of(address).is_some()
    }

    fn read(&self, address: u64, bytes: u8) -> u64 {
        let access = Access {
            bytes,
            is_write: false,
        };
        self.with_device(address, access, |spot, now_ns| {
            self.machine.platform.read(spot, bytes, now_ns)
        })
        .unwrap_or(u64::MAX)
    }

    fn write(&self, address: u64, bytes: u8, value: u64) {
        let access = Access {
            bytes,
            is_write: true,
        };
        self.with_device(address, access, |spot, now_ns| {
            self.machine.platform.write(spot, bytes, value, now_ns)
        });
    }
}

impl OneAccess<'_> {
    fn with_device<R>(
        &self,
        address: u64,
        access: Access,
        act: impl FnOnce(lab_devices::platform::Spot, u64) -> Result<R, Wrong>,
    ) -> Option<R> {
        let physical = self.machine.physical_of(address)?;
        let Some(spot) = self.machine.platform.at(physical) else {
            self.refuse(access, Wrong::Offset, physical, "a mapping past the device");
            return None;
        };
        match act(spot, self.machine.clock.now_ns()) {
            Ok(result) => Some(result),
            Err(wrong) => {
                let name = &self.machine.platform.device(spot).name;
                self.refuse(access, wrong, physical, name);
                None
            }
        }
    }
}
