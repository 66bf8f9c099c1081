//! `wperf-driver.sys`.
#![cfg_attr(windows, no_std, no_main)]

kernel::driver_entry!(wperf_driver::WperfDriver);
