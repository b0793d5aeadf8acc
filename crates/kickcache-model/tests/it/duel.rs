//! `scripts/duel` in virtual time: what the slow disk and the fast one are asked for.

use kickcache_engine::time::Duration;
use kickcache_model::cache_model::cache_kind::CacheKind;
use kickcache_model::replay::bench::Stalls;
use kickcache_model::replay::duel::{Duel, DuelResult, ORIGIN_BYTES, Start, Work};

const MIB: u64 = 1 << 20;

const CACHE_BYTES: u64 = 256 * MIB;

fn duel(data_times: u64, start: Start, work: Work) -> Duel {
    let cost = Duration::from_micros(100);
    let stalls = Stalls::default();
    let (cache_bytes, requests, steps, ssd_iops, seed) = (CACHE_BYTES, 80_000, 1, None, 1);
    Duel { cache_bytes, data_times, start, work, requests, steps, cost, ssd_iops, stalls, seed }
}

fn run(duel: Duel) -> DuelResult {
    let kind: CacheKind = "kickcache-write-back".parse().expect("a known cache");
    duel.run(&mut *kind.start(CACHE_BYTES, ORIGIN_BYTES, 1).expect("possible sizes"))
}

#[test]
fn data_that_fits_into_an_empty_cache_is_read_ahead() {
    let found = run(duel(1, Start::Cold, Work::Read));
    assert!(found.hdd_requests <= 15.0, "{found:?}");
}

#[test]
fn data_as_large_as_a_cache_full_of_what_was_read_twice_is_read_ahead() {
    let found = run(duel(1, Start::Stale, Work::Read));
    assert!(found.hdd_requests <= 16.0, "{found:?}");
}

#[test]
fn blocks_that_lie_too_far_apart_for_the_cache_are_read_alone() {
    for start in [Start::Cold, Start::Stale] {
        let found = run(duel(12, start, Work::Read));
        // bcache: 158.0 and 158.5 requests, 0.62 MiB.
        assert!(found.hdd_requests <= 163.0 && found.ssd_written <= 1.5 * 0.62, "{start:?}: {found:?}");
    }
}

#[test]
fn a_guest_that_stands_still_now_and_then_has_no_slow_disk() {
    let stalls = Stalls { every: Duration::from_millis(50), longest: Duration::from_millis(300) };
    let found = run(Duel { stalls, ..duel(12, Start::Cold, Work::Read) });
    assert!(found.hdd_requests <= 163.0 && found.ssd_written <= 1.5 * 0.62, "{found:?}");
}

#[test]
fn a_slow_disk_serves_no_hits_of_a_fast_one_that_is_busy() {
    let found = run(Duel { ssd_iops: Some(800), ..duel(1, Start::Cold, Work::Read) });
    assert!(found.hdd_requests <= 16.0, "{found:?}");
}

#[test]
fn blocks_that_are_written_again_soon_are_not_written_back_before() {
    let fast = run(duel(1, Start::Cold, Work::Write));
    assert!(fast.hdd_requests <= 120.0, "{fast:?}");
    let slow = run(Duel { cost: Duration::from_micros(1_000), ..duel(1, Start::Cold, Work::Write) });
    assert!(slow.hdd_requests <= 160.0, "{slow:?}");
}
