//! A sample against the whole trace.

use std::path::PathBuf;

use super::*;
use crate::trace_file::survey::survey;
use crate::untimed;
use kickcache_engine::config::SequentialCutoff;

const SCALE: Scale = Scale(4);

fn excerpt() -> (PathBuf, Survey) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/untimed/tests/gen_dev.csv.xz");
    let survey = survey(&path, None).unwrap();
    (path, survey)
}

fn mean_error(cache_blocks: &[u64], fill: Fill, one_in: u64) -> f64 {
    let (path, survey) = excerpt();
    let trial = SampledTrial { cache_blocks: cache_blocks.to_vec(), scale: SCALE, fill, one_in };
    let found = run(&path, &survey, &trial).unwrap();
    let off = |(found, cache_blocks): (&SampledOutcome, &u64)| {
        let trial = Trial { cache_blocks: *cache_blocks, scale: SCALE, fill, write_budget: None };
        let whole = 1.0 - untimed::run(&path, &survey, trial).unwrap().miss_ratio();
        (whole - found.hit_ratio).abs()
    };
    found.iter().zip(cache_blocks).map(off).sum::<f64>() / float(cache_blocks.len() as u64)
}

fn sizes() -> Vec<u64> {
    let (_, survey) = excerpt();
    [10, 50].map(|percent| survey.footprint * percent / 100).to_vec()
}

#[test]
fn a_sample_of_everything_gives_the_exact_result() {
    for fill in [Fill::Exact, Fill::Adaptive { sequential_cutoff: SequentialCutoff::Above(4 << 20) }] {
        let error = mean_error(&sizes(), fill, 1);
        assert!(error < 0.02, "{fill:?}: {error}");
    }
}

#[test]
fn half_of_the_extents_give_about_the_hits_of_all() {
    let error = mean_error(&sizes(), Fill::Exact, 2);
    assert!(error < 0.03, "{error}");
}

#[test]
fn a_sample_is_as_small_as_its_minima_permit() {
    let (_, survey) = excerpt();
    let with_reads = |reads: u64, footprint: u64, smallest: u64| {
        one_in_max(&Survey { footprint, reads, ..survey.clone() }, smallest, Scale(4))
    };
    let large = 1 << 30;
    let of = |footprint, smallest| with_reads(1 << 50, footprint, smallest);
    assert_eq!([99_999, 700_000].map(|reads| with_reads(reads, 1 << 28, large)), [1, 7]);
    assert_eq!(of(8_191, large), 1);
    assert_eq!(of(1 << 28, large), (1 << 28) * 4 / 256 / SAMPLED_EXTENTS_MIN);
    assert_eq!(of(1 << 28, 10 * blocks_min(Scale(4))), 10);
    assert_eq!(of(1 << 28, 0), 1);
}
