//! Sections of the paging file, and their views.

use std::ffi::c_void;

use nt::NTSTATUS;
use nt::base::OBJECT_ATTRIBUTES;
use nt::status::{
    STATUS_INSUFFICIENT_RESOURCES, STATUS_INVALID_PAGE_PROTECTION, STATUS_INVALID_PARAMETER_4,
    STATUS_INVALID_VIEW_SIZE, STATUS_MAPPED_ALIGNMENT, STATUS_NO_MEMORY, STATUS_NOT_MAPPED_VIEW,
    STATUS_OBJECT_NAME_NOT_FOUND, STATUS_OBJECT_TYPE_MISMATCH, STATUS_SUCCESS,
};

use super::super::vm::host_protection;
use crate::guest::{self, get};
use crate::machine::Machine;
use crate::memory::{PAGE, SectionMemory};
use crate::object::Kind;

/// Views start at multiples of this in their section.
const GRANULARITY: u64 = 0x1_0000;

impl Machine {
    pub(super) fn create_section(
        &self,
        attributes: *mut OBJECT_ATTRIBUTES,
        size: *mut i64,
        protection: u32,
    ) -> Result<u64, NTSTATUS> {
        host_protection(protection).ok_or(STATUS_INVALID_PAGE_PROTECTION)?;
        let size = if size.is_null() { 0 } else { guest::read(size) };
        let size = u64::try_from(size).unwrap_or(0);
        if size == 0 {
            return Err(STATUS_INVALID_PARAMETER_4);
        }
        if self.must_fail() {
            return Err(STATUS_INSUFFICIENT_RESOURCES);
        }
        let named = !attributes.is_null() && !get!(attributes, ObjectName).is_null();
        let name = named.then(|| self.attribute_path(attributes)).transpose()?;
        let memory = SectionMemory::new(size).map_err(|_| STATUS_NO_MEMORY)?;
        let section = self
            .allocate_object(64, b"Sect", Kind::Section)
            .ok_or(STATUS_INSUFFICIENT_RESOURCES)?;
        if let Some(name) = name {
            let named = self.objects.borrow_mut().set_name(section, &name);
            if let Err(status) = named {
                self.free_object(section);
                return Err(status);
            }
        }
        self.services.borrow_mut().sections.insert(section, memory);
        let handle = self.open_handle(section);
        self.objects.borrow_mut().dereference(section, false);
        handle
    }

    pub(super) fn open_section(&self, name: &str) -> Result<u64, NTSTATUS> {
        let found = self.objects.borrow().lookup(name);
        let (section, _) = found.map_err(|_| STATUS_OBJECT_NAME_NOT_FOUND)?;
        let kind = self.objects.borrow().get(section).map(|object| object.kind);
        if kind != Some(Kind::Section) {
            return Err(STATUS_OBJECT_TYPE_MISMATCH);
        }
        self.open_handle(section)
    }

    fn open_handle(&self, object: u64) -> Result<u64, NTSTATUS> {
        let site = self.call_site();
        let handle = self.objects.borrow_mut().open(object, site);
        handle.ok_or(STATUS_INSUFFICIENT_RESOURCES)
    }

    /// Maps a view into the lab's one user address space.
    pub(super) fn map_view(
        &self,
        handle: u64,
        base: *mut *mut c_void,
        offset: *mut i64,
        size: *mut usize,
        protection: u32,
    ) -> Result<(), NTSTATUS> {
        let section = self.resolve_handle(handle, Some(Kind::Section))?;
        let protection = host_protection(protection).ok_or(STATUS_INVALID_PAGE_PROTECTION)?;
        let from = if offset.is_null() {
            0
        } else {
            guest::read(offset)
        };
        let from = u64::try_from(from).map_err(|_| STATUS_INVALID_VIEW_SIZE)?;
        if !from.is_multiple_of(GRANULARITY) {
            return Err(STATUS_MAPPED_ALIGNMENT);
        }
        let mut services = self.services.borrow_mut();
        let memory = services
            .sections
            .get(&section)
            .ok_or(STATUS_OBJECT_TYPE_MISMATCH)?;
        let rest = memory.len.checked_sub(from).filter(|rest| *rest != 0);
        let rest = guest::size(rest.ok_or(STATUS_INVALID_VIEW_SIZE)?);
        let len = match guest::read(size) {
            0 => rest,
            len => len.next_multiple_of(PAGE),
        };
        if len > rest {
            return Err(STATUS_INVALID_VIEW_SIZE);
        }
        if self.must_fail() {
            return Err(STATUS_NO_MEMORY);
        }
        let view = memory.map(from, len, protection);
        let view = view.map_err(|_| STATUS_NO_MEMORY)?;
        guest::write(base, view.address() as *mut c_void);
        guest::write(size, len);
        let site = self.call_site();
        services.views.insert(view.address(), (view, site));
        Ok(())
    }

    pub(super) fn unmap_view(&self, address: u64) -> NTSTATUS {
        let mut services = self.services.borrow_mut();
        let view = services.views.range(..=address).next_back();
        let view = view.filter(|(start, (view, _))| address < *start + view.len() as u64);
        let Some(start) = view.map(|(start, _)| *start) else {
            return STATUS_NOT_MAPPED_VIEW;
        };
        services.views.remove(&start);
        STATUS_SUCCESS
    }
}
