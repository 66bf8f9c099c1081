//! Adds, starts, stops and removes devices in every way there is, with requests in between.

use lab_ntos::{DeviceNode, SystemPower};

use super::{Plan, Scenario, random, session};
use crate::bench::{Bench, Halt, Outcome};
use crate::case::Case;

/// What may become of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Life {
    /// It sleeps, is stopped, started again and removed, as the driver is asked.
    Orderly,
    /// Requests come while it sleeps and while it is stopped.
    AskedAtRest,
    /// It is gone, with nobody using it.
    Gone,
    /// It is gone, and requests come to the file that is open.
    GoneInUse,
    /// It is gone while requests are on their way.
    GoneMeanwhile,
    /// There are two of them.
    Two,
    /// It is removed before it was ever started.
    NeverStarted,
}

const LIVES: [Life; 7] = [
    Life::Orderly,
    Life::AskedAtRest,
    Life::Gone,
    Life::GoneInUse,
    Life::GoneMeanwhile,
    Life::Two,
    Life::NeverStarted,
];

pub(super) struct PlugAndPlay;

impl Scenario for PlugAndPlay {
    fn name(&self) -> &'static str {
        "plug-and-play"
    }

    fn about(&self) -> &'static str {
        "adds, starts, stops and removes its devices in every way; refuses each resource meanwhile"
    }

    fn plan(&self, plan: &Plan<'_>) -> Vec<Case> {
        if !plan.interface.adds_devices {
            return Vec::new();
        }
        (0..)
            .zip(LIVES)
            .map(|(start, _)| Case {
                start,
                calls: plan.safe_calls.clone(),
                seed: plan.seed,
                ..Case::of(self.name())
            })
            .collect()
    }

    fn follow(&self, case: &Case, outcome: &Outcome, plan: &Plan<'_>) -> Vec<Case> {
        if !case.fail.is_empty() || outcome.stopped {
            return Vec::new();
        }
        let calls = outcome.fallible_calls.min(plan.effort.pick(40, 400));
        let with = |n| Case {
            fail: vec![n],
            ..case.clone()
        };
        (0..calls).map(with).collect()
    }

    fn lacks(&self, case: &Case) -> Option<&'static str> {
        (case.start as usize >= LIVES.len()).then_some("it begins behind the last life of a device")
    }

    fn run(&self, bench: &mut Bench<'_>) -> Result<(), Halt> {
        let Some(life) = LIVES.get(bench.case.start as usize) else {
            return Ok(());
        };
        // What failed once works the next time.
        let rounds = if bench.case.fail.is_empty() { 1 } else { 2 };
        for _ in 0..rounds {
            if !bench.load_only()? {
                continue;
            }
            if let Some(node) = bench.add_device()? {
                live(bench, *life, node)?;
            }
            bench.step();
            bench.unload()?;
        }
        Ok(())
    }
}

fn live<'a>(bench: &mut Bench<'a>, life: Life, node: DeviceNode<'a>) -> Result<(), Halt> {
    if life == Life::NeverStarted {
        node.remove()?;
        return Ok(());
    }
    let started = node.start()?;
    if bench.refused("start", started) {
        node.remove()?;
        return Ok(());
    }
    bench.look_for_paths();
    match life {
        Life::Orderly => orderly(bench, node),
        Life::AskedAtRest => asked_at_rest(bench, node),
        Life::Gone => {
            node.surprise_remove()?;
            Ok(())
        }
        Life::GoneInUse => gone_in_use(bench, node),
        Life::GoneMeanwhile => gone_meanwhile(bench, node),
        Life::Two => two(bench, node),
        Life::NeverStarted => Ok(()),
    }
}

/// Opens, sends each request, closes.
fn use_it(bench: &mut Bench<'_>) -> Result<(), Halt> {
    if let Some(file) = bench.open_any()? {
        session::requests(bench, file)?;
        bench.machine.close(file)?;
    }
    Ok(())
}

fn orderly(bench: &mut Bench<'_>, node: DeviceNode<'_>) -> Result<(), Halt> {
    use_it(bench)?;
    let slept = node.set_system_power(SystemPower::Sleeping)?;
    bench.refused("put to sleep", slept);
    let woken = node.set_system_power(SystemPower::Working)?;
    bench.refused("wake", woken);
    use_it(bench)?;
    let kept = node.cancel_stop()?;
    bench.refused("keep after a stop was cancelled", kept);
    let stopped = node.stop()?;
    if !bench.refused("stop", stopped) {
        let again = node.start()?;
        bench.refused("start again", again);
    }
    use_it(bench)?;
    let kept = node.cancel_remove()?;
    bench.refused("keep after a removal was cancelled", kept);
    use_it(bench)?;
    let asked = node.query_remove()?;
    if bench.refused("let go of", asked) {
        node.surprise()?;
    }
    node.remove()?;
    Ok(())
}

fn asked_at_rest(bench: &mut Bench<'_>, node: DeviceNode<'_>) -> Result<(), Halt> {
    let file = bench.open_any()?;
    node.set_system_power(SystemPower::Sleeping)?;
    if let Some(file) = file {
        session::requests(bench, file)?;
    }
    node.set_system_power(SystemPower::Working)?;
    if node.stop()?.is_success() {
        if let Some(file) = file {
            session::requests(bench, file)?;
        }
        node.start()?;
    }
    if let Some(file) = file {
        bench.machine.close(file)?;
    }
    node.query_remove()?;
    node.remove()?;
    Ok(())
}

fn gone_in_use(bench: &mut Bench<'_>, node: DeviceNode<'_>) -> Result<(), Halt> {
    let file = bench.open_any()?;
    node.surprise()?;
    if let Some(file) = file {
        session::requests(bench, file)?;
        // The PnP manager waits for the last file before it removes the device.
        bench.machine.close(file)?;
    }
    node.remove()?;
    Ok(())
}

fn gone_meanwhile(bench: &mut Bench<'_>, node: DeviceNode<'_>) -> Result<(), Halt> {
    let case = bench.case;
    let mut random = random(case);
    let mut begun = Vec::new();
    let file = bench.open_any()?;
    if let Some(file) = file {
        for call in &case.calls {
            let request = bench.queue(file, call, &mut random)?;
            begun.extend(request.ok().map(|request| (request, call)));
        }
    }
    node.surprise()?;
    for (request, call) in begun {
        bench.settle(request, call)?;
    }
    if let Some(file) = file {
        bench.machine.close(file)?;
    }
    node.remove()?;
    Ok(())
}

fn two<'a>(bench: &mut Bench<'a>, first: DeviceNode<'a>) -> Result<(), Halt> {
    if let Some(second) = bench.add_device()? {
        let started = second.start()?;
        if !bench.refused("start", started) {
            bench.look_for_paths();
            use_it(bench)?;
        }
        second.query_remove()?;
        second.remove()?;
    }
    bench.look_for_paths();
    use_it(bench)?;
    first.query_remove()?;
    first.remove()?;
    Ok(())
}
