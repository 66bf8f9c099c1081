//! Tables that say the same thing in two places say the same thing.

use lab_devices::host_perf::HOST_EVENTS;

#[test]
fn the_events_that_wperf_lists_for_a_lab_host_are_those_the_lab_counts() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../cli/wperf/data/lab-events.csv"
    );
    let table = std::fs::read_to_string(path).expect("the table");
    let mut lines = table.lines();
    assert_eq!(lines.next(), Some("product,code,name,architecture_defined"));
    let listed: Vec<&str> = lines.collect();
    let counted: Vec<String> = HOST_EVENTS
        .iter()
        .map(|(code, _, name)| format!("lab-host,{code:#06X},{name},0").replace("0X", "0x"))
        .collect();
    assert_eq!(listed, counted);
}
