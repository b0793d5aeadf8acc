//! How fast the simulation itself was.

use std::io::{self, Write};
use std::time::Duration;

use kickcache_model::result::RunResult;
use rustix::time::{ClockId, clock_gettime};

/// Processor time of this thread so far.
pub(crate) fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let seconds = Duration::from_secs(u64::try_from(time.tv_sec).unwrap_or(0));
    seconds + Duration::from_nanos(u64::try_from(time.tv_nsec).unwrap_or(0))
}

/// Accesses that were simulated, and the time that processors took for them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Pace {
    accesses: u64,
    took: Duration,
}

impl Pace {
    pub(crate) fn add(&mut self, runs: &[&RunResult], took: Duration) {
        self.accesses += runs.iter().map(|run| run.count()).sum::<u64>();
        self.took += took;
    }

    /// Prints the pace, if accesses were simulated.
    pub(crate) fn print(self, out: &mut dyn Write) -> io::Result<()> {
        if self.accesses == 0 {
            return Ok(());
        }
        #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
        let millions = self.accesses as f64 / 1e6;
        let seconds = self.took.as_secs_f64();
        writeln!(
            out,
            "\n{millions:.1} million accesses were simulated in {seconds:.0} s of processor time, or {:.2} million a second.",
            millions / seconds
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn waiting_takes_no_processor_time() {
        let (begun, before) = (Instant::now(), processor_time());
        std::thread::sleep(Duration::from_millis(200));
        let spent = processor_time() - before;
        assert!(spent * 2 < begun.elapsed(), "{spent:?}");
        let mut number = 1_u64;
        while processor_time() == before + spent {
            number = std::hint::black_box(number.wrapping_mul(3));
        }
    }
}
