//! `drydock run` outlives the driver's process, which does not outlive it.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use e2e::served::{json, stderr};
use e2e::{driver_path, program};

/// A process that ends with its test.
struct Ends(Option<Child>);

impl Ends {
    fn child(&mut self) -> &mut Child {
        self.0.as_mut().expect("it was not taken")
    }
}

impl Drop for Ends {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn for_long() -> Ends {
    let mut command = Command::new(program("drydock"));
    command.arg("run").arg(driver_path("wperf-driver"));
    command.args(["--cycles", "100000000", "--json"]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    Ends(Some(command.spawn().expect("drydock runs")))
}

/// The process that runs the driver.
fn watched(child: &Child) -> u32 {
    let id = child.id();
    let path = format!("/proc/{id}/task/{id}/children");
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        let children = std::fs::read_to_string(&path).expect("it runs");
        if let Ok(id) = children.trim().parse() {
            return id;
        }
        assert!(Instant::now() < until, "it has no child");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn kill(id: u32) {
    let mut kill = Command::new("kill");
    let kill = kill.arg("-KILL").arg(id.to_string()).status();
    assert!(kill.expect("kill runs").success());
}

#[test]
fn a_driver_that_ends_its_process_has_broken_a_rule() {
    let mut child = for_long();
    kill(watched(child.child()));
    let child = child.0.take().expect("it runs");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(4), "{}", stderr(&output));
    let report = json(&output);
    assert_eq!(report["clean"], false);
    assert_eq!(report["verdict"]["findings"][0]["rule"], "worker-lost");
}

#[test]
fn the_drivers_process_ends_with_the_one_that_watches() {
    let mut child = for_long();
    let watched = watched(child.child());
    // It asks for that first thing, and is not asked when.
    std::thread::sleep(Duration::from_secs(1));
    kill(child.child().id());
    child.child().wait().expect("it was killed");
    let until = Instant::now() + Duration::from_secs(10);
    let state = |id| std::fs::read_to_string(format!("/proc/{id}/stat"));
    while state(watched).is_ok_and(|stat| !stat.contains(") Z ")) {
        assert!(Instant::now() < until, "process {watched} goes on");
        std::thread::sleep(Duration::from_millis(10));
    }
}
