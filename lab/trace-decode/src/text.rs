//! Events as lines for people.

use std::io::{self, Write};

use trace_format::{Form, Level};

use crate::catalogue::{self, Site};
use crate::stream::{Event, Loss, Time};
use crate::value::values;

/// Writes lines.
#[derive(Clone, Copy, Debug)]
pub struct Printer {
    /// Colours for a terminal.
    pub colours: bool,
    /// File and line behind each event.
    pub places: bool,
}

const RESET: &str = "\x1b[0m";

/// Colour of a level; Source: ECMA-48 §8.3.117 (SGR).
const fn colour(level: Level) -> &'static str {
    match level {
        Level::Critical | Level::Error => "\x1b[31m",
        Level::Warning => "\x1b[33m",
        Level::Information => "\x1b[32m",
        Level::Verbose => "\x1b[2m",
    }
}

/// The last two parts of a path, which are what one looks for, without the types that were put in.
#[must_use]
pub fn short(function: &str) -> String {
    let plain = catalogue::plain(function);
    let start = plain.rmatch_indices("::").nth(1);
    plain[start.map_or(0, |(at, _)| at + 2)..].to_owned()
}

/// What an event says before its arguments: where, and in words.
#[must_use]
pub fn headline(site: &Site) -> String {
    let mark = match site.form {
        Form::Message => "",
        Form::Enter => "> ",
        Form::Exit | Form::ScopeExit => "< ",
    };
    let mut line = format!("{mark}{}", short(&site.function));
    for caller in &site.callers {
        line += " < ";
        line += &short(caller);
    }
    if site.form == Form::Message {
        line += ": ";
        line += &site.text;
    }
    line
}

impl Printer {
    /// Writes an event.
    ///
    /// # Errors
    /// What `to` says.
    pub fn event(&self, to: &mut impl Write, event: &Event, time: &Time) -> io::Result<()> {
        match time.ns(event.ticks) {
            Some(ns) => write!(to, "{:>14.6}", ns / 1e6)?,
            None => write!(to, "{:>#14x}", event.ticks)?,
        }
        let lane = if event.at_dispatch { '!' } else { ' ' };
        write!(to, " [{:>3}]{lane}", event.processor)?;
        let Some(site) = &event.site else {
            return writeln!(
                to,
                " an event that the driver file does not have: id {:#x}",
                event.id
            );
        };
        self.site(to, site)?;
        for (name, value) in values(site, event.words.as_slice()) {
            write!(to, " {name}={value}")?;
        }
        if self.places {
            write!(to, "  ({}:{})", site.file, site.line)?;
        }
        writeln!(to)
    }

    fn site(&self, to: &mut impl Write, site: &Site) -> io::Result<()> {
        let (on, off) = if self.colours {
            (colour(site.level), RESET)
        } else {
            ("", "")
        };
        write!(
            to,
            " {on}{:<11}{off} {:<8} {}",
            site.level.name(),
            site.flag_name,
            headline(site)
        )
    }

    /// Writes a loss.
    ///
    /// # Errors
    /// What `to` says.
    pub fn loss(&self, to: &mut impl Write, loss: &Loss) -> io::Result<()> {
        let lane = if loss.ring % 2 == 1 { '!' } else { ' ' };
        writeln!(
            to,
            "{:>14} [{:>3}]{lane} {} slots lost",
            "",
            loss.ring / 2,
            loss.slots
        )
    }
}

#[cfg(test)]
mod tests {
    use super::short;

    #[test]
    fn functions_are_named_by_their_last_two_parts() {
        assert_eq!(short("a::b::c"), "b::c");
        assert_eq!(short("b::c"), "b::c");
        assert_eq!(short("c"), "c");
        assert_eq!(short("a::b<u>::c<x::y<z>>"), "b::c");
    }
}
