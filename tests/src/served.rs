//! The driver docked in a process of its own, and `wperf` as its clients.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use lab_client::Client;
use lab_client::socket::SocketPath;

use crate::{driver_path, program};

/// Longer than anything takes on a loaded machine.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// `drydock serve`, in a folder of its own.
pub struct Served {
    child: Child,
    folder: tempfile::TempDir,
}

impl Served {
    /// Starts it and waits until it accepts.
    #[must_use]
    pub fn start(arguments: &[&str]) -> Self {
        Self::dock("wperf-driver", arguments)
    }

    /// As [`Self::start`], for any driver.
    #[must_use]
    pub fn dock(driver: &str, arguments: &[&str]) -> Self {
        Self::dock_file(&driver_path(driver), arguments)
    }

    /// As [`Self::start`], for a driver file.
    #[must_use]
    pub fn dock_file(driver: &Path, arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let log = File::create(folder.path().join("log")).expect("a file");
        let child = Command::new(program("drydock"))
            .arg("serve")
            .arg(driver)
            .arg("--socket")
            .arg(folder.path().join("dock.sock"))
            .args(arguments)
            .stderr(log)
            .spawn()
            .expect("drydock runs");
        let served = Self { child, folder };
        wait_until("the dock accepts", || served.client().is_some());
        served
    }

    /// A connection of this process; `None` while nobody listens.
    #[must_use]
    pub fn client(&self) -> Option<Client> {
        Client::connect(&SocketPath::Given(self.socket())).ok()
    }

    /// Where it listens.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("dock.sock")
    }

    /// A folder for files.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// `wperf` as a client of this dock.
    #[must_use]
    pub fn wperf(&self, words: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Command {
        let mut command = wperf(self.folder(), words);
        command.env("DRYDOCK_SOCKET", self.socket());
        command
    }

    /// `wperf` with the words of a line, run to its end.
    #[must_use]
    pub fn run(&self, line: &str) -> Output {
        let mut command = self.wperf(line.split_whitespace());
        command.output().expect("wperf runs")
    }

    /// Who holds what, as `wperf status --json` says.
    #[must_use]
    pub fn ownership(&self) -> serde_json::Value {
        let output = self.run("status --json");
        assert!(output.status.success(), "{}", stderr(&output));
        json(&output)["Ownership"].clone()
    }

    /// Stops the dock; the driver has broken no rule and left nothing.
    pub fn end(mut self) {
        self.client().expect("it accepts").stop().expect("it stops");
        let (code, log) = self.ended();
        assert_eq!(code, Some(0), "{log}");
    }

    /// Waits for the dock's end; gives exit code and what it printed.
    #[must_use]
    pub fn ended(&mut self) -> (Option<i32>, String) {
        let status = self.child.wait().expect("it ends");
        let log = std::fs::read_to_string(self.folder().join("log")).unwrap_or_default();
        (status.code(), log)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // It has ended already, unless a test failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `wperf` in a folder, with nothing of the environment that would lead it elsewhere.
#[must_use]
pub fn wperf(folder: &Path, words: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Command {
    let mut command = Command::new(program("wperf"));
    command
        .args(words)
        .current_dir(folder)
        .env_remove("WPERF_COMPAT")
        .env_remove("WPERF_DRIVER")
        .env_remove("DRYDOCK")
        .env("DRYDOCK_SOCKET", folder.join("dock.sock"));
    command
}

/// A `wperf` that holds cores until it is ended.
pub struct Holding {
    /// The process.
    pub child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Holding {
    /// Starts `wperf lock`, and waits until it holds the cores.
    #[must_use]
    pub fn lock(served: &Served, line: &str) -> Self {
        let mut command = served.wperf(["lock"]);
        command
            .args(line.split_whitespace())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().expect("wperf runs");
        let output = child.stdout.take().expect("a pipe");
        let mut lines = BufReader::new(output).lines();
        let acquired = lines.next().expect("a line").expect("text");
        assert!(acquired.contains("acquired"), "{acquired}");
        Self { child, lines }
    }

    /// Waits for its end; gives exit code and what it printed.
    #[must_use]
    pub fn end(mut self) -> (Option<i32>, String) {
        let mut text: Vec<String> = self.lines.by_ref().map_while(Result::ok).collect();
        let mut errors = self.child.stderr.take().map(BufReader::new);
        text.extend(
            errors
                .iter_mut()
                .flat_map(|errors| errors.lines().map_while(Result::ok)),
        );
        let status = self.child.wait().expect("it ends");
        (status.code(), text.join("\n"))
    }
}

/// Waits for something; how long it took.
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) -> Duration {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < PATIENCE, "{what}: not in time");
        std::thread::sleep(Duration::from_millis(1));
    }
    started.elapsed()
}

/// What a program printed as errors.
#[must_use]
pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// What a program printed.
#[must_use]
pub fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The JSON document that a program printed.
#[must_use]
pub fn json(output: &Output) -> serde_json::Value {
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}{}", stdout(output), stderr(output)))
}
