//! `scripts/duel` in virtual time, in seconds: as a Markdown table.
//!
//! Three numbers may follow: microseconds of a client for each request (100), the limit of the fast disk in requests a
//! second (0 is none), and the seed (1).

use kickcache_engine::time::Duration;
use kickcache_model::cache_model::cache_kind::CacheKind;
use kickcache_model::replay::duel::{Duel, ORIGIN_BYTES, Start, Work};

const CACHE_BYTES: u64 = 256 << 20;
const CASES: [(u64, Start, Work); 5] = [
    (1, Start::Cold, Work::Read),
    (1, Start::Stale, Work::Read),
    (12, Start::Cold, Work::Read),
    (12, Start::Stale, Work::Read),
    (1, Start::Cold, Work::Write),
];

fn main() {
    let number = |text: String| text.parse::<u32>().expect("a number");
    let mut numbers = std::env::args().skip(1).map(number);
    let cost = Duration::from_micros(numbers.next().unwrap_or(100).into());
    let ssd_iops = numbers.next().filter(|limit| *limit > 0);
    let seed = u64::from(numbers.next().unwrap_or(1));
    println!(
        "| data | cache is | work | cache | HDD requests | HDD MiB read | HDD MiB written | SSD MiB written |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for (data_times, start, work) in CASES {
        for name in ["dm-cache-write-back", "bcache-no-cutoff", "kickcache-write-back"] {
            let requests = 80_000;
            let duel =
                Duel { cache_bytes: CACHE_BYTES, data_times, start, work, requests, cost, ssd_iops, seed };
            let kind: CacheKind = name.parse().expect("a known cache");
            let mut cache = kind.start(CACHE_BYTES, ORIGIN_BYTES, seed).expect("possible sizes");
            let found = duel.run(&mut *cache);
            println!(
                "| {data_times}x | {start:?} | {work:?} | {name} | {:.1} | {:.2} | {:.2} | {:.2} |",
                found.hdd_requests, found.hdd_read, found.hdd_written, found.ssd_written
            );
        }
    }
}
