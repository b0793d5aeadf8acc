//! Many runs of the real engine; the commit or `KICKCACHE_SEED` decides the seeds.

use std::time::{Duration, Instant};

use kickcache_faultsim::plan::PlanKind;
use kickcache_faultsim::seeds::first_seed;
use kickcache_faultsim::series::{Series, play};

const RUNS: u64 = 2_000;
/// No run begins after this time.
const TIME: Duration = Duration::from_secs(120);

#[test]
fn seeds_of_this_commit_find_no_faults() {
    let first = first_seed();
    let deadline = Some(Instant::now() + TIME);
    let plans = PlanKind::Any;
    let outcome = play(&Series { first, count: RUNS, deadline, threads: 2, until_failure: false, plans });
    let crashes = outcome.total.kills + outcome.total.power_cuts;
    eprintln!("{} runs from seed {first} with {crashes} crashes: {:#?}", outcome.runs, outcome.total);
    outcome.failures.iter().for_each(|failure| eprintln!("{failure}"));
    assert!(outcome.failures.is_empty(), "{} seeds failed: {}", outcome.failures.len(), outcome.failures[0]);
    assert!(crashes > outcome.runs, "runs crash more than once: {crashes} crashes in {} runs", outcome.runs);
}
