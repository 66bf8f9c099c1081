//! A report as one HTML page that refers to nothing outside itself.
//!
//! Everything that comes from the driver is escaped: maud does so with
//! whatever is not marked as markup, and only the plots are.

mod plot;

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::text::headline;
use super::{CheckReport, Confirmation, Reported, ScenarioReport, Verdict};
use crate::found::Spot;

const STYLE: &str = include_str!("html/style.css");

/// The page.
#[must_use]
pub fn to_html(report: &CheckReport) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:";
                title { (headline(report)) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                main {
                    (banner(report))
                    (scenarios(report))
                    @for (title, findings) in report.groups() {
                        @if !findings.is_empty() {
                            @if title.is_empty() { h2 { "Findings" } } @else { h2 { (title) } }
                            @for reported in findings { (finding(reported)) }
                        }
                    }
                    (remarks(report))
                    (plots(report))
                    (about(report))
                }
            }
        }
    };
    page.into_string()
}

fn banner(report: &CheckReport) -> Markup {
    let (class, word) = match report.verdict {
        Verdict::Clean => ("good", "clean".to_owned()),
        Verdict::Findings => match report.sorted().0.len() {
            1 => ("bad", "1 finding".to_owned()),
            n => ("bad", format!("{n} findings")),
        },
        Verdict::CouldNotRun => ("odd", "could not be run".to_owned()),
    };
    html! {
        header class=(class) {
            h1 { (report.driver.name) }
            p.verdict { (word) }
            @if let Some(why) = &report.could_not_run { p { (why) } }
            p.quiet {
                (report.cases) " cases in " (format!("{:.1}", report.seconds)) " s by "
                (report.workers) " workers, " (report.effort) ", seed " (report.seed)
            }
        }
    }
}

fn scenarios(report: &CheckReport) -> Markup {
    if report.scenarios.is_empty() {
        return html! {};
    }
    html! {
        h2 { "What was done" }
        table {
            thead { tr {
                th { "scenario" } th { "" } th.number { "found" } th.number { "cases" }
                th.number { "requests" } th.number { "accepted" } th.number { "time" }
            } }
            tbody { @for scenario in &report.scenarios { (row(scenario)) } }
        }
    }
}

fn row(scenario: &ScenarioReport) -> Markup {
    #[expect(clippy::cast_precision_loss, reason = "seconds for people")]
    let seconds = scenario.ns as f64 / 1e9;
    html! {
        tr {
            td { code { (scenario.name) } }
            td.quiet {
                (scenario.about)
                @if scenario.skipped > 0 { strong { "; " (scenario.skipped) " cases not run: no time" } }
            }
            td.number { @if scenario.findings == 0 { span.ok { "ok" } } @else { strong.fail { (scenario.findings) } } }
            td.number { (scenario.cases) }
            td.number { @if scenario.requests > 0 { (scenario.requests) } }
            td.number { @if scenario.requests > 0 { (scenario.accepted) } }
            td.number { (format!("{seconds:.2} s")) }
        }
    }
}

fn finding(reported: &Reported) -> Markup {
    let found = &reported.found;
    let rule = found.rule_entry();
    let confirmed = match reported.confirmation {
        Confirmation::Confirmed => "confirmed",
        Confirmation::Unconfirmed => "not confirmed",
        Confirmation::Unrepeatable => "not repeated",
        Confirmation::NotTried => "not run again",
    };
    html! {
        article {
            h3 { code { (found.rule) } span.tag { (confirmed) } span.tag { (reported.count) " ×" } }
            p.what { (found.what) }
            p { "at " (spot(&found.at)) }
            @if let Some(rule) = rule {
                p.quiet { (rule.meaning) " " strong { (rule.remedy) } }
            }
            p.quiet {
                (format!("Stop {:#010X}", found.stop_code))
                @if let Some(name) = &found.stop_name { " " (name) }
                " (" (found.parameters.map(|value| format!("{value:#x}")).join(", ")) "), found by "
                code { (reported.case.scenario) } ": " (reported.case.describe())
            }
            @if !found.stack.is_empty() {
                details {
                    summary { "Stack, " (found.stack.len()) " frames" }
                    ol { @for frame in &found.stack { li { (spot(frame)) } } }
                }
            }
            @for other in &found.others {
                details {
                    summary { (other.what) }
                    ol { @for frame in &other.stack { li { (spot(frame)) } } }
                }
            }
            details { summary { "Everything the machine said" } pre { (found.text) } }
            @if let Some(replay) = &reported.replay {
                p.quiet { "Replay: " code { "drydock check DRIVER --replay " (replay.display()) } }
            }
        }
    }
}

fn spot(spot: &Spot) -> Markup {
    html! {
        code {
            @if let Some(module) = &spot.module { (module) "+" }
            (format!("{:#x}", spot.rva))
        }
        @if let Some(function) = &spot.function { " " span.function { (function) } }
        @if let (Some(file), Some(line)) = (&spot.file, spot.line) { " " span.quiet { (file) ":" (line) } }
    }
}

fn remarks(report: &CheckReport) -> Markup {
    let confinement = report.confinement.remarks();
    let unsupported = report
        .unsupported
        .iter()
        .map(|what| format!("Unsupported: {what}"));
    let lines: Vec<String> = unsupported
        .chain(report.warnings.iter().cloned())
        .chain(confinement)
        .chain(
            report
                .no_symbols
                .iter()
                .map(|why| format!("No function names: {why}")),
        )
        .collect();
    if lines.is_empty() {
        return html! {};
    }
    html! {
        h2 { "Remarks" }
        ul { @for line in &lines { li { (line) } } }
    }
}

fn plots(report: &CheckReport) -> Markup {
    let series = &report.series;
    let plots = [
        (
            "Time of each load and unload",
            plot::line(&series.cycle_ns, "cycle", "µs", 1e3),
        ),
        (
            "Pool held after each step",
            plot::line(&series.pool_bytes, "step", "KiB", 1024.0),
        ),
        (
            "Duration of DPC routines (host time)",
            plot::bars(&series.dpc),
        ),
        (
            "Duration of interrupt routines (host time)",
            plot::bars(&series.isr),
        ),
    ];
    let shown: Vec<_> = plots
        .iter()
        .filter_map(|(title, svg)| Some((title, svg.as_ref()?)))
        .collect();
    if shown.is_empty() {
        return html! {};
    }
    html! {
        h2 { "Over time" }
        div.plots {
            @for (title, svg) in &shown {
                figure { figcaption { (title) } (PreEscaped(svg)) }
            }
        }
    }
}

fn about(report: &CheckReport) -> Markup {
    let interface = &report.interface;
    html! {
        footer {
            details {
                summary { "About this check" }
                dl {
                    dt { "Driver" } dd { (report.driver.name) ", " (report.driver.size) " bytes, SHA-256 " code { (report.driver.sha256) } }
                    dt { "Devices" } dd { @for path in &interface.paths { code { (path) } " " } @if interface.unnamed > 0 { "and " (interface.unnamed) " without a name" } }
                    dt { "Control codes" } dd { @for code in &interface.codes { code { (format!("{code:#x}")) } " " } }
                    dt { "Made by" } dd { (report.tool) }
                }
            }
        }
    }
}
