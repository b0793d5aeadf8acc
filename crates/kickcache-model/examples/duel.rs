//! `scripts/duel` in virtual time, in seconds: as a Markdown table.
//!
//!     duel [MICROS [SSD_IOPS [SEED]]] [--requests N] [--steps N] [--stalls EVERY,LONGEST] [--cases 12:cold:read,...] [--caches NAME,...]
//!
//! Arguments: microseconds of a client for each request (100), the limit of the fast disk in requests a
//! second (0 is none), and the seed (1). With steps, the requests move from one hot set to another. With
//! stalls, clients and cache are stopped from time to time and the slow disk is not: the mean time between
//! two stalls and the longest stall, in milliseconds.

use kickcache_engine::time::Duration;
use kickcache_model::cache_model::cache_kind::CacheKind;
use kickcache_model::replay::bench::Stalls;
use kickcache_model::replay::duel::{Duel, ORIGIN_BYTES, Start, Work};

const CACHE_BYTES: u64 = 256 << 20;
const CASES: &str = "1:cold:read,1:stale:read,12:cold:read,12:stale:read,1:cold:write";
const CACHES: &str = "dm-cache-write-back,bcache-no-cutoff,kickcache-write-back";

fn number(text: &str) -> u64 {
    text.parse().expect("a number")
}

fn stalls(text: &str) -> Stalls {
    let (every, longest) = text.split_once(',').expect("two numbers");
    let [every, longest] = [every, longest].map(|text| Duration::from_millis(number(text)));
    Stalls { every, longest }
}

fn case(text: &str, duel: Duel) -> Duel {
    let mut words = text.split(':');
    let mut word = || words.next().expect("data:start:work");
    let data_times = number(word());
    let start = if word() == "cold" { Start::Cold } else { Start::Stale };
    let work = if word() == "read" { Work::Read } else { Work::Write };
    Duel { data_times, start, work, ..duel }
}

fn main() {
    let mut duel = Duel {
        cache_bytes: CACHE_BYTES,
        data_times: 1,
        start: Start::Cold,
        work: Work::Read,
        requests: 80_000,
        steps: 1,
        cost: Duration::from_micros(100),
        ssd_iops: None,
        stalls: Stalls::default(),
        seed: 1,
    };
    let (mut cases, mut caches) = (CASES.to_owned(), CACHES.to_owned());
    let (mut arguments, mut place) = (std::env::args().skip(1), 0);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().expect("a value");
        match argument.as_str() {
            "--requests" => duel.requests = number(&value()),
            "--steps" => duel.steps = number(&value()),
            "--stalls" => duel.stalls = stalls(&value()),
            "--cases" => cases = value(),
            "--caches" => caches = value(),
            text => {
                match place {
                    0 => duel.cost = Duration::from_micros(number(text)),
                    1 => duel.ssd_iops = Some(text.parse().expect("a number")).filter(|limit| *limit > 0),
                    _ => duel.seed = number(text),
                }
                place += 1;
            }
        }
    }
    println!(
        "| data | cache is | work | cache | HDD requests | HDD MiB read | HDD MiB written | SSD MiB written |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for text in cases.split(',') {
        for name in caches.split(',') {
            let duel = case(text, duel);
            let kind: CacheKind = name.parse().expect("a known cache");
            let mut cache = kind.start(CACHE_BYTES, ORIGIN_BYTES, duel.seed).expect("possible sizes");
            let found = duel.run(&mut *cache);
            println!(
                "| {}x | {:?} | {:?} | {name} | {:.1} | {:.2} | {:.2} | {:.2} |",
                duel.data_times,
                duel.start,
                duel.work,
                found.hdd_requests,
                found.hdd_read,
                found.hdd_written,
                found.ssd_written
            );
        }
    }
}
