//! A report as JUnit writes them: a case per scenario, and one per finding.

use std::time::Duration;

use quick_junit::{NonSuccessKind, Property, Report, SerializeError, TestCase, TestCaseStatus, TestSuite};

use super::{CheckReport, Reported, ScenarioReport, Verdict};

/// The report as XML.
///
/// Errors: none that a report can cause.
pub fn to_xml(report: &CheckReport) -> Result<String, SerializeError> {
    let mut document = Report::new("drydock check");
    document.set_time(Duration::from_secs_f64(report.seconds.max(0.0)));
    let mut suite = TestSuite::new(report.driver.name.clone());
    suite.set_time(Duration::from_secs_f64(report.seconds.max(0.0)));
    suite.add_property(Property::new("sha256", &report.driver.sha256));
    suite.add_property(Property::new("seed", report.seed.to_string()));
    if report.verdict == Verdict::CouldNotRun {
        suite.add_test_case(could_not_run(report));
    }
    suite.add_test_cases(report.scenarios.iter().map(scenario));
    suite.add_test_cases(report.findings.iter().map(|reported| finding(report, reported)));
    let remarks = [&report.unsupported, &report.warnings].map(|lines| lines.join("\n"));
    suite.set_system_out(remarks.join("\n"));
    document.add_test_suite(suite);
    document.to_string()
}

fn could_not_run(report: &CheckReport) -> TestCase {
    let mut status = TestCaseStatus::non_success(NonSuccessKind::Error);
    status.set_message(report.could_not_run.as_deref().unwrap_or("could not be run"));
    TestCase::new("load", status)
}

/// What a scenario found is in cases of their own: it has run.
fn scenario(scenario: &ScenarioReport) -> TestCase {
    let status = if scenario.cases == 0 {
        let mut skipped = TestCaseStatus::skipped();
        skipped.set_message("there was no time for it");
        skipped
    } else {
        TestCaseStatus::success()
    };
    let mut case = TestCase::new(scenario.name.clone(), status);
    case.set_classname("scenario");
    case.set_time(Duration::from_nanos(scenario.ns));
    let numbers = format!(
        "{}: {} cases, {} requests, {} cases not run for want of time",
        scenario.about, scenario.cases, scenario.requests, scenario.skipped
    );
    case.set_system_out(numbers);
    case
}

fn finding(report: &CheckReport, reported: &Reported) -> TestCase {
    let found = &reported.found;
    let mut status = if report.counts(reported) {
        TestCaseStatus::non_success(NonSuccessKind::Failure)
    } else {
        TestCaseStatus::skipped()
    };
    let headline = found.headline();
    let message = if report.counts(reported) {
        headline
    } else {
        format!("not confirmed: {headline}")
    };
    status.set_message(message);
    status.set_type(found.rule.clone());
    status.set_description(found.text.clone());
    let place = found.at.to_string();
    let mut case = TestCase::new(format!("{} at {place}", found.rule), status);
    case.set_classname("finding");
    case
}
