//! Chooses the flavour: by feature, else by the variables that drivers built with WPP know.

use std::env::var_os;

/// A flavour, the feature that chooses it, and the variable; the first that is asked for is it.
const FLAVOURS: [(&str, &str, &str); 3] = [
    (
        "unchecked",
        "CARGO_FEATURE_UNCHECKED",
        "FORCE_RUN_UNCHECKED",
    ),
    ("debug", "CARGO_FEATURE_DEBUG", "FORCE_RUN_DEBUG"),
    ("all", "CARGO_FEATURE_ALL", "RUN_WPP_ALL_PATHS"),
];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!(
        "cargo::rustc-check-cfg=cfg(flavour, values(\"unchecked\", \"cold\", \"all\", \"debug\"))"
    );
    for (_, _, variable) in FLAVOURS {
        println!("cargo::rerun-if-env-changed={variable}");
    }
    let is_set = |name: &str| var_os(name).is_some_and(|value| !value.is_empty() && value != "0");
    let chosen = FLAVOURS
        .into_iter()
        .find(|(_, feature, variable)| is_set(feature) || is_set(variable));
    let flavour = chosen.map_or("cold", |(flavour, ..)| flavour);
    println!("cargo::rustc-cfg=flavour=\"{flavour}\"");
}
