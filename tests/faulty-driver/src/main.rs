//! The faulty driver. Everything here is wrong on purpose.
#![cfg_attr(windows, no_std, no_main)]

#[cfg(not(windows))]
fn main() {
    eprintln!("this is a Windows driver: build it with --target x86_64-pc-windows-msvc");
    std::process::exit(2);
}

#[cfg(windows)]
mod faults;
#[cfg(windows)]
mod rules;

#[cfg(windows)]
mod driver {
    #![expect(
        unsafe_code,
        reason = "a driver without the safe API, because it has to break rules"
    )]
    #![expect(
        clippy::undocumented_unsafe_blocks,
        clippy::multiple_unsafe_ops_per_block,
        reason = "nothing here is safe: the lab is there to catch it"
    )]

    use core::ptr;

    use faulty_driver::{BREAK, CORRECT, Fault, NEAR_MISS, NEAR_MISS_WRITE};
    use nt::NTSTATUS;
    use nt::base::UNICODE_STRING;
    use nt::io::{
        IoCreateDevice, IoCreateSymbolicLink, IoDeleteDevice, IoDeleteSymbolicLink,
        IofCompleteRequest,
    };
    use nt::irp::{
        DEVICE_OBJECT, DRIVER_OBJECT, IRP, IRP_MJ_CLEANUP, IRP_MJ_CLOSE, IRP_MJ_CREATE,
        IRP_MJ_DEVICE_CONTROL,
    };
    use nt::status::{STATUS_INVALID_DEVICE_REQUEST, STATUS_OBJECT_NAME_NOT_FOUND, STATUS_SUCCESS};

    use crate::rules::{self, Request};

    #[panic_handler]
    fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
        unsafe { nt::ke::KeBugCheckEx(0xE2, 1, 0, 0, 0) }
    }

    /// The compiler's marker of floating-point use; nothing reads it.
    #[unsafe(no_mangle)]
    static _fltused: i32 = 0;

    #[unsafe(no_mangle)]
    unsafe extern "C" fn memset(to: *mut u8, value: i32, len: usize) -> *mut u8 {
        for index in 0..len {
            unsafe { to.add(index).write_volatile(value.to_le_bytes()[0]) };
        }
        to
    }

    #[unsafe(no_mangle)]
    unsafe extern "C" fn memcpy(to: *mut u8, from: *const u8, len: usize) -> *mut u8 {
        for index in 0..len {
            unsafe {
                to.add(index)
                    .write_volatile(from.add(index).read_volatile())
            };
        }
        to
    }

    #[unsafe(no_mangle)]
    unsafe extern "C" fn memcmp(one: *const u8, other: *const u8, len: usize) -> i32 {
        let pairs = (0..len).map(|index| unsafe {
            let byte = |at: *const u8| i32::from(at.add(index).read_volatile());
            byte(one) - byte(other)
        });
        pairs
            .into_iter()
            .find(|difference| *difference != 0)
            .unwrap_or(0)
    }

    pub(crate) const fn wide<const N: usize>(text: &[u8; N]) -> [u16; N] {
        let mut units = [0; N];
        let mut index = 0;
        while index < N {
            units[index] = text[index] as u16;
            index += 1;
        }
        units
    }

    pub(crate) static DEVICE: [u16; 14] = wide(b"\\Device\\Faulty");
    static LINK: [u16; 18] = wide(b"\\DosDevices\\Faulty");

    pub(crate) fn string(units: &'static [u16]) -> UNICODE_STRING {
        let bytes = (units.len() * 2) as u16;
        UNICODE_STRING {
            Length: bytes,
            MaximumLength: bytes,
            Buffer: units.as_ptr().cast_mut(),
        }
    }

    #[unsafe(no_mangle)]
    unsafe extern "system" fn DriverEntry(
        driver: *mut DRIVER_OBJECT,
        registry_path: *const UNICODE_STRING,
    ) -> NTSTATUS {
        unsafe {
            // Without a name: requests are passed on to it.
            let mut lower = ptr::null_mut();
            let status = IoCreateDevice(driver, 0, ptr::null(), 0x22, 0, 0, &mut lower);
            if !status.is_success() {
                return status;
            }
            let mut device = ptr::null_mut();
            let status = IoCreateDevice(driver, 0, &string(&DEVICE), 0x22, 0, 0, &mut device);
            if !status.is_success() {
                IoDeleteDevice(lower);
                return status;
            }
            (*device).StackSize += (*lower).StackSize;
            DEVICES.write([device, lower]);
            let status = IoCreateSymbolicLink(&string(&LINK), &string(&DEVICE));
            if !status.is_success() {
                IoDeleteDevice(device);
                IoDeleteDevice(lower);
                return status;
            }
            for major in [IRP_MJ_CREATE, IRP_MJ_CLOSE, IRP_MJ_CLEANUP] {
                (*driver).MajorFunction[major as usize] = Some(succeed);
            }
            (*driver).MajorFunction[IRP_MJ_DEVICE_CONTROL as usize] = Some(control);
            (*driver).DriverUnload = Some(unload);
            rules::set_handlers(driver, registry_path, succeed);
        }
        STATUS_SUCCESS
    }

    /// The device that is opened, and the one below.
    static DEVICES: rules::Shared<[*mut DEVICE_OBJECT; 2]> =
        rules::Shared::new([ptr::null_mut(); 2]);

    unsafe extern "efiapi" fn unload(_: *mut DRIVER_OBJECT) {
        unsafe {
            IoDeleteSymbolicLink(&string(&LINK));
            DEVICES
                .read()
                .into_iter()
                .for_each(|device| IoDeleteDevice(device));
        }
    }

    unsafe extern "efiapi" fn succeed(_: *mut DEVICE_OBJECT, irp: *mut IRP) -> NTSTATUS {
        unsafe { complete(irp, STATUS_SUCCESS, 0) }
    }

    pub(crate) unsafe fn complete(irp: *mut IRP, status: NTSTATUS, information: usize) -> NTSTATUS {
        unsafe {
            (*irp).IoStatus.Status = status;
            (*irp).IoStatus.Information = information;
            IofCompleteRequest(irp, 0);
        }
        status
    }

    unsafe extern "efiapi" fn control(device: *mut DEVICE_OBJECT, irp: *mut IRP) -> NTSTATUS {
        unsafe {
            let [upper, lower] = DEVICES.read();
            if device == lower {
                return rules::lower(device, irp);
            }
            let parameters = (*(*irp).CurrentStackLocation).Parameters.DeviceIoControl;
            if let BREAK | NEAR_MISS | NEAR_MISS_WRITE | CORRECT = parameters.IoControlCode {
                let len = parameters.InputBufferLength as usize;
                let name = core::slice::from_raw_parts((*irp).SystemBuffer.cast(), len);
                let act = match parameters.IoControlCode {
                    CORRECT => rules::find_correct(name),
                    code => rules::find(name, code == BREAK),
                };
                let Some(act) = act else {
                    return complete(irp, STATUS_OBJECT_NAME_NOT_FOUND, 0);
                };
                let driver = (*upper).DriverObject;
                return rules::perform(
                    act,
                    &Request {
                        driver,
                        device,
                        lower,
                        irp,
                    },
                );
            }
            let Some(fault) = Fault::from_code(parameters.IoControlCode) else {
                return complete(irp, STATUS_INVALID_DEVICE_REQUEST, 0);
            };
            match fault {
                Fault::Echo => {
                    let len = parameters
                        .InputBufferLength
                        .min(parameters.OutputBufferLength);
                    complete(irp, STATUS_SUCCESS, len as usize)
                }
                Fault::CompleteTwice => {
                    complete(irp, STATUS_SUCCESS, 0);
                    complete(irp, STATUS_SUCCESS, 0)
                }
                Fault::NotCompleted => STATUS_SUCCESS,
                Fault::TooMuchInformation => complete(irp, STATUS_SUCCESS, 4096),
                Fault::PendsForever => rules::pend(irp, false),
                Fault::PendsUntilCancelled => rules::pend(irp, true),
                other => {
                    let argument = if parameters.InputBufferLength >= 8 {
                        (*irp).SystemBuffer.cast::<u64>().read_unaligned()
                    } else {
                        0
                    };
                    crate::faults::commit(other, argument);
                    complete(irp, STATUS_SUCCESS, 0)
                }
            }
        }
    }
}
