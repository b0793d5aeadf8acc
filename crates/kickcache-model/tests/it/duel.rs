//! `scripts/duel` in virtual time: the requests to the slow disk and to the fast one.

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
fn stale_blocks_read_twice_do_not_prevent_read_ahead() {
    let found = run(duel(1, Start::Stale, Work::Read));
    assert!(found.hdd_requests <= 16.0, "{found:?}");
}

#[test]
fn distant_blocks_are_read_without_neighbours() {
    for start in [Start::Cold, Start::Stale] {
        let found = run(duel(12, start, Work::Read));
        assert!(found.hdd_requests <= 163.0 && found.ssd_written <= 1.5 * 0.62, "{start:?}: {found:?}");
    }
}

#[test]
fn guest_stalls_do_not_look_like_a_slow_disk() {
    let stalls = Stalls { every: Duration::from_millis(50), longest: Duration::from_millis(300) };
    let found = run(Duel { stalls, ..duel(12, Start::Cold, Work::Read) });
    assert!(found.hdd_requests <= 163.0 && found.ssd_written <= 1.5 * 0.62, "{found:?}");
}

#[test]
fn a_slow_disk_serves_no_hits_of_a_busy_cache() {
    let found = run(Duel { ssd_iops: Some(800), ..duel(1, Start::Cold, Work::Read) });
    assert!(found.hdd_requests <= 16.0, "{found:?}");
}

#[test]
fn blocks_rewritten_soon_are_not_written_back_before() {
    let fast = run(duel(1, Start::Cold, Work::Write));
    assert!(fast.hdd_requests <= 120.0, "{fast:?}");
    let slow = run(Duel { cost: Duration::from_micros(1_000), ..duel(1, Start::Cold, Work::Write) });
    assert!(slow.hdd_requests <= 160.0, "{slow:?}");
}
