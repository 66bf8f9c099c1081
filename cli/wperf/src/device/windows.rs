//! The driver of this Windows system, and what else needs Win32.
#![expect(
    unsafe_code,
    reason = "Win32 is reached through the foreign function interface only"
)]

pub(crate) mod processes;
pub(crate) mod program;

use super::{Device, DeviceError, DriverOptions, Host, Opened};
use std::{
    io, mem,
    os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle},
    ptr,
};
use windows_sys::Win32::{
    Foundation::{ERROR_FILE_NOT_FOUND, GENERIC_READ, GENERIC_WRITE, HANDLE, INVALID_HANDLE_VALUE},
    Storage::FileSystem::{CreateFileW, FILE_SHARE_READ, FILE_SHARE_WRITE, OPEN_EXISTING},
    System::IO::DeviceIoControl,
};
use wperf_abi::{
    CLIENT_PATH,
    client::{Client, Reply},
};

/// Opens `\\.\WperfDriver`.
///
/// Errors: [`DeviceError::NoDriver`] when there is no such device; [`DeviceError::Failed`] when it may not be opened.
pub fn open(_options: &DriverOptions) -> Result<Opened, DeviceError> {
    open_running()?.ok_or_else(|| {
        DeviceError::NoDriver(format!("{CLIENT_PATH} does not exist: start its service."))
    })
}

/// Opens `\\.\WperfDriver` if it is there.
///
/// Errors: [`DeviceError::Failed`] when it may not be opened.
pub fn open_running() -> Result<Option<Opened>, DeviceError> {
    let path: Vec<u16> = CLIENT_PATH.encode_utf16().chain([0]).collect();
    // SAFETY: (1) `path` ends with a zero and outlives the call. (2) No security attributes and no template are given.
    let handle = unsafe {
        CreateFileW(
            path.as_ptr(),
            GENERIC_READ | GENERIC_WRITE,
            FILE_SHARE_READ | FILE_SHARE_WRITE,
            ptr::null(),
            OPEN_EXISTING,
            0,
            ptr::null_mut(),
        )
    };
    if handle == INVALID_HANDLE_VALUE {
        let error = io::Error::last_os_error();
        let absent = error.raw_os_error() == Some(ERROR_FILE_NOT_FOUND.cast_signed());
        return if absent {
            Ok(None)
        } else {
            Err(DeviceError::Failed(format!("{CLIENT_PATH}: {error}")))
        };
    }
    // SAFETY: `CreateFileW` just made the handle; nobody else has it.
    let handle = unsafe { OwnedHandle::from_raw_handle(handle) };
    let device: Box<dyn Device> = Box::new(OpenDevice(handle));
    Ok(Some(Opened {
        client: Client::new(device),
        host: Box::new(System),
    }))
}

struct OpenDevice(OwnedHandle);

impl Device for OpenDevice {
    fn ioctl(&mut self, code: u32, input: &[u8], output: &mut [u8]) -> Result<Reply, DeviceError> {
        let length = |bytes: usize| {
            u32::try_from(bytes).map_err(|_| DeviceError::Failed("a buffer over 4 GiB".into()))
        };
        let (input_len, output_len) = (length(input.len())?, length(output.len())?);
        let mut returned = 0;
        // SAFETY: (1) The handle is open: owned by self. (2) Both buffers are live for the call, which is synchronous
        // as the file was not opened overlapped, and their lengths are theirs. (3) `returned` is writable.
        let succeeded = unsafe {
            DeviceIoControl(
                self.0.as_raw_handle(),
                code,
                input.as_ptr().cast(),
                input_len,
                output.as_mut_ptr().cast(),
                output_len,
                &raw mut returned,
                ptr::null_mut(),
            )
        };
        let error = if succeeded == 0 { last_error() } else { 0 };
        let bytes = usize::try_from(returned).map_or(output.len(), |n| n.min(output.len()));
        Ok(Reply::from_win32(error, bytes))
    }
}

fn last_error() -> u32 {
    let code = io::Error::last_os_error().raw_os_error();
    code.map_or(u32::MAX, i32::cast_unsigned)
}

struct System;

impl Host for System {
    fn describe(&self) -> Option<String> {
        None
    }

    fn caveat(&self) -> Option<&'static str> {
        None
    }

    fn counts_host_events(&self) -> bool {
        false
    }

    fn samples_only_attached(&self) -> bool {
        false
    }

    fn attach(&mut self, _core: u32, _pid: u32) -> Result<(), DeviceError> {
        // The process is pinned to the core; its PMU counts whatever runs there.
        Ok(())
    }

    fn detach(&mut self, _core: u32) -> Result<(), DeviceError> {
        Ok(())
    }
}

/// Takes ownership of a handle that a Win32 function just made; `None` for null.
fn owned(handle: HANDLE) -> Option<OwnedHandle> {
    if handle.is_null() || handle == INVALID_HANDLE_VALUE {
        return None;
    }
    // SAFETY: callers pass a handle that was made for them and that they do not keep.
    Some(unsafe { OwnedHandle::from_raw_handle(handle) })
}

/// A structure of plain numbers, pointers and handles, all zero.
const fn zeroed<T: Plain>() -> T {
    // SAFETY: `Plain` is implemented for types of which all zeros is a value.
    unsafe { mem::zeroed() }
}

/// Win32 structures that may be all zero.
///
/// # Safety
/// All zeros is a valid value of the type.
unsafe trait Plain: Sized {}
