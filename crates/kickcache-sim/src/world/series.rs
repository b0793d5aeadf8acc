//! Many runs, side by side: runs share nothing.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use crate::world::report::{Failure, Summary};
use crate::world::run::run_seed;

/// Which seeds are played.
#[derive(Clone, Copy, Debug)]
pub struct Series {
    /// The first seed.
    pub first: u64,
    /// How many there are.
    pub count: u64,
    /// No run begins after this.
    pub deadline: Option<Instant>,
    /// Runs at a time.
    pub threads: usize,
    /// Whether the first failure ends the series.
    pub until_failure: bool,
}

/// What came of a series.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Runs that were played.
    pub runs: u64,
    /// What they did, those that failed left out.
    pub total: Summary,
    /// What went wrong, by seed.
    pub failures: Vec<Failure>,
}

impl Outcome {
    fn add(&mut self, other: Outcome) {
        self.runs += other.runs;
        self.total.add(&other.total);
        self.failures.extend(other.failures);
        self.failures.sort_unstable_by_key(|failure| failure.seed);
    }
}

/// Plays a series.
pub fn play(series: &Series) -> Outcome {
    let next = AtomicU64::new(0);
    thread::scope(|scope| {
        let workers: Vec<_> = (0..series.threads).map(|_| scope.spawn(|| work(series, &next))).collect();
        let mut outcome = Outcome::default();
        workers.into_iter().for_each(|worker| outcome.add(worker.join().expect("runs catch panics")));
        outcome
    })
}

fn work(series: &Series, next: &AtomicU64) -> Outcome {
    let mut outcome = Outcome::default();
    loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        if number >= series.count || series.deadline.is_some_and(|deadline| Instant::now() > deadline) {
            return outcome;
        }
        outcome.runs += 1;
        match run_seed(series.first.wrapping_add(number)) {
            Ok(summary) => outcome.total.add(&summary),
            Err(failure) => {
                outcome.failures.push(failure);
                if series.until_failure {
                    next.fetch_add(series.count, Ordering::Relaxed);
                }
            }
        }
    }
}
