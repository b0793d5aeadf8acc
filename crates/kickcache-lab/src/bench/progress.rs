//! The progress bar: the present run, and the remaining time. It is shown on a terminal only.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

const STYLE: &str = "{bar:30} {percent:>3} %, {eta} left  {msg}";

/// The bar is removed when this is dropped.
pub(super) struct Progress {
    bar: ProgressBar,
    /// Planned milliseconds of the runs that have ended.
    before: u64,
}

impl Progress {
    pub(super) fn new(whole: Duration) -> Progress {
        let bar = ProgressBar::new(millis(whole));
        if let Ok(style) = ProgressStyle::with_template(STYLE) {
            bar.set_style(style);
        }
        Progress { bar, before: 0 }
    }

    pub(super) fn say(&self, what: String) {
        self.bar.set_message(what);
        self.bar.tick();
    }

    pub(super) fn show(&self, elapsed: Duration, length: Duration) {
        self.bar.set_position(self.before + millis(elapsed.min(length)));
    }

    pub(super) fn finish_run(&mut self, length: Duration) {
        self.before += millis(length);
        self.bar.set_position(self.before);
    }

    pub(super) fn add(&self, length: Duration) {
        self.bar.inc_length(millis(length));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
