//! `wperf record` and `sample` on programs of this machine, through the driver.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use e2e::served::{Served, json, stderr, stdout, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// Works in `hot`, at line 4, and hardly anywhere else.
const SOURCE: &str = "\
static volatile unsigned long sink;
__attribute__((noinline)) static void hot(unsigned long n) {
    for (unsigned long i = 0; i < n; i++)
        sink = sink * 3 + i;
}
__attribute__((noinline)) static void cold(void) {
    for (int i = 0; i < 1000; i++)
        sink = sink + 1;
}
int main(void) {
    for (int i = 0; i < 200; i++) {
        hot(1000000);
        cold();
    }
    return 0;
}
";
const HOT_LINE: u64 = 4;

/// A sample per millisecond of processor time, where the host lends its clock as cycles.
const EVENT: &str = "cpu-cycles:1000000";

fn program(folder: &Path) -> PathBuf {
    let (source, program) = (folder.join("busy.c"), folder.join("busy"));
    std::fs::write(&source, SOURCE).expect("a file");
    let mut clang = Command::new("clang");
    let clang = clang.args(["-g", "-O1", "-o"]).arg(&program).arg(&source);
    let status = clang.status().expect("clang is installed");
    assert!(status.success(), "clang: {status}");
    program
}

fn first(document: &Value) -> (&str, f64) {
    let row = &document["sampling"]["events"][0]["samples"][0];
    let symbol = row["symbol"].as_str().expect("a symbol");
    (symbol, row["overhead"].as_f64().expect("a number"))
}

#[test]
fn the_hot_function_of_a_program_is_named_and_its_line() {
    let served = Served::start(&[]);
    let program = program(served.folder());
    let line = format!(
        "record -e {EVENT} --json --annotate --export flame=hot.svg --export perf=perf.data -- {}",
        program.display()
    );
    let output = served.run(&line);
    assert!(output.status.success(), "{}", stderr(&output));
    let document = json(&output);
    let body = &document["sampling"];
    let (symbol, overhead) = first(&document);
    assert_eq!(symbol, "hot:busy", "{body:#}");
    assert!(overhead > 80.0, "{body:#}");
    let generated = body["samples_generated"].as_u64().expect("a number");
    let rows = body["events"][0]["samples"].as_array().expect("rows");
    let counts = rows
        .iter()
        .map(|row| row["count"].as_u64().expect("a number"));
    assert_eq!(counts.sum::<u64>(), generated, "every sample is in a row");
    assert!(generated > 50, "{generated} samples");
    assert_eq!(body["samples_dropped"], 0);
    let line = &body["events"][0]["annotate"][0]["source_code"][0];
    assert_eq!(line["line_number"], HOT_LINE, "{line}");
    let flame = std::fs::read_to_string(served.folder().join("hot.svg")).expect("a file");
    assert!(flame.contains("hot ("), "a frame of the graph");
    assert!(served.folder().join("perf.data").is_file());
    served.end();
}

#[test]
fn a_process_that_runs_is_sampled_until_it_ends() {
    let served = Served::start(&[]);
    let program = program(served.folder());
    let mut child = Command::new(program).spawn().expect("it runs");
    let line = format!("sample -e {EVENT} --json --pid {}", child.id());
    let output = served.run(&line);
    child.wait().expect("it ends");
    assert!(output.status.success(), "{}", stderr(&output));
    let document = json(&output);
    let (symbol, overhead) = first(&document);
    assert_eq!(symbol, "hot:busy", "{document:#}");
    assert!(overhead > 80.0, "{document:#}");
    served.end();
}

#[test]
fn the_table_says_how_many_samples_and_what_they_cost() {
    let served = Served::start(&[]);
    let program = program(served.folder());
    let line = format!(
        "record -e {EVENT} -s hot --timeout 100ms -- {}",
        program.display()
    );
    let output = served.run(&line);
    let text = stdout(&output);
    assert!(output.status.success(), "{}", stderr(&output));
    for part in [
        "sample source: cpu-cycles, top 50 hot functions",
        "hot:busy",
        "samples generated, 0 dropped",
        "program ended by signal: 9",
        "taken by the driver's own routines",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    served.end();
}

#[test]
fn ctrl_c_ends_it_and_prints() {
    let served = Served::start(&[]);
    let program = program(served.folder());
    let script = format!("while :; do {}; done", program.display());
    let mut command = served.wperf(["record", "-e", EVENT, "--", "sh", "-c", &script]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::null());
    let child = child.spawn().expect("wperf runs");
    wait_until("the core is taken", || {
        let cores = served.ownership();
        let mut rows = cores.as_array().expect("rows").iter();
        rows.any(|row| row["state"] == "busy")
    });
    std::thread::sleep(Duration::from_millis(500));
    let pid = Pid::from_child(&child);
    kill_process(pid, Signal::INT).expect("it runs");
    let output = child.wait_with_output().expect("it ends");
    let text = stdout(&output);
    assert!(output.status.success(), "{text}");
    assert!(
        text.contains("Ctrl-C received, quit counting... done!"),
        "{text}"
    );
    assert!(text.contains("hot:busy"), "{text}");
    served.end();
}
