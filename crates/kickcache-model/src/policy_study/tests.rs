use std::sync::Arc;

use super::*;
use crate::policy_study::load::Load;

const SCALE: Scale = Scale(4);

const fn setup(beside: ComparedPolicies) -> Setup {
    Setup { scale: SCALE, beside, write_time: Duration::from_nanos(0) }
}

#[test]
fn a_loop_that_fits_always_hits_after_its_first_pass() {
    let load = Arc::new(Load::repeat("loop", 2_000, 5));
    let case = Case { counted_from: 4_000, watch: Watch::Loop, ..Case::whole(&load, 4_096, "all") };
    let found = run(&case, setup(ComparedPolicies::Policies));
    assert_eq!((found.engine.touched_blocks, found.engine.missed_blocks), (6_000 * SCALE.0, 0));
    assert_eq!(found.references.unwrap().map(|misses| misses.missed_blocks), [0; 6]);
    assert_eq!(found.best_static, Some(6_000));
    assert!((found.part_of_best(SCALE.0).unwrap() - 1.0).abs() < 1e-9);
}

#[test]
fn the_best_set_of_a_loop_fills_the_cache() {
    let load = Arc::new(Load::repeat("loop", 1_000, 4));
    let case = Case { counted_from: 1_000, watch: Watch::Loop, ..Case::whole(&load, 250, "a quarter") };
    assert_eq!(best_static(&case), 750);
}

#[test]
fn a_shift_uses_other_blocks_and_empties_the_cache() {
    let case = &Case::shifts(1_024)[3];
    let Watch::Shift { at } = case.watch else { panic!("a shift") };
    let block = |number: usize| case.load.accesses[number].extent.start / 4096;
    assert_eq!((block(0), block(at)), (0, 1_024 * 15 / 10), "{}", case.name);
    let found = run(case, setup(ComparedPolicies::Nothing));
    assert_eq!(found.fresh.unwrap().missed_blocks, 0, "it fits, and was read twice");
    assert_eq!(found.engine.touched_blocks, 2 * 1_024 * SCALE.0);
}
