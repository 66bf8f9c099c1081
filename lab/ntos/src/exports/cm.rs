//! The registry, by handle and by path.
#![expect(
    unsafe_code,
    non_snake_case,
    reason = "exports have foreign signatures and the names of the WDK"
)]

mod info;
mod query;

use std::ffi::c_void;

use nt::NTSTATUS;
use nt::base::{HANDLE, OBJECT_ATTRIBUTES, UNICODE_STRING};
use nt::cm::{
    REG_CREATED_NEW_KEY, REG_OPENED_EXISTING_KEY, RTL_QUERY_REGISTRY_TABLE, RTL_REGISTRY_ABSOLUTE,
    RTL_REGISTRY_CONTROL, RTL_REGISTRY_DEVICEMAP, RTL_REGISTRY_HANDLE, RTL_REGISTRY_OPTIONAL,
    RTL_REGISTRY_SERVICES, RTL_REGISTRY_USER, RTL_REGISTRY_WINDOWS_NT,
};
use nt::irp::DEVICE_OBJECT;
use nt::status::{
    STATUS_INSUFFICIENT_RESOURCES, STATUS_INVALID_HANDLE, STATUS_INVALID_PARAMETER,
    STATUS_KEY_DELETED, STATUS_NO_MORE_ENTRIES, STATUS_OBJECT_NAME_INVALID,
    STATUS_OBJECT_NAME_NOT_FOUND, STATUS_SUCCESS,
};

use super::{exports, kernel_addresses};
use crate::guest::{self, get};
use crate::machine::{Machine, current};
use crate::object::Kind;
use crate::registry::{CONTROL, DEFAULT_USER, DEVICE_MAP, Key, SERVICES, WINDOWS_NT};
use info::Answer;

exports! {
    cm;

    fn ZwOpenKey(KeyHandle: *mut HANDLE, _DesiredAccess: u32, ObjectAttributes: *mut OBJECT_ATTRIBUTES) -> NTSTATUS {
        kernel_addresses!(KeyHandle, ObjectAttributes);
        let machine = current();
        if machine.must_fail() {
            return STATUS_INSUFFICIENT_RESOURCES;
        }
        let opened = machine.key_path(ObjectAttributes).and_then(|path| {
            machine.resources.borrow().registry.get(&path)?;
            machine.open_key(path)
        });
        give(opened, KeyHandle)
    }
    fn ZwCreateKey(KeyHandle: *mut HANDLE, _DesiredAccess: u32, ObjectAttributes: *mut OBJECT_ATTRIBUTES, _TitleIndex: u32, _Class: *mut UNICODE_STRING, _CreateOptions: u32, Disposition: *mut u32) -> NTSTATUS {
        kernel_addresses!(KeyHandle, ObjectAttributes, Disposition);
        let machine = current();
        if machine.must_fail() {
            return STATUS_INSUFFICIENT_RESOURCES;
        }
        let opened = machine.key_path(ObjectAttributes).and_then(|path| {
            let made = machine.resources.borrow_mut().registry.create(&path)?;
            if !Disposition.is_null() {
                guest::write(Disposition, if made { REG_CREATED_NEW_KEY } else { REG_OPENED_EXISTING_KEY });
            }
            machine.open_key(path)
        });
        give(opened, KeyHandle)
    }
    fn ZwDeleteKey(KeyHandle: HANDLE) -> NTSTATUS {
        let machine = current();
        let deleted = machine.path_of_key(KeyHandle).and_then(|path| machine.resources.borrow_mut().registry.delete(&path));
        status(deleted)
    }
    fn ZwEnumerateKey(KeyHandle: HANDLE, Index: u32, KeyInformationClass: i32, KeyInformation: *mut c_void, Length: u32, ResultLength: *mut u32) -> NTSTATUS {
        kernel_addresses!(KeyInformation, ResultLength);
        let answer = current().with_key(KeyHandle, |key| {
            let child = key.keys.values().nth(Index as usize).ok_or(STATUS_NO_MORE_ENTRIES)?;
            Answer::of_key(child, KeyInformationClass)
        });
        deliver(answer, KeyInformation, Length, ResultLength)
    }
    fn ZwQueryKey(KeyHandle: HANDLE, KeyInformationClass: i32, KeyInformation: *mut c_void, Length: u32, ResultLength: *mut u32) -> NTSTATUS {
        kernel_addresses!(KeyInformation, ResultLength);
        let answer = current().with_key(KeyHandle, |key| Answer::of_key(key, KeyInformationClass));
        deliver(answer, KeyInformation, Length, ResultLength)
    }
    fn ZwQueryValueKey(KeyHandle: HANDLE, ValueName: *mut UNICODE_STRING, KeyValueInformationClass: i32, KeyValueInformation: *mut c_void, Length: u32, ResultLength: *mut u32) -> NTSTATUS {
        kernel_addresses!(ValueName, KeyValueInformation, ResultLength);
        let machine = current();
        let answer = machine.string(ValueName).and_then(|name| {
            machine.with_key(KeyHandle, |key| {
                let value = key.value(&name).ok_or(STATUS_OBJECT_NAME_NOT_FOUND)?;
                Answer::of_value(value, KeyValueInformationClass)
            })
        });
        deliver(answer, KeyValueInformation, Length, ResultLength)
    }
    fn ZwEnumerateValueKey(KeyHandle: HANDLE, Index: u32, KeyValueInformationClass: i32, KeyValueInformation: *mut c_void, Length: u32, ResultLength: *mut u32) -> NTSTATUS {
        kernel_addresses!(KeyValueInformation, ResultLength);
        let answer = current().with_key(KeyHandle, |key| {
            let value = key.values.values().nth(Index as usize).ok_or(STATUS_NO_MORE_ENTRIES)?;
            Answer::of_value(value, KeyValueInformationClass)
        });
        deliver(answer, KeyValueInformation, Length, ResultLength)
    }
    fn ZwSetValueKey(KeyHandle: HANDLE, ValueName: *mut UNICODE_STRING, _TitleIndex: u32, Type: u32, Data: *mut c_void, DataSize: u32) -> NTSTATUS {
        kernel_addresses!(ValueName, Data);
        let machine = current();
        if machine.must_fail() {
            return STATUS_INSUFFICIENT_RESOURCES;
        }
        let set = machine.string(ValueName).and_then(|name| {
            let path = machine.path_of_key(KeyHandle)?;
            let data = guest::bytes(Data.cast(), DataSize as usize);
            machine.resources.borrow_mut().registry.get_mut(&path)?.set(&name, Type, data);
            Ok(())
        });
        status(set)
    }
    fn ZwDeleteValueKey(KeyHandle: HANDLE, ValueName: *mut UNICODE_STRING) -> NTSTATUS {
        kernel_addresses!(ValueName);
        let machine = current();
        let removed = machine.string(ValueName).and_then(|name| {
            let path = machine.path_of_key(KeyHandle)?;
            machine.remove_value(&path, &name)
        });
        status(removed)
    }
    fn ZwFlushKey(KeyHandle: HANDLE) -> NTSTATUS { status(current().with_key(KeyHandle, |_| Ok(()))) }
    fn RtlQueryRegistryValues(RelativeTo: u32, Path: *const u16, QueryTable: *mut RTL_QUERY_REGISTRY_TABLE, Context: *mut c_void, _Environment: *mut c_void) -> NTSTATUS {
        let machine = current();
        if machine.must_fail() {
            return STATUS_INSUFFICIENT_RESOURCES;
        }
        let found = machine.relative_path(RelativeTo, Path).and_then(|path| {
            machine.resources.borrow().registry.get(&path)?;
            Ok(path)
        });
        match found {
            Ok(path) => status(machine.query_table(&path, QueryTable, Context)),
            Err(STATUS_OBJECT_NAME_NOT_FOUND) if RelativeTo & RTL_REGISTRY_OPTIONAL != 0 => STATUS_SUCCESS,
            Err(status) => status,
        }
    }
    fn RtlWriteRegistryValue(RelativeTo: u32, Path: *const u16, ValueName: *const u16, ValueType: u32, ValueData: *mut c_void, ValueLength: u32) -> NTSTATUS {
        let machine = current();
        if machine.must_fail() {
            return STATUS_INSUFFICIENT_RESOURCES;
        }
        let written = machine.relative_path(RelativeTo, Path).and_then(|path| {
            let name = text(ValueName)?;
            let data = guest::bytes(ValueData.cast(), ValueLength as usize);
            let mut resources = machine.resources.borrow_mut();
            // A key that is missing is made, as on Windows.
            resources.registry.create(&path)?;
            resources.registry.get_mut(&path)?.set(&name, ValueType, data);
            Ok(())
        });
        status(written)
    }
    fn RtlDeleteRegistryValue(RelativeTo: u32, Path: *const u16, ValueName: *const u16) -> NTSTATUS {
        let machine = current();
        let removed = machine.relative_path(RelativeTo, Path).and_then(|path| {
            machine.resources.borrow().registry.get(&path)?;
            machine.remove_value(&path, &text(ValueName)?)
        });
        status(removed)
    }
    fn RtlCheckRegistryKey(RelativeTo: u32, Path: *mut u16) -> NTSTATUS {
        let machine = current();
        status(machine.relative_path(RelativeTo, Path).and_then(|path| machine.resources.borrow().registry.get(&path).map(drop)))
    }
    fn RtlCreateRegistryKey(RelativeTo: u32, Path: *mut u16) -> NTSTATUS {
        let machine = current();
        if machine.must_fail() {
            return STATUS_INSUFFICIENT_RESOURCES;
        }
        status(machine.relative_path(RelativeTo, Path).and_then(|path| machine.resources.borrow_mut().registry.create(&path)))
    }
    fn IoOpenDeviceRegistryKey(DeviceObject: *mut DEVICE_OBJECT, DevInstKeyType: u32, _DesiredAccess: u32, DeviceRegKey: *mut HANDLE) -> NTSTATUS {
        let machine = current();
        machine.check_device(DeviceObject);
        let opened = machine.device_key(DeviceObject, DevInstKeyType).and_then(|path| {
            machine.resources.borrow_mut().registry.make(&path);
            machine.open_key(path)
        });
        give(opened, DeviceRegKey)
    }
}

fn status<T>(result: Result<T, NTSTATUS>) -> NTSTATUS {
    result.err().unwrap_or(STATUS_SUCCESS)
}

fn give(handle: Result<u64, NTSTATUS>, to: *mut HANDLE) -> NTSTATUS {
    match handle {
        Ok(handle) => {
            guest::write(to, handle as HANDLE);
            STATUS_SUCCESS
        }
        Err(status) => status,
    }
}

fn deliver(
    answer: Result<Answer, NTSTATUS>,
    to: *mut c_void,
    len: u32,
    result: *mut u32,
) -> NTSTATUS {
    match answer {
        Ok(answer) => answer.deliver(to.cast(), len, result),
        Err(status) => status,
    }
}

/// A terminated string of the driver's; null is empty.
fn text(string: *const u16) -> Result<String, NTSTATUS> {
    if string.is_null() {
        return Ok(String::new());
    }
    let units = super::rtl::wide_units(string);
    String::from_utf16(&units).map_err(|_| STATUS_OBJECT_NAME_INVALID)
}

impl Machine {
    /// The full path that object attributes name: absolute, or below a key that is open.
    fn key_path(&self, attributes: *mut OBJECT_ATTRIBUTES) -> Result<String, NTSTATUS> {
        let name = self.string(get!(attributes, ObjectName).cast_const())?;
        let root = get!(attributes, RootDirectory);
        if root.is_null() {
            return Ok(name);
        }
        let parent = self.path_of_key(root)?;
        Ok(if name.is_empty() {
            parent
        } else {
            format!(r"{parent}\{name}")
        })
    }

    fn open_key(&self, path: String) -> Result<u64, NTSTATUS> {
        let object = self
            .allocate_object(16, b"Key ", Kind::Key)
            .ok_or(STATUS_INSUFFICIENT_RESOURCES)?;
        self.resources.borrow_mut().keys.insert(object, path);
        let site = self.call_site();
        let mut objects = self.objects.borrow_mut();
        let handle = objects
            .open(object, site)
            .ok_or(STATUS_INSUFFICIENT_RESOURCES)?;
        // The handle's reference is the only one.
        objects.dereference(object, false);
        Ok(handle)
    }

    fn path_of_key(&self, handle: HANDLE) -> Result<String, NTSTATUS> {
        let object = self.resolve_handle(handle as u64, Some(Kind::Key))?;
        let resources = self.resources.borrow();
        resources
            .keys
            .get(&object)
            .cloned()
            .ok_or(STATUS_INVALID_HANDLE)
    }

    fn with_key<R>(
        &self,
        handle: HANDLE,
        f: impl FnOnce(&Key) -> Result<R, NTSTATUS>,
    ) -> Result<R, NTSTATUS> {
        let path = self.path_of_key(handle)?;
        let resources = self.resources.borrow();
        f(resources
            .registry
            .get(&path)
            .map_err(|_| STATUS_KEY_DELETED)?)
    }

    fn remove_value(&self, path: &str, name: &str) -> Result<(), NTSTATUS> {
        let mut resources = self.resources.borrow_mut();
        if resources.registry.get_mut(path)?.remove(name) {
            Ok(())
        } else {
            Err(STATUS_OBJECT_NAME_NOT_FOUND)
        }
    }

    /// The path that `RelativeTo` and a string mean.
    fn relative_path(&self, relative_to: u32, path: *const u16) -> Result<String, NTSTATUS> {
        if relative_to & RTL_REGISTRY_HANDLE != 0 {
            return self.path_of_key(path as HANDLE);
        }
        let base = match relative_to & !RTL_REGISTRY_OPTIONAL {
            RTL_REGISTRY_ABSOLUTE => return text(path),
            RTL_REGISTRY_SERVICES => SERVICES,
            RTL_REGISTRY_CONTROL => CONTROL,
            RTL_REGISTRY_WINDOWS_NT => WINDOWS_NT,
            RTL_REGISTRY_DEVICEMAP => DEVICE_MAP,
            RTL_REGISTRY_USER => DEFAULT_USER,
            _ => return Err(STATUS_INVALID_PARAMETER),
        };
        let path = text(path)?;
        Ok(if path.is_empty() {
            base.to_owned()
        } else {
            format!(r"{base}\{path}")
        })
    }
}
