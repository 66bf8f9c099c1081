//! The live display of a run that takes long.

use super::output::Console;
use indicatif::{ProgressBar, ProgressStyle};
use std::time::Duration;

/// A bar when it is known how long it takes, else a spinner; nothing where nobody sees it.
#[must_use]
pub fn bar(console: &Console<'_>, what: &'static str, total: Option<Duration>) -> ProgressBar {
    if !console.shows_progress_bar() {
        return ProgressBar::hidden();
    }
    let (bar, template) = match total {
        Some(total) => (
            ProgressBar::new(millis(total)),
            "{prefix} ... [{bar:40}] {pos} of {len} ms {msg}",
        ),
        None => (
            ProgressBar::new_spinner(),
            "{prefix} ... {spinner} {elapsed} {msg}",
        ),
    };
    let style = ProgressStyle::with_template(template);
    let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
    bar.with_style(style).with_prefix(what)
}

/// Shows the time since the start.
pub fn advance(bar: &ProgressBar, since: Duration) {
    bar.set_position(millis(since));
    bar.tick();
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
