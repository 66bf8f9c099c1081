//! An independent judge of "it is a Windows driver": Wine loads it, and `wperf.exe` counts through it.

mod wine {
    //! A Wine prefix of its own, with the driver as a service.

    use std::ffi::OsStr;
    use std::path::{Path, PathBuf};
    use std::process::{Child, Command, Output, Stdio};

    use e2e::served::{stderr, stdout, wait_until};
    use e2e::{driver_path, target_folder};

    const WINE: &str = "/usr/lib/wine/wine64";
    const SERVER: &str = "/usr/lib/wine/wineserver64";
    const GCC: &str = "x86_64-w64-mingw32-gcc";
    /// For the creation of a prefix on a loaded machine.
    const SECONDS: &str = "120";
    const SERVICE: &str = "WperfDriver";

    pub(super) struct Wine {
        folder: tempfile::TempDir,
        /// Services end with the last program, so one waits until all is over.
        session: Child,
    }

    impl Wine {
        /// Makes the prefix, and readies `wperf.exe` and the service.
        pub(super) fn new() -> Self {
            let packages = [(WINE, "wine64"), (SERVER, "wine64")];
            for (path, package) in packages {
                assert!(
                    Path::new(path).exists(),
                    "no {path}: install the package {package}"
                );
            }
            let folder = Self::prefix();
            let session = wine(folder.path(), ["cmd", "/k"])
                .stdin(Stdio::piped())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .expect("timeout runs");
            let wine = Self { folder, session };
            wine.place_files();
            wine.create_service();
            wine
        }

        /// A folder with a new prefix in it. On a loaded machine Wine 8 at times starts its first program before the
        /// prefix is complete ("could not load kernel32.dll"): a new one is made then, three times at most.
        fn prefix() -> tempfile::TempDir {
            let mut said = String::new();
            for _ in 0..3 {
                let folder = tempfile::tempdir().expect("a folder");
                let created = wine(folder.path(), ["wineboot", "--init"]).output();
                let created = created.expect("timeout runs");
                if created.status.success() {
                    return folder;
                }
                said = stderr(&created);
            }
            panic!("Wine makes no prefix: {said}")
        }

        fn place_files(&self) {
            let program = target_folder().join("x86_64-pc-windows-gnu/release/wperf.exe");
            assert!(
                program.exists(),
                "{} is not built: run `cargo build --release -p wperf --target x86_64-pc-windows-gnu`",
                program.display()
            );
            let copy = |from: &Path, to: PathBuf| {
                std::fs::copy(from, to).expect("a copy");
            };
            copy(&program, self.program());
            let drive = self.folder.path().join("prefix/drive_c");
            copy(&driver_path("wperf-driver"), drive.join("wperf-driver.sys"));
            let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/wine/bcryptprimitives.c");
            let built = Command::new(GCC)
                .args(["-O2", "-Wall", "-Werror", "-shared", "-o"])
                .arg(self.folder.path().join("bcryptprimitives.dll"))
                .args([source, "-ladvapi32"])
                .output()
                .unwrap_or_else(|error| {
                    panic!("{GCC}: {error}: install the package gcc-mingw-w64-x86-64")
                });
            assert!(built.status.success(), "{}", stderr(&built));
        }

        fn program(&self) -> PathBuf {
            self.folder.path().join("wperf.exe")
        }

        /// `sc` leaves a blank before the path, so that is set in the registry.
        fn create_service(&self) {
            let path = r"\??\C:\wperf-driver.sys";
            let key = format!(r"HKLM\System\CurrentControlSet\Services\{SERVICE}");
            let create = format!("create {SERVICE} type= kernel start= demand binPath= {path}");
            let words: Vec<&str> = create.split(' ').collect();
            wait_until("the service is created", || self.sc(&words));
            let add = [
                "reg",
                "add",
                &key,
                "/v",
                "ImagePath",
                "/t",
                "REG_EXPAND_SZ",
                "/d",
                path,
                "/f",
            ];
            let added = self.run(add);
            assert!(added.status.success(), "{}", stdout(&added));
        }

        fn sc(&self, words: &[&str]) -> bool {
            self.run(["sc"].iter().chain(words)).status.success()
        }

        fn run(&self, words: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Output {
            wine(self.folder.path(), words)
                .output()
                .expect("timeout runs")
        }

        /// Starts the driver. The service database is locked for a moment after services have started.
        pub(super) fn start(&self) {
            wait_until("the driver starts", || {
                self.sc(&["start", SERVICE]) || self.is_running()
            });
            assert!(self.is_running());
        }

        /// Stops the driver.
        pub(super) fn stop(&self) {
            self.sc(&["stop", SERVICE]);
            wait_until("the driver stops", || !self.is_running());
        }

        fn is_running(&self) -> bool {
            stdout(&self.run(["sc", "query", SERVICE])).contains("RUNNING")
        }

        /// `wperf.exe` with the words of a line.
        pub(super) fn wperf(&self, line: &str) -> Command {
            let program = self.program().into_os_string();
            let words = line.split_whitespace().map(Into::into);
            wine(self.folder.path(), [program].into_iter().chain(words))
        }

        /// As [`Self::wperf`], run to its end.
        pub(super) fn wperf_ends(&self, line: &str) -> Output {
            self.wperf(line).output().expect("timeout runs")
        }
    }

    impl Drop for Wine {
        fn drop(&mut self) {
            for option in ["-k", "-w"] {
                let mut server = Command::new("timeout");
                server.args([SECONDS, SERVER, option]);
                // Whatever a failed test leaves, nothing more can be done about it here.
                let _ = environment(&mut server, self.folder.path()).status();
            }
            let _ = self.session.kill();
            let _ = self.session.wait();
        }
    }

    /// A Windows program in the prefix of a folder.
    fn wine(folder: &Path, words: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Command {
        let mut command = Command::new("timeout");
        command.args([SECONDS, WINE]).args(words);
        environment(&mut command, folder);
        command
    }

    fn environment<'c>(command: &'c mut Command, folder: &Path) -> &'c mut Command {
        command
            .current_dir(folder)
            .env("WINEPREFIX", folder.join("prefix"))
            // Where the server keeps its socket: with all else, to be removed at the end.
            .env("TMPDIR", folder)
            .env("WINEDEBUG", "-all")
            // No offer to install what a driver does not need.
            .env("WINEDLLOVERRIDES", "mscoree,mshtml=")
            .env_remove("DISPLAY")
    }
}

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use e2e::served::{json, stderr, stdout, wait_until};
use wine::Wine;

/// One test, because making a prefix takes longer than all else.
#[test]
fn wine_loads_the_driver_and_wperf_counts_through_it() {
    let wine = Wine::new();
    wine.start();
    the_program_and_the_driver_know_each_other(&wine);
    time_is_counted(&wine);
    a_second_instance_is_told_who_holds_the_pmu(&wine);
    wine.stop();
    a_stopped_driver_is_not_there(&wine);
    for _ in 0..3 {
        wine.start();
        time_is_counted(&wine);
        wine.stop();
    }
}

fn the_program_and_the_driver_know_each_other(wine: &Wine) {
    let output = wine.wperf_ends("--version");
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stdout(&output).contains("abi 1."), "{}", stdout(&output));
    let listed = stdout(&wine.wperf_ends("list"));
    assert!(listed.contains("elapsed-ns"), "{listed}");
}

fn time_is_counted(wine: &Wine) {
    let output = wine.wperf_ends("stat -e elapsed-ns,timestamp-ticks -c 0 --timeout 300ms --json");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(
        stderr(&output).contains("only time is counted"),
        "{}",
        stderr(&output)
    );
    let document = json(&output);
    let rows = document["core"]["cores"][0]["Performance_counter"].clone();
    let value = |name: &str| {
        let rows = rows.as_array().expect("rows");
        let row = rows.iter().find(|row| row["event_name"] == name);
        row.and_then(|row| row["counter_value"].as_f64())
            .unwrap_or_else(|| panic!("{name}: {rows:?}"))
    };
    let elapsed = document["Time_elapsed"].as_f64().expect("seconds");
    assert!(elapsed >= 0.3, "{elapsed} s");
    let off = value("elapsed-ns") / 1e9 / elapsed - 1.0;
    assert!(off.abs() < 0.2, "{document}");
    assert!(value("timestamp-ticks") > 0.0, "{document}");
}

fn a_second_instance_is_told_who_holds_the_pmu(wine: &Wine) {
    let mut holder = wine
        .wperf("lock -c 0 --timeout 10m")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("timeout runs");
    let lines = holder.stdout.take().map(BufReader::new).expect("a pipe");
    let acquired = lines.lines().next().expect("a line").expect("text");
    assert!(acquired.contains("acquired"), "{acquired}");
    let busy = wine.wperf_ends("stat -e elapsed-ns -c 0 --timeout 1ms");
    let text = stderr(&busy);
    assert_eq!(busy.status.code(), Some(3), "{text}");
    assert!(
        text.contains("(wperf.exe)") && text.contains("since 20"),
        "{text}"
    );
    let forced = wine.wperf_ends("stat -e elapsed-ns -c 0 --timeout 1ms --force-lock -q");
    assert_eq!(forced.status.code(), Some(0), "{}", stderr(&forced));
    let former = holder.wait().expect("it ends");
    assert_eq!(former.code(), Some(4), "the former owner is told");
    wait_until("the PMU is free", || {
        let status = wine.wperf_ends("status --json");
        json(&status)["Ownership"][0]["state"] == "idle"
    });
}

fn a_stopped_driver_is_not_there(wine: &Wine) {
    let output = wine.wperf_ends("status");
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains("Is the driver loaded?"),
        "{}",
        stderr(&output)
    );
}
