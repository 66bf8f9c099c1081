//! The exports that real drivers import most are there.
//!
//! `data/most-imported.csv` lists what 259 third-party drivers import from
//! the kernel, most frequent first.

const MOST_IMPORTED: &str = include_str!("data/most-imported.csv");

#[test]
fn what_most_drivers_import_is_provided() {
    let rows: Vec<Vec<&str>> = MOST_IMPORTED
        .lines()
        .skip(1)
        .map(|row| row.split(',').collect())
        .collect();
    assert!(rows.len() >= 120, "{} functions", rows.len());
    let missing: Vec<_> = rows
        .iter()
        .filter(|row| !lab_ntos::provides(row[0], row[1]))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn what_nobody_exports_is_not_provided() {
    assert!(!lab_ntos::provides("ntoskrnl.exe", "IoNoSuchFunction"));
    assert!(!lab_ntos::provides("ndis.sys", "IoCreateDevice"));
    assert!(lab_ntos::provides("NTOSKRNL.EXE", "IoCreateDevice"));
}
