//! Two thousand runs of the real engine, of seeds that the commit decides.

use std::time::{Duration, Instant};

use kickcache_sim::world::seeds::first_seed;
use kickcache_sim::world::series::{Series, play};

/// Runs of the gate.
const RUNS: u64 = 2_000;
/// A slow machine plays fewer.
const TIME: Duration = Duration::from_secs(120);

#[test]
fn no_seed_of_this_commit_finds_anything() {
    let first = first_seed();
    let deadline = Some(Instant::now() + TIME);
    let outcome = play(&Series { first, count: RUNS, deadline, threads: 2, until_failure: true });
    let crashes = outcome.total.kills + outcome.total.power_cuts;
    eprintln!("{} runs from seed {first} with {crashes} crashes: {:#?}", outcome.runs, outcome.total);
    if let Some(failure) = outcome.failures.first() {
        panic!("{failure}");
    }
    assert!(crashes > outcome.runs, "runs crash more than once: {crashes} crashes in {} runs", outcome.runs);
}
