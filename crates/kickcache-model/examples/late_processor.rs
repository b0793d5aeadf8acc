//! The requests to the origin if the daemon gets a processor late each time it wakes, as a Markdown table.

use kickcache_engine::config::OriginOffload;
use kickcache_model::replay::late_processor::LateProcessor;

const MIB: u64 = 1 << 20;
const READS: u64 = 80_000;

fn main() {
    println!("| data | origin offload | seed | first {READS} reads | {READS} reads after them |");
    println!("|---|---|---|---|---|");
    for times in [1, 12] {
        for offload in [OriginOffload::Never, OriginOffload::Proven] {
            for seed in 1..=3 {
                let cache_bytes = 256 * MIB;
                let data_bytes = times * cache_bytes;
                let scene = LateProcessor {
                    cache_bytes,
                    data_bytes,
                    first_reads: READS,
                    reads: READS,
                    offload,
                    seed,
                };
                let found = scene.run();
                let (first, later) = (found.first, found.later);
                println!("| {times}x the cache | {offload:?} | {seed} | {first:.1} | {later:.1} |");
            }
        }
    }
}
