//! A report for a terminal.

use std::fmt::{self, Display, Formatter};

use super::{CheckReport, Confirmation, Reported, Verdict};

/// A report, to be printed.
pub struct Text<'a> {
    /// The report.
    pub report: &'a CheckReport,
    /// The driver as it was named on the command line: for the commands that replay.
    pub driver: &'a str,
}

impl Display for Text<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let report = self.report;
        self.scenarios(f)?;
        for (title, findings) in report.groups() {
            if !findings.is_empty() && !title.is_empty() {
                writeln!(f, "\n{title}:")?;
            }
            for reported in findings {
                writeln!(f)?;
                self.finding(f, reported)?;
            }
        }
        self.remarks(f)?;
        writeln!(f, "\n{}", headline(report))
    }
}

/// The verdict in one line.
#[must_use]
pub fn headline(report: &CheckReport) -> String {
    let name = &report.driver.name;
    let ran = format!("{} cases in {:.1} s", report.cases, report.seconds);
    match report.verdict {
        Verdict::Clean => format!("{name}: clean ({ran})"),
        Verdict::Findings => {
            let number = report.sorted().0.len();
            let plural = if number == 1 { "" } else { "s" };
            format!("{name}: {number} finding{plural} ({ran})")
        }
        Verdict::CouldNotRun => format!(
            "{name}: could not be run: {}",
            report.could_not_run.as_deref().unwrap_or("no reason known")
        ),
    }
}

impl Text<'_> {
    fn scenarios(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for scenario in &self.report.scenarios {
            let verdict = match scenario.findings {
                0 => "ok".to_owned(),
                1 => "1 finding".to_owned(),
                n => format!("{n} findings"),
            };
            #[expect(clippy::cast_precision_loss, reason = "seconds for people")]
            let seconds = scenario.ns as f64 / 1e9;
            write!(
                f,
                "{:<15} {verdict:<12} {seconds:>6.2} s  {:>5} cases",
                scenario.name, scenario.cases
            )?;
            if scenario.requests > 0 {
                write!(
                    f,
                    ", {} requests, {} accepted",
                    scenario.requests, scenario.accepted
                )?;
            }
            if scenario.skipped > 0 {
                write!(f, ", {} not run: no time", scenario.skipped)?;
            }
            if scenario.could_not_run > 0 {
                write!(f, ", {} could not be run", scenario.could_not_run)?;
            }
            writeln!(f)?;
        }
        Ok(())
    }

    fn finding(&self, f: &mut Formatter<'_>, reported: &Reported) -> fmt::Result {
        let found = &reported.found;
        writeln!(f, "{}", found.text)?;
        let times = match reported.count {
            1 => "once".to_owned(),
            n => format!("{n} times"),
        };
        let confirmed = match reported.confirmation {
            Confirmation::Confirmed => ", confirmed by a second run",
            Confirmation::Unconfirmed => ", not confirmed",
            Confirmation::Unrepeatable => ", not repeated",
            Confirmation::NotTried => "",
        };
        writeln!(
            f,
            "  found       {times}{confirmed}; {}: {}",
            reported.case.scenario,
            reported.case.describe()
        )?;
        if let Some(replay) = &reported.replay {
            writeln!(
                f,
                "  replay      drydock check {} --replay {}",
                self.driver,
                replay.display()
            )?;
        }
        Ok(())
    }

    fn remarks(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let report = self.report;
        let mut remarks: Vec<String> = Vec::new();
        remarks.extend(
            report
                .unsupported
                .iter()
                .map(|what| format!("unsupported: {what}")),
        );
        remarks.extend(
            report
                .warnings
                .iter()
                .map(|what| format!("warning: {what}")),
        );
        if report.workers_lost > 0 {
            remarks.push(format!(
                "{} worker processes were lost",
                report.workers_lost
            ));
        }
        remarks.extend(report.confinement.remarks());
        remarks.extend(
            report
                .no_symbols
                .iter()
                .map(|why| format!("no function names: {why}")),
        );
        if !remarks.is_empty() {
            writeln!(f)?;
        }
        remarks
            .iter()
            .try_for_each(|remark| writeln!(f, "{remark}"))
    }
}
