//! The progress bar: the state and the rate of the demo. It is shown on a terminal only.

use std::time::Duration;

use indicatif::ProgressBar;
use kickcache_command::bar::bar;

use crate::demo::load::Glance;

/// The least time over which the live rate is measured.
const RATE_EVERY: Duration = Duration::from_millis(400);

pub(crate) struct Progress {
    bar: ProgressBar,
    before: Duration,
    /// The run's last glance that its rate was measured from.
    last: Glance,
}

const NOTHING: Glance = Glance { elapsed: Duration::ZERO, operations: Some(0) };

impl Progress {
    pub(crate) fn new(whole: Duration) -> Progress {
        let bar = bar(millis(whole), "{msg:<26} {bar:30} {percent:>3} %  {prefix:>13}");
        Progress { bar, before: Duration::ZERO, last: NOTHING }
    }

    pub(crate) fn say(&mut self, what: &str) {
        self.last = NOTHING;
        self.bar.set_prefix("");
        self.bar.set_message(what.to_owned());
        self.bar.tick();
    }

    pub(crate) fn show(&mut self, glance: Glance) {
        self.bar.set_position(millis(self.before + glance.elapsed));
        let (Some(now), Some(before)) = (glance.operations, self.last.operations) else { return };
        let span = glance.elapsed.saturating_sub(self.last.elapsed);
        if span >= RATE_EVERY {
            let rate = now.saturating_sub(before) as f64 / span.as_secs_f64();
            self.bar.set_prefix(format!("{rate:.0} IOPS"));
            self.last = glance;
        }
    }

    pub(crate) fn finish_run(&mut self, duration: Duration) {
        self.before += duration;
        self.bar.set_position(millis(self.before));
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
