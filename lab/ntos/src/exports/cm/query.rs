//! `RtlQueryRegistryValues`: a table of what to read, and where to put it.

use std::ffi::c_void;

use nt::NTSTATUS;
use nt::base::UNICODE_STRING;
use nt::cm::{
    REG_EXPAND_SZ, REG_MULTI_SZ, REG_NONE, REG_SZ, RTL_QUERY_REGISTRY_DELETE,
    RTL_QUERY_REGISTRY_DIRECT, RTL_QUERY_REGISTRY_NOVALUE, RTL_QUERY_REGISTRY_REQUIRED,
    RTL_QUERY_REGISTRY_SUBKEY, RTL_QUERY_REGISTRY_TABLE, RTL_QUERY_REGISTRY_TOPKEY,
    RTL_QUERY_REGISTRY_TYPECHECK,
};
use nt::status::{
    STATUS_BUFFER_TOO_SMALL, STATUS_INVALID_PARAMETER, STATUS_NO_MEMORY,
    STATUS_OBJECT_NAME_NOT_FOUND, STATUS_OBJECT_TYPE_MISMATCH,
};

use super::text;
use crate::guest::{self, get, set};
use crate::machine::Machine;
use crate::registry::Value;

type Entry = *mut RTL_QUERY_REGISTRY_TABLE;

fn is_string(kind: u32) -> bool {
    kind == REG_SZ || kind == REG_EXPAND_SZ
}

impl Machine {
    /// Serves the entries of a table, up to the first that fails.
    pub(super) fn query_table(
        &self,
        top: &str,
        table: Entry,
        context: *mut c_void,
    ) -> Result<(), NTSTATUS> {
        let mut path = top.to_owned();
        let mut entry = table;
        loop {
            let flags = get!(entry, Flags);
            let known = RTL_QUERY_REGISTRY_SUBKEY | RTL_QUERY_REGISTRY_DIRECT;
            if get!(entry, QueryRoutine).is_none() && flags & known == 0 {
                return Ok(());
            }
            if flags & (RTL_QUERY_REGISTRY_TOPKEY | RTL_QUERY_REGISTRY_SUBKEY) != 0 {
                top.clone_into(&mut path);
            }
            if flags & RTL_QUERY_REGISTRY_SUBKEY != 0 {
                path = format!(r"{top}\{}", text(get!(entry, Name).cast_const())?);
                self.resources.borrow().registry.get(&path)?;
                self.every_value(&path, entry, context)?;
            } else {
                self.query_entry(&path, entry, context)?;
            }
            entry = entry.wrapping_add(1);
        }
    }

    /// Calls the routine of a subkey's entry for each value of the subkey.
    fn every_value(&self, path: &str, entry: Entry, context: *mut c_void) -> Result<(), NTSTATUS> {
        if get!(entry, QueryRoutine).is_none() {
            return Ok(());
        }
        let values: Vec<Value> = {
            let resources = self.resources.borrow();
            resources
                .registry
                .get(path)?
                .values
                .values()
                .cloned()
                .collect()
        };
        values
            .iter()
            .try_for_each(|value| self.call_query_routine(entry, value, context))
    }

    fn query_entry(&self, path: &str, entry: Entry, context: *mut c_void) -> Result<(), NTSTATUS> {
        let flags = get!(entry, Flags);
        if flags & RTL_QUERY_REGISTRY_NOVALUE != 0 {
            let nothing = Value {
                name: String::new(),
                kind: REG_NONE,
                data: Vec::new(),
            };
            return self.call_query_routine(entry, &nothing, context);
        }
        if get!(entry, Name).is_null() && flags & RTL_QUERY_REGISTRY_DIRECT == 0 {
            return self.every_value(path, entry, context);
        }
        let name = text(get!(entry, Name).cast_const())?;
        let found = self
            .resources
            .borrow()
            .registry
            .get(path)?
            .value(&name)
            .cloned();
        let value = match found {
            Some(value) => value,
            None if flags & RTL_QUERY_REGISTRY_REQUIRED != 0 => {
                return Err(STATUS_OBJECT_NAME_NOT_FOUND);
            }
            None => match default_value(entry, &name) {
                Some(value) => value,
                None => return Ok(()),
            },
        };
        if flags & RTL_QUERY_REGISTRY_DIRECT != 0 {
            self.store_directly(entry, &value)?;
        } else {
            self.call_query_routine(entry, &value, context)?;
        }
        if flags & RTL_QUERY_REGISTRY_DELETE != 0 {
            self.resources
                .borrow_mut()
                .registry
                .get_mut(path)?
                .remove(&name);
        }
        Ok(())
    }

    /// Calls a query routine; of a list of strings once for each.
    fn call_query_routine(
        &self,
        entry: Entry,
        value: &Value,
        context: *mut c_void,
    ) -> Result<(), NTSTATUS> {
        let Some(routine) = get!(entry, QueryRoutine) else {
            return Ok(());
        };
        let name: Vec<u16> = value.name.encode_utf16().chain([0]).collect();
        let call = |kind: u32, data: &[u8]| {
            let arguments = [
                name.as_ptr() as u64,
                u64::from(kind),
                data.as_ptr() as u64,
                data.len() as u64,
            ];
            let more = [context as u64, get!(entry, EntryContext) as u64];
            let result = self.call_with(routine as usize as u64, arguments, more);
            #[expect(
                clippy::cast_possible_truncation,
                reason = "an NTSTATUS is the low half of rax"
            )]
            let status = NTSTATUS::from_u32(result as u32);
            if status.is_success() {
                Ok(())
            } else {
                Err(status)
            }
        };
        if value.kind == REG_MULTI_SZ {
            return strings(&value.data).try_for_each(|string| call(REG_SZ, &string));
        }
        call(value.kind, &value.data)
    }

    /// Puts a value where the entry points, by its type.
    fn store_directly(&self, entry: Entry, value: &Value) -> Result<(), NTSTATUS> {
        let to = get!(entry, EntryContext);
        if to.is_null() || get!(entry, QueryRoutine).is_some() {
            return Err(STATUS_INVALID_PARAMETER);
        }
        // With TYPECHECK, the expected type is the high byte of the default's.
        let expected = get!(entry, DefaultType) >> 24;
        if get!(entry, Flags) & RTL_QUERY_REGISTRY_TYPECHECK != 0 && expected != value.kind {
            return Err(STATUS_OBJECT_TYPE_MISMATCH);
        }
        if is_string(value.kind) || value.kind == REG_MULTI_SZ {
            return self.store_string(to.cast(), &value.data);
        }
        if value.data.len() <= 4 {
            guest::fill(to.cast(), &value.data);
            return Ok(());
        }
        // A buffer that starts with its negative length, or length and type.
        let room = guest::read(to.cast::<i32>());
        if room >= 0 {
            return Err(STATUS_BUFFER_TOO_SMALL);
        }
        if value.data.len() > room.unsigned_abs() as usize {
            return Err(STATUS_BUFFER_TOO_SMALL);
        }
        guest::fill(to.cast(), &value.data);
        Ok(())
    }

    fn store_string(&self, to: *mut UNICODE_STRING, data: &[u8]) -> Result<(), NTSTATUS> {
        let Ok(bytes) = u16::try_from(data.len()) else {
            return Err(STATUS_BUFFER_TOO_SMALL);
        };
        if get!(to, Buffer).is_null() {
            let buffer = self.allocate_string(bytes);
            if buffer == 0 {
                return Err(STATUS_NO_MEMORY);
            }
            set!(to, MaximumLength = bytes);
            set!(to, Buffer = buffer as *mut u16);
        } else if get!(to, MaximumLength) < bytes {
            return Err(STATUS_BUFFER_TOO_SMALL);
        }
        guest::fill(get!(to, Buffer).cast(), data);
        let terminated = data.ends_with(&[0, 0]);
        set!(to, Length = if terminated { bytes - 2 } else { bytes });
        Ok(())
    }
}

/// The value an entry gives for one that is missing, if it does.
fn default_value(entry: Entry, name: &str) -> Option<Value> {
    // The high byte is TYPECHECK's.
    let kind = get!(entry, DefaultType) & 0x00FF_FFFF;
    if kind == REG_NONE {
        return None;
    }
    let data = get!(entry, DefaultData);
    let data = match get!(entry, DefaultLength) as usize {
        0 if is_string(kind) => crate::registry::wide(&text(data.cast()).ok()?),
        len => guest::bytes(data.cast(), len),
    };
    Some(Value {
        name: name.to_owned(),
        kind,
        data,
    })
}

/// The strings of a `REG_MULTI_SZ`, each with its terminator.
fn strings(data: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let (units, _) = data.as_chunks::<2>();
    units
        .split(|unit| *unit == [0, 0])
        .take_while(|string| !string.is_empty())
        .map(|string| [string.concat(), vec![0, 0]].concat())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::wide;

    #[test]
    fn a_list_of_strings_ends_at_the_empty_one() {
        let data = [wide("a"), wide("bc"), wide("")].concat();
        assert_eq!(strings(&data).collect::<Vec<_>>(), [wide("a"), wide("bc")]);
        assert_eq!(strings(&[]).count(), 0);
    }
}
