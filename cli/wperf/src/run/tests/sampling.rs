//! `sample` and `record`.

use super::{Ran, programs, run_on};
use crate::{
    device::fake::FakeDriver,
    exit::Outcome,
    session::{Session, Take},
};
use serde_json::Value;
use std::{fs, hint::black_box};
use wperf_abi::{
    EventCode, State,
    record::{Sample, sample_flags},
};

/// What the fake driver samples.
#[inline(never)]
fn busy_function(n: u64) -> u64 {
    n ^ 3
}

fn sample(pc: u64, pid: u32, core: u32, flags: u16) -> Sample {
    Sample {
        time_ns: pc & 0xFFFF,
        pc,
        generation: 1,
        core,
        pid,
        tid: pid,
        code: EventCode(0x70),
        source: 0,
        flags,
        reserved: 0,
    }
}

/// Three samples in a function of this process, one in the kernel, one nowhere.
fn driver() -> FakeDriver {
    black_box(busy_function(1));
    let function: fn(u64) -> u64 = busy_function;
    let address = (function as *const ()).addr() as u64;
    let own = std::process::id();
    let user = sample_flags::USER;
    FakeDriver::arm(4, 3).sampling(
        vec![
            sample(address, own, 1, user),
            sample(address, own, 1, user),
            sample(address + 1, own, 1, user),
            sample(u64::MAX, own, 1, 0),
            sample(8, own, 1, user),
        ],
        0,
    )
}

fn sampled(driver: &FakeDriver, options: &str) -> Ran {
    let own = std::process::id();
    run_on(
        driver,
        &format!("sample -e ld_spec:100000 -c 1 --timeout 20ms --pid {own} {options}"),
    )
}

fn symbols(document: &Value) -> Vec<(String, u64)> {
    let rows = document["sampling"]["events"][0]["samples"]
        .as_array()
        .unwrap();
    let row = |row: &Value| {
        let symbol = row["symbol"].as_str().unwrap().to_owned();
        (symbol, row["count"].as_u64().unwrap())
    };
    rows.iter().map(row).collect()
}

#[test]
fn the_hot_function_comes_first_and_the_cores_are_given_back() {
    let driver = driver();
    let ran = sampled(&driver, "");
    assert_eq!(ran.outcome, Outcome::Success, "{}", ran.err);
    let lines: Vec<&str> = ran.out.lines().collect();
    let heading = lines.iter().position(|line| {
        *line == "======================== sample source: ld_spec, top 50 hot functions ========================"
    });
    let table = &lines[heading.unwrap()..];
    assert_eq!(table[1], "      overhead  count  symbol");
    assert_eq!(table[2], "      ========  =====  ======");
    let hot = table[3];
    assert!(hot.starts_with("         60.00      3  "), "{hot}");
    assert!(hot.contains("sampling::busy_function:wperf-"), "{hot}");
    assert_eq!(table[4], "         20.00      1  [kernel]");
    assert_eq!(table[5], "         20.00      1  unknown");
    assert_eq!(table[6], "        100.00%  5 of 5 samples, top 3 in total");
    assert!(ran.out.contains("sampling ... done!\n"), "{}", ran.out);
    assert!(ran.out.contains("  5 samples generated, 0 dropped\n"));
    assert!(ran.out.contains("base address of 'wperf-"), "{}", ran.out);
    assert!(ran.err.is_empty(), "{}", ran.err);
    assert_eq!(driver.state(1), State::Free);
    assert!(driver.attached().is_empty());
}

#[test]
fn the_document_has_the_keys_that_scripts_read() {
    let document = sampled(&driver(), "--json").json();
    let keys = |value: &Value| {
        let object = value.as_object().unwrap();
        object.keys().cloned().collect::<Vec<_>>().join(" ")
    };
    let body = &document["sampling"];
    assert_eq!(
        keys(body),
        "pe_file pdb_file sample_display_row samples_generated samples_dropped base_address runtime_delta events"
    );
    let event = &body["events"][0];
    assert_eq!(
        keys(event),
        "type samples interval printed_sample_num annotate"
    );
    assert_eq!(keys(&event["samples"][0]), "overhead count symbol");
    assert_eq!(event["type"], "ld_spec");
    assert_eq!(event["interval"], 100_000);
    assert_eq!(event["printed_sample_num"], 3);
    assert_eq!(event["samples"][0]["overhead"], 60.0);
    assert!(body["base_address"].as_u64().unwrap() > 0);
    let verbose = sampled(&driver(), "--json -v").json();
    let body = &verbose["sampling"];
    let own = std::env::current_exe().unwrap();
    let own = own.file_name().unwrap().to_str().unwrap();
    let modules = body["modules"].as_array().unwrap();
    let module = modules.iter().find(|module| module["name"] == own).unwrap();
    assert_eq!(module["address"], body["base_address"]);
    let infos = body["modules_info"].as_array().unwrap();
    let info = infos.iter().find(|info| info["module"] == own).unwrap();
    assert_eq!(keys(info), "sections module pe_name pdb_file");
    assert_eq!(keys(&info["sections"][0]), "section offset virtual_size");
    let pcs = body["events"][0]["pcs"].as_array().unwrap();
    assert_eq!((pcs.len(), pcs[0]["count"].as_u64()), (4, Some(2)));
}

#[test]
fn lines_and_instructions_are_annotated() {
    let annotated = |options: &str| {
        let document = sampled(&driver(), &format!("--json -s busy_function {options}")).json();
        assert_eq!(symbols(&document).len(), 1);
        document["sampling"]["events"][0]["annotate"][0].clone()
    };
    let lines = annotated("--annotate");
    let name = lines["function_name"].as_str().unwrap();
    assert!(name.contains("busy_function"), "{name}");
    let line = &lines["source_code"][0];
    assert!(line["filename"].as_str().unwrap().ends_with("sampling.rs"));
    assert!(line.get("instruction_address").is_none());
    let line = &annotated("--disassemble")["source_code"][0];
    let address = line["instruction_address"].as_str().unwrap();
    let instructions = line["disassembled_line"]["disassemble"].as_array().unwrap();
    assert!(instructions.iter().any(|one| one["address"] == address));
    let text = sampled(&driver(), "--annotate -s busy_function").out;
    assert!(text.contains("line_number  hits  filename"), "{text}");
    assert!(text.contains("fn busy_function(n: u64) -> u64 {"), "{text}");
}

#[test]
fn rows_are_limited_and_chosen() {
    let document = sampled(&driver(), "--json --sample-display-row 2").json();
    assert_eq!(symbols(&document).len(), 2);
    assert_eq!(document["sampling"]["sample_display_row"], 2);
    let document = sampled(&driver(), "--json -s ^UNK").json();
    assert_eq!(symbols(&document), [("unknown".into(), 1)]);
    let document = sampled(&driver(), "--json -s unk$").json();
    assert_eq!(symbols(&document), []);
    let long = sampled(&driver(), "--json --sample-display-long -s busy_function").json();
    assert!(symbols(&long)[0].0.starts_with("_"), "as the linker has it");
}

#[test]
fn what_was_lost_is_said_in_both_places() {
    let driver = driver().sampling(Vec::new(), 7);
    let ran = sampled(&driver, "");
    assert!(
        ran.out.contains("  7 samples generated, 7 dropped\n"),
        "{}",
        ran.out
    );
    assert_eq!(
        ran.err,
        "warning: 7 of 7 samples were dropped; a longer interval loses fewer\n"
    );
    let document = sampled(&driver, "--json").json();
    assert_eq!(document["sampling"]["samples_dropped"], 7);
}

#[test]
fn samples_of_other_processes_are_left_out_and_counted() {
    let own = std::process::id();
    let mine = sample(8, own, 1, sample_flags::USER);
    // Process 1 is nobody's child.
    let other = sample(8, 1, 1, sample_flags::USER);
    let driver = FakeDriver::arm(4, 3)
        .sampling(vec![mine, other, other], 0)
        .seeing_all();
    let ran = sampled(&driver, "");
    assert!(
        ran.out.contains("2 samples of other processes left out\n"),
        "{}",
        ran.out
    );
    assert!(ran.out.contains("1 of 1 samples"), "{}", ran.out);
}

#[test]
fn files_for_other_tools_are_written() {
    let folder = tempfile::tempdir().unwrap();
    let line = format!(
        "--export folded=f.txt --export flame=f.svg --export firefox=f.json --export_perf_data --cwd {}",
        folder.path().display()
    );
    let ran = sampled(&driver(), &line);
    assert_eq!(ran.outcome, Outcome::Success, "{}", ran.err);
    let read = |name: &str| fs::read(folder.path().join(name)).unwrap();
    let folded = String::from_utf8(read("f.txt")).unwrap();
    assert!(folded.contains("busy_function 3\n"), "{folded}");
    assert!(read("perf.data").starts_with(b"PERFILE2"));
    assert!(
        String::from_utf8(read("f.svg"))
            .unwrap()
            .contains("busy_function")
    );
    assert!(serde_json::from_slice::<Value>(&read("f.json")).is_ok());
    let ran = sampled(&driver(), "--export flame=/no/such/folder/x.svg");
    assert_eq!(ran.outcome, Outcome::Failure);
    assert!(ran.err.contains("/no/such/folder/x.svg"), "{}", ran.err);
}

#[test]
fn mistakes_have_windowsperfs_messages_and_take_nothing() {
    let driver = driver();
    for (line, outcome, message) in [
        ("sample -c 1", Outcome::Usage, "no event specified"),
        ("record -c 1 -- true", Outcome::Usage, "no event specified"),
        (
            "sample -e ld_spec:0xp -c 1 --pid 1",
            Outcome::Failure,
            "event interval: 0xp is invalid!",
        ),
        (
            "sample -e ld_spec:0x1FFFFFFFF -c 1 --pid 1",
            Outcome::Failure,
            "event interval: 0x1FFFFFFFF is out of range!",
        ),
        (
            "sample -e nonsense -c 1 --pid 1",
            Outcome::Failure,
            "unknown event name: nonsense",
        ),
        (
            "sample -e ld_spec,st_spec,vfp_spec,ase_spec -c 1 --pid 1",
            Outcome::Failure,
            "number of events requested exceeds the number of free hardware PMU counters",
        ),
        (
            "sample -e r1,r2,r3,r4,r5,r6,r7 -c 1 --pid 1",
            Outcome::Failure,
            "number of events requested exceeds the number of hardware PMU counters",
        ),
        (
            "record -e ld_spec -c 0-1 --compat -- true",
            Outcome::Failure,
            "you can specify only one core for sampling",
        ),
        (
            "sample -e ld_spec --compat --pid 1",
            Outcome::Failure,
            "sampling: you can specify 1 core with -c option",
        ),
        (
            "sample -e ld_spec --pe_file /no/such.exe",
            Outcome::Failure,
            "PE file '/no/such.exe' doesn't exist",
        ),
        (
            "sample -e ld_spec --pid 1 --pdb_file /no/such.pdb",
            Outcome::Failure,
            "PDB file '/no/such.pdb' doesn't exist",
        ),
        (
            "sample -e ld_spec --image_name no-such.exe",
            Outcome::Failure,
            "no process runs 'no-such.exe'",
        ),
        (
            "record -e ld_spec",
            Outcome::Usage,
            "no program behind --, and no --pe_file",
        ),
        (
            "record -e arm_spe_0/load_filter=1/ -c 1 -- true",
            Outcome::NotImplemented,
            "arm_spe_0//: sampling by the Statistical Profiling Extension is not in this version",
        ),
        (
            "sample -e rDEAD -c 1 --pid 1",
            Outcome::Failure,
            "the PMU of a core cannot sample all of these events: rdead",
        ),
    ] {
        let ran = run_on(&driver, line);
        assert_eq!(ran.outcome, outcome, "{line}: {}", ran.err);
        assert!(ran.err.starts_with(message), "{line}: {}", ran.err);
        assert_eq!(driver.state(1), State::Free, "{line}");
    }
}

#[test]
fn without_a_process_everything_on_the_cores_is_sampled() {
    let ran = run_on(&driver(), "sample -e ld_spec:100000 --timeout 20ms");
    assert_eq!(ran.outcome, Outcome::Success, "{}", ran.err);
    assert_eq!(
        ran.err,
        "no pid or process name specified, sample address are not de-ASLRed\n"
    );
    assert!(
        ran.out.contains("sampling::busy_function:wperf-"),
        "{}",
        ran.out
    );
}

#[test]
fn a_program_is_recorded_on_an_idle_core_from_its_start_to_its_end() {
    let driver = driver();
    let mut other = driver.open(1);
    let _held = Session::acquire(&mut other.client, &[0], Take::Free).unwrap();
    let ran = programs::run_program(&driver, "record -e ld_spec:100000 -v -- sh -c exit");
    assert_eq!(ran.outcome, Outcome::Success, "{}", ran.err);
    for part in [
        "the program runs on core 1\n",
        "pe_file 'sh', args '-c exit'\n",
        "program ended with exit code 0\n",
        "sample source: ld_spec, top 50",
    ] {
        assert!(ran.out.contains(part), "{part}: {}", ran.out);
    }
    assert!(driver.attached().is_empty());
    assert_eq!(driver.state(1), State::Free);
}

#[test]
fn a_program_may_be_recorded_on_several_cores_and_is_ended_at_the_timeout() {
    let driver = driver();
    let start = std::time::Instant::now();
    let line = "record -e ld_spec -c 1-2 --timeout 80ms --record_spawn_delay 20 -- sleep 100";
    let ran = programs::run_program(&driver, line);
    assert_eq!(ran.outcome, Outcome::Success, "{}", ran.err);
    assert!(start.elapsed().as_secs() < 10);
    assert!(
        ran.out.contains("program ended by signal: 9"),
        "{}",
        ran.out
    );
}
