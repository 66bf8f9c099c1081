//! `Hal…`: hardware counters, and buses, of which this machine has none.
#![expect(
    unsafe_code,
    non_snake_case,
    reason = "exports have foreign signatures and the names of the WDK"
)]
#![expect(non_upper_case_globals, reason = "constants of the WDK in patterns")]

use std::ffi::c_void;

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
            machine.report(RuleId::BadHandle, [0, CounterSetHandle as u64, 0, 0], "hardware counters were freed that are not reserved".into());
            return nt::status::STATUS_INVALID_HANDLE;
        }
        STATUS_SUCCESS
    }
    fn HalGetBusDataByOffset(_BusDataType: i32, _BusNumber: u32, _SlotNumber: u32, _Buffer: *mut c_void, _Offset: u32, _Length: u32) -> u32 { 0 }
    fn HalSetBusDataByOffset(_BusDataType: i32, _BusNumber: u32, _SlotNumber: u32, _Buffer: *mut c_void, _Offset: u32, _Length: u32) -> u32 { 0 }
    fn HalTranslateBusAddress(_InterfaceType: i32, _BusNumber: u32, _BusAddress: i64, _AddressSpace: *mut u32, _TranslatedAddress: *mut i64) -> u8 { 0 }
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
        let descriptors = field!(list, Descriptors).cast::<PHYSICAL_COUNTER_RESOURCE_DESCRIPTOR>();
        let mut counters = Vec::new();
        for index in 0..get!(list, Count).min(64) as usize {
            let descriptor = descriptors.wrapping_add(index);
            let first = get!(descriptor, CounterIndex);
            match get!(descriptor, Type) {
                ResourceTypeSingle => counters.push(first),
                ResourceTypeRange if get!(descriptor, RangeEnd) < 64 => {
                    counters.extend(first..=get!(descriptor, RangeEnd))
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

    /// Takes counters away, as other drivers would: bit n the general-purpose counter n, bit 32 + n the
    /// fixed counter n; false if one is in use, or not there.
    pub fn take_counters(&self, mask: u64) -> bool {
        let mut all = true;
        for bit in (0..64).filter(|bit| mask >> bit & 1 != 0) {
            all &= match u32::checked_sub(bit, 32) {
                None => bit < self.devices.counters() && self.take_counter(bit),
                Some(fixed) => self.devices.take_fixed_counter(fixed),
            };
        }
        all
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
