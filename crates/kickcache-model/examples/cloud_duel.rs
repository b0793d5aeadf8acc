//! `scripts/duel --cloud` in virtual time: as a Markdown table.
//!
//!     cloud_duel [SECONDS [SEED [CACHE,...]]]
//!
//! Seconds of each workload (20), the seed (1), and the caches.

use std::time::Duration;

use kickcache_model::cache_model::cache_kind::CacheKind;
use kickcache_model::replay::cloud_duel::{CACHE_BYTES, ORIGIN_BYTES, WORKLOADS, cloud_duel};
use kickcache_model::result::DeviceResult;

const CACHES: &str = "bcache-no-cutoff,kickcache-write-back";

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, usual: u64| words.get(at).map_or(usual, |text| text.parse().expect("a number"));
    let (seconds, seed) = (number(0, 20), number(1, 1));
    let caches = words.get(2).map_or(CACHES, String::as_str);
    println!("| work | cache | rate | p50 ms | p99 ms | SSD requests | HDD requests |");
    println!("|---|---|---|---|---|---|---|");
    let results: Vec<_> = caches
        .split(',')
        .map(|name| {
            let kind: CacheKind = name.parse().expect("a known cache");
            let mut cache = kind.start(CACHE_BYTES, ORIGIN_BYTES, seed).expect("possible sizes");
            (name, cloud_duel(&mut *cache, seconds, seed))
        })
        .collect();
    for (at, work) in WORKLOADS.iter().enumerate() {
        for (name, results) in &results {
            let result = &results[at];
            let requests = |device: &Option<DeviceResult>| {
                device.as_ref().map_or(0, |device| device.reads + device.writes)
            };
            let latencies = result.latencies();
            let millis = |nanos: u64| Duration::from_nanos(nanos).as_secs_f64() * 1e3;
            println!(
                "| {} | {name} | {:.1} | {:.1} | {:.1} | {} | {} |",
                work.name,
                work.figure(result),
                millis(latencies.p50()),
                millis(latencies.p99()),
                requests(&result.cache_device),
                requests(&result.origin_device),
            );
        }
    }
}
