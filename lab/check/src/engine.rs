//! Runs cases in worker processes, as many as there are processors, and makes a report of what comes of them.

mod ledger;
mod queue;

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use rand::SeedableRng;
use rand_xorshift::XorShiftRng;

use crate::bench::Outcome;
use crate::case::Case;
use crate::found::Found;
use crate::replay::Replay;
use crate::report::{CheckReport, DriverIdentity};
use crate::scenario::{self, Effort, Plan, Scenario};
use crate::stop::Stop;
use crate::worker::{Command, Lost, Ready, StartError, Worker};
use ledger::Ledger;
use queue::Queue;

/// Part of the time that scenarios may take which come early.
const EARLY_SHARE: f64 = 0.6;
/// Cases after which a worker is replaced, so that nothing that it gathers grows for ever.
const WORKER_CASES: u32 = 5000;
/// How often the check looks whether it is to end early.
const LOOK: Duration = Duration::from_millis(50);
/// How long after a signal to a worker the same signal may reach the check.
const SIGNAL_DELAY: Duration = Duration::from_millis(200);

/// What is asked of a check.
#[derive(Clone, Debug)]
pub struct Request {
    /// The driver file.
    pub driver: PathBuf,
    /// How to start a worker for it.
    pub worker: Command,
    /// How much is to be done.
    pub effort: Effort,
    /// Until when cases are begun.
    pub budget: Duration,
    /// Seed of the check.
    pub seed: u64,
    /// Devices that machines have, by their kinds.
    pub devices: Vec<String>,
    /// Workers at once.
    pub workers: usize,
    /// How long a worker may be silent over one case.
    pub patience: Duration,
    /// Ends the check early: no more cases are begun, no findings confirmed.
    pub stop: Stop,
}

/// Why a check could not be made at all.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// The file can't be read.
    #[error("cannot read {path}", path = path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// No worker.
    #[error(transparent)]
    Start(#[from] StartError),
}

/// What goes on, for whoever watches.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// The scenario of the case that ended last.
    pub scenario: &'static str,
    /// Cases that have ended.
    pub done: u64,
    /// Cases that are known to come.
    pub waiting: usize,
    /// Different findings so far.
    pub findings: usize,
    /// Since the check began.
    pub elapsed: Duration,
}

/// A case to run.
#[derive(Clone, Debug)]
pub(crate) struct Task {
    pub(crate) case: Case,
    /// Finding that it is to confirm, by its number; run by a worker that has run nothing else.
    pub(crate) confirms: Option<usize>,
}

/// A case that was run.
struct Done {
    task: Task,
    result: Result<Outcome, Lost>,
    took: Duration,
}

/// Checks a driver.
///
/// Errors: the driver can't be read, or no worker be started. What the driver does wrong is in the report.
pub fn check(
    request: &Request,
    watch: &mut dyn FnMut(Progress),
) -> Result<CheckReport, CheckError> {
    let started = Instant::now();
    let identity = DriverIdentity::of(&request.driver).map_err(|source| CheckError::Read {
        path: request.driver.clone(),
        source,
    })?;
    let mut first = match start(request) {
        Ok(worker) => Some(worker),
        // It died of the driver: that is a finding, not a failure of ours.
        Err(StartError::Lost(lost)) => {
            let mut ledger = Ledger::new(Ready::default());
            if is_interrupted(request, &lost) {
                ledger.interrupted_at_start();
            } else {
                ledger.lost_at_start(&lost);
            }
            return Ok(ledger.report(request, identity, started.elapsed()));
        }
        Err(error) => return Err(error.into()),
    };
    let ready = first
        .as_ref()
        .map(|worker| worker.ready.clone())
        .unwrap_or_default();
    let mut ledger = Ledger::new(ready.clone());
    if ledger.could_not_run().is_none() {
        let queue = Queue::default();
        let (done, results) = channel();
        std::thread::scope(|scope| {
            for _ in 0..request.workers.max(1) {
                let (queue, done, worker) = (&queue, done.clone(), first.take());
                scope.spawn(move || work(request, queue, &done, worker));
            }
            drop(done);
            let mut conductor = Conductor {
                request,
                ready: &ready,
                queue: &queue,
                results: &results,
                ledger: &mut ledger,
                watch,
                started,
                deadline: started,
                under_way: 0,
            };
            conductor.conduct();
            queue.close();
        });
        if request.stop.is_set() {
            ledger.interrupted();
        }
    }
    Ok(ledger.report(request, identity, started.elapsed()))
}

fn start(request: &Request) -> Result<Worker, StartError> {
    Worker::start_until(&request.worker, request.patience, request.stop.clone())
}

/// Whether a worker was lost because the check is to end early.
fn is_interrupted(request: &Request, lost: &Lost) -> bool {
    if !lost.is_interrupted() {
        return false;
    }
    // A signal to all processes may have reached the worker first.
    if !request.stop.is_set() {
        std::thread::sleep(SIGNAL_DELAY);
    }
    request.stop.is_set()
}

/// What a replay came to.
#[derive(Clone, Debug)]
pub struct Replayed {
    /// Whether the finding came again.
    pub reproduced: bool,
    /// Everything that was found.
    pub findings: Vec<Found>,
    /// Why the driver could not be run.
    pub could_not_run: Option<String>,
}

/// Runs the case of a replay file in a worker of its own.
///
/// Errors: no worker can be started, for another reason than that it is lost over the driver.
pub fn replay(request: &Request, replay: &Replay) -> Result<Replayed, StartError> {
    let result = match start(request) {
        Ok(mut worker) => worker.run(&replay.case, request.patience),
        Err(StartError::Lost(lost)) => Err(lost),
        Err(error) => return Err(error),
    };
    if result
        .as_ref()
        .is_err_and(|lost| is_interrupted(request, lost))
    {
        return Ok(Replayed {
            reproduced: false,
            findings: Vec::new(),
            could_not_run: Some("interrupted before the case had ended".to_owned()),
        });
    }
    let reproduced = ledger::comes_again(&replay.found, &replay.case, &result);
    Ok(match result {
        Ok(outcome) => Replayed {
            reproduced,
            findings: outcome.findings,
            could_not_run: outcome.could_not_run.or(outcome.unsupported),
        },
        Err(lost) => Replayed {
            reproduced,
            findings: vec![ledger::found_lost(&replay.case, &lost)],
            could_not_run: None,
        },
    })
}

/// One thread: takes cases and has its worker run them; a worker that has seen a machine stop is replaced.
fn work(request: &Request, queue: &Queue, done: &Sender<Done>, mut worker: Option<Worker>) {
    let mut cases = 0;
    while let Some(task) = queue.take() {
        let started = Instant::now();
        cases += 1;
        if task.confirms.is_some() || cases % WORKER_CASES == 0 {
            worker = None;
        }
        let result = match worker.take() {
            Some(ready) => Ok(ready),
            None => start(request),
        };
        let result = match result {
            Ok(mut ready) => {
                // What was too slow once gets twice the time to prove that it hangs.
                let patience = request.patience * if task.confirms.is_some() { 2 } else { 1 };
                let result = ready.run(&task.case, patience);
                let is_clean = result.as_ref().is_ok_and(|outcome| !outcome.stopped);
                worker = (is_clean && task.confirms.is_none()).then_some(ready);
                result
            }
            Err(StartError::Lost(lost)) => Err(lost),
            // It could be started a moment ago. Without a worker the case has not run: say so.
            Err(error) => Ok(Outcome {
                could_not_run: Some(error.to_string()),
                ..Outcome::default()
            }),
        };
        let took = started.elapsed();
        if done.send(Done { task, result, took }).is_err() {
            return;
        }
    }
}

/// Decides what is run.
struct Conductor<'a> {
    request: &'a Request,
    ready: &'a Ready,
    queue: &'a Queue,
    results: &'a Receiver<Done>,
    ledger: &'a mut Ledger,
    watch: &'a mut dyn FnMut(Progress),
    started: Instant,
    /// When no more cases are begun.
    deadline: Instant,
    under_way: usize,
}

impl Conductor<'_> {
    fn conduct(&mut self) {
        let budget = self.request.budget;
        // Whatever the early ones run into, the late ones have their share.
        self.deadline = self.started + budget.mul_f64(EARLY_SHARE);
        self.scenarios(false);
        let share = Instant::now() + budget.mul_f64(1.0 - EARLY_SHARE);
        self.deadline = share.max(self.started + budget);
        self.scenarios(true);
        if self.request.effort == Effort::Stress {
            self.stress();
        }
        self.confirm();
    }

    fn is_late(&self) -> bool {
        self.request.stop.is_set() || Instant::now() >= self.deadline
    }

    /// The next result; none if nothing is under way any more.
    fn next(&mut self) -> Option<Done> {
        while self.under_way > 0 {
            match self.results.recv_timeout(LOOK) {
                Ok(done) => {
                    self.under_way -= 1;
                    return Some(done);
                }
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) if self.request.stop.is_set() => {
                    self.drop_waiting();
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
        None
    }

    /// Runs the cases of scenarios that come early, or late.
    fn scenarios(&mut self, late: bool) {
        let interface = &self.ready.interface;
        let plan = Plan {
            interface,
            effort: self.request.effort,
            seed: self.request.seed,
            safe_calls: self.ledger.safe_calls(&interface.codes),
        };
        let wanted = scenario::ALL
            .iter()
            .filter(|scenario| scenario.comes_late() == late);
        for scenario in wanted {
            self.ledger.meet(*scenario);
            for case in scenario.plan(&plan) {
                self.submit(case, None);
            }
        }
        self.run_out(&plan);
    }

    /// Handles results until nothing is under way.
    fn run_out(&mut self, plan: &Plan<'_>) {
        while self.under_way > 0 {
            if self.is_late() {
                self.drop_waiting();
            }
            let Some(done) = self.next() else { return };
            for case in self.handle(done, plan) {
                self.submit(case, None);
            }
        }
    }

    fn drop_waiting(&mut self) {
        for task in self.queue.drain() {
            self.under_way -= 1;
            if task.confirms.is_none() {
                self.ledger.skip(&task.case);
            }
        }
    }

    fn submit(&mut self, mut case: Case, confirms: Option<usize>) {
        self.under_way += 1;
        case.devices.clone_from(&self.request.devices);
        self.queue.put(Task { case, confirms });
    }

    /// Books a result; gives the cases that follow from it.
    fn handle(&mut self, done: Done, plan: &Plan<'_>) -> Vec<Case> {
        let Some(scenario) = scenario::by_name(&done.task.case.scenario) else {
            return Vec::new();
        };
        if let Err(lost) = &done.result
            && is_interrupted(self.request, lost)
        {
            self.ledger.skip(&done.task.case);
            return Vec::new();
        }
        self.queue.spent(scenario.name(), done.took);
        let case = &done.task.case;
        self.ledger.book(case, &done.result, done.took);
        self.tell(scenario);
        match &done.result {
            Ok(outcome) => scenario.follow(case, outcome, plan),
            Err(_) => Vec::new(),
        }
    }

    fn tell(&mut self, scenario: &'static dyn Scenario) {
        (self.watch)(Progress {
            scenario: scenario.name(),
            done: self.ledger.cases(),
            waiting: self.under_way,
            findings: self.ledger.findings(),
            elapsed: self.started.elapsed(),
        });
    }

    /// Draws cases until time is over.
    fn stress(&mut self) {
        let interface = &self.ready.interface;
        let plan = Plan {
            interface,
            effort: Effort::Stress,
            seed: self.request.seed,
            safe_calls: self.ledger.safe_calls(&interface.codes),
        };
        let mut random = XorShiftRng::seed_from_u64(self.request.seed ^ 0x5354_5245_5353);
        let mut turn = scenario::ALL.iter().cycle();
        // A round in which nobody draws anything ends it.
        let mut idle = 0;
        while !self.is_late() && idle < scenario::ALL.len() {
            while self.under_way < 2 * self.request.workers && idle < scenario::ALL.len() {
                let Some(scenario) = turn.next() else { return };
                match scenario.draw(&plan, &mut random) {
                    Some(case) => {
                        idle = 0;
                        self.submit(case, None);
                    }
                    None => idle += 1,
                }
            }
            let Some(done) = self.next() else { return };
            // What follows from a drawn case is drawn by and by.
            self.handle(done, &plan);
        }
        self.run_out(&plan);
    }

    /// Runs the case of each finding again, in a worker of its own.
    fn confirm(&mut self) {
        if self.request.stop.is_set() {
            return;
        }
        for (index, case) in self.ledger.to_confirm() {
            self.submit(case, Some(index));
        }
        while let Some(done) = self.next() {
            let was_cut = |lost: &Lost| is_interrupted(self.request, lost);
            if done.result.as_ref().is_err_and(was_cut) {
                continue;
            }
            if let Some(index) = done.task.confirms {
                self.ledger.confirm(index, &done.result);
            }
        }
    }
}
