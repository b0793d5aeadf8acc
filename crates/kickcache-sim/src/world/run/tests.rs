use super::*;
use crate::world::run::stand_in::{Flaw, StandIn};

/// How many of the seeds find something.
fn findings<const FLAW: u8>(seeds: std::ops::Range<u64>) -> Vec<Failure> {
    seeds.filter_map(|seed| run_subject::<StandIn<FLAW>>(seed, Printing::Silent).err()).collect()
}

#[test]
fn no_seed_finds_anything() {
    let mut total = Summary::default();
    for seed in 0..300 {
        match run_seed(seed) {
            Ok(summary) => total.add(&summary),
            Err(failure) => panic!("{failure}"),
        }
    }
    println!("{total:#?}");
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for seed in 1_000..1_010 {
        let (one, two) = (run_seed(seed), run_seed(seed));
        assert_eq!(one.map(|summary| summary.trace_hash), two.map(|summary| summary.trace_hash));
    }
}

#[test]
fn a_faultless_stand_in_passes() {
    let found = findings::<{ Flaw::NONE }>(0..100);
    assert!(found.is_empty(), "{}", found[0]);
}

#[test]
fn each_flaw_of_the_stand_in_is_found() {
    let found = [
        findings::<{ Flaw::FLUSH_DOES_NOTHING }>(0..40),
        findings::<{ Flaw::FUA_IGNORED }>(0..40),
        findings::<{ Flaw::EARLY_REPLY }>(0..40),
        findings::<{ Flaw::LOST_TAIL }>(0..40),
        findings::<{ Flaw::STUCK_AT_STOP }>(0..40),
        findings::<{ Flaw::STALE_READ }>(0..40),
        findings::<{ Flaw::WRONG_PLACE }>(0..40),
    ];
    for (flaw, failures) in found.iter().enumerate() {
        let text = failures.first().map(ToString::to_string).unwrap_or_default();
        println!(
            "flaw {}: {} of 40 seeds, first: {}",
            flaw + 1,
            failures.len(),
            &text[..text.len().min(300)]
        );
    }
    assert!(found.iter().all(|failures| !failures.is_empty()));
}

#[test]
#[ignore = "prints a trace for SEED"]
fn trace_of_the_stand_in() {
    let seed = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0);
    println!("{:?}", run_subject::<StandIn<{ Flaw::NONE }>>(seed, Printing::Lines).err());
}
