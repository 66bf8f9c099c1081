//! Following a docked driver, as a user does.

use std::process::Command;

use e2e::flavours::flavoured;
use e2e::served::Served;
use e2e::{driver_path, program};
use lab_client::protocol::Access;
use serde_json::Value;
use trace_format::request::{Call, ReadRequest, Selection, Switch};
use zerocopy::IntoBytes;

/// `drydock trace` at a dock, with words.
fn trace(served: &Served, driver: &std::path::Path, words: &[&str]) -> Command {
    let mut command = Command::new(program("drydock"));
    command.arg("trace").arg("--driver").arg(driver);
    command.arg("--socket").arg(served.socket()).args(words);
    command.env("DRYDOCK_SOCKET", served.socket());
    command
}

fn events(served: &Served, command: &mut Command) -> Vec<Value> {
    let file = served.folder().join("events");
    let output = command.args(["--as", "json", "-o"]).arg(&file);
    let output = output.output().expect("drydock runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    assert!(errors.contains(" 0 lost"), "{errors}");
    lines(&file)
}

fn lines(file: &std::path::Path) -> Vec<Value> {
    let text = std::fs::read_to_string(file).expect("it was written");
    text.lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect()
}

fn texts(events: &[Value]) -> Vec<&str> {
    events
        .iter()
        .filter_map(|event| event["text"].as_str())
        .collect()
}

#[test]
fn a_driver_has_recorded_its_cold_paths_before_anybody_asked() {
    let served = Served::start(&[]);
    let status = served.run("status");
    assert!(status.status.success());
    let driver = driver_path("wperf-driver");
    let events = events(&served, &mut trace(&served, &driver, &[]));
    assert_eq!(
        texts(&events)[..3],
        ["looked for uncore units", "started", "opened"]
    );
    let end = events
        .iter()
        .find(|event| event["form"] == "exit")
        .expect("the handle was closed");
    assert_eq!(end["function"], "wperf_driver::control::cleanup");
    assert!(
        end["callers"]
            .as_array()
            .is_some_and(|callers| !callers.is_empty()),
        "{end}"
    );
    served.end();
}

#[test]
fn hot_paths_are_followed_while_a_command_runs() {
    let driver = flavoured("all");
    let served = Served::dock_file(&driver, &[]);
    let wperf = program("wperf");
    let wperf = wperf.to_str().expect("a path");
    let file = served.folder().join("trace");
    let copy = file.to_str().expect("a path");
    let mut command = trace(&served, &driver, &["--write", copy]);
    let json = served.folder().join("live");
    let output = command
        .args(["--as", "json", "-o"])
        .arg(&json)
        .args(["--", wperf, "status"])
        .output();
    assert!(output.expect("drydock runs").status.success());
    let live = lines(&json);
    let calls = live.iter().filter(|event| {
        event["function"] == "wperf_driver::dispatch::ioctl" && event["form"] == "enter"
    });
    assert!(calls.count() > 0, "{live:#?}");
    let irps: Vec<_> = live
        .iter()
        .filter(|event| event["flag"] == "KERNEL")
        .collect();
    assert!(
        irps.iter()
            .any(|event| event["arguments"]["major"] == "IRP_MJ_CLOSE"),
        "{irps:#?}"
    );
    // The copy says the same.
    let mut decode = Command::new(program("drydock"));
    decode.arg("trace").arg("--driver").arg(&driver).arg(&file);
    let copied = events(&served, &mut decode);
    let ids = |events: &[Value]| -> Vec<_> {
        let mut ids: Vec<_> = events
            .iter()
            .map(|event| event["position"].as_u64())
            .collect();
        ids.sort_unstable();
        ids
    };
    assert_eq!(ids(&copied), ids(&live));
    // Another build's trace is refused.
    let mut other = Command::new(program("drydock"));
    other
        .arg("trace")
        .arg("--driver")
        .arg(driver_path("wperf-driver"))
        .arg(&file);
    let output = other.output().expect("drydock runs");
    assert!(String::from_utf8_lossy(&output.stderr).contains("another build"));
    served.end();
}

#[test]
fn what_no_reader_would_ask_is_refused() {
    let served = Served::start(&[]);
    let client = served.client().expect("it accepts");
    let device = client
        .open(r"\\.\WperfDriver", Access::READ_WRITE)
        .expect("it opens");
    let status = |call: Call, input: &[u8], room| {
        client
            .ioctl(device, call.code(), input, room)
            .expect("an answer")
            .status
            .0
    };
    let read = |ring| ReadRequest {
        ring,
        reserved: 0,
        from: 0,
    };
    assert_eq!(status(Call::Read, read(0).as_bytes(), 4096), 0);
    assert_eq!(
        status(Call::Read, read(10_000).as_bytes(), 4096),
        0xC000_000D
    );
    assert_eq!(status(Call::Read, read(0).as_bytes(), 47), 0xC000_0023);
    assert_eq!(status(Call::Read, &[0; 15], 4096), 0xC000_0004);
    assert_eq!(status(Call::Query, &[], 47), 0xC000_0023);
    let selection = Selection {
        level: 0,
        flags: 0,
        mode: 7,
        anew: 0,
    };
    assert_eq!(status(Call::Select, selection.as_bytes(), 0), 0xC000_000D);
    let switch = Switch {
        index: 100_000,
        on: 1,
    };
    assert_eq!(status(Call::Switch, switch.as_bytes(), 0), 0xC000_000D);
    assert_eq!(status(Call::Switch, &[0; 9], 0), 0xC000_0004);
    served.end();
}
