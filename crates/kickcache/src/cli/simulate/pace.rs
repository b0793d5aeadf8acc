//! How fast the simulation itself was.

use std::io::{self, Write};
use std::time::Duration;

use kickcache_model::result::RunResult;

/// Accesses that were simulated, and the time that processors took for them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Pace {
    accesses: u64,
    took: Duration,
}

impl Pace {
    /// Counts runs that took so long together, with what prepared them.
    pub(crate) fn add(&mut self, runs: &[&RunResult], took: Duration) {
        self.accesses += runs.iter().map(|run| run.count()).sum::<u64>();
        self.took += took;
    }

    /// Says it in a line; nothing if nothing was simulated.
    pub(crate) fn print(self, out: &mut dyn Write) -> io::Result<()> {
        if self.accesses == 0 {
            return Ok(());
        }
        #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
        let millions = self.accesses as f64 / 1e6;
        let seconds = self.took.as_secs_f64();
        writeln!(
            out,
            "\n{millions:.1} million accesses were simulated in {seconds:.0} s of one processor, or {:.2} million a second.",
            millions / seconds
        )
    }
}
