//! How many accesses a second the sampler of hit-ratio curves takes, and how far its curves are from exact ones.
//!
//! `cargo bench -p kickcache-model --bench hit_ratio_curve -- TRACE...`: traces, or directories of traces;
//! without arguments, skewed accesses (zipf 0.9 over a million blocks). Blocks of 4 KiB; reads and writes
//! count alike. Error: the mean absolute difference to the exact LRU curve at 50 sizes, from 2 to 100 % of
//! the accessed blocks.

use std::collections::HashMap;
use std::path::Path;
use std::time::Instant;

use kickcache_curve::curve::HitRatioCurve;
use kickcache_curve::sampler::LruSampler;
use kickcache_model::trace_file::placement::accesses;
use kickcache_model::trace_file::survey::{blocks, survey};
use kickcache_model::workload::Kind;
use kickcache_model::zipf::Zipf;

use named_traces::named_traces;

mod named_traces;

const SAMPLES: [u32; 2] = [8_192, 32_768];
const SIZES: u64 = 50;
const ROUNDS: usize = 5;
const ACCESSES_MIN: usize = 10_000_000;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let files = named_traces(&words);
    println!(
        "trace, accesses, blocks: samples, million accesses/s (median of {ROUNDS}; min-max), error, worst point, within"
    );
    if files.is_empty() {
        let mut zipf = Zipf::new(1 << 20, 0.9, 1);
        measure("zipf 0.9", &(0..ACCESSES_MIN).map(|_| zipf.next()).collect::<Vec<u64>>());
    }
    for file in files {
        let name = file.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        measure(&name, &decode(&file));
    }
}

fn decode(path: &Path) -> Vec<u64> {
    let survey = survey(path, None).expect("a trace");
    let all = accesses(path, &survey).expect("a trace").map(|access| access.expect("it was read before"));
    let touching = all.filter(|access| matches!(access.kind, Kind::Read | Kind::Write));
    touching.flat_map(|access| blocks(access.extent)).map(|block| block.get()).collect()
}

fn measure(name: &str, accesses: &[u64]) {
    let exact = Exact::of(accesses);
    for samples in SAMPLES {
        let mut rates: Vec<f64> = (0..ROUNDS).map(|_| rate(samples, accesses)).collect();
        rates.sort_by(f64::total_cmp);
        let mut sampler = LruSampler::new(samples);
        accesses.iter().for_each(|block| sampler.count(*block));
        let off = Difference::between(&exact, &sampler.curve());
        println!(
            "{name}, {}, {}: {samples} in {} KiB, {:.1} ({:.1}-{:.1}), {:.4}, {:.3}, {:.0} %",
            accesses.len(),
            exact.footprint,
            sampler.memory_bytes() >> 10,
            rates[ROUNDS / 2],
            rates[0],
            rates[ROUNDS - 1],
            off.mean,
            off.most,
            off.within * 100.0
        );
    }
}

/// Million accesses a second; short traces are repeated by new samplers.
fn rate(samples: u32, accesses: &[u64]) -> f64 {
    let times = ACCESSES_MIN.div_ceil(accesses.len().max(1));
    let mut samplers: Vec<LruSampler> = (0..times).map(|_| LruSampler::new(samples)).collect();
    let start = Instant::now();
    for sampler in &mut samplers {
        accesses.iter().for_each(|block| sampler.count(*block));
    }
    let seconds = start.elapsed().as_secs_f64();
    (times * accesses.len()) as f64 / seconds / 1e6
}

struct Difference {
    mean: f64,
    most: f64,
    within: f64,
}

impl Difference {
    fn between(exact: &Exact, curve: &HitRatioCurve) -> Difference {
        let mut found = Difference { mean: 0.0, most: 0.0, within: 0.0 };
        for part in 1..=SIZES {
            let size = exact.footprint * part / SIZES;
            let point = curve.at(size);
            let off = (point.hit_ratio - exact.hit_ratio(size)).abs();
            found.mean += off / SIZES as f64;
            found.most = found.most.max(off);
            found.within += f64::from(u8::from(off <= point.error)) / SIZES as f64;
        }
        found
    }
}

/// The LRU curve from every access: a Fenwick tree over time.
struct Exact {
    accesses: u64,
    footprint: u64,
    hits: Vec<u64>,
}

impl Exact {
    fn of(accesses: &[u64]) -> Exact {
        let mut tree = vec![0_u32; accesses.len() + 1];
        let mut last: HashMap<u64, usize> = HashMap::new();
        let mut depths: Vec<u64> = vec![0];
        let below = |tree: &[u32], mut end: usize| {
            let mut sum = 0;
            while end > 0 {
                sum += tree[end];
                end &= end - 1;
            }
            sum
        };
        for (now, block) in accesses.iter().enumerate() {
            let distinct = last.len();
            if let Some(before) = last.insert(*block, now) {
                let depth = distinct - below(&tree, before + 1) as usize + 1;
                depths.resize(depths.len().max(depth + 1), 0);
                depths[depth] += 1;
                add(&mut tree, before + 1, u32::MAX);
            }
            add(&mut tree, now + 1, 1);
        }
        let mut sum = 0;
        let hits = depths.iter().map(|count| {
            sum += count;
            sum
        });
        Exact { accesses: accesses.len() as u64, hits: hits.collect(), footprint: last.len() as u64 }
    }

    fn hit_ratio(&self, blocks: u64) -> f64 {
        let index = usize::try_from(blocks).expect("a size").min(self.hits.len() - 1);
        self.hits[index] as f64 / self.accesses as f64
    }
}

fn add(tree: &mut [u32], mut node: usize, amount: u32) {
    while let Some(sum) = tree.get_mut(node) {
        *sum = sum.wrapping_add(amount);
        node += node & node.wrapping_neg();
    }
}
