//! The error of the curve that the engine's own policy gives on a sample, against the curve of the whole
//! trace, and the speedup of sampling.
//!
//! `cargo bench -p kickcache-model --bench sampled_curve -- [--one-in=N] TRACE...`: traces, or directories of
//! traces. Caches of 1, 2, 5, 10, 20 and 50 % of the accessed blocks; each block represents four.

use std::path::Path;
use std::time::Instant;

use kickcache_engine::config::SequentialCutoff;
use kickcache_model::trace_file::survey::survey;
use kickcache_model::untimed::sampled::{self, SampledTrial, one_in_max};
use kickcache_model::untimed::{self, Fill, Scale, Trial};

use named_traces::named_traces;

mod named_traces;

const PERCENT: [u64; 6] = [1, 2, 5, 10, 20, 50];
const SCALE: Scale = Scale(4);
const FILLS: [(&str, Fill); 2] = [
    ("exact", Fill::Exact),
    ("wide", Fill::Adaptive { sequential_cutoff: SequentialCutoff::Above(4 << 20) }),
];

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let one_in = words.iter().find_map(|word| word.strip_prefix("--one-in=")?.parse().ok());
    for file in named_traces(&words) {
        measure(&file, one_in);
    }
}

fn measure(path: &Path, one_in: Option<u64>) {
    let survey = survey(path, None).expect("a trace");
    let name = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let cache_blocks: Vec<u64> = PERCENT.iter().map(|percent| survey.footprint * percent / 100).collect();
    let one_in = one_in.unwrap_or_else(|| one_in_max(&survey, cache_blocks[0], SCALE));
    for (what, fill) in FILLS {
        let start = Instant::now();
        let trial = SampledTrial { cache_blocks: cache_blocks.clone(), scale: SCALE, fill, one_in };
        let found = sampled::run(path, &survey, &trial).expect("a run");
        let sampled_seconds = start.elapsed().as_secs_f64();
        let start = Instant::now();
        let mut sum = 0.0;
        let mut points = String::new();
        for (blocks, found) in cache_blocks.iter().zip(found) {
            let trial = Trial { cache_blocks: *blocks, scale: SCALE, fill, write_budget: None };
            let whole = 1.0 - untimed::run(path, &survey, trial).expect("a run").miss_ratio();
            sum += (whole - found.hit_ratio).abs();
            points += &format!("  {whole:.3}/{:.3}+-{:.3}", found.hit_ratio, found.error);
        }
        let whole_seconds = start.elapsed().as_secs_f64();
        println!(
            "{name}, {what}, one in {one_in}: error {:.4}; {sampled_seconds:.1} s, whole {whole_seconds:.1} s;{points}",
            sum / cache_blocks.len() as f64
        );
    }
}
