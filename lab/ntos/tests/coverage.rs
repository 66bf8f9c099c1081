//! The exports that real drivers import are there.
//!
//! `data/most-imported.csv` lists what 259 third-party drivers import from
//! the kernel, most frequent first, and how many import each.

const MOST_IMPORTED: &str = include_str!("data/most-imported.csv");

fn imports() -> Vec<(&'static str, &'static str, u64)> {
    let rows = MOST_IMPORTED.lines().skip(1);
    rows.map(|row| {
        let columns: Vec<&str> = row.split(',').collect();
        let [dll, name, drivers] = columns[..] else {
            panic!("three columns, not {row}")
        };
        (dll, name, drivers.parse().expect("a number of drivers"))
    })
    .collect()
}

#[test]
fn what_most_drivers_import_is_provided() {
    let imports = imports();
    let first = imports.iter().take(227);
    let missing: Vec<_> = first
        .filter(|(dll, name, _)| !lab_ntos::provides(dll, name))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn of_all_imports_of_all_drivers_few_are_missing() {
    let imports = imports();
    let all: u64 = imports.iter().map(|(.., drivers)| drivers).sum();
    let provided = imports
        .iter()
        .filter(|(dll, name, _)| lab_ntos::provides(dll, name));
    let (count, weight) = provided.fold((0, 0), |(count, weight), (.., drivers)| {
        (count + 1, weight + drivers)
    });
    assert!(count >= 540, "{count} of {} functions", imports.len());
    assert!(weight * 1000 >= all * 978, "{weight} of {all} imports");
}

#[test]
fn what_nobody_exports_is_not_provided() {
    assert!(!lab_ntos::provides("ntoskrnl.exe", "IoNoSuchFunction"));
    assert!(!lab_ntos::provides("ndis.sys", "IoCreateDevice"));
    assert!(lab_ntos::provides("NTOSKRNL.EXE", "IoCreateDevice"));
}
