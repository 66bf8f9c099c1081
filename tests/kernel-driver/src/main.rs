//! `kernel-test-driver.sys`.
#![cfg_attr(windows, no_std, no_main)]

#[cfg(windows)]
kernel::driver_entry!(kernel_test_driver::driver::TestDriver);

#[cfg(not(windows))]
kernel::driver_entry!(());
