//! A report as SARIF 2.1.0.

use lab_verifier::rules::RULES;
use serde_json::json;
use serde_sarif::sarif::{
    ArtifactLocation, Invocation, Location, LogicalLocation, Message, MultiformatMessageString,
    PhysicalLocation, Region, ReportingDescriptor, Result, ResultLevel, Run, SCHEMA_URL, Sarif,
    Stack, StackFrame, Tool, ToolComponent,
};

use super::{CheckReport, Confirmation, Reported, Verdict};
use crate::found::Spot;

/// The report as a SARIF log of one run.
#[must_use]
pub fn to_sarif(report: &CheckReport) -> Sarif {
    let driver = ToolComponent::builder()
        .name("drydock")
        .version(env!("CARGO_PKG_VERSION"))
        .information_uri(env!("CARGO_PKG_REPOSITORY"))
        .rules(rules())
        .build();
    let invocation = Invocation::builder()
        .execution_successful(report.verdict != Verdict::CouldNotRun)
        .build();
    let results: Vec<Result> = report
        .findings
        .iter()
        .map(|reported| result(report, reported))
        .collect();
    let run = Run::builder()
        .tool(Tool::builder().driver(driver).build())
        .invocations(vec![invocation])
        .results(results)
        .build();
    Sarif::builder()
        .version(json!("2.1.0"))
        .schema(SCHEMA_URL)
        .runs(vec![run])
        .build()
}

/// Every rule with its help, in the table's order.
fn rules() -> Vec<ReportingDescriptor> {
    let text = |text: &str| MultiformatMessageString::builder().text(text).build();
    let rules = RULES.iter().map(|rule| {
        ReportingDescriptor::builder()
            .id(rule.name)
            .short_description(text(rule.meaning))
            .full_description(text(rule.meaning))
            .help(text(rule.remedy))
            .build()
    });
    rules.collect()
}

fn result(report: &CheckReport, reported: &Reported) -> Result {
    let found = &reported.found;
    let level = if report.counts(reported) {
        ResultLevel::Error
    } else {
        ResultLevel::Note
    };
    let confirmed = match reported.confirmation {
        Confirmation::Confirmed => "confirmed by a second run",
        Confirmation::Unconfirmed => "not confirmed by a second run",
        Confirmation::Unrepeatable => "seen once on several host threads, and not repeated",
        Confirmation::NotTried => "not run a second time",
    };
    let message = format!(
        "{} ({confirmed}; {})",
        found.headline(),
        reported.case.scenario
    );
    let frames: Vec<StackFrame> = found
        .stack
        .iter()
        .map(|spot| {
            StackFrame::builder()
                .location(location(report, spot))
                .build()
        })
        .collect();
    let index = RULES.iter().position(|rule| rule.name == found.rule);
    let index = index.and_then(|index| i64::try_from(index).ok());
    let mut result = Result::builder()
        .rule_id(found.rule.clone())
        .level(level)
        .message(Message::builder().text(message).build())
        .locations(vec![location(report, &found.at)])
        .occurrence_count(i64::try_from(reported.count).unwrap_or(i64::MAX))
        .build();
    result.rule_index = index;
    result.stacks = (!frames.is_empty()).then(|| vec![Stack::builder().frames(frames).build()]);
    result
}

/// File and line where they are known; module and offset always.
fn location(report: &CheckReport, spot: &Spot) -> Location {
    let module = spot.module.as_deref().unwrap_or(&report.driver.name);
    let mut logical = LogicalLocation::builder()
        .fully_qualified_name(format!("{module}+{:#x}", spot.rva))
        .kind("function")
        .build();
    logical.name.clone_from(&spot.function);
    let mut location = Location::builder().logical_locations(vec![logical]).build();
    if let (Some(file), Some(line)) = (&spot.file, spot.line) {
        let artifact = ArtifactLocation::builder().uri(uri(file)).build();
        let region = Region::builder().start_line(i64::from(line.max(1))).build();
        let physical = PhysicalLocation::builder()
            .artifact_location(artifact)
            .region(region)
            .build();
        location.physical_location = Some(physical);
    }
    location
}

/// A path as a URI reference: debug information has paths of either kind.
fn uri(path: &str) -> String {
    let path = path.replace('\\', "/");
    let mut uri = String::new();
    // A drive letter would be a scheme.
    if path.as_bytes().get(1) == Some(&b':') {
        uri.push_str("file:///");
    }
    for byte in path.bytes() {
        let plain = byte.is_ascii_alphanumeric() || b"/-_.~:+@".contains(&byte);
        if plain {
            uri.push(char::from(byte));
        } else {
            uri.push_str(&format!("%{byte:02X}"));
        }
    }
    uri
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_become_uri_references() {
        for (path, expected) in [
            (r"C:\a b\x.c", "file:///C:/a%20b/x.c"),
            ("/src/x.rs", "/src/x.rs"),
            ("src/ü.c", "src/%C3%BC.c"),
        ] {
            assert_eq!(uri(path), expected);
        }
    }
}
