//! Progress of a check on a terminal.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use lab_check::{Progress, Request};

/// How often the bar changes.
const TICK: Duration = Duration::from_millis(100);

/// A bar that fills with the time of the check.
pub(crate) struct Watch {
    bar: ProgressBar,
}

impl Watch {
    /// A bar; hidden where nobody would see it.
    pub(crate) fn new(request: &Request, hidden: bool) -> Self {
        if hidden {
            return Self {
                bar: ProgressBar::hidden(),
            };
        }
        let millis = u64::try_from(request.budget.as_millis()).unwrap_or(u64::MAX);
        let style = ProgressStyle::with_template("{bar:30} {elapsed:>4} {msg}");
        let bar = ProgressBar::new(millis)
            .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.enable_steady_tick(TICK);
        Self { bar }
    }

    /// Shows what has just ended.
    pub(crate) fn show(&mut self, progress: Progress) {
        let Progress {
            scenario,
            done,
            waiting,
            findings,
            elapsed,
        } = progress;
        #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
        let rate = done as f64 / elapsed.as_secs_f64().max(1e-3);
        self.bar
            .set_position(u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX));
        self.bar.set_message(format!(
            "{scenario}: {done} cases, {waiting} to come, {rate:.0}/s, {findings} findings"
        ));
    }

    /// Takes the bar away.
    pub(crate) fn end(&self) {
        self.bar.finish_and_clear();
    }
}
