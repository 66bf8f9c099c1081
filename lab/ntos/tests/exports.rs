//! The behaviour of exports, group by group, as drivers in C see them.

mod support;

#[test]
fn the_run_time_library_converts_compares_and_counts() {
    support::passes("library", &[]);
}

#[test]
fn services_lock_stack_devices_give_memory_and_know_processes() {
    support::passes("services", &["-Wl,--forceinteg"]);
}
