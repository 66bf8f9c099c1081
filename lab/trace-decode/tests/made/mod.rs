//! What tests of the decoder are about: sites, and a recorder's answer to a query.

use trace_decode::catalogue::{Build, Field, Site};
use trace_format::request::{Clocks, Information};
use trace_format::site::Kind;
use trace_format::{Form, Heat, Level};

/// The build of [`information`].
pub(crate) const BUILD: Build = Build {
    identity: [1, 2, 3],
};

/// A site with a field of each kind.
pub(crate) fn site(id: u32, kinds: &[Kind]) -> Site {
    let field = |kind: &Kind| Field {
        name: format!("{kind:?}"),
        kind: *kind,
        bits: 64,
        names: Vec::new(),
    };
    Site {
        id,
        code: id,
        level: Level::Information,
        flag: 0,
        flag_name: "FLAG".into(),
        form: Form::Message,
        heat: Heat::Cold,
        module: "m".into(),
        file: "m.rs".into(),
        line: 1,
        text: "text".into(),
        fields: kinds.iter().map(field).collect(),
        function: "m::f".into(),
        callers: vec!["m::g".into()],
    }
}

/// What a recorder of [`BUILD`] answers to a query.
pub(crate) fn information(processors: u32, slots: u32) -> Information {
    Information {
        version: 1,
        time_date_stamp: 1,
        image_bytes: 2,
        checksum: 3,
        processors,
        slots,
        switches: 0,
        mode: 0,
        clocks: Clocks {
            ticks: 1000,
            system_time: 1000,
        },
    }
}
