//! Docking for the length of a run: `wperf` starts a dock, waits for it, and talks to it over the socket.
//!
//! The dock is this test executable itself, started by a script in the place of `drydock`.
#![cfg(unix)]

use lab_client::protocol::{
    Access, Completion, Handle, NtStatus, PROTOCOL_VERSION, Reply, Request, read_frame, write_frame,
};
use std::{
    env, fs,
    os::unix::{
        fs::PermissionsExt,
        net::{UnixListener, UnixStream},
    },
    path::Path,
    process::{Command, Output},
};
use wperf_abi::{
    ABI_MAJOR, CLIENT_PATH, Ioctl, Refusal,
    record::{ConfigHeader, CoreConfig, CoreOwnership, Holding, OwnershipHeader, PmuKind, Version},
};
use zerocopy::{FromZeros, IntoBytes};

/// Tells the test executable which socket to serve.
const SOCKET: &str = "TEST_DOCK_SOCKET";

/// Serves one connection, as a dock of a machine whose only core is held by the test's process.
#[test]
#[ignore = "is the dock that the other tests start"]
fn dock() {
    let path = env::var_os(SOCKET).expect("started by a test");
    let (mut stream, _) = UnixListener::bind(path).unwrap().accept().unwrap();
    while let Some(request) = read_frame(&mut stream).unwrap() {
        let reply = answer(&request);
        write_frame(&mut stream, &reply).unwrap();
        if matches!(reply, Reply::Stopped { .. }) {
            return;
        }
    }
}

fn answer(request: &Request) -> Reply {
    match request {
        Request::Hello { .. } => Reply::Welcome {
            version: PROTOCOL_VERSION,
            driver: "wperf-driver".into(),
        },
        Request::Open { device, access } => {
            assert_eq!(
                (device.as_str(), *access),
                (CLIENT_PATH, Access::READ_WRITE)
            );
            Reply::Opened { handle: Handle(1) }
        }
        Request::Ioctl { code, .. } => ioctl(Ioctl::from_code(*code).unwrap()),
        _ => Reply::Refused {
            reason: "not in this test".into(),
        },
    }
}

fn ioctl(ioctl: Ioctl) -> Reply {
    let output = match ioctl {
        Ioctl::QueryVersion => {
            let mut version = Version::new_zeroed();
            version.abi_major = ABI_MAJOR;
            version.as_bytes().to_vec()
        }
        Ioctl::QueryConfig => {
            let (mut head, mut core) = (ConfigHeader::new_zeroed(), CoreConfig::new_zeroed());
            head.core_count = 1;
            core.pmu = PmuKind::SOFTWARE;
            [head.as_bytes(), core.as_bytes()].concat()
        }
        Ioctl::QueryOwnership => {
            let (mut head, mut core) = (OwnershipHeader::new_zeroed(), CoreOwnership::new_zeroed());
            head.core_count = 1;
            core.holding = Holding::BUSY;
            core.pid = std::os::unix::process::parent_id();
            core.session = 1;
            [head.as_bytes(), core.as_bytes()].concat()
        }
        Ioctl::Acquire => {
            return Reply::Stopped {
                report: "bugcheck 0xD1".into(),
            };
        }
        _ => return completed(Refusal::UnknownCall.ntstatus(), Vec::new()),
    };
    completed(0, output)
}

fn completed(status: u32, output: Vec<u8>) -> Reply {
    Reply::Completed(Completion {
        status: NtStatus(status),
        information: output.len() as u64,
        output,
    })
}

fn wperf_with_dock(folder: &Path, line: &str) -> Output {
    let socket = folder.join("dock.sock");
    let drydock = folder.join("drydock");
    let text = format!(
        "#!/bin/sh\n[ \"$1 $3 $4\" = 'serve --until-idle --socket' ] || exit 9\n{SOCKET}=\"$5\" exec {} --exact dock --ignored\n",
        env::current_exe().unwrap().display()
    );
    fs::write(&drydock, text).unwrap();
    fs::set_permissions(&drydock, fs::Permissions::from_mode(0o700)).unwrap();
    let driver = folder.join("wperf-driver.sys");
    fs::write(&driver, "").unwrap();
    Command::new(env!("CARGO_BIN_EXE_wperf"))
        .args(line.split_whitespace())
        .env("DRYDOCK", drydock)
        .env("DRYDOCK_SOCKET", &socket)
        .env("WPERF_DRIVER", driver)
        .output()
        .unwrap()
}

#[test]
fn a_dock_is_started_waited_for_and_asked() {
    let folder = tempfile::tempdir().unwrap();
    let output = wperf_with_dock(folder.path(), "status --json");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let row = &document["Ownership"][0];
    assert_eq!(row["state"], "busy");
    // The dock's parent is `wperf`, whose name the system knows.
    let holder = row["holder"].as_str().unwrap();
    assert!(holder.ends_with("(wperf)"), "{holder}");
}

#[test]
fn a_driver_that_stops_the_lab_has_an_exit_code_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let output = wperf_with_dock(folder.path(), "lock --timeout 1ms");
    assert_eq!(output.status.code(), Some(6));
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(text, "the driver stopped the lab:\nbugcheck 0xD1\n");
}

#[test]
fn a_socket_that_nobody_serves_any_more_is_no_obstacle_to_questions() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("dock.sock");
    drop(UnixListener::bind(&socket).unwrap());
    assert!(UnixStream::connect(&socket).is_err());
    let output = Command::new(env!("CARGO_BIN_EXE_wperf"))
        .arg("--version")
        .env("DRYDOCK_SOCKET", &socket)
        .output()
        .unwrap();
    assert!(output.status.success());
}
