//! The policy study: the blocks that the engine keeps, compared with policies without a log, case by case.
//!
//! A case is a load in memory with a cache in front; hits count in a range of its accesses, so that the warm-up of the
//! cache can be excluded.

pub mod case;
pub mod finding;
pub mod left_out;
pub mod load;
pub mod practice;

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use kickcache_engine::time::Duration;

use crate::policy_study::case::{Case, Watch};
use crate::policy_study::finding::Finding;
use crate::reference_policy::{self, Misses};
use crate::trace_file::placement::PlacedAccess;
use crate::trace_file::survey::blocks;
use crate::untimed::{Fill, InstantCache, Outcome, Scale, Trial};
use crate::workload::Kind;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ComparedPolicies {
    Policies,
    Nothing,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Setup {
    /// Blocks of the volume that a block of a case represents.
    pub scale: Scale,
    pub beside: ComparedPolicies,
    /// The time of a write to the cache device; 0 if writes end at once.
    pub write_time: Duration,
}

/// Runs a case; only requested blocks are filled.
pub fn run(case: &Case, setup: Setup) -> Finding {
    let accesses = &case.load.accesses;
    let references = match setup.beside {
        ComparedPolicies::Policies => Some(of_policies(accesses, case)),
        ComparedPolicies::Nothing => None,
    };
    let fresh = match case.watch {
        Watch::Shift { at } => {
            let counted_from = case.counted_from - at;
            Some(of_engine(&accesses[at..case.counted_until], case, counted_from, setup))
        }
        Watch::Nothing | Watch::Loop => None,
    };
    let engine = of_engine(&accesses[..case.counted_until], case, case.counted_from, setup);
    let best_static = matches!(case.watch, Watch::Loop).then(|| best_static(case));
    Finding { engine, references, fresh, best_static }
}

/// Runs all cases on all processors; findings are in the order of the cases.
pub fn run_all(cases: &[Case], setup: Setup) -> Vec<Finding> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let next = AtomicUsize::new(0);
    let found: Vec<(&Case, OnceLock<Finding>)> = cases.iter().map(|case| (case, OnceLock::new())).collect();
    let work = || {
        while let Some((case, place)) = found.get(next.fetch_add(1, Ordering::Relaxed)) {
            place.get_or_init(|| run(case, setup));
        }
    };
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    found.into_iter().map(|(_, place)| place.into_inner().expect("each case was run")).collect()
}

fn of_engine(accesses: &[PlacedAccess], case: &Case, counted_from: usize, setup: Setup) -> Outcome {
    let scale = setup.scale;
    let trial = Trial { cache_blocks: case.cache_blocks, scale, fill: Fill::Exact, write_budget: None };
    let volume_bytes = case.load.volume_bytes * scale.0;
    let mut cache = InstantCache::open(volume_bytes, trial)
        .expect("caches of the study are small")
        .with_write_time(setup.write_time);
    let mut before = Outcome::default();
    for (number, access) in accesses.iter().enumerate() {
        if number == counted_from {
            cache.finish();
            before = cache.outcome();
        }
        cache.access(access.at, access.kind, access.extent);
    }
    cache.finish();
    cache.outcome().since(before)
}

fn of_policies(accesses: &[PlacedAccess], case: &Case) -> [Misses; reference_policy::NAMES.len()] {
    let mut policies = reference_policy::all(case.cache_blocks);
    let mut misses = [Misses::default(); reference_policy::NAMES.len()];
    for (number, access) in accesses[..case.counted_until].iter().enumerate() {
        if number == case.counted_from {
            misses = [Misses::default(); reference_policy::NAMES.len()];
        }
        for (misses, policy) in misses.iter_mut().zip(&mut policies) {
            blocks(access.extent).for_each(|block| misses.count(policy.as_mut(), access.kind, block.get()));
        }
    }
    misses
}

/// The hits in the counted part for the best fixed set of blocks that fits the cache.
fn best_static(case: &Case) -> u64 {
    let mut uses = std::collections::HashMap::<u64, u64>::new();
    let counted = &case.load.accesses[case.counted_from..case.counted_until];
    for access in counted.iter().filter(|access| matches!(access.kind, Kind::Read | Kind::Write)) {
        blocks(access.extent).for_each(|block| *uses.entry(block.get()).or_default() += 1);
    }
    let mut counts: Vec<u64> = uses.into_values().collect();
    counts.sort_unstable_by(|one, other| other.cmp(one));
    counts.into_iter().take(usize::try_from(case.cache_blocks).unwrap_or(usize::MAX)).sum()
}

#[cfg(test)]
mod tests;
