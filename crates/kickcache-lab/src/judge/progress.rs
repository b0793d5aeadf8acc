//! How the rounds go, on standard error: a line that changes on a terminal, a line a round elsewhere.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::ProgressBar;
use kickcache_command::bar::bar;
use kickcache_command::notice::notice;

const TICK: Duration = Duration::from_millis(500);

#[derive(Debug)]
pub struct Progress {
    bar: Option<ProgressBar>,
}

impl Progress {
    /// A bar for this many rounds at most, if standard error is a terminal.
    pub fn new(rounds_max: usize) -> Progress {
        let make = || {
            let length = u64::try_from(rounds_max).unwrap_or(u64::MAX);
            let bar = bar(length, "{elapsed} {bar:12} {wide_msg}");
            bar.set_message("the first round");
            bar.enable_steady_tick(TICK);
            bar
        };
        Progress { bar: std::io::stderr().is_terminal().then(make) }
    }

    pub fn say(&self, round: usize, text: String) {
        match &self.bar {
            Some(bar) => {
                bar.set_position(u64::try_from(round).unwrap_or(u64::MAX));
                bar.set_message(text);
            }
            None => notice(&text),
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
