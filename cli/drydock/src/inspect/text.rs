//! The report as tables for a terminal.

use std::fmt::Write;

use comfy_table::{CellAlignment, Table, presets};
use lab_image::{Refusal, Treatment};

use super::report::{Code, Identity, Mitigations, Report};

/// Renders the whole report; what the lab lacks comes first.
pub(super) fn render(report: &Report) -> String {
    let mut out = String::new();
    lacking(&mut out, report);
    paragraph(&mut out, "Findings", &report.findings);
    identity(&mut out, report);
    sections(&mut out, report);
    imports(&mut out, report);
    exports(&mut out, report);
    match &report.code {
        Some(code) => self::code(&mut out, code),
        None => heading(&mut out, "Code\n  not analysed: only x86-64 code is so far"),
    }
    out
}

/// Text of a file, made harmless for a terminal.
fn printable(text: &str) -> String {
    text.chars()
        .flat_map(|c| match c.is_control() {
            true => c.escape_default().collect::<Vec<char>>(),
            false => vec![c],
        })
        .collect()
}

/// A function's name without its generic arguments, which would fill the line.
fn short(name: &str) -> String {
    let mut depth = 0_usize;
    let mut short = String::new();
    for c in printable(name).chars() {
        match c {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            _ if depth == 0 => short.push(c),
            _ => {}
        }
    }
    short
}

fn heading(out: &mut String, text: &str) {
    out.push_str(text);
    out.push_str("\n\n");
}

fn paragraph(out: &mut String, title: &str, lines: &[String]) {
    if lines.is_empty() {
        return;
    }
    out.push_str(title);
    out.push('\n');
    for line in lines {
        out.push_str("  ");
        out.push_str(&printable(line));
        out.push('\n');
    }
    out.push('\n');
}

fn lacking(out: &mut String, report: &Report) {
    let title = format!(
        "The lab lacks {} of {} imports: a call to one stops the driver",
        report.lacking.len(),
        report.imports.len()
    );
    paragraph(out, &title, &report.lacking);
}

fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    table.set_header(header);
    table
}

fn push(out: &mut String, title: &str, table: &Table) {
    let lines: Vec<String> = table
        .lines()
        .map(|line| line.trim_end().to_owned())
        .collect();
    paragraph(out, title, &lines);
}

fn identity(out: &mut String, report: &Report) {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    for (name, value) in identity_rows(&report.identity) {
        table.add_row([name, &printable(&value)]);
    }
    table.add_row(["mitigations", &mitigations(&report.mitigations)]);
    let title = format!("{} ({} bytes)", printable(&report.file), report.size_bytes);
    push(out, &title, &table);
}

fn identity_rows(identity: &Identity) -> Vec<(&'static str, String)> {
    let machine = match identity.machine {
        lab_image::Machine::X64 => "x86-64",
        lab_image::Machine::Arm64 => "Arm64",
    };
    let linked = match &identity.linked {
        Some(time) => time.clone(),
        None => format!(
            "{:#010x} (not a time: a reproducible build)",
            identity.time_date_stamp
        ),
    };
    let pdb = match &identity.pdb {
        None => "none named".to_owned(),
        Some(pdb) => match &pdb.missing {
            None => format!("{} {} (loaded)", pdb.name, pdb.identity),
            Some(why) => format!("{} {} ({why})", pdb.name, pdb.identity),
        },
    };
    let checksum = match identity.checksum_is_right {
        true => format!("{:#x}, right", identity.checksum),
        false => format!("{:#x}, wrong", identity.checksum),
    };
    let mut rows = vec![
        (
            "machine",
            format!("{machine}, {} subsystem", identity.subsystem),
        ),
        ("entry", entry(identity)),
        (
            "image",
            format!(
                "{:#x} bytes at {:#x}",
                identity.image_size_bytes, identity.preferred_base
            ),
        ),
        ("linked", format!("{linked}, linker {}", identity.linker)),
        (
            "for Windows",
            format!("{} or later", identity.oldest_windows),
        ),
        ("PDB", pdb),
        (
            "signature",
            if identity.signed {
                "attached, not verified"
            } else {
                "none"
            }
            .to_owned(),
        ),
        ("checksum", checksum),
    ];
    if let (Some(file), Some(product)) = (&identity.file_version, &identity.product_version) {
        rows.push(("version", format!("{file}, product {product}")));
    }
    rows
}

fn entry(identity: &Identity) -> String {
    match &identity.entry_name {
        Some(name) => format!("{:#x} {name}", identity.entry_rva),
        None => format!("{:#x}", identity.entry_rva),
    }
}

fn mitigations(mitigations: &Mitigations) -> String {
    let list = [
        ("NX", mitigations.no_execute),
        ("dynamic base", mitigations.dynamic_base),
        ("high-entropy base", mitigations.high_entropy_base),
        ("forced integrity", mitigations.force_integrity),
        ("CFG", mitigations.control_flow_guard),
        ("stack cookie", mitigations.stack_cookie),
        ("W^X", mitigations.writable_code_sections.is_empty()),
    ];
    list.map(|(name, on)| format!("{}{name}", if on { "+" } else { "-" }))
        .join("  ")
}

fn sections(out: &mut String, report: &Report) {
    let mut table = table(&["section", "rva", "bytes", "in file", "rights", ""]);
    for section in &report.sections {
        let remark = match (section.discardable, section.pageable) {
            (true, _) => "discarded after DriverEntry",
            (_, true) => "pageable",
            _ => "",
        };
        table.add_row([
            printable(&section.name),
            format!("{:#x}", section.rva),
            section.size_bytes.to_string(),
            section.stored_bytes.to_string(),
            section.rights.clone(),
            remark.to_owned(),
        ]);
    }
    align_right(&mut table, &[1, 2, 3]);
    push(out, "Sections", &table);
}

fn align_right(table: &mut Table, columns: &[usize]) {
    for &index in columns {
        if let Some(column) = table.column_mut(index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
}

fn imports(out: &mut String, report: &Report) {
    if report.imports.is_empty() {
        return;
    }
    let title = match report.lacking.is_empty() {
        true => "Imports: the lab provides all",
        false => "Imports",
    };
    let mut table = table(&["image", "import", "lab"]);
    for import in &report.imports {
        let state = if import.provided {
            "provided"
        } else {
            "lacking"
        };
        table.add_row([&printable(&import.dll), &printable(&import.name), state]);
    }
    push(out, title, &table);
}

fn exports(out: &mut String, report: &Report) {
    if report.exports.is_empty() {
        return;
    }
    let mut table = table(&["ordinal", "export", "target"]);
    for export in &report.exports {
        table.add_row([
            export.ordinal.to_string(),
            printable(export.name.as_deref().unwrap_or("(by ordinal only)")),
            printable(&export.target),
        ]);
    }
    push(out, "Exports", &table);
}

fn code(out: &mut String, code: &Code) {
    if !code.sites.is_empty() {
        let mut table = table(&["rva", "instruction", "in the lab", "function"]);
        for site in &code.sites {
            table.add_row([
                format!("{:#x}", site.rva),
                site.kind.to_string(),
                treatment(site.treatment, site.refusal),
                short(site.function.as_deref().unwrap_or("")),
            ]);
        }
        align_right(&mut table, &[0]);
        push(out, &summary(code), &table);
    }
    if !code.shared_data.is_empty() {
        let mut table = table(&["rva", "offset", "in", "function"]);
        for reference in &code.shared_data {
            table.add_row([
                format!("{:#x}", reference.rva),
                format!("{:#x}", reference.offset),
                reference.place.to_owned(),
                short(reference.function.as_deref().unwrap_or("")),
            ]);
        }
        align_right(&mut table, &[0, 1]);
        push(out, "KUSER_SHARED_DATA addresses (rewritten)", &table);
    }
}

fn summary(code: &Code) -> String {
    let count = |wanted| {
        code.sites
            .iter()
            .filter(|site| site.treatment == wanted)
            .count()
    };
    let mut title = "Instructions that need kernel mode or a word".to_owned();
    for (treatment, word) in [
        (Treatment::Trampoline, "patched"),
        (Treatment::Traps, "trapped"),
        (Treatment::MadeToTrap, "made to trap"),
        (Treatment::LeftAlone, "left alone"),
    ] {
        let n = count(treatment);
        if n > 0 {
            // Writing to a string cannot fail.
            let _ = write!(title, "; {n} {word}");
        }
    }
    title
}

fn treatment(treatment: Treatment, refusal: Option<Refusal>) -> String {
    let word = match treatment {
        Treatment::Traps => "trapped",
        Treatment::MadeToTrap => "made to trap",
        Treatment::Trampoline => "patched",
        Treatment::LeftAlone => "left alone",
    };
    match refusal {
        Some(refusal) => format!("{word} ({refusal})"),
        None => word.to_owned(),
    }
}
