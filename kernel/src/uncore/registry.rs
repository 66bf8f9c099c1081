//! What the plug-and-play manager wrote down of ACPI devices: instances, and the resources firmware
//! gave them.
//!
//! ```text
//!  …\Enum\ACPI\<id>\<instance>\LogConf   BootConfig: REG_RESOURCE_LIST
//! ```
//! Nobody drives these devices, so there is no device object to ask.
#![expect(unsafe_code, reason = "opens keys and reads them into buffers")]

use crate::pool::{PoolBox, PoolTag};
use crate::{Result, check, status, utf16};
use core::mem::offset_of;
use nt::base::{
    HANDLE, OBJ_CASE_INSENSITIVE, OBJ_KERNEL_HANDLE, OBJECT_ATTRIBUTES, UNICODE_STRING,
};
use nt::cm::{
    KEY_BASIC_INFORMATION, KEY_READ, KEY_VALUE_PARTIAL_INFORMATION, KeyBasicInformation,
    KeyValuePartialInformation, REG_RESOURCE_LIST,
};

/// Longest name of a key, with the bytes before it. Units: bytes.
const MOST_NAME: usize = 16 + 512;
/// Longest value that is read, with the bytes before it. Units: bytes.
const MOST_VALUE: usize = 64 * 1024;
/// Instances of a device that are looked at, at most.
const MOST_INSTANCES: u32 = 1024;

/// An open key.
struct Key(HANDLE);

impl Drop for Key {
    fn drop(&mut self) {
        // SAFETY: opened by `open`, and closed once.
        unsafe { nt::zw::ZwClose(self.0) };
    }
}

impl Key {
    /// A key by its name below another, or by its path.
    ///
    /// `None` if there is none.
    /// Errors: the kernel's.
    fn open(parent: Option<&Self>, name: &[u16]) -> Result<Option<Self>> {
        let bytes = u16::try_from(size_of_val(name)).map_err(|_| status::STATUS_NAME_TOO_LONG)?;
        let mut text = UNICODE_STRING {
            Length: bytes,
            MaximumLength: bytes,
            Buffer: name.as_ptr().cast_mut(),
        };
        let mut attributes = OBJECT_ATTRIBUTES {
            Length: u32::try_from(size_of::<OBJECT_ATTRIBUTES>()).unwrap_or(0),
            RootDirectory: parent.map_or(core::ptr::null_mut(), |key| key.0),
            ObjectName: &raw mut text,
            Attributes: OBJ_CASE_INSENSITIVE | OBJ_KERNEL_HANDLE,
            SecurityDescriptor: core::ptr::null_mut(),
            SecurityQualityOfService: core::ptr::null_mut(),
        };
        let mut handle = core::ptr::null_mut();
        // SAFETY: (1) `handle` is a valid place for the answer. (2) Attributes, name and parent are valid
        // for the call.
        let opened = unsafe { nt::cm::ZwOpenKey(&raw mut handle, KEY_READ, &raw mut attributes) };
        match opened {
            status::STATUS_OBJECT_NAME_NOT_FOUND | status::STATUS_OBJECT_PATH_NOT_FOUND => Ok(None),
            _ => check(opened).map(|()| Some(Self(handle))),
        }
    }

    /// Name of the n-th key below, in a buffer; `None` after the last.
    fn name_of_child<'b>(&self, index: u32, buffer: &'b mut [u8]) -> Result<Option<&'b [u8]>> {
        let room = u32::try_from(buffer.len()).unwrap_or(0);
        let mut returned = 0;
        // SAFETY: (1) the buffer has the length that is said. (2) `returned` is a valid place.
        let read = unsafe {
            nt::cm::ZwEnumerateKey(
                self.0,
                index,
                KeyBasicInformation,
                buffer.as_mut_ptr().cast(),
                room,
                &raw mut returned,
            )
        };
        if read == status::STATUS_NO_MORE_ENTRIES {
            return Ok(None);
        }
        check(read)?;
        let length = word(buffer, offset_of!(KEY_BASIC_INFORMATION, NameLength));
        let start = offset_of!(KEY_BASIC_INFORMATION, Name);
        Ok(buffer.get(start..).and_then(|name| name.get(..length)))
    }

    /// Type and contents of a value, in a buffer; `None` if there is none.
    fn value<'b>(
        &self,
        name: &'static [u16],
        buffer: &'b mut [u8],
    ) -> Result<Option<(u32, &'b [u8])>> {
        let mut name = crate::routine::counted(name);
        let room = u32::try_from(buffer.len()).unwrap_or(0);
        let mut returned = 0;
        // SAFETY: (1) the name is valid for the call. (2) The buffer has the length that is said. (3)
        // `returned` is a valid place.
        let read = unsafe {
            nt::cm::ZwQueryValueKey(
                self.0,
                &raw mut name,
                KeyValuePartialInformation,
                buffer.as_mut_ptr().cast(),
                room,
                &raw mut returned,
            )
        };
        if read == status::STATUS_OBJECT_NAME_NOT_FOUND {
            return Ok(None);
        }
        check(read)?;
        let kind = word(buffer, offset_of!(KEY_VALUE_PARTIAL_INFORMATION, Type));
        let length = word(
            buffer,
            offset_of!(KEY_VALUE_PARTIAL_INFORMATION, DataLength),
        );
        let start = offset_of!(KEY_VALUE_PARTIAL_INFORMATION, Data);
        let data = buffer.get(start..).and_then(|data| data.get(..length));
        Ok(data.map(|data| (u32::try_from(kind).unwrap_or(0), data)))
    }
}

fn word(buffer: &[u8], at: usize) -> usize {
    let field = buffer.get(at..).and_then(|field| field.first_chunk());
    field.map_or(0, |field| {
        usize::try_from(u32::from_le_bytes(*field)).unwrap_or(0)
    })
}

/// The key of a device, whose keys below are its instances.
fn device(id: &[u16]) -> Result<Option<Key>> {
    let path = utf16!(r"\Registry\Machine\System\CurrentControlSet\Enum\ACPI");
    match Key::open(None, path)? {
        Some(acpi) => Key::open(Some(&acpi), id),
        None => Ok(None),
    }
}

/// What is lost when something fails: all, for want of resources; else what can't be read.
fn unless_short<T>(result: Result<Option<T>>) -> Result<Option<T>> {
    match result {
        Err(status::STATUS_INSUFFICIENT_RESOURCES) => Err(status::STATUS_INSUFFICIENT_RESOURCES),
        other => Ok(other.unwrap_or(None)),
    }
}

fn each_instance(
    tag: PoolTag,
    id: &[u16],
    mut look: impl FnMut(&Key, &[u16]) -> Result<()>,
) -> Result<()> {
    let Some(device) = unless_short(device(id))? else {
        return Ok(());
    };
    let mut buffer = PoolBox::try_from_fn(tag, MOST_NAME, |_| Ok(0u8))?;
    let mut units = PoolBox::try_from_fn(tag, MOST_NAME / 2, |_| Ok(0u16))?;
    for index in 0..MOST_INSTANCES {
        let Some(name) = unless_short(device.name_of_child(index, &mut buffer))? else {
            break;
        };
        let characters = name.chunks_exact(2).flat_map(|pair| pair.first_chunk());
        let mut length = 0;
        for (place, pair) in units.iter_mut().zip(characters) {
            *place = u16::from_le_bytes(*pair);
            length += 1;
        }
        look(&device, units.get(..length).unwrap_or_default())?;
    }
    Ok(())
}

/// Whether there is an instance of a device.
///
/// IRQL: `PASSIVE_LEVEL`.
/// Errors: `STATUS_INSUFFICIENT_RESOURCES`.
pub(super) fn has_device(tag: PoolTag, id: &[u16]) -> Result<bool> {
    let mut any = false;
    each_instance(tag, id, |_, _| {
        any = true;
        Ok(())
    })?;
    Ok(any)
}

/// Shows the resources that firmware gave to each instance of a device, as a `CM_RESOURCE_LIST`.
///
/// IRQL: `PASSIVE_LEVEL`.
/// Errors: `STATUS_INSUFFICIENT_RESOURCES`, and that of `look`.
pub(super) fn each_boot_resource(
    tag: PoolTag,
    id: &[u16],
    mut look: impl FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    let mut buffer = None;
    each_instance(tag, id, |device, name| {
        let Some(instance) = unless_short(Key::open(Some(device), name))? else {
            return Ok(());
        };
        let configuration = Key::open(Some(&instance), utf16!("LogConf"));
        let Some(configuration) = unless_short(configuration)? else {
            return Ok(());
        };
        let room = match &mut buffer {
            Some(room) => room,
            none => none.insert(PoolBox::try_from_fn(tag, MOST_VALUE, |_| Ok(0u8))?),
        };
        let value = configuration.value(utf16!("BootConfig"), room);
        match unless_short(value)? {
            Some((REG_RESOURCE_LIST, list)) => look(list),
            _ => Ok(()),
        }
    })
}
