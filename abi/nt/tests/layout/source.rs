//! What the crate declares, read from its source, so that nothing is left out of the comparison.

use std::collections::BTreeSet;

const MODULES: &[&str] = &[
    include_str!("../../src/base.rs"),
    include_str!("../../src/cm.rs"),
    include_str!("../../src/pnp.rs"),
    include_str!("../../src/po.rs"),
    include_str!("../../src/remlock.rs"),
    include_str!("../../src/ex.rs"),
    include_str!("../../src/hal.rs"),
    include_str!("../../src/io.rs"),
    include_str!("../../src/irp.rs"),
    include_str!("../../src/ke.rs"),
    include_str!("../../src/mm.rs"),
    include_str!("../../src/ob.rs"),
    include_str!("../../src/ps.rs"),
    include_str!("../../src/rtl.rs"),
    include_str!("../../src/se.rs"),
    include_str!("../../src/seh.rs"),
    include_str!("../../src/text.rs"),
    include_str!("../../src/bitmap.rs"),
    include_str!("../../src/iomore.rs"),
    include_str!("../../src/sync.rs"),
    include_str!("../../src/vm.rs"),
    include_str!("../../src/process.rs"),
    include_str!("../../src/sysinfo.rs"),
    include_str!("../../src/queue.rs"),
    include_str!("../../src/token.rs"),
    include_str!("../../src/names.rs"),
    include_str!("../../src/plugplay.rs"),
    include_str!("../../src/callbacks.rs"),
    include_str!("../../src/wmi.rs"),
    include_str!("../../src/zw.rs"),
];
const STATUS: &str = include_str!("../../src/status.rs");
const STOP: &str = include_str!("../../src/stop.rs");

/// `TYPE` and `TYPE.Field` of every structure; padding has a leading underscore.
pub(crate) fn structures() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for line_of in MODULES {
        let mut structure = None;
        for line in line_of.lines() {
            if let Some(rest) = line.strip_prefix("pub struct ") {
                structure = rest.split([' ', '(']).next();
                found.extend(structure.map(str::to_owned));
            } else if line == "}" {
                structure = None;
            } else if let (Some(structure), Some(rest)) = (structure, line.strip_prefix("    pub "))
            {
                let field = rest.split(':').next().unwrap_or_default();
                if !field.starts_with('_') {
                    found.insert(format!("{structure}.{field}"));
                }
            }
        }
    }
    found
}

/// Every public constant.
pub(crate) fn constants() -> BTreeSet<String> {
    let plain = MODULES.iter().flat_map(|module| {
        let lines = module.lines();
        lines.filter_map(|line| line.strip_prefix("pub const ")?.split(':').next())
    });
    let tables = [STATUS, STOP].into_iter().flat_map(|table| {
        let lines = table.lines();
        lines.filter_map(|line| Some(line.trim().split_once(" = 0x")?.0))
    });
    plain
        .chain(tables)
        .filter(|name| !name.starts_with("fn "))
        .map(str::to_owned)
        .collect()
}
