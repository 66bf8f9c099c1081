//! What a check has seen so far.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use lab_verifier::RuleId;

use super::Request;
use crate::bench::{Outcome, Series};
use crate::case::{Call, Case};
use crate::found::{self, Found, Key};
use crate::report::{CheckReport, Confirmation, DriverIdentity, Reported, ScenarioReport, Verdict};
use crate::scenario::{self, Effort, Scenario};
use crate::worker::{Lost, Ready};

/// Different findings that are kept.
const MAX_FINDINGS: usize = 200;
/// Accepted requests of a code that are kept.
const MAX_ACCEPTED: usize = 3;
/// Findings of something that takes too long that are confirmed: each takes as long again.
const MAX_LONG_CONFIRMED: u32 = 3;
/// Samples of a plot that are kept.
const MAX_SAMPLES: usize = 4096;

pub(super) struct Ledger {
    ready: Ready,
    scenarios: Vec<ScenarioReport>,
    findings: Vec<Reported>,
    by_key: BTreeMap<Key, usize>,
    /// Codes over which a machine stopped.
    fatal_codes: BTreeSet<u32>,
    /// Requests that the driver accepted, by their code.
    accepted: BTreeMap<u32, BTreeSet<Call>>,
    warnings: BTreeSet<String>,
    unsupported: BTreeSet<String>,
    could_not_run: Option<String>,
    series: Series,
    cases: u64,
    workers_lost: u64,
}

impl Ledger {
    pub(super) fn new(ready: Ready) -> Self {
        let mut ledger = Self {
            scenarios: Vec::new(),
            findings: Vec::new(),
            by_key: BTreeMap::new(),
            fatal_codes: BTreeSet::new(),
            accepted: BTreeMap::new(),
            warnings: BTreeSet::new(),
            unsupported: BTreeSet::new(),
            could_not_run: None,
            series: Series::default(),
            cases: 0,
            workers_lost: 0,
            ready,
        };
        ledger.survey();
        ledger
    }

    /// What the first load has shown.
    fn survey(&mut self) {
        let survey = self.ready.survey.clone();
        if let Some(import) = &survey.unsupported {
            self.could_not_run = Some(format!("DriverEntry or DriverUnload: {import}"));
        }
        self.could_not_run = self.could_not_run.take().or(survey.could_not_run.clone());
        self.absorb(&survey);
        let case = Case::of("load-unload");
        for found in survey.findings {
            self.add(&case, found);
        }
        let interface = &self.ready.interface;
        if self.could_not_run.is_none() && interface.paths.is_empty() && !survey.stopped {
            let why = if interface.adds_devices {
                "its device of plug and play has no name and no interface"
            } else {
                "it makes no device with a name"
            };
            self.warnings
                .insert(format!("only loading and unloading was checked: {why}"));
        }
        if !self.ready.checksum_is_right && self.ready.survey != Outcome::default() {
            let warning = "the checksum in the header is wrong: Windows refuses to load the driver";
            self.warnings.insert(warning.to_owned());
        }
    }

    fn absorb(&mut self, outcome: &Outcome) {
        self.warnings.extend(outcome.warnings.iter().cloned());
        self.unsupported.extend(outcome.unsupported.iter().cloned());
    }

    pub(super) fn could_not_run(&self) -> Option<&str> {
        self.could_not_run.as_deref()
    }

    /// The worker died while it loaded the driver for the first time.
    pub(super) fn lost_at_start(&mut self, lost: &Lost) {
        self.workers_lost += 1;
        let case = Case::of("load-unload");
        let found = found_lost(&case, lost);
        self.add(&case, found);
    }

    /// The check was to end before the driver was loaded once.
    pub(super) fn interrupted_at_start(&mut self) {
        self.could_not_run = Some("interrupted before it was loaded".to_owned());
    }

    /// The check has ended early.
    pub(super) fn interrupted(&mut self) {
        let warning =
            "interrupted: cases that were still to come were not run, findings not confirmed";
        self.warnings.insert(warning.to_owned());
    }

    pub(super) fn meet(&mut self, scenario: &dyn Scenario) {
        self.scenarios.push(ScenarioReport {
            name: scenario.name().to_owned(),
            about: scenario.about().to_owned(),
            ..ScenarioReport::default()
        });
    }

    fn of(&mut self, scenario: &str) -> Option<&mut ScenarioReport> {
        self.scenarios
            .iter_mut()
            .find(|report| report.name == scenario)
    }

    /// A case that there was no time for.
    pub(super) fn skip(&mut self, case: &Case) {
        if let Some(report) = self.of(&case.scenario) {
            report.skipped += 1;
        }
    }

    /// Books what became of a case.
    pub(super) fn book(&mut self, case: &Case, result: &Result<Outcome, Lost>, took: Duration) {
        self.cases += 1;
        let nanoseconds = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        if let Some(report) = self.of(&case.scenario) {
            report.cases += 1;
            report.ns += nanoseconds;
        }
        let stopped = match result {
            Ok(outcome) => {
                self.book_outcome(case, outcome);
                outcome.stopped
            }
            Err(lost) => {
                self.workers_lost += 1;
                self.add(case, found_lost(case, lost));
                true
            }
        };
        if let ([call], true) = (case.calls.as_slice(), stopped) {
            self.fatal_codes.insert(call.code);
        }
    }

    fn book_outcome(&mut self, case: &Case, outcome: &Outcome) {
        self.absorb(outcome);
        if let Some(report) = self.of(&case.scenario) {
            report.steps += u64::from(outcome.steps);
            report.requests += outcome.requests;
            report.accepted += outcome.accepted;
            report.could_not_run += u64::from(outcome.could_not_run.is_some());
        }
        for call in &outcome.accepted_calls {
            let known = self.accepted.entry(call.code).or_default();
            if known.len() < MAX_ACCEPTED {
                known.insert(*call);
            }
        }
        extend(&mut self.series.cycle_ns, &outcome.series.cycle_ns);
        extend(&mut self.series.pool_bytes, &outcome.series.pool_bytes);
        let more = [&outcome.series.dpc, &outcome.series.isr];
        for (calls, more) in [&mut self.series.dpc, &mut self.series.isr]
            .into_iter()
            .zip(more)
        {
            for (below, count) in more {
                *calls.entry(*below).or_default() += count;
            }
        }
        if let Some(why) = &outcome.could_not_run {
            self.warnings.insert(format!("{}: {why}", case.scenario));
        }
        // A case that ends at a stop is as long as it was: replaying goes no further.
        let mut case = case.clone();
        if outcome.stopped && outcome.steps < case.iterations {
            case.iterations = outcome.steps + 1;
        }
        for found in &outcome.findings {
            self.add(&case, found.clone());
        }
    }

    fn add(&mut self, case: &Case, found: Found) {
        let key = found.key();
        let count = found.count;
        if let Some(&index) = self.by_key.get(&key) {
            let known = &mut self.findings[index];
            known.count += count;
            if !repeats(&known.case) && repeats(case) {
                // This one can be replayed.
                (known.case, known.found) = (case.clone(), found);
            }
            return;
        }
        if self.findings.len() >= MAX_FINDINGS {
            self.warnings.insert(format!(
                "more than {MAX_FINDINGS} different findings: the rest is not listed"
            ));
            return;
        }
        if let Some(report) = self.of(&case.scenario) {
            report.findings += 1;
        }
        self.by_key.insert(key, self.findings.len());
        self.findings.push(Reported {
            count,
            case: case.clone(),
            confirmation: Confirmation::NotTried,
            replay: None,
            found,
        });
    }

    pub(super) fn cases(&self) -> u64 {
        self.cases
    }

    pub(super) fn findings(&self) -> usize {
        self.findings.len()
    }

    /// Requests with codes over which no machine has stopped: those that the driver accepted, and a typical one of
    /// each code of which it accepted none.
    pub(super) fn safe_calls(&self, codes: &[u32]) -> Vec<Call> {
        let is_safe = |code: &&u32| !self.fatal_codes.contains(code);
        let mut calls = Vec::new();
        for &code in codes.iter().filter(is_safe) {
            match self.accepted.get(&code) {
                Some(accepted) => calls.extend(accepted),
                None => calls.push(Call::typical(code)),
            }
        }
        calls
    }

    /// Cases that should find again what they found.
    pub(super) fn to_confirm(&self) -> Vec<(usize, Case)> {
        let mut long = 0;
        let mut wanted = |reported: &Reported| {
            let rule = &reported.found.rule;
            let is_long = found::is_too_long(rule) || rule == RuleId::WorkerLost.rule().name;
            long += u32::from(is_long);
            !is_long || long <= MAX_LONG_CONFIRMED
        };
        let findings = self.findings.iter().enumerate();
        findings
            .filter(|(_, reported)| wanted(reported))
            .map(|(index, reported)| (index, reported.case.clone()))
            .collect()
    }

    /// Books whether a finding came again.
    pub(super) fn confirm(&mut self, index: usize, result: &Result<Outcome, Lost>) {
        let Some(reported) = self.findings.get_mut(index) else {
            return;
        };
        reported.confirmation = if comes_again(&reported.found, &reported.case, result) {
            Confirmation::Confirmed
        } else if repeats(&reported.case) {
            Confirmation::Unconfirmed
        } else {
            Confirmation::Unrepeatable
        };
    }

    /// What is to be said of control codes that were not exercised although the driver handles some.
    fn control_warning(&self) -> Option<String> {
        let interface = &self.ready.interface;
        if self.could_not_run.is_some() || interface.control.is_none() {
            return None;
        }
        let accepts = self
            .accepted
            .keys()
            .any(|code| interface.codes.contains(code));
        let was_asked = self.scenarios.iter().any(|report| report.requests > 0);
        uncovered(interface.codes.len(), accepts, was_asked)
    }

    pub(super) fn report(
        mut self,
        request: &Request,
        driver: DriverIdentity,
        elapsed: Duration,
    ) -> CheckReport {
        self.warnings.extend(self.control_warning());
        let is_stress = request.effort == Effort::Stress;
        let counts =
            |reported: &Reported| is_stress || reported.confirmation != Confirmation::Unconfirmed;
        let verdict = if self.could_not_run.is_some() && self.findings.is_empty() {
            Verdict::CouldNotRun
        } else if self.findings.iter().any(counts) {
            Verdict::Findings
        } else {
            Verdict::Clean
        };
        CheckReport {
            version: crate::report::VERSION,
            tool: format!("drydock {}", env!("CARGO_PKG_VERSION")),
            driver,
            verdict,
            could_not_run: self.could_not_run,
            effort: match request.effort {
                Effort::Quick => "quick",
                Effort::Normal => "normal",
                Effort::Stress => "stress",
            }
            .to_owned(),
            seed: request.seed,
            seconds: elapsed.as_secs_f64(),
            cases: self.cases,
            workers: request.workers,
            workers_lost: self.workers_lost,
            confinement: self.ready.confinement,
            no_symbols: self.ready.no_symbols,
            interface: self.ready.interface,
            scenarios: self
                .scenarios
                .into_iter()
                .filter(|report| report.cases + report.skipped > 0)
                .collect(),
            findings: self.findings,
            unsupported: self.unsupported.into_iter().collect(),
            warnings: self.warnings.into_iter().collect(),
            series: self.series,
        }
    }
}

/// The warning for a driver that handles `IRP_MJ_DEVICE_CONTROL`, by how many codes were found in it.
fn uncovered(codes: usize, accepts: bool, was_asked: bool) -> Option<String> {
    if codes == 0 {
        let what = "the driver handles IRP_MJ_DEVICE_CONTROL, but no control code was found in its code: \
                    what it does for control codes was not checked";
        return Some(what.to_owned());
    }
    (was_asked && !accepts).then(|| {
        format!(
            "the driver handles IRP_MJ_DEVICE_CONTROL, but it accepted no request with any of the {codes} control \
             codes found in its code: little of what it does for them was checked"
        )
    })
}

/// Whether a case does the same every time.
fn repeats(case: &Case) -> bool {
    scenario::by_name(&case.scenario).is_none_or(Scenario::repeats)
}

/// Whether a finding is among what a case came to.
pub(crate) fn comes_again(found: &Found, case: &Case, result: &Result<Outcome, Lost>) -> bool {
    let key = found.key();
    match result {
        Ok(outcome) => outcome.findings.iter().any(|other| other.key() == key),
        Err(lost) => found_lost(case, lost).key() == key,
    }
}

/// A lost worker, as a finding.
pub(crate) fn found_lost(case: &Case, lost: &Lost) -> Found {
    let code = match case.calls.as_slice() {
        [call] => Some(call.code),
        _ => None,
    };
    Found {
        code,
        ..lost.finding()
    }
}

fn extend(samples: &mut Vec<u64>, more: &[u64]) {
    let room = MAX_SAMPLES.saturating_sub(samples.len());
    samples.extend(more.iter().take(room));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_codes_that_were_not_exercised_are_told_of() {
        let none = uncovered(0, false, true).unwrap();
        assert!(none.contains("no control code was found"), "{none}");
        let refused = uncovered(3, false, true).unwrap();
        assert!(refused.contains("any of the 3 control codes"), "{refused}");
        assert_eq!(uncovered(3, true, true), None);
        assert_eq!(uncovered(3, false, false), None);
    }
}
