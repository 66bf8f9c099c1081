//! `drydock check` and `drydock ioctl` on built drivers, as scripts use them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use e2e::served::{json, stderr, stdout};
use e2e::{driver_path, program};
use serde_json::Value;
use tempfile::TempDir;

/// Exit codes of `drydock check`.
const CLEAN: Option<i32> = Some(0);
const FINDINGS: Option<i32> = Some(1);
const COULD_NOT_RUN: Option<i32> = Some(2);
/// That of other commands when the driver broke a rule.
const BROKEN: Option<i32> = Some(4);

fn drydock(folder: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(program("drydock"));
    command.args(words).current_dir(folder);
    command.output().expect("drydock runs")
}

/// `drydock check` of a built driver in a folder of its own.
fn check(driver: &str, options: &[&str]) -> (Output, TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = driver_path(driver).canonicalize().expect("it is built");
    let path = path.display().to_string();
    let words = [&["check", path.as_str()], options].concat();
    (drydock(folder.path(), &words), folder)
}

fn rules(report: &Value) -> BTreeSet<&str> {
    let findings = report["findings"].as_array().expect("findings");
    findings
        .iter()
        .filter_map(|finding| finding["found"]["rule"].as_str())
        .collect()
}

fn replay_files(folder: &Path) -> Vec<PathBuf> {
    let folder = std::fs::read_dir(folder.join("drydock-findings")).expect("it was made");
    let mut files: Vec<_> = folder
        .map(|entry| entry.expect("an entry").path())
        .collect();
    files.sort();
    files
}

#[test]
fn a_good_driver_is_clean_and_every_code_of_it_is_found() {
    let (output, folder) = check("wperf-driver", &["--quick", "--json"]);
    assert_eq!(
        output.status.code(),
        CLEAN,
        "{}{}",
        stdout(&output),
        stderr(&output)
    );
    let report = json(&output);
    assert_eq!(report["verdict"], "clean");
    assert_eq!(report["findings"], serde_json::json!([]));
    let codes = report["interface"]["codes"].as_array().expect("codes");
    let codes = codes
        .iter()
        .map(|code| code.as_u64().and_then(|code| u32::try_from(code).ok()));
    e2e::check_codes_of_wperf(&codes.collect::<Option<Vec<_>>>().expect("numbers"));
    // Nothing was left out, and the driver did accept something.
    let scenarios = report["scenarios"].as_array().expect("scenarios");
    assert!(scenarios.len() >= 7, "{scenarios:#?}");
    assert!(
        scenarios
            .iter()
            .all(|scenario| scenario["cases"].as_u64() > Some(0))
    );
    assert!(
        scenarios
            .iter()
            .any(|scenario| scenario["accepted"].as_u64() > Some(0))
    );
    assert!(
        !folder.path().join("drydock-findings").exists(),
        "nothing was found"
    );
}

#[test]
fn a_bad_driver_tells_many_findings_in_one_run_in_every_format() {
    let (output, folder) = check(
        "faulty-driver",
        &[
            "--patience",
            "2s",
            "--json",
            "--junit",
            "r.xml",
            "--sarif",
            "r.sarif",
            "--html",
            "r.html",
        ],
    );
    assert_eq!(output.status.code(), FINDINGS, "{}", stderr(&output));
    let report = json(&output);
    let found = rules(&report);
    for rule in [
        "null-pointer",
        "page-fault",
        "stack-overflow",
        "pool-overrun",
        "pool-use-after-free",
        "pool-double-free",
        "pool-leak",
        "pool-wrong-tag",
        "divide-error",
        "spin-lock-recursive",
        "hang",
    ] {
        assert!(found.contains(rule), "no {rule} among {found:?}");
    }
    // An import that the lab lacks is no fault of the driver.
    assert!(!found.contains("unknown-import"));
    assert!(
        report["unsupported"]
            .to_string()
            .contains("KeFrobnicateProcessor")
    );
    let findings = report["findings"].as_array().expect("findings");
    let confirmed = findings
        .iter()
        .filter(|finding| finding["confirmation"] == "confirmed");
    assert!(confirmed.count() >= findings.len() - 1, "{findings:#?}");
    assert_eq!(replay_files(folder.path()).len(), findings.len());
    reports_agree(folder.path(), &report);
}

/// The files that a check wrote say what its JSON says.
fn reports_agree(folder: &Path, report: &Value) {
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).expect("it was written");
    let findings = report["findings"].as_array().expect("findings");
    let junit = quick_junit::Report::deserialize_from_str(&read("r.xml")).expect("JUnit");
    let cases: Vec<_> = junit
        .test_suites
        .iter()
        .flat_map(|suite| &suite.test_cases)
        .collect();
    let of_findings = cases.iter().filter(|case| {
        case.classname
            .as_ref()
            .is_some_and(|name| name.as_str() == "finding")
    });
    assert_eq!(of_findings.count(), findings.len());
    assert!(junit.failures > 0 && junit.errors == 0);
    let sarif: serde_sarif::sarif::Sarif = serde_json::from_str(&read("r.sarif")).expect("SARIF");
    let run = &sarif.runs[0];
    let results = run.results.as_ref().expect("results");
    assert_eq!(results.len(), findings.len());
    let known = run.tool.driver.rules.as_ref().expect("rules");
    for result in results {
        let index = usize::try_from(result.rule_index.expect("an index")).expect("not negative");
        assert_eq!(result.rule_id.as_ref(), Some(&known[index].id));
        assert!(known[index].help.is_some());
    }
    let html = read("r.html");
    for outside in ["src=", "href=", "url(", "<script", "@import"] {
        assert!(!html.contains(outside), "{outside}");
    }
    assert_eq!(html.matches("<article>").count(), findings.len());
}

#[test]
fn a_finding_is_replayed_and_what_is_no_replay_of_this_driver_is_refused() {
    let (output, folder) = check("faulty-driver", &["--quick"]);
    assert_eq!(output.status.code(), FINDINGS, "{}", stderr(&output));
    let text = stdout(&output);
    let files = replay_files(folder.path());
    let file = files
        .iter()
        .find(|file| file.display().to_string().contains("pool-overrun"))
        .expect("an overrun was found");
    let name = file
        .file_name()
        .expect("a name")
        .to_string_lossy()
        .into_owned();
    assert!(
        text.contains(&format!("--replay drydock-findings/{name}")),
        "{text}"
    );
    let driver = driver_path("faulty-driver").canonicalize().expect("built");
    let driver = driver.display().to_string();
    let replay = |driver: &str, file: &Path| {
        let file = file.display().to_string();
        drydock(folder.path(), &["check", driver, "--replay", &file])
    };
    let again = replay(&driver, file);
    assert_eq!(again.status.code(), FINDINGS, "{}", stderr(&again));
    assert!(
        stdout(&again).contains("reproduced: pool-overrun"),
        "{}",
        stdout(&again)
    );

    let other = driver_path("wperf-driver").canonicalize().expect("built");
    let refused = replay(&other.display().to_string(), file);
    assert_eq!(refused.status.code(), COULD_NOT_RUN);
    assert!(stderr(&refused).contains("SHA-256"), "{}", stderr(&refused));

    // Another build of the same driver: here the same code with a few bytes more.
    let build = folder
        .path()
        .join(driver_path("faulty-driver").file_name().expect("a name"));
    let mut bytes = std::fs::read(&driver).expect("built");
    bytes.extend([0; 16]);
    std::fs::write(&build, bytes).expect("a file");
    let rebuilt = replay(&build.display().to_string(), file);
    let said = stdout(&rebuilt) + &stderr(&rebuilt);
    assert_eq!(rebuilt.status.code(), FINDINGS, "{said}");
    assert!(said.contains("reproduced: pool-overrun"), "{said}");
    assert!(said.contains("made for another build of"), "{said}");

    let whole = std::fs::read_to_string(file).expect("text");
    let hostile = [
        ("empty", String::new()),
        ("no JSON", "MZ\u{90}".to_owned()),
        ("other JSON", "[1, 2]".to_owned()),
        ("version", whole.replace("\"version\": 1", "\"version\": 7")),
        ("scenario", whole.replace("ioctl-smoke", "no-such-thing")),
        (
            "processors",
            whole.replace("\"cpus\": 2", "\"cpus\": 60000"),
        ),
        ("start", whole.replace("\"start\": ", "\"start\": 9999")),
        ("cut", whole[..whole.len() / 2].to_owned()),
        ("deep", "[".repeat(100_000)),
        ("long", " ".repeat(2 << 20)),
    ];
    for (name, text) in hostile {
        assert_ne!(text, whole, "{name}");
        let path = folder.path().join("hostile.json");
        std::fs::write(&path, text).expect("a file");
        let output = replay(&driver, &path);
        assert_eq!(
            output.status.code(),
            COULD_NOT_RUN,
            "{name}: {}",
            stderr(&output)
        );
        let message = stderr(&output);
        assert!(
            message.contains("hostile.json") && !message.contains("panicked"),
            "{name}: {message}"
        );
    }
}

#[test]
fn a_replay_that_finds_nothing_says_so() {
    let (_, folder) = check("faulty-driver", &["--quick"]);
    let files = replay_files(folder.path());
    let file = files
        .iter()
        .find(|file| file.display().to_string().contains("pool-overrun"));
    let text = std::fs::read_to_string(file.expect("found")).expect("text");
    let mut replay: Value = serde_json::from_str(&text).expect("JSON");
    // Another request: one that does nothing.
    replay["case"]["calls"][0]["code"] = 0x22_2000.into();
    let path = folder.path().join("other.json");
    std::fs::write(&path, replay.to_string()).expect("a file");
    let driver = driver_path("faulty-driver").canonicalize().expect("built");
    let words = [
        "check",
        &driver.display().to_string(),
        "--replay",
        "other.json",
    ];
    let output = drydock(folder.path(), &words);
    assert_eq!(output.status.code(), CLEAN, "{}", stderr(&output));
    assert!(
        stdout(&output).contains("not reproduced"),
        "{}",
        stdout(&output)
    );
}

#[test]
fn a_case_that_kills_its_worker_is_a_finding_of_its_own() {
    let (_, folder) = check("faulty-driver", &["--quick"]);
    let files = replay_files(folder.path());
    let text = std::fs::read_to_string(&files[0]).expect("text");
    let driver = driver_path("faulty-driver").canonicalize().expect("built");
    // Point 1 aborts the worker; point 0 does nothing.
    for (point, code, word) in [(1, FINDINGS, "reproduced: "), (0, CLEAN, "not reproduced")] {
        let mut replay: Value = serde_json::from_str(&text).expect("JSON");
        replay["case"]["scenario"] = "self-test".into();
        replay["case"]["calls"] = serde_json::json!([]);
        replay["case"]["point"] = point.into();
        replay["rule"] = "worker-lost".into();
        replay["found"]["rule"] = "worker-lost".into();
        replay["found"]["parameters"] = serde_json::json!([1, 6, 0, 0]);
        replay["found"]["at"] =
            serde_json::json!({ "module": null, "rva": 0, "function": null, "line": null });
        replay["found"]["what"] =
            r#"the worker was lost: signal 6 ("Signal::ABORT") ended it"#.into();
        replay["found"]["stack"] = serde_json::json!([]);
        replay["found"]["code"] = Value::Null;
        std::fs::write(folder.path().join("lost.json"), replay.to_string()).expect("a file");
        let words = [
            "check",
            &driver.display().to_string(),
            "--replay",
            "lost.json",
        ];
        let output = drydock(folder.path(), &words);
        let said = stdout(&output) + &stderr(&output);
        assert_eq!(output.status.code(), code, "point {point}: {said}");
        assert!(said.contains(word), "point {point}: {said}");
    }
}

#[test]
fn what_is_no_driver_or_not_for_this_processor_could_not_be_run() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("text.sys"), "not a driver").expect("a file");
    let arm = e2e::target_folder().join("drivers/aarch64/wperf-driver.sys");
    let arm = arm.canonicalize().expect("built").display().to_string();
    for (file, words) in [
        ("text.sys", "text.sys"),
        ("gone.sys", "gone.sys"),
        (&arm, "Arm64"),
    ] {
        let output = drydock(folder.path(), &["check", file, "--quick"]);
        let text = stdout(&output) + &stderr(&output);
        assert_eq!(output.status.code(), COULD_NOT_RUN, "{file}: {text}");
        assert!(
            text.contains(words) && !text.contains("panicked"),
            "{file}: {text}"
        );
    }
}

#[test]
fn requests_from_the_command_line_are_answered_in_one_dock() {
    let folder = tempfile::tempdir().expect("a folder");
    let driver = driver_path("faulty-driver").canonicalize().expect("built");
    let driver = driver.display().to_string();
    let send = |words: &[&str]| {
        drydock(
            folder.path(),
            &[&["ioctl", driver.as_str()], words].concat(),
        )
    };
    let echoed = send(&[
        "0x222000", "--in", "61 62", "--out", "16", "0x22200", "--out", "4", "--json",
    ]);
    assert_eq!(echoed.status.code(), CLEAN, "{}", stderr(&echoed));
    let requests = &json(&echoed)["requests"];
    assert_eq!(
        (&requests[0]["output"], &requests[0]["information"]),
        (&"6162".into(), &2.into())
    );
    assert_eq!(requests[1]["status_code"], "0xc0000010");
    assert_eq!(requests[1]["output"], "");
    let text = send(&["0x222000", "--in", "616263", "--out", "3"]);
    assert!(
        stdout(&text).contains("61 62 63") && stdout(&text).contains("abc"),
        "{}",
        stdout(&text)
    );
    let stopped = send(&["0x222004"]);
    assert_eq!(stopped.status.code(), BROKEN);
    assert!(
        stdout(&stopped).contains("null-pointer"),
        "{}",
        stdout(&stopped)
    );
    for wrong in [&["--in", "00"][..], &["0x222000", "--in", "0"], &["zero"]] {
        let output = send(wrong);
        assert_eq!(output.status.code(), Some(1), "{wrong:?}");
        assert!(!stderr(&output).contains("panicked"));
    }
}
