//! Folded stacks, and the flame graph made of them.

use super::About;
use crate::profile::{
    Located, Place, Profile, Symbols,
    hot::{KERNEL, UNKNOWN},
};
use inferno::flamegraph::{self, Options};
use std::{
    collections::BTreeMap,
    io::{self, Write},
};

/// What stands for a call stack, outermost first: the process, the module, and functions inlined into each other.
pub type Stack = Vec<String>;

/// The stack of a sample. With several events, the event comes first.
pub(super) fn stack(profile: &Profile, symbols: &mut Symbols, located: &Located) -> Stack {
    let sample = &located.sample;
    let mut stack = Vec::new();
    if profile.sources.len() > 1 {
        let source = profile.sources.get(sample.source);
        stack.extend(source.map(|source| source.name.clone()));
    }
    stack.push(profile.process_name(sample.pid));
    match located.place {
        Place::Kernel => stack.push(KERNEL.to_owned()),
        Place::Unknown => stack.push(UNKNOWN.to_owned()),
        Place::Module(id) => {
            stack.push(profile.module(id).name.clone());
            let resolved = symbols.of(profile, located);
            let names = resolved.frames.iter().rev();
            stack.extend(names.filter_map(|frame| frame.function.clone()));
            if resolved.function().is_none() {
                stack.push(UNKNOWN.to_owned());
            }
        }
    }
    stack
}

/// Each stack with the number of its samples.
#[must_use]
pub fn stacks(profile: &Profile, symbols: &mut Symbols) -> BTreeMap<Stack, u64> {
    let mut counts = BTreeMap::new();
    for located in &profile.samples {
        *counts.entry(stack(profile, symbols, located)).or_default() += 1;
    }
    counts
}

fn lines(profile: &Profile, symbols: &mut Symbols) -> Vec<String> {
    // What separates frames, and stacks, may be in none of them.
    let frame = |name: &String| name.replace(';', ":").replace(char::is_control, " ");
    let line = |(stack, count): (&Stack, &u64)| {
        let frames: Vec<String> = stack.iter().map(frame).collect();
        format!("{} {count}", frames.join(";"))
    };
    stacks(profile, symbols).iter().map(line).collect()
}

pub(super) fn write(
    profile: &Profile,
    symbols: &mut Symbols,
    to: &mut impl Write,
) -> io::Result<()> {
    for line in lines(profile, symbols) {
        writeln!(to, "{line}")?;
    }
    Ok(())
}

pub(super) fn flame_graph(
    profile: &Profile,
    symbols: &mut Symbols,
    about: &About,
    to: &mut impl Write,
) -> io::Result<()> {
    let lines = lines(profile, symbols);
    let mut options = Options::default();
    options.title = about.command.join(" ");
    let events: Vec<&str> = profile.sources.iter().map(|s| s.name.as_str()).collect();
    options.subtitle = Some(format!(
        "{} samples of {}",
        profile.samples.len(),
        events.join(", ")
    ));
    options.count_name = "samples".to_owned();
    // The same samples give the same picture.
    options.hash = true;
    if lines.is_empty() {
        return write!(to, "{}", empty(&options));
    }
    flamegraph::from_lines(&mut options, lines.iter().map(String::as_str), to)
}

/// A picture that says that there is nothing to see.
fn empty(options: &Options<'_>) -> String {
    let title = options.title.replace('&', "&amp;").replace('<', "&lt;");
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"600\" height=\"60\"><text x=\"10\" y=\"35\">{title}: no samples</text></svg>\n"
    )
}
