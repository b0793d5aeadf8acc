//! The output of `status` for users.

use std::time::Duration;

use expect_test::expect;
use kickcache_command::table::Colour;
use kickcache_daemon::conditions::Surroundings;
use kickcache_daemon::conditions::watch::ConditionWatch;
use kickcache_daemon::control::activity::{Activity, RequestLatency};
use kickcache_daemon::control::condition::Health;
use kickcache_daemon::control::host_report::HostReport;
use kickcache_daemon::control::last_error::LastError;
use kickcache_daemon::control::memory_report::MemoryReport;
use kickcache_daemon::control::report::{
    CacheCounters, CacheReport, HealthWord, RecordWord, Report, VolumeCounters, VolumeReport,
};
use kickcache_daemon::extents::Extent;
use kickcache_daemon::plan::frontends::{ServedAt, Sessions};
use kickcache_daemon::shell_command::DaemonCommands;
use kickcache_daemon::words::ModeWord;

use super::page::Page;
use super::problems;
use super::rates::Rates;
use super::selection::select;
use super::sentences::{Span, cache_sentences};

fn volume(name: &str, mode: ModeWord, counters: VolumeCounters) -> VolumeReport {
    VolumeReport {
        name: name.into(),
        origin: format!("/dev/{name}"),
        origin_last_error: None,
        origin_errors_by_kind: Vec::new(),
        origin_silent_seconds: None,
        origin_away_seconds: None,
        origin_away_why: None,
        origin_fails_in_seconds: None,
        origin_unlinked_at: None,
        recovered_bytes: 0,
        served_at: ServedAt::default(),
        mode,
        limits: Default::default(),
        held_requests: 0,
        recordings: 0,
        size_bytes: 1 << 40,
        cached_bytes: 12 << 30,
        dirty_bytes: 300 << 10,
        dirty_seconds: None,
        damaged_bytes: 0,
        damaged: Vec::new(),
        unflushed_bytes: 0,
        draining: false,
        caching_paused_seconds: None,
        fill_window_bytes: 64 << 10,
        incomplete: false,
        requests_in_flight: 1,
        sessions: Sessions::default(),
        hit_ratio: Some(0.95),
        read_ahead_hit_ratio: None,
        origin_requests_per_1000: Some(48.4),
        bypass_bytes: 3 << 20,
        since_start: activity(4000.0, 1),
        recent: activity(52.0, 10),
        lru_curve: None,
        latencies: None,
        counters,
    }
}

fn activity(seconds: f64, parts: u64) -> Activity {
    let took = |count: u64, mean_ms, p99_ms| RequestLatency { count: count / parts, mean_ms, p99_ms };
    Activity {
        seconds,
        reads_per_second: 44.4,
        writes_per_second: 9.0,
        read_bytes_per_second: 18e6,
        write_bytes_per_second: 36_864.0,
        hits: took(2_199, 0.052, 0.21),
        misses: took(110, 5.3, 22.4),
        writes: took(470, 0.31, 1.2),
        flushes: RequestLatency::default(),
    }
}

pub(in crate::cli) fn report(reads: u64) -> Report {
    let first = VolumeCounters {
        reads,
        read_ahead_blocks: 200,
        read_ahead_hit_blocks: 50,
        writes: reads / 10,
        hit_blocks: reads,
        miss_blocks: 500,
        offloaded_blocks: 512,
        ..Default::default()
    };
    let cache = CacheReport {
        device: "/dev/nvme0n1p4".into(),
        health: HealthWord::Good,
        io_engine: "io_uring".into(),
        record: None,
        last_error: None,
        errors_by_kind: Vec::new(),
        sample_seconds: None,
        silent_seconds: None,
        unlinked_at: None,
        stop_waits_for: None,
        device_bytes: 101 << 30,
        growing_to_bytes: None,
        replacing: None,
        replacement_failure: None,
        leaving_out: None,
        capacity_bytes: 100 << 30,
        segments: 25_600,
        free_segments: 256,
        retired_segments: 0,
        probation_bytes: 0,
        probation_target_bytes: 0,
        main_bytes: 0,
        memory_bytes: 480 << 20,
        wear: Default::default(),
        counters: CacheCounters { errors: 2, ..Default::default() },
        volumes: vec![
            volume("vm1", ModeWord::WriteBack, first),
            VolumeReport {
                damaged_bytes: 3 * 4096,
                damaged: vec![Extent { start: 8192, length: 3 * 4096 }],
                ..volume("long-name", ModeWord::Bypass, Default::default())
            },
        ],
    };
    Report {
        version: "0.1.0".into(),
        pid: 42,
        uptime_seconds: 4000.0,
        io_engine: "io_uring".into(),
        state_directory: None,
        caches: vec![cache],
        unserved: Vec::new(),
        monitor_ended: false,
        memory: MemoryReport::default(),
        tls_failure: None,
        health: Health::default(),
        conditions: Vec::new(),
        host: HostReport::default(),
    }
}

/// The report is completed as by the daemon.
fn printed(report: &Report, rates: Option<Rates<'_>>, width: Option<usize>) -> String {
    let report = completed(report);
    let span = if rates.is_some() { Span::Recent } else { Span::SinceStart };
    let mut out = Vec::new();
    Page { report: &report, rates, span, width }.print(&mut out, Colour::Off).unwrap();
    String::from_utf8(out).unwrap()
}

fn completed(report: &Report) -> Report {
    let (mut report, commands) = (report.clone(), DaemonCommands::default());
    let around = Surroundings { silent: &[], state_failure: None, commands: &commands };
    ConditionWatch::default().complete(&mut report, &around);
    report
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
fn a_single_sample_covers_the_time_since_the_start() {
    expect![[r#"
        long-name: 3 dirty blocks are lost, damaged on /dev/nvme0n1p4; on the volume, as byte offset + length: 8192 + 12288. Reads of these blocks of long-name return errors (EIO) until the whole block is written again. All other requests and volumes are served.
          1. list all lost blocks: `damaged` in the output has their byte offsets on long-name: kickcache status long-name --json
          2. on the machine that uses long-name, find the files at these offsets, with the tools of its file system or database
          3. on that machine, overwrite these files in their present blocks (`dd conv=notrunc`; a new file gets other blocks), or all of long-name, from a backup: the condition ends when every lost block has been written again
          if blocks are lost again later, the cache device fails: move the cache with its dirty blocks to another one, DEVICE, while clients are served (`kickcache replace --cache /dev/nvme0n1p4 --with DEVICE`)

        kickcache 0.1.0, process 42, up 1 h 6 min, io_uring
        cache device /dev/nvme0n1p4: 100 GiB, 600 KiB dirty, 1.0 % of the segments free; 0 B written to it; tables take 480 MiB of memory

        VOLUME     MODE         SIZE  CACHED    DIRTY    HITS  READS/S  WRITES/S  READ MiB/S  WRITE MiB/S  FILL WINDOW  AHEAD HIT  HEALTH
        vm1        write-back  1 TiB  12 GiB  300 KiB  95.0 %       44       9.0        17.2          0.0       64 KiB     25.0 %  good
        long-name  bypass      1 TiB  12 GiB  300 KiB       -       44       9.0        17.2          0.0       64 KiB          -  DAMAGED

        vm1: 2,309 reads, 95.0 % of the data from the cache (hit ratio); 0.30 ms on average; reads of the origin take 5.3 ms with their read-ahead
          reads from the cache take 0.052 ms, 99 % at most 0.21 ms; from the origin take 5.3 ms, 99 % at most 22 ms; writes take 0.31 ms, 99 % at most 1.2 ms
          since the start: 48 requests to the origin for each 1,000 of clients (10,450 saved); 2 MiB of hits were read from the origin; 3 MiB bypassed the cache

        long-name: 2,309 reads, 95.0 % of the data from the cache (hit ratio); 0.30 ms on average, without the cache about 5.3 ms (estimate)
          reads from the cache take 0.052 ms, 99 % at most 0.21 ms; from the origin take 5.3 ms, 99 % at most 22 ms; writes take 0.31 ms, 99 % at most 1.2 ms
          since the start: 48 requests to the origin for each 1,000 of clients; 3 MiB bypassed the cache
    "#]].assert_eq(&printed(&report(9_500), None, None));
}

#[test]
fn rates_and_hit_ratio_are_since_the_last_sample() {
    let before = report(9_500);
    let rates = Rates { before: &before, seconds: Duration::from_secs(2) };
    expect![[r#"
        long-name: 3 dirty blocks are lost, damaged on /dev/nvme0n1p4; on the volume, as byte offset + length: 8192 + 12288. Reads of these blocks of long-name return errors (EIO) until the whole block is written again. All other requests and volumes are served.
          1. list all lost blocks: `damaged` in the output has their byte offsets on long-name: kickcache status long-name --json
          2. on the machine that uses long-name, find the files at these offsets, with the tools of its file system or database
          3. on that machine, overwrite these files in their present blocks (`dd conv=notrunc`; a new file gets other blocks), or all of long-name, from a backup: the condition ends when every lost block has been written again
          if blocks are lost again later, the cache device fails: move the cache with its dirty blocks to another one, DEVICE, while clients are served (`kickcache replace --cache /dev/nvme0n1p4 --with DEVICE`)

        kickcache 0.1.0, process 42, up 1 h 6 min, io_uring
        cache device /dev/nvme0n1p4: 100 GiB, 600 KiB dirty, 1.0 % of the segments free; 0 B written to it; tables take 480 MiB of memory

        VOLUME     MODE         SIZE  CACHED    DIRTY     HITS  READS/S  WRITES/S  READ MiB/S  WRITE MiB/S  FILL WINDOW  AHEAD HIT  HEALTH
        vm1        write-back  1 TiB  12 GiB  300 KiB  100.0 %    50.0k      5.0k         0.0          0.0       64 KiB     25.0 %  good
        long-name  bypass      1 TiB  12 GiB  300 KiB        -        0         0         0.0          0.0       64 KiB          -  DAMAGED

        vm1: 230 reads in the last 52 s; 0.30 ms on average; reads of the origin take 5.3 ms with their read-ahead
          reads from the cache take 0.052 ms, 99 % at most 0.21 ms; from the origin take 5.3 ms, 99 % at most 22 ms; writes take 0.31 ms, 99 % at most 1.2 ms
          since the start: 48 requests to the origin for each 1,000 of clients (120,450 saved); 2 MiB of hits were read from the origin; 3 MiB bypassed the cache

        long-name: 230 reads in the last 52 s; 0.30 ms on average, without the cache about 5.3 ms (estimate)
          reads from the cache take 0.052 ms, 99 % at most 0.21 ms; from the origin take 5.3 ms, 99 % at most 22 ms; writes take 0.31 ms, 99 % at most 1.2 ms
          since the start: 48 requests to the origin for each 1,000 of clients; 3 MiB bypassed the cache
    "#]].assert_eq(&printed(&report(109_500), Some(rates), None));
}

#[test]
fn a_page_fits_into_80_columns() {
    let mut now = report(109_500);
    now.caches[0].last_error = Some(last_error(1));
    now.caches[0].volumes[0].origin_last_error = Some(last_error(21_254));
    let before = report(9_500);
    let rates = Rates { before: &before, seconds: Duration::from_secs(2) };
    let page = printed(&now, Some(rates), Some(80));
    expect![[r#"
        long-name: 3 dirty blocks are lost, damaged on /dev/nvme0n1p4; on the volume, as
            byte offset + length: 8192 + 12288. Reads of these blocks of long-name
            return errors (EIO) until the whole block is written again. All other
            requests and volumes are served.
          1. list all lost blocks: `damaged` in the output has their byte offsets on
            long-name: kickcache status long-name --json
          2. on the machine that uses long-name, find the files at these offsets, with
            the tools of its file system or database
          3. on that machine, overwrite these files in their present blocks (`dd
            conv=notrunc`; a new file gets other blocks), or all of long-name, from a
            backup: the condition ends when every lost block has been written again
          if blocks are lost again later, the cache device fails: move the cache with
            its dirty blocks to another one, DEVICE, while clients are served
            (`kickcache replace --cache /dev/nvme0n1p4 --with DEVICE`)
        vm1: its origin /dev/vm1 had 21,254 errors, the last EIO (write) 3.2 s ago.
            Requests of clients that met an error failed; writeback is tried again; this
            ends 10 minutes after the last error. Check the origin; the log has the
            first error of each kind.
        /dev/nvme0n1p4: 1 error, the last EIO (write) 3.2 s ago. Clients are served;
            unreadable clean blocks are read from the origin; this ends 10 minutes after
            the last error.
          1. check the device
          2. move the cache to another one, if it has to be replaced: kickcache replace
            --cache /dev/nvme0n1p4 --with DEVICE

        kickcache 0.1.0, process 42, up 1 h 6 min, io_uring
        cache device /dev/nvme0n1p4: 100 GiB, 600 KiB dirty, 1.0 % of the segments free;
            0 B written to it; tables take 480 MiB of memory

        VOLUME     MODE        CACHED    DIRTY     HITS  READS/S  WRITES/S  HEALTH
        vm1        write-back  12 GiB  300 KiB  100.0 %    50.0k      5.0k  errors
        long-name  bypass      12 GiB  300 KiB        -        0         0  DAMAGED

        vm1: 230 reads in the last 52 s; 0.30 ms on average; reads of the origin take
            5.3 ms with their read-ahead
          reads from the cache take 0.052 ms, 99 % at most 0.21 ms; from the origin take
            5.3 ms, 99 % at most 22 ms; writes take 0.31 ms, 99 % at most 1.2 ms
          since the start: 48 requests to the origin for each 1,000 of clients (120,450
            saved); 2 MiB of hits were read from the origin; 3 MiB bypassed the cache

        long-name: 230 reads in the last 52 s; 0.30 ms on average, without the cache
            about 5.3 ms (estimate)
          reads from the cache take 0.052 ms, 99 % at most 0.21 ms; from the origin take
            5.3 ms, 99 % at most 22 ms; writes take 0.31 ms, 99 % at most 1.2 ms
          since the start: 48 requests to the origin for each 1,000 of clients; 3 MiB
            bypassed the cache
    "#]]
    .assert_eq(&page);
    for width in [40, 60, 80, 100, 132] {
        let rates = Rates { before: &before, seconds: Duration::from_secs(2) };
        let page = printed(&now, Some(rates), Some(width));
        let too_long: Vec<&str> = page.lines().filter(|line| line.chars().count() > width).collect();
        assert!(too_long.is_empty(), "{width}: {too_long:?}");
    }
}

#[test]
fn the_engine_that_auto_became_is_named() {
    let mut report = report(1);
    report.io_engine = "auto".into();
    let page = printed(&report, None, None);
    assert!(page.contains("\n\nkickcache 0.1.0, process 42, up 1 h 6 min, auto (io_uring)\n"), "{page}");
}

#[test]
fn a_healthy_daemon_reports_health_first() {
    let mut report = report(9_500);
    report.caches[0].volumes[1].damaged_bytes = 0;
    report.caches[0].volumes[1].caching_paused_seconds = Some(60.0);
    let page = printed(&report, None, None);
    let first: Vec<&str> = page.lines().take(3).collect();
    let paused = "long-name: reads are not cached for 60 s more. Wait for its end, or end it now (`kickcache pause-caching long-name --end`).";
    assert_eq!(first, ["Both volumes are healthy.", paused, ""]);
}

#[test]
fn each_volume_has_the_word_of_its_most_urgent_condition() {
    let mut report = report(9_500);
    report.caches[0].volumes[0].origin_last_error = Some(last_error(21_254));
    report.caches[0].volumes[1].damaged_bytes = 0;
    let words = |report: &Report| {
        let page = printed(report, None, None);
        ["vm1 ", "long-name "].map(|name| {
            let line = page.lines().find(|line| line.starts_with(name)).unwrap();
            line.split("  ").last().unwrap().trim().to_owned()
        })
    };
    assert_eq!(words(&report), ["errors", "good"]);
    report.caches[0].volumes[0].origin_away_seconds = Some(1.0);
    assert_eq!(words(&report), ["ORIGIN AWAY", "good"]);
    report.caches[0].silent_seconds = Some(11.0);
    assert_eq!(words(&report), ["ORIGIN AWAY", "SILENT"], "a cache device concerns all of its volumes");
    (report.caches[0].health, report.caches[0].record) =
        (HealthWord::OutOfService, Some(RecordWord::OnDevice));
    assert_eq!(words(&report), ["no cache", "no cache"]);
}

#[test]
fn a_check_lists_only_problems() {
    let checked = |change: &dyn Fn(&mut Report)| {
        let mut report = report(9_500);
        report.caches[0].volumes[1].damaged_bytes = 0;
        change(&mut report);
        let (report, mut out) = (completed(&report), Vec::new());
        problems::print(&report, &mut out).unwrap();
        (String::from_utf8(out).unwrap(), problems::end(&report).is_ok())
    };
    let good = ("good: 2 volumes are served\n".to_owned(), true);
    assert_eq!(checked(&|_| {}), good);
    assert_eq!(checked(&|report| report.caches[0].volumes[0].draining = true), good, "a notice");
    let (said, is_well) = checked(&|report| {
        report.caches[0].last_error = Some(last_error(3));
        report.caches[0].volumes[0].origin_silent_seconds = Some(12.0);
    });
    let lines: Vec<&str> = said.lines().collect();
    assert!(lines.len() == 2 && !is_well, "{said}");
    assert!(
        lines[0].starts_with("vm1, for 12 s: its origin /dev/vm1 is silent")
            && lines[1].starts_with("/dev/nvme0n1p4: 3 errors"),
        "{said}"
    );
}

#[test]
fn a_selected_volume_has_its_own_conditions_only() {
    let mut all = report(9_500);
    all.caches[0].volumes[0].origin_last_error = Some(last_error(3));
    all.caches[0].silent_seconds = Some(11.0);
    all.tls_failure = Some("ca-cert.pem: there is no such file".into());
    let other = CacheReport { device: "/dev/other".into(), volumes: Vec::new(), ..all.caches[0].clone() };
    all.caches
        .push(CacheReport { volumes: vec![volume("b", ModeWord::WriteBack, Default::default())], ..other });
    let all = completed(&all);
    let selected = |name: &str| {
        let mut report = all.clone();
        select(&mut report, name).map(|()| report)
    };
    let report = selected("vm1").unwrap();
    let volumes = report.caches.iter().flat_map(|cache| &cache.volumes).map(|volume| volume.name.as_str());
    assert_eq!(volumes.collect::<Vec<_>>(), ["vm1"]);
    let kinds = |report: &Report| report.conditions.iter().map(|it| it.kind.as_str()).collect::<Vec<_>>();
    assert_eq!(kinds(&report), ["cache-silent", "origin-failing", "certificates-unusable"]);
    assert!(
        report.health.sentence.starts_with("/dev/nvme0n1p4, for 11 s: silent"),
        "{}",
        report.health.sentence
    );
    assert_eq!(kinds(&selected("b").unwrap()), ["cache-silent", "certificates-unusable"]);
    let unknown = selected("x").unwrap_err().error.to_string();
    assert_eq!(unknown, "there is no volume `x` here; there is vm1, long-name, b");
}

#[test]
fn a_cache_device_that_was_left_out_has_no_figures() {
    let mut report = report(9_500);
    let cache = &mut report.caches[0];
    (cache.health, cache.record) = (HealthWord::OutOfService, Some(RecordWord::ByOrder));
    assert_eq!(cache_sentences(cache), ["cache device /dev/nvme0n1p4: not in use"]);
}

#[test]
fn read_ahead_is_not_counted_as_latency() {
    let gain = |read_ahead_blocks: u64| {
        let mut report = report(9_500);
        report.caches[0].volumes[0].counters.read_ahead_blocks = read_ahead_blocks;
        let page = printed(&report, None, None);
        let line = page.lines().find(|line| line.starts_with("vm1: 2,309 reads")).unwrap();
        line.split_once("on average").unwrap().1.to_owned()
    };
    assert_eq!(gain(125), ", without the cache about 5.3 ms (estimate)");
    assert_eq!(gain(126), "; reads of the origin take 5.3 ms with their read-ahead");
}
