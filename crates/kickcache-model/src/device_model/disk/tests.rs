use kickcache_engine::time::Duration;

use super::*;
use crate::device_model::load::{Load, LoadResult, run};
use crate::device_model::mirror::Mirror;

fn baseline(seed: u64) -> LoadResult {
    let mut mirror = Mirror::new(DiskParameters::rpm_5400(), seed);
    let load =
        Load { jobs: 2, depth: 8, part: 2 << 30, theta: Some(1.2), count: 30_000, seed, ..Load::default() };
    run(&mut mirror, &load)
}

fn random_rate(parameters: DiskParameters, depth: u64) -> f64 {
    let mut disk = Disk::new(parameters, 1);
    run(&mut disk, &Load { depth, part: 4_000_000_000_000, count: 4_000, ..Load::default() }).rate
}

fn within(value: f64, expected: f64, percent: f64) -> bool {
    (value / expected - 1.0).abs() <= percent / 100.0
}

#[test]
fn mirror_gives_the_published_baseline() {
    for seed in 1..=3 {
        let measured = baseline(seed);
        let at = |percent: f64| measured.percentile(percent) / 1000.0;
        println!(
            "seed {seed}: {:.0} IOPS, ms: p40 {:.2} p50 {:.2} p60 {:.2} p70 {:.1} p90 {:.1} p99 {:.0}",
            measured.rate,
            at(40.0),
            at(50.0),
            at(60.0),
            at(70.0),
            at(90.0),
            at(99.0)
        );
        assert!(within(measured.rate, 938.0, 15.0), "{} IOPS", measured.rate);
        assert!(within(at(50.0), 1.0, 25.0), "p50 {} ms", at(50.0));
        assert!(within(at(99.0), 175.0, 25.0), "p99 {} ms", at(99.0));
    }
}

#[test]
fn random_reads_over_the_whole_disk_have_the_usual_rates() {
    for (depth, expected) in [(1, 80.0), (4, 108.0), (8, 136.0), (32, 205.0)] {
        let rate = random_rate(DiskParameters::rpm_7200(), depth);
        println!("7200 rpm, depth {depth}: {rate:.0}, expected {expected}");
        assert!(within(rate, expected, 15.0), "depth {depth}: {rate}");
    }
    for (depth, expected) in [(1, 57.0), (4, 75.0), (8, 90.0), (32, 124.0)] {
        let rate = random_rate(DiskParameters::rpm_5400(), depth);
        println!("5400 rpm, depth {depth}: {rate:.0}, expected {expected}");
        assert!(within(rate, expected, 15.0), "depth {depth}: {rate}");
    }
}

#[test]
fn sequential_reads_run_at_the_speed_of_the_medium() {
    let mut disk = Disk::new(DiskParameters::rpm_7200(), 1);
    let mut now = Instant::ZERO;
    let mut done = 0_u32;
    for index in 0..200 {
        let request = ModelRequest {
            operation: ModelOperation::Read,
            offset: index << 20,
            length: 1 << 20,
            token: index,
        };
        disk.submit(now, request);
        while disk.poll(now).is_none() {
            now = disk.next_event().unwrap();
        }
        done += 1 << 20;
    }
    let rate = f64::from(done) / (micros(now) / 1e6) / 1e6;
    assert!((120.0..182.0).contains(&rate), "{rate} MB/s");
}

#[test]
fn writes_are_acknowledged_early_and_flush_waits_for_the_medium() {
    let mut disk = Disk::new(DiskParameters::rpm_7200(), 1);
    let write = |token: u64| ModelRequest {
        operation: ModelOperation::Write,
        offset: token * 977 * 1_048_576,
        length: 4096,
        token,
    };
    (0..20).for_each(|token| disk.submit(Instant::ZERO, write(token)));
    let flush = ModelRequest { operation: ModelOperation::Flush, offset: 0, length: 0, token: 99 };
    disk.submit(Instant::ZERO, flush);
    let early = Instant::ZERO.plus(Duration::from_millis(3));
    let acknowledged = std::iter::from_fn(|| disk.poll(early)).count();
    assert_eq!(acknowledged, 20);
    let mut now = early;
    while disk.poll(now).is_none() {
        now = disk.next_event().unwrap();
    }
    let waited = micros(now) / 1000.0;
    assert!((40.0..300.0).contains(&waited), "{waited} ms");
    assert!(disk.is_idle());
}

#[test]
fn writes_that_keep_coming_do_not_put_a_flush_off() {
    let mut disk = Disk::new(DiskParameters::rpm_7200(), 1);
    let write = |offset: u64, token: u64| ModelRequest {
        operation: ModelOperation::Write,
        offset,
        length: 4096,
        token,
    };
    // A write far away, then the flush, and then writes that are always nearer.
    disk.submit(Instant::ZERO, write(3_000_000_000_000, 0));
    disk.submit(Instant::ZERO, write(0, 1));
    disk.submit(Instant::ZERO, ModelRequest { operation: ModelOperation::Flush, ..write(0, u64::MAX) });
    let mut next = 2;
    let mut now = Instant::ZERO;
    loop {
        while let Some(token) = disk.poll(now) {
            if token == u64::MAX {
                return;
            }
            disk.submit(now, write(next * 8192, next));
            next += 1;
        }
        now = disk.next_event().unwrap();
        assert!(now < Instant::from_nanos(2_000_000_000), "{next} writes before the flush ended");
    }
}

#[test]
fn a_full_write_cache_slows_writes_to_the_medium() {
    let parameters = DiskParameters { write_cache_bytes: 1 << 20, ..DiskParameters::rpm_7200() };
    let mut disk = Disk::new(parameters, 1);
    let load = Load {
        depth: 8,
        part: 4_000_000_000_000,
        count: 4_000,
        operation: ModelOperation::Write,
        ..Load::default()
    };
    let rate = run(&mut disk, &load).rate;
    assert!((100.0..500.0).contains(&rate), "{rate} writes a second");
}

#[test]
fn durable_writes_go_to_the_medium() {
    let mut disk = Disk::new(DiskParameters::rpm_7200(), 1);
    let load = Load {
        part: 4_000_000_000_000,
        operation: ModelOperation::WriteDurable,
        count: 500,
        ..Load::default()
    };
    let rate = run(&mut disk, &load).rate;
    assert!((60.0..100.0).contains(&rate), "{rate} writes a second");
}
