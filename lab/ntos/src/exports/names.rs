//! `Zw…`, `Nt…`, `Io…`, `Ob…` by handle: name space, events, requests to devices.
#![expect(
    unsafe_code,
    non_snake_case,
    reason = "exports have foreign signatures and the names of the WDK"
)]

use super::zw::file::{Open, finish};
use super::{exports, kernel_addresses};
use crate::guest::{self, get, set};
use crate::machine::Machine;
use crate::machine::current;
use crate::object::Kind;
use nt::NTSTATUS;
use nt::base::{
    ACCESS_MASK, BOOLEAN, HANDLE, KPROCESSOR_MODE, LARGE_INTEGER, OBJECT_ATTRIBUTES, UNICODE_STRING,
};
use nt::irp::{
    IO_STATUS_BLOCK, IRP_MJ_FLUSH_BUFFERS, IRP_MJ_QUERY_VOLUME_INFORMATION, IRP_MJ_SET_INFORMATION,
};
use nt::ke::{EVENT_NOTIFICATION_OBJECT, EVENT_SYNCHRONIZATION_OBJECT, KEVENT};
use nt::status::{
    STATUS_BUFFER_TOO_SMALL, STATUS_INSUFFICIENT_RESOURCES, STATUS_INVALID_DEVICE_REQUEST,
    STATUS_INVALID_INFO_CLASS, STATUS_MORE_ENTRIES, STATUS_NO_MORE_ENTRIES,
    STATUS_OBJECT_NAME_COLLISION, STATUS_OBJECT_NAME_EXISTS, STATUS_OBJECT_NAME_NOT_FOUND,
    STATUS_OBJECT_PATH_NOT_FOUND, STATUS_OBJECT_PATH_SYNTAX_BAD, STATUS_OBJECT_TYPE_MISMATCH,
    STATUS_SUCCESS,
};
use std::ffi::c_void;
use std::ptr;

exports! {
    names;

    fn ZwOpenDirectoryObject(DirectoryHandle: *mut HANDLE, _DesiredAccess: ACCESS_MASK, ObjectAttributes: *mut OBJECT_ATTRIBUTES) -> NTSTATUS {
        kernel_addresses!(DirectoryHandle, ObjectAttributes);
        let machine = current();
        let opened = machine.attribute_path(ObjectAttributes).and_then(|path| {
            if machine.is_directory(&path) { machine.open_path(Kind::Directory, path, DirectoryHandle) } else { Err(STATUS_OBJECT_NAME_NOT_FOUND) }
        });
        opened.err().unwrap_or(STATUS_SUCCESS)
    }
    fn ZwCreateDirectoryObject(DirectoryHandle: *mut HANDLE, _DesiredAccess: ACCESS_MASK, ObjectAttributes: *mut OBJECT_ATTRIBUTES) -> NTSTATUS {
        kernel_addresses!(DirectoryHandle, ObjectAttributes);
        let machine = current();
        let made = machine.attribute_path(ObjectAttributes).and_then(|path| {
            if machine.is_directory(&path) {
                return Err(STATUS_OBJECT_NAME_COLLISION);
            }
            machine.open_path(Kind::Directory, path, DirectoryHandle)
        });
        made.err().unwrap_or(STATUS_SUCCESS)
    }
    fn ZwQueryDirectoryObject(DirectoryHandle: HANDLE, Buffer: *mut c_void, Length: u32, ReturnSingleEntry: BOOLEAN, RestartScan: BOOLEAN, Context: *mut u32, ReturnLength: *mut u32) -> NTSTATUS {
        kernel_addresses!(Buffer, Context, ReturnLength);
        let first = if RestartScan != 0 { 0 } else { guest::read(Context) };
        match current().list_directory(DirectoryHandle, Buffer, Length, ReturnSingleEntry != 0, first) {
            Ok(Listed { next, bytes, status }) => {
                guest::write(Context, next);
                if !ReturnLength.is_null() {
                    guest::write(ReturnLength, bytes);
                }
                status
            }
            Err(status) => status,
        }
    }
    fn ZwOpenSymbolicLinkObject(LinkHandle: *mut HANDLE, _DesiredAccess: ACCESS_MASK, ObjectAttributes: *mut OBJECT_ATTRIBUTES) -> NTSTATUS {
        kernel_addresses!(LinkHandle, ObjectAttributes);
        let machine = current();
        let opened = machine.attribute_path(ObjectAttributes).and_then(|path| {
            let target = machine.objects.borrow().link_target(&path)?;
            machine.open_path(Kind::SymbolicLink, target, LinkHandle)
        });
        opened.err().unwrap_or(STATUS_SUCCESS)
    }
    fn ZwQuerySymbolicLinkObject(LinkHandle: HANDLE, LinkTarget: *mut UNICODE_STRING, ReturnedLength: *mut u32) -> NTSTATUS {
        kernel_addresses!(LinkTarget, ReturnedLength);
        let machine = current();
        let target = machine.resolve_handle(LinkHandle as u64, Some(Kind::SymbolicLink)).map(|link| machine.services.borrow().paths.get(&link).cloned().unwrap_or_default());
        let target: Vec<u16> = match target {
            Ok(target) => target.encode_utf16().collect(),
            Err(status) => return status,
        };
        if !ReturnedLength.is_null() {
            guest::write(ReturnedLength, u32::try_from(2 * target.len() + 2).unwrap_or(u32::MAX));
        }
        if usize::from(get!(LinkTarget, MaximumLength)) < 2 * target.len() {
            return STATUS_BUFFER_TOO_SMALL;
        }
        set!(LinkTarget, Length = 0u16);
        super::rtl::append(LinkTarget, &target)
    }
    fn ZwQueryObject(Handle: HANDLE, ObjectInformationClass: i32, ObjectInformation: *mut c_void, ObjectInformationLength: u32, ReturnLength: *mut u32) -> NTSTATUS {
        kernel_addresses!(ObjectInformation, ReturnLength);
        let machine = current();
        let object = match machine.resolve_handle(Handle as u64, None) {
            Ok(object) => object,
            Err(status) => return status,
        };
        let text = {
            let objects = machine.objects.borrow();
            let object = objects.get(object);
            match ObjectInformationClass {
                1 => object.and_then(|object| object.name.clone()).unwrap_or_default(),
                2 => object.map_or("", |object| type_name(object.kind)).to_owned(),
                _ => return STATUS_INVALID_INFO_CLASS,
            }
        };
        machine.deliver_string(&text, ObjectInformation, ObjectInformationLength, ReturnLength)
    }
    fn ZwDuplicateObject(SourceProcessHandle: HANDLE, SourceHandle: HANDLE, _TargetProcessHandle: HANDLE, TargetHandle: *mut HANDLE, _DesiredAccess: ACCESS_MASK, _HandleAttributes: u32, Options: u32) -> NTSTATUS {
        kernel_addresses!(TargetHandle);
        let machine = current();
        let source = machine.resolve_handle(SourceProcessHandle as u64, Some(Kind::Process)).and_then(|_| machine.resolve_handle(SourceHandle as u64, None));
        let object = match source {
            Ok(object) => object,
            Err(status) => return status,
        };
        let status = if TargetHandle.is_null() { STATUS_SUCCESS } else { machine.open_object(object, TargetHandle) };
        if Options & 1 != 0 {
            machine.close_handle(SourceHandle);
        }
        status
    }
    fn NtClose(Handle: HANDLE) -> NTSTATUS { current().close_handle(Handle) }
    fn ObCloseHandle(Handle: HANDLE, _PreviousMode: KPROCESSOR_MODE) -> NTSTATUS { current().close_handle(Handle) }
    fn ZwMakeTemporaryObject(Handle: HANDLE) -> NTSTATUS { current().resolve_handle(Handle as u64, None).err().unwrap_or(STATUS_SUCCESS) }
    fn ZwCreateEvent(EventHandle: *mut HANDLE, _DesiredAccess: ACCESS_MASK, ObjectAttributes: *mut OBJECT_ATTRIBUTES, EventType: i32, InitialState: BOOLEAN) -> NTSTATUS {
        kernel_addresses!(EventHandle, ObjectAttributes);
        let machine = current();
        if machine.must_fail() {
            return STATUS_INSUFFICIENT_RESOURCES;
        }
        let named = !ObjectAttributes.is_null() && !get!(ObjectAttributes, ObjectName).is_null();
        let name = if named { machine.attribute_path(ObjectAttributes).map(Some) } else { Ok(None) };
        match name.and_then(|name| machine.make_event(name.as_deref(), EventType, InitialState != 0)) {
            Ok((_, handle, existed)) => {
                guest::write(EventHandle, handle as HANDLE);
                if existed { STATUS_OBJECT_NAME_EXISTS } else { STATUS_SUCCESS }
            }
            Err(status) => status,
        }
    }
    fn ZwOpenEvent(EventHandle: *mut HANDLE, _DesiredAccess: ACCESS_MASK, ObjectAttributes: *mut OBJECT_ATTRIBUTES) -> NTSTATUS {
        kernel_addresses!(EventHandle, ObjectAttributes);
        let machine = current();
        let found = machine.attribute_path(ObjectAttributes).and_then(|path| Ok(machine.objects.borrow().lookup(&path)?.0));
        match found {
            Ok(object) if machine.objects.borrow().get(object).map(|object| object.kind) != Some(Kind::Event) => STATUS_OBJECT_TYPE_MISMATCH,
            Ok(object) => machine.open_object(object, EventHandle),
            Err(status) => status,
        }
    }
    fn IoCreateSynchronizationEvent(EventName: *const UNICODE_STRING, EventHandle: *mut HANDLE) -> *mut KEVENT {
        let machine = current();
        if machine.must_fail() {
            return ptr::null_mut();
        }
        match machine.string(EventName).and_then(|name| machine.make_event(Some(&name), 1, true)) {
            Ok((event, handle, _)) => {
                guest::write(EventHandle, handle as HANDLE);
                event as *mut KEVENT
            }
            Err(_) => ptr::null_mut(),
        }
    }
    fn ZwSetEvent(EventHandle: HANDLE, PreviousState: *mut i32) -> NTSTATUS {
        kernel_addresses!(PreviousState);
        current().change_event(EventHandle, PreviousState, 1)
    }
    fn ZwResetEvent(EventHandle: HANDLE, PreviousState: *mut i32) -> NTSTATUS {
        kernel_addresses!(PreviousState);
        current().change_event(EventHandle, PreviousState, 0)
    }
    fn ZwClearEvent(EventHandle: HANDLE) -> NTSTATUS { current().change_event(EventHandle, ptr::null_mut(), 0) }
    fn ZwWaitForSingleObject(Handle: HANDLE, _Alertable: BOOLEAN, Timeout: *mut LARGE_INTEGER) -> NTSTATUS {
        kernel_addresses!(Timeout);
        let machine = current();
        let object = match machine.resolve_handle(Handle as u64, None) {
            Ok(object) => object,
            Err(status) => return status,
        };
        let kind = machine.objects.borrow().get(object).map(|object| object.kind);
        match kind {
            Some(Kind::Event | Kind::Thread | Kind::Process) => machine.wait(&[object], false, machine.timeout(Timeout)),
            // A file waits for its event, which is always set: requests are waited for when they are made.
            Some(Kind::File) => STATUS_SUCCESS,
            _ => STATUS_OBJECT_TYPE_MISMATCH,
        }
    }
    fn IoCreateFile(FileHandle: *mut HANDLE, DesiredAccess: ACCESS_MASK, ObjectAttributes: *mut OBJECT_ATTRIBUTES, IoStatusBlock: *mut IO_STATUS_BLOCK, _AllocationSize: *mut LARGE_INTEGER, _FileAttributes: u32, ShareAccess: u32, Disposition: u32, CreateOptions: u32, _EaBuffer: *mut c_void, _EaLength: u32, _CreateFileType: i32, _InternalParameters: *mut c_void, _Options: u32) -> NTSTATUS { current().create_file(FileHandle, ObjectAttributes, IoStatusBlock, Open { access: DesiredAccess, share: ShareAccess, disposition: Disposition, options: CreateOptions }) }
    fn NtCreateFile(FileHandle: *mut HANDLE, DesiredAccess: ACCESS_MASK, ObjectAttributes: *mut OBJECT_ATTRIBUTES, IoStatusBlock: *mut IO_STATUS_BLOCK, _AllocationSize: *mut LARGE_INTEGER, _FileAttributes: u32, ShareAccess: u32, CreateDisposition: u32, CreateOptions: u32, _EaBuffer: *mut c_void, _EaLength: u32) -> NTSTATUS { current().create_file(FileHandle, ObjectAttributes, IoStatusBlock, Open { access: DesiredAccess, share: ShareAccess, disposition: CreateDisposition, options: CreateOptions }) }
    fn ZwDeleteFile(ObjectAttributes: *mut OBJECT_ATTRIBUTES) -> NTSTATUS {
        kernel_addresses!(ObjectAttributes);
        let machine = current();
        match machine.attribute_path(ObjectAttributes) {
            Ok(path) if machine.objects.borrow().lookup(&path).is_ok() => STATUS_INVALID_DEVICE_REQUEST,
            Ok(_) => STATUS_OBJECT_PATH_NOT_FOUND,
            Err(status) => status,
        }
    }
    fn ZwDeviceIoControlFile(FileHandle: HANDLE, Event: HANDLE, _ApcRoutine: *mut c_void, _ApcContext: *mut c_void, IoStatusBlock: *mut IO_STATUS_BLOCK, IoControlCode: u32, InputBuffer: *mut c_void, InputBufferLength: u32, OutputBuffer: *mut c_void, OutputBufferLength: u32) -> NTSTATUS {
        kernel_addresses!(IoStatusBlock, InputBuffer, OutputBuffer);
        let machine = current();
        let event = match machine.event_of(Event) {
            Ok(event) => event,
            Err(status) => return status,
        };
        let done = machine.resolve_handle(FileHandle as u64, Some(Kind::File)).and_then(|file| {
            machine.wait_for_irp(file, |machine, device, event, iosb| {
                let irp = machine.threaded_irp(device, event, iosb);
                if !irp.is_null() {
                    let control = super::io::Control { code: IoControlCode, major: nt::irp::IRP_MJ_DEVICE_CONTROL, input: InputBuffer, input_len: InputBufferLength, output: OutputBuffer, output_len: OutputBufferLength };
                    machine.fill_control(irp, &control);
                }
                irp
            })
        });
        let status = finish(done, IoStatusBlock);
        if event != 0 {
            machine.signal(event, 1);
        }
        status
    }
    fn ZwFlushBuffersFile(FileHandle: HANDLE, IoStatusBlock: *mut IO_STATUS_BLOCK) -> NTSTATUS {
        kernel_addresses!(IoStatusBlock);
        let machine = current();
        let done = machine.resolve_handle(FileHandle as u64, Some(Kind::File)).and_then(|file| machine.send(file, IRP_MJ_FLUSH_BUFFERS, |_, _| {}));
        finish(done, IoStatusBlock)
    }
    fn ZwSetInformationFile(FileHandle: HANDLE, IoStatusBlock: *mut IO_STATUS_BLOCK, FileInformation: *mut c_void, Length: u32, FileInformationClass: i32) -> NTSTATUS {
        kernel_addresses!(IoStatusBlock, FileInformation);
        current().ask_file(FileHandle, IoStatusBlock, IRP_MJ_SET_INFORMATION, FileInformation, Length, FileInformationClass)
    }
    fn ZwQueryVolumeInformationFile(FileHandle: HANDLE, IoStatusBlock: *mut IO_STATUS_BLOCK, FsInformation: *mut c_void, Length: u32, FsInformationClass: i32) -> NTSTATUS {
        kernel_addresses!(IoStatusBlock, FsInformation);
        current().ask_file(FileHandle, IoStatusBlock, IRP_MJ_QUERY_VOLUME_INFORMATION, FsInformation, Length, FsInformationClass)
    }
    fn ZwQueryDirectoryFile(FileHandle: HANDLE, _Event: HANDLE, _ApcRoutine: *mut c_void, _ApcContext: *mut c_void, _IoStatusBlock: *mut IO_STATUS_BLOCK, _FileInformation: *mut c_void, _Length: u32, _FileInformationClass: i32, _ReturnSingleEntry: BOOLEAN, _FileName: *mut UNICODE_STRING, _RestartScan: BOOLEAN) -> NTSTATUS { current().resolve_handle(FileHandle as u64, Some(Kind::File)).err().unwrap_or(STATUS_INVALID_DEVICE_REQUEST) }
    fn ZwLoadDriver(DriverServiceName: *mut UNICODE_STRING) -> NTSTATUS {
        kernel_addresses!(DriverServiceName);
        current().string(DriverServiceName).err().unwrap_or(STATUS_OBJECT_NAME_NOT_FOUND)
    }
    fn ZwUnloadDriver(DriverServiceName: *mut UNICODE_STRING) -> NTSTATUS {
        kernel_addresses!(DriverServiceName);
        current().string(DriverServiceName).err().unwrap_or(STATUS_OBJECT_NAME_NOT_FOUND)
    }
    fn ObOpenObjectByName(ObjectAttributes: *mut OBJECT_ATTRIBUTES, ObjectType: *mut c_void, _AccessMode: KPROCESSOR_MODE, _AccessState: *mut c_void, _DesiredAccess: ACCESS_MASK, _ParseContext: *mut c_void, Handle: *mut HANDLE) -> NTSTATUS {
        let machine = current();
        let found = machine.attribute_path(ObjectAttributes).and_then(|path| {
            let object = machine.objects.borrow().lookup(&path)?.0;
            let kind = machine.objects.borrow().get(object).map(|object| object.kind);
            if super::data::kind_of_type(ObjectType as u64).is_some_and(|wanted| Some(wanted) != kind) { Err(STATUS_OBJECT_TYPE_MISMATCH) } else { Ok(object) }
        });
        match found {
            Ok(object) => machine.open_object(object, Handle),
            Err(status) => status,
        }
    }
    fn ObIsKernelHandle(Handle: HANDLE) -> BOOLEAN { u8::from((Handle as u64) >> 63 != 0) }
    fn ZwYieldExecution() -> NTSTATUS {
        current().yield_while_busy();
        STATUS_SUCCESS
    }
}

/// Directories that every system has.
const DIRECTORIES: [&str; 12] = [
    "\\",
    r"\device",
    r"\driver",
    r"\??",
    r"\global??",
    r"\dosdevices",
    r"\callback",
    r"\basenamedobjects",
    r"\kernelobjects",
    r"\filesystem",
    r"\objecttypes",
    r"\security",
];

/// What a listing came to.
struct Listed {
    next: u32,
    bytes: u32,
    status: NTSTATUS,
}

/// Bytes of an `OBJECT_DIRECTORY_INFORMATION`: two counted strings.
const ENTRY: usize = 2 * size_of::<UNICODE_STRING>();

/// Name of an object's type, as the name space has it.
fn type_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Driver => "Driver",
        Kind::Device => "Device",
        Kind::File => "File",
        Kind::Process => "Process",
        Kind::Thread => "Thread",
        Kind::Event => "Event",
        Kind::Section => "Section",
        Kind::Key => "Key",
        Kind::Callback => "Callback",
        Kind::Token => "Token",
        Kind::Directory => "Directory",
        Kind::SymbolicLink => "SymbolicLink",
        Kind::Interrupt => "Interrupt",
    }
}

impl Machine {
    /// The full path that object attributes name: absolute, or below an open directory.
    pub(super) fn attribute_path(
        &self,
        attributes: *mut OBJECT_ATTRIBUTES,
    ) -> Result<String, NTSTATUS> {
        let name = get!(attributes, ObjectName);
        let name = if name.is_null() {
            String::new()
        } else {
            self.string(name.cast_const())?
        };
        let root = get!(attributes, RootDirectory);
        if root.is_null() {
            return if name.starts_with('\\') {
                Ok(name)
            } else {
                Err(STATUS_OBJECT_PATH_SYNTAX_BAD)
            };
        }
        let directory = self.resolve_handle(root as u64, Some(Kind::Directory))?;
        let services = self.services.borrow();
        let path = services.paths.get(&directory).map_or("", String::as_str);
        Ok(format!(r"{}\{name}", path.trim_end_matches('\\')))
    }

    fn is_directory(&self, path: &str) -> bool {
        let path = path.to_lowercase();
        let trimmed = path.trim_end_matches('\\');
        let made = {
            let services = self.services.borrow();
            let objects = self.objects.borrow();
            services.paths.iter().any(|(object, known)| {
                objects
                    .get(*object)
                    .is_some_and(|object| object.kind == Kind::Directory)
                    && known.to_lowercase().trim_end_matches('\\') == trimmed
            })
        };
        made || DIRECTORIES.contains(&path.as_str())
            || DIRECTORIES.contains(&trimmed)
            || !self.objects.borrow().names_below(trimmed).is_empty()
    }

    /// Opens an object that is nothing but a path.
    fn open_path(&self, kind: Kind, path: String, to: *mut HANDLE) -> Result<(), NTSTATUS> {
        if self.must_fail() {
            return Err(STATUS_INSUFFICIENT_RESOURCES);
        }
        let object = self
            .allocate_object(16, b"Dire", kind)
            .ok_or(STATUS_INSUFFICIENT_RESOURCES)?;
        self.services.borrow_mut().paths.insert(object, path);
        let site = self.call_site();
        let mut objects = self.objects.borrow_mut();
        let handle = objects
            .open(object, site)
            .ok_or(STATUS_INSUFFICIENT_RESOURCES)?;
        // The handle's reference is the only one.
        objects.dereference(object, false);
        guest::write(to, handle as HANDLE);
        Ok(())
    }

    fn list_directory(
        &self,
        handle: HANDLE,
        buffer: *mut c_void,
        len: u32,
        single: bool,
        first: u32,
    ) -> Result<Listed, NTSTATUS> {
        let directory = self.resolve_handle(handle as u64, Some(Kind::Directory))?;
        let path = self.services.borrow().paths.get(&directory).cloned();
        let names = self
            .objects
            .borrow()
            .names_below(path.unwrap_or_default().trim_end_matches('\\'));
        let left: Vec<&(String, &str)> = names.iter().skip(first as usize).collect();
        if left.is_empty() {
            return Err(STATUS_NO_MORE_ENTRIES);
        }
        let bytes = |entry: &(String, &str)| {
            ENTRY + 2 * (entry.0.encode_utf16().count() + entry.1.len() + 2)
        };
        let limit = if single { 1 } else { left.len() };
        let mut total = ENTRY;
        let mut count = 0;
        for entry in left.iter().take(limit) {
            if total + bytes(entry) > len as usize {
                break;
            }
            total += bytes(entry);
            count += 1;
        }
        if count == 0 {
            return Err(STATUS_BUFFER_TOO_SMALL);
        }
        let mut text_at = buffer as u64 + (ENTRY * (count + 1)) as u64;
        guest::set_bytes(buffer.cast(), 0, ENTRY * (count + 1));
        for (index, (name, kind)) in left.iter().take(count).enumerate() {
            let strings = buffer
                .wrapping_byte_add(ENTRY * index)
                .cast::<UNICODE_STRING>();
            for (place, text) in [(0, name.as_str()), (1, kind)] {
                let units: Vec<u16> = text.encode_utf16().chain([0]).collect();
                for (offset, unit) in units.iter().enumerate() {
                    guest::write((text_at as *mut u16).wrapping_add(offset), *unit);
                }
                let length = u16::try_from(2 * units.len()).unwrap_or(u16::MAX);
                let string = UNICODE_STRING {
                    Length: length - 2,
                    MaximumLength: length,
                    Buffer: text_at as *mut u16,
                };
                guest::write(strings.wrapping_add(place), string);
                text_at += u64::from(length);
            }
        }
        Ok(Listed {
            next: first + u32::try_from(count).unwrap_or(0),
            bytes: u32::try_from(total).unwrap_or(u32::MAX),
            status: if !single && count < left.len() {
                STATUS_MORE_ENTRIES
            } else {
                STATUS_SUCCESS
            },
        })
    }

    /// A new event, or the one of that name: its address, a handle, whether it was there.
    fn make_event(
        &self,
        name: Option<&str>,
        kind: i32,
        set: bool,
    ) -> Result<(u64, u64, bool), NTSTATUS> {
        let site = self.call_site();
        let found = name.and_then(|name| self.objects.borrow().lookup(name).ok());
        if let Some((object, _)) = found {
            let mut objects = self.objects.borrow_mut();
            if objects.get(object).map(|object| object.kind) != Some(Kind::Event) {
                return Err(STATUS_OBJECT_TYPE_MISMATCH);
            }
            let handle = objects
                .open(object, site)
                .ok_or(STATUS_INSUFFICIENT_RESOURCES)?;
            return Ok((object, handle, true));
        }
        let event = self
            .allocate_object(size_of::<KEVENT>() as u64, b"Even", Kind::Event)
            .ok_or(STATUS_INSUFFICIENT_RESOURCES)?;
        let event_type = if kind == 0 {
            EVENT_NOTIFICATION_OBJECT
        } else {
            EVENT_SYNCHRONIZATION_OBJECT
        };
        let header = (event as *mut KEVENT).cast();
        super::ke::initialize_header(header, event_type, size_of::<KEVENT>(), i32::from(set));
        let mut objects = self.objects.borrow_mut();
        if let Some(name) = name {
            objects.set_name(event, name)?;
        }
        let handle = objects
            .open(event, site)
            .ok_or(STATUS_INSUFFICIENT_RESOURCES)?;
        objects.dereference(event, false);
        Ok((event, handle, false))
    }

    fn change_event(&self, handle: HANDLE, previous: *mut i32, state: i32) -> NTSTATUS {
        let event = match self.resolve_handle(handle as u64, Some(Kind::Event)) {
            Ok(event) => event,
            Err(status) => return status,
        };
        let old = self.signal(event, state);
        if !previous.is_null() {
            guest::write(previous, old);
        }
        STATUS_SUCCESS
    }

    /// Sends a request about a file with a buffer, a length and a class.
    fn ask_file(
        &self,
        handle: HANDLE,
        iosb: *mut IO_STATUS_BLOCK,
        major: u8,
        buffer: *mut c_void,
        length: u32,
        class: i32,
    ) -> NTSTATUS {
        if self.must_fail() {
            return STATUS_INSUFFICIENT_RESOURCES;
        }
        let input = if major == IRP_MJ_SET_INFORMATION {
            length
        } else {
            0
        };
        let done = self
            .resolve_handle(handle as u64, Some(Kind::File))
            .and_then(|file| {
                self.send(file, major, |stack, irp| {
                    set!(stack, Parameters.QueryFile.Length = length);
                    set!(stack, Parameters.QueryFile.FileInformationClass = class);
                    if input == 0 {
                        set!(irp, UserBuffer = buffer);
                    }
                    self.buffer_threaded(irp, buffer as u64, length, input);
                })
            });
        finish(done, iosb)
    }
}
