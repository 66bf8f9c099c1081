//! Says which commit the program is built from.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-env-changed=WPERF_BUILD_ID");
    if let Some(head) = git(&["rev-parse", "--git-path", "logs/HEAD"]) {
        println!("cargo::rerun-if-changed={head}");
    }
    // Outside of a repository: zeros, which no commit has.
    let id = std::env::var("WPERF_BUILD_ID")
        .ok()
        .or_else(|| git(&["rev-parse", "--short=8", "HEAD"]));
    println!(
        "cargo::rustc-env=WPERF_BUILD_ID={}",
        id.as_deref().unwrap_or("00000000")
    );
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
