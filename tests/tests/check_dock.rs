//! The dock as tests of drivers use it.

use e2e::driver_path;
use faulty_driver::{DEVICE, Fault};
use lab_dock::{CallError, Dock};
use nt::status::STATUS_INVALID_DEVICE_REQUEST;

fn faulty() -> Dock {
    let dock = Dock::of(driver_path("faulty-driver")).expect("a driver");
    dock.cpus(2).seed(7).start().expect("it loads")
}

#[test]
fn requests_read_well_and_give_what_the_driver_gives() -> Result<(), Box<dyn std::error::Error>> {
    let dock = faulty();
    let device = dock.open(DEVICE)?;
    let echo = Fault::Echo.code();
    assert_eq!(
        device.ioctl(echo).input(b"hello").output(16).call()?,
        b"hello"
    );
    assert_eq!(device.ioctl(echo).call()?, b"");
    let refused = device
        .ioctl(0x22_3FFC)
        .call()
        .expect_err("not a code of it");
    assert_eq!(refused.status(), Some(STATUS_INVALID_DEVICE_REQUEST));
    assert!(device.read(4).is_err_and(|error| error.status().is_some()));
    assert!(
        device
            .write(b"1234")
            .is_err_and(|error| error.status().is_some())
    );
    device.close()?;
    dock.finish().assert_clean();
    Ok(())
}

#[test]
fn a_broken_rule_is_told_where_a_test_would_print_it() {
    let dock = faulty();
    let device = dock.open(DEVICE).expect("it opens");
    let error = device
        .ioctl(Fault::NullWrite.code())
        .call()
        .expect_err("it stops");
    assert!(matches!(error, CallError::Stopped(_)));
    let printed = format!("{error:?}");
    for part in ["null-pointer", "null_write", "remedy"] {
        assert!(printed.contains(part), "{printed}");
    }
}

#[test]
#[should_panic(expected = "pool-leak")]
fn what_is_left_behind_fails_the_test() {
    let dock = faulty();
    let device = dock.open(DEVICE).expect("it opens");
    device
        .ioctl(Fault::LeakPool.code())
        .call()
        .expect("it seems to work");
    dock.finish().assert_clean();
}

#[test]
fn a_device_that_is_not_there_is_refused() {
    let dock = faulty();
    let refused = dock.open(r"\\.\Nobody").err().expect("no such device");
    assert!(refused.status().is_some());
    dock.finish().assert_clean();
}
