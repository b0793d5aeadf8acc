//! Plants one flaw after the other in the engine and counts the seeds that the fault simulation needs to find it:
//! `kickcache-mutants [--count N] [NAME...]`.

use std::process::ExitCode;

use kickcache_engine::mutants::{Mutant, plant};
use kickcache_faultsim::plan::PlanKind;
use kickcache_faultsim::seeds::first_seed;
use kickcache_faultsim::series::{Outcome, Series, play};

/// Twice the seeds of the gate: the rarest flaws come after 300 to 600 on average, and with 2,000 one commit in thirty would miss one
/// by chance.
const COUNT: u64 = 4_000;

/// Flaws that are played only by name: too rare in the regular draw for the gate, or not yet counted with it.
const BY_NAME: [Mutant; 32] = [
    Mutant::SealedOldErrorForgiven,
    Mutant::CompleteTooEarly,
    Mutant::UnflushedCalledComplete,
    Mutant::CompleteAfterFailedFlush,
    Mutant::PastCacheNotFlushed,
    Mutant::FlushWithoutOrigin,
    Mutant::VolatileSuperseded,
    Mutant::SupersedingNotAwaited,
    Mutant::CleanNotForgotten,
    Mutant::RefusedStaysUnflushed,
    Mutant::ReplacedBecomesClean,
    Mutant::UnflushedPassedBy,
    Mutant::DiscardedNotBroughtBack,
    Mutant::OutdatedCheckpoint,
    Mutant::PartialCheckpoint,
    Mutant::CheckpointEndsEarly,
    Mutant::CheckpointNotFlushed,
    Mutant::FailedChunkIgnored,
    Mutant::EmptiedDespiteFailure,
    Mutant::KeptForgotten,
    Mutant::OlderDirtyForgotten,
    Mutant::RefusedIsAtOrigin,
    Mutant::UndoneForOthers,
    Mutant::KeptStaysInSweep,
    Mutant::PassedOnForgotten,
    Mutant::LostBatchNotAwaited,
    Mutant::LostDurableIgnored,
    Mutant::SealUnpinned,
    Mutant::DiscardJoinsFill,
    Mutant::RefusedTogether,
    Mutant::GoneNotCounted,
    Mutant::SweptAbsorbed,
];

fn hunt(mutant: Mutant, count: u64) -> Outcome {
    plant(Some(mutant));
    let (first, plans) = (first_seed(), PlanKind::Any);
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
    println!("first seed {}", first_seed());
    for mutant in Mutant::ALL {
        let name = format!("{mutant:?}");
        let is_meant = if words.is_empty() { !BY_NAME.contains(mutant) } else { words.contains(&name) };
        if !is_meant {
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
