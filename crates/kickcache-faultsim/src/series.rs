//! Many runs in parallel threads: runs share no state.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::plan::PlanKind;
use crate::report::{Failure, Summary};
use crate::run::run_seed;

/// If a run takes this long, the engine is assumed to be in an endless loop.
const RUN_TIME_MAX: Duration = Duration::from_secs(180);
const WATCH_EVERY: Duration = Duration::from_millis(100);

#[derive(Clone, Copy, Debug)]
pub struct Series {
    pub first: u64,
    pub count: u64,
    /// No run begins after this time.
    pub deadline: Option<Instant>,
    pub threads: usize,
    pub until_failure: bool,
    pub plans: PlanKind,
}

#[derive(Debug, Default)]
pub struct Outcome {
    pub runs: u64,
    /// The sum of the counts of all runs that did not fail.
    pub total: Summary,
    /// The failures, by seed.
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

/// Runs in progress: their seeds, and when they began.
type Running = Mutex<Vec<(u64, Instant)>>;

/// A run that takes more than 180 s ends the process, which names its seed.
pub fn play(series: &Series) -> Outcome {
    let (next, running, is_over) = (AtomicU64::new(0), Running::default(), AtomicBool::new(false));
    thread::scope(|scope| {
        let workers: Vec<_> =
            (0..series.threads).map(|_| scope.spawn(|| work(series, &next, &running))).collect();
        scope.spawn(|| watch(series.plans, &running, &is_over));
        let mut outcome = Outcome::default();
        workers.into_iter().for_each(|worker| outcome.add(worker.join().expect("runs catch panics")));
        is_over.store(true, Ordering::Relaxed);
        outcome
    })
}

fn watch(plans: PlanKind, running: &Running, is_over: &AtomicBool) {
    while !is_over.load(Ordering::Relaxed) {
        thread::sleep(WATCH_EVERY);
        let running = running.lock().expect("no thread panics while it holds the lock");
        if let Some((seed, _)) = running.iter().find(|(_, begun)| begun.elapsed() > RUN_TIME_MAX) {
            eprintln!("{}", Failure { seed: *seed, plans, what: "it does not end".to_owned() });
            std::process::exit(101);
        }
    }
}

fn run_watched(seed: u64, plans: PlanKind, running: &Running) -> Result<Summary, Failure> {
    let list = || running.lock().expect("no thread panics while it holds the lock");
    list().push((seed, Instant::now()));
    let result = run_seed(seed, plans);
    list().retain(|(other, _)| *other != seed);
    result
}

fn work(series: &Series, next: &AtomicU64, running: &Running) -> Outcome {
    let mut outcome = Outcome::default();
    loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        if number >= series.count || series.deadline.is_some_and(|deadline| Instant::now() > deadline) {
            return outcome;
        }
        outcome.runs += 1;
        match run_watched(series.first.wrapping_add(number), series.plans, running) {
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
