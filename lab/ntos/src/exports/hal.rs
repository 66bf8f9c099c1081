//! `Hal…`: hardware counters.
#![expect(unsafe_code, reason = "exports have foreign signatures")]
#![expect(non_upper_case_globals, reason = "constants of the WDK in patterns")]

use lab_verifier::RuleId;
use nt::NTSTATUS;
use nt::base::{GROUP_AFFINITY, HANDLE};
use nt::hal::{
    PHYSICAL_COUNTER_RESOURCE_DESCRIPTOR, PHYSICAL_COUNTER_RESOURCE_LIST, ResourceTypeOverflow,
    ResourceTypeRange, ResourceTypeSingle,
};
use nt::status::{
    STATUS_INSUFFICIENT_RESOURCES, STATUS_INVALID_PARAMETER, STATUS_NOT_SUPPORTED, STATUS_SUCCESS,
};

use super::exports;
use crate::guest::{self, field, get};
use crate::machine::{Machine, current};
use crate::resources::Reservation;

exports! {
    hal;

    fn HalAllocateHardwareCounters(_GroupAffinty: *mut GROUP_AFFINITY, _GroupCount: u32, ResourceList: *mut PHYSICAL_COUNTER_RESOURCE_LIST, CounterSetHandle: *mut HANDLE) -> NTSTATUS {
        match current().reserve_counters(ResourceList) {
            Ok(handle) => {
                guest::write(CounterSetHandle, handle as HANDLE);
                STATUS_SUCCESS
            }
            Err(status) => status,
        }
    }
    fn HalFreeHardwareCounters(CounterSetHandle: HANDLE) -> NTSTATUS {
        let machine = current();
        let freed = machine.resources.borrow_mut().reservations.remove(&(CounterSetHandle as u64));
        if freed.is_none() {
            machine.violate(RuleId::BadHandle, [0xE0, CounterSetHandle as u64, 0, 0], "hardware counters were freed that are not reserved".into());
        }
        STATUS_SUCCESS
    }
}

impl Machine {
    fn reserve_counters(&self, list: *mut PHYSICAL_COUNTER_RESOURCE_LIST) -> Result<u64, NTSTATUS> {
        let available = self.devices.counters();
        if available == 0 {
            return Err(STATUS_NOT_SUPPORTED);
        }
        if self.must_fail() {
            return Err(STATUS_INSUFFICIENT_RESOURCES);
        }
        let first = field!(list, Descriptors).cast::<PHYSICAL_COUNTER_RESOURCE_DESCRIPTOR>();
        let mut counters = Vec::new();
        for index in 0..get!(list, Count).min(64) as usize {
            let descriptor = guest::read(first.wrapping_add(index));
            match descriptor.Type {
                ResourceTypeSingle => counters.push(descriptor.CounterIndex),
                ResourceTypeRange if descriptor.RangeEnd < 64 => {
                    counters.extend(descriptor.CounterIndex..=descriptor.RangeEnd)
                }
                ResourceTypeOverflow => {}
                _ => return Err(STATUS_INVALID_PARAMETER),
            }
        }
        let mut resources = self.resources.borrow_mut();
        let free = counters
            .iter()
            .all(|counter| *counter < available && !resources.counter_is_taken(*counter));
        if !free {
            return Err(STATUS_INSUFFICIENT_RESOURCES);
        }
        let handle = resources.new_handle();
        let taken_at = self.call_site();
        resources
            .reservations
            .insert(handle, Reservation { counters, taken_at });
        Ok(handle)
    }

    /// Takes a counter away, as another driver would; false if it is in use.
    pub fn take_counter(&self, counter: u32) -> bool {
        let mut resources = self.resources.borrow_mut();
        resources.foreign_counters.insert(counter)
            && !resources
                .reservations
                .values()
                .any(|r| r.counters.contains(&counter))
    }
}
