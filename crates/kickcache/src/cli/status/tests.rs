//! What `status` prints for people.

use std::time::Duration;

use expect_test::expect;

use super::{Rates, print_report};
use crate::cli::table::Colour;
use crate::control::last_error::LastError;
use crate::control::report::{CacheCounters, CacheReport, HealthWord, Report, VolumeCounters, VolumeReport};
use crate::words::ModeWord;

fn volume(name: &str, mode: ModeWord, counters: VolumeCounters) -> VolumeReport {
    VolumeReport {
        name: name.into(),
        origin: format!("/dev/{name}"),
        origin_last_error: None,
        origin_silent_seconds: None,
        nbd: Vec::new(),
        mode,
        size_bytes: 1 << 40,
        cached_bytes: 12 << 30,
        dirty_bytes: 300 << 10,
        unflushed_bytes: 0,
        fill_window_bytes: 64 << 10,
        requests_in_flight: 1,
        counters,
    }
}

fn report(reads: u64) -> Report {
    let first = VolumeCounters {
        reads,
        writes: reads / 10,
        hit_blocks: reads,
        miss_blocks: 500,
        ..Default::default()
    };
    let second = VolumeCounters { damaged_blocks: 3, ..Default::default() };
    let cache = CacheReport {
        device: "/dev/nvme0n1p4".into(),
        health: HealthWord::Good,
        last_error: None,
        silent_seconds: None,
        capacity_bytes: 100 << 30,
        segments: 25_600,
        free_segments: 256,
        probation_bytes: 0,
        probation_target_bytes: 0,
        main_bytes: 0,
        memory_bytes: 480 << 20,
        counters: CacheCounters { errors: 2, ..Default::default() },
        volumes: vec![
            volume("vm1", ModeWord::WriteBack, first),
            volume("long-name", ModeWord::Bypass, second),
        ],
    };
    Report {
        version: "0.1.0".into(),
        pid: 42,
        uptime_seconds: 4000.0,
        io_engine: "io_uring".into(),
        caches: vec![cache],
    }
}

fn printed(report: &Report, rates: Option<&Rates<'_>>) -> String {
    let mut out = Vec::new();
    print_report(&mut out, report, rates, Colour::Off).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn one_sample_has_no_rates() {
    expect![[r#"
        kickcache 0.1.0, process 42, up 1 h 6 min, io_uring

        cache device /dev/nvme0n1p4: good; 100 GiB, 1.0 % of the segments free; tables take 480 MiB of memory

        VOLUME     MODE         SIZE  CACHED    DIRTY  HIT RATIO  FILL WINDOW  HEALTH
        vm1        write-back  1 TiB  12 GiB  300 KiB     95.0 %       64 KiB  good
        long-name  bypass      1 TiB  12 GiB  300 KiB          -       64 KiB  DAMAGED: 3 dirty blocks are lost
    "#]].assert_eq(&printed(&report(9_500), None));
}

#[test]
fn rates_and_hit_ratio_are_since_the_last_sample() {
    let before = report(9_500);
    let rates = Rates { before: &before, seconds: Duration::from_secs(2) };
    expect![[r#"
        kickcache 0.1.0, process 42, up 1 h 6 min, io_uring

        cache device /dev/nvme0n1p4: good; 100 GiB, 1.0 % of the segments free; tables take 480 MiB of memory

        VOLUME     MODE         SIZE  CACHED    DIRTY  HIT RATIO  FILL WINDOW  READS/S  WRITES/S  HEALTH
        vm1        write-back  1 TiB  12 GiB  300 KiB    100.0 %       64 KiB    50.0k      5.0k  good
        long-name  bypass      1 TiB  12 GiB  300 KiB          -       64 KiB        0         0  DAMAGED: 3 dirty blocks are lost
    "#]].assert_eq(&printed(&report(109_500), Some(&rates)));
}

fn last_error(count: u64) -> LastError {
    LastError {
        count,
        errno: Some(5),
        name: "EIO".into(),
        operation: "write".into(),
        offset: 4096,
        length: 4096,
        seconds_ago: 3.2,
    }
}

#[test]
fn errors_are_told_with_their_number_the_last_one_and_its_time() {
    let mut report = report(9_500);
    report.caches[0].last_error = Some(last_error(1));
    report.caches[0].volumes[0].origin_last_error = Some(last_error(21_254));
    report.caches[0].volumes[1].counters.damaged_blocks = 0;
    report.caches[0].volumes[1].origin_silent_seconds = Some(12.0);
    expect![[r#"
        kickcache 0.1.0, process 42, up 1 h 6 min, io_uring

        cache device /dev/nvme0n1p4: good, 1 error, the last EIO (write) 3.2 s ago; 100 GiB, 1.0 % of the segments free; tables take 480 MiB of memory

        VOLUME     MODE         SIZE  CACHED    DIRTY  HIT RATIO  FILL WINDOW  HEALTH
        vm1        write-back  1 TiB  12 GiB  300 KiB     95.0 %       64 KiB  origin: 21,254 errors, the last EIO (write) 3.2 s ago
        long-name  bypass      1 TiB  12 GiB  300 KiB          -       64 KiB  origin: SILENT: it has completed nothing for 12.0 s
    "#]].assert_eq(&printed(&report, None));
}
