//! Plants one flaw after the other in the engine and counts the seeds that the fault simulation needs to find it:
//! `kickcache-mutants [--count N] [NAME...]`.

use std::process::ExitCode;

use kickcache_engine::mutants::{Mutant, plant};
use kickcache_faultsim::plan::PlanKind;
use kickcache_faultsim::seeds::first_seed_or;
use kickcache_faultsim::series::{Outcome, Series, play};

/// Twice the seeds of the gate.
const COUNT: u64 = 4_000;

/// The first seed, unless `KICKCACHE_SEED` sets another. It does not depend on the commit: a dozen flaws take 1,000
/// seeds or more on average. If each commit had its own seeds, one commit in three would miss one of these flaws by
/// chance.
const FIRST_SEED: u64 = 420_420;

fn hunt(mutant: Mutant, count: u64) -> Outcome {
    plant(Some(mutant));
    let (first, plans) = (first_seed_or(FIRST_SEED), PlanKind::Any);
    let series = Series { first, count, deadline: None, threads: 2, until_failure: true, plans };
    let outcome = play(&series);
    plant(None);
    outcome
}

fn main() -> ExitCode {
    std::panic::set_hook(Box::new(|_| {}));
    let mut words: Vec<String> = std::env::args().skip(1).collect();
    let mut count = COUNT;
    if words.first().is_some_and(|word| word == "--count") && words.len() > 1 {
        count = words[1].parse().unwrap_or(COUNT);
        words.drain(..2);
    }
    let mut missed = 0;
    println!("first seed {}", first_seed_or(FIRST_SEED));
    for mutant in Mutant::ALL {
        let name = format!("{mutant:?}");
        if !words.is_empty() && !words.contains(&name) {
            continue;
        }
        let outcome = hunt(*mutant, count);
        match outcome.failures.first() {
            Some(failure) => {
                let what: String = failure.what.chars().take(110).collect();
                println!("{name:<28} found after {:>4} seeds: {}", outcome.runs, what.replace('\n', " "));
            }
            None => {
                missed += 1;
                println!("{name:<28} NOT FOUND by {} seeds", outcome.runs);
            }
        }
    }
    println!("{missed} flaws were not found");
    if missed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
