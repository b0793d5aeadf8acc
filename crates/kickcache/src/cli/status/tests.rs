//! The output of `status` for users.

use std::collections::BTreeSet;
use std::time::Duration;

use expect_test::expect;
use kickcache_daemon::control::activity::{Activity, Took};
use kickcache_daemon::control::last_error::LastError;
use kickcache_daemon::control::memory_report::MemoryReport;
use kickcache_daemon::control::report::{
    CacheCounters, CacheReport, HealthWord, RecordWord, Report, UnservedReport, VolumeCounters, VolumeReport,
};
use kickcache_daemon::extents::Extent;
use kickcache_daemon::plan::frontends::{ServedAt, Sessions};
use kickcache_daemon::serve::config::StatePlace;
use kickcache_daemon::shell_command::DaemonCommands;
use kickcache_daemon::words::ModeWord;

use super::page::Page;
use super::problems::problems;
use super::rates::Rates;
use super::sentences::{Span, cache_sentence};
use crate::cli::table::Colour;

fn volume(name: &str, mode: ModeWord, counters: VolumeCounters) -> VolumeReport {
    VolumeReport {
        name: name.into(),
        origin: format!("/dev/{name}"),
        origin_last_error: None,
        origin_errors_by_kind: Vec::new(),
        origin_silent_seconds: None,
        origin_away_seconds: None,
        origin_away_why: None,
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
        hit_ratio: None,
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
    let took = |count: u64, mean_ms, p99_ms| Took { count: count / parts, mean_ms, p99_ms };
    Activity {
        seconds,
        reads_per_second: 44.4,
        writes_per_second: 9.0,
        read_bytes_per_second: 18e6,
        write_bytes_per_second: 36_864.0,
        hits: took(2_199, 0.052, 0.21),
        misses: took(110, 5.3, 22.4),
        writes: took(470, 0.31, 1.2),
        flushes: Took::default(),
    }
}

fn report(reads: u64) -> Report {
    let first = VolumeCounters {
        reads,
        prefetched_blocks: 200,
        prefetch_hit_blocks: 50,
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
    }
}

fn printed(report: &Report, rates: Option<Rates<'_>>, width: Option<usize>) -> String {
    let span = if rates.is_some() { Span::Recent } else { Span::SinceStart };
    let mut out = Vec::new();
    Page { report, rates, span, width, commands: DaemonCommands::default() }
        .print(&mut out, Colour::Off)
        .unwrap();
    String::from_utf8(out).unwrap()
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
        kickcache 0.1.0, process 42, up 1 h 6 min, io_uring

        cache device /dev/nvme0n1p4: good; 100 GiB, 1.0 % of the segments free; 0 B written to it; tables take 480 MiB of memory

        VOLUME     MODE         SIZE  CACHED    DIRTY    HITS  READS/S  WRITES/S  READ MiB/S  WRITE MiB/S  FILL WINDOW  AHEAD HIT  HEALTH
        vm1        write-back  1 TiB  12 GiB  300 KiB  95.0 %       44       9.0        17.2          0.0       64 KiB     25.0 %  good
        long-name  bypass      1 TiB  12 GiB  300 KiB       -       44       9.0        17.2          0.0       64 KiB          -  DAMAGED

        vm1: 2,309 reads, 110 from the origin; mean 0.30 ms instead of 5.3 ms
          hits take 0.052 ms, 99 % at most 0.21 ms; misses take 5.3 ms, 99 % at most 22 ms; writes take 0.31 ms, 99 % at most 1.2 ms
          since the start: 48 requests to the origin for each 1,000 of clients; 2 MiB of hits were read from the origin; 3 MiB bypassed the cache

        long-name: DAMAGED: 3 dirty blocks on /dev/nvme0n1p4 are lost, as byte offset + length: 8192 + 12288; reads of them fail until the whole block is written again
        long-name: 2,309 reads, 110 from the origin; mean 0.30 ms instead of 5.3 ms
          hits take 0.052 ms, 99 % at most 0.21 ms; misses take 5.3 ms, 99 % at most 22 ms; writes take 0.31 ms, 99 % at most 1.2 ms
          since the start: 48 requests to the origin for each 1,000 of clients; 3 MiB bypassed the cache
    "#]].assert_eq(&printed(&report(9_500), None, None));
}

#[test]
fn rates_and_hit_ratio_are_since_the_last_sample() {
    let before = report(9_500);
    let rates = Rates { before: &before, seconds: Duration::from_secs(2) };
    expect![[r#"
        kickcache 0.1.0, process 42, up 1 h 6 min, io_uring

        cache device /dev/nvme0n1p4: good; 100 GiB, 1.0 % of the segments free; 0 B written to it; tables take 480 MiB of memory

        VOLUME     MODE         SIZE  CACHED    DIRTY     HITS  READS/S  WRITES/S  READ MiB/S  WRITE MiB/S  FILL WINDOW  AHEAD HIT  HEALTH
        vm1        write-back  1 TiB  12 GiB  300 KiB  100.0 %    50.0k      5.0k         0.0          0.0       64 KiB     25.0 %  good
        long-name  bypass      1 TiB  12 GiB  300 KiB        -        0         0         0.0          0.0       64 KiB          -  DAMAGED

        vm1: 230 reads, 11 from the origin; mean 0.30 ms instead of 5.3 ms in the last 52 s
          hits take 0.052 ms, 99 % at most 0.21 ms; misses take 5.3 ms, 99 % at most 22 ms; writes take 0.31 ms, 99 % at most 1.2 ms
          since the start: 48 requests to the origin for each 1,000 of clients; 2 MiB of hits were read from the origin; 3 MiB bypassed the cache

        long-name: DAMAGED: 3 dirty blocks on /dev/nvme0n1p4 are lost, as byte offset + length: 8192 + 12288; reads of them fail until the whole block is written again
        long-name: 230 reads, 11 from the origin; mean 0.30 ms instead of 5.3 ms in the last 52 s
          hits take 0.052 ms, 99 % at most 0.21 ms; misses take 5.3 ms, 99 % at most 22 ms; writes take 0.31 ms, 99 % at most 1.2 ms
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
        kickcache 0.1.0, process 42, up 1 h 6 min, io_uring

        cache device /dev/nvme0n1p4: good, 1 error, the last EIO (write) 3.2 s ago; 100
            GiB, 1.0 % of the segments free; 0 B written to it; tables take 480 MiB of
            memory

        VOLUME     MODE        CACHED    DIRTY     HITS  READS/S  WRITES/S  HEALTH
        vm1        write-back  12 GiB  300 KiB  100.0 %    50.0k      5.0k  errors
        long-name  bypass      12 GiB  300 KiB        -        0         0  DAMAGED

        vm1: its origin /dev/vm1 had 21,254 errors, the last EIO (write) 3.2 s ago
        vm1: 230 reads, 11 from the origin; mean 0.30 ms instead of 5.3 ms in the last
            52 s
          hits take 0.052 ms, 99 % at most 0.21 ms; misses take 5.3 ms, 99 % at most 22
            ms; writes take 0.31 ms, 99 % at most 1.2 ms
          since the start: 48 requests to the origin for each 1,000 of clients; 2 MiB of
            hits were read from the origin; 3 MiB bypassed the cache

        long-name: DAMAGED: 3 dirty blocks on /dev/nvme0n1p4 are lost, as byte offset +
            length: 8192 + 12288; reads of them fail until the whole block is written
            again
        long-name: 230 reads, 11 from the origin; mean 0.30 ms instead of 5.3 ms in the
            last 52 s
          hits take 0.052 ms, 99 % at most 0.21 ms; misses take 5.3 ms, 99 % at most 22
            ms; writes take 0.31 ms, 99 % at most 1.2 ms
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
    assert!(
        printed(&report, None, None)
            .starts_with("kickcache 0.1.0, process 42, up 1 h 6 min, auto (io_uring)\n")
    );
}

#[test]
fn errors_have_their_number_the_last_one_and_its_time() {
    let mut report = report(9_500);
    report.caches[0].last_error = Some(last_error(1));
    report.caches[0].volumes[0].origin_last_error = Some(last_error(21_254));
    report.caches[0].volumes[1].damaged_bytes = 0;
    report.caches[0].volumes[1].origin_silent_seconds = Some(12.0);
    expect![[r#"
        kickcache 0.1.0, process 42, up 1 h 6 min, io_uring

        cache device /dev/nvme0n1p4: good, 1 error, the last EIO (write) 3.2 s ago; 100 GiB, 1.0 % of the segments free; 0 B written to it; tables take 480 MiB of memory

        VOLUME     MODE         SIZE  CACHED    DIRTY    HITS  READS/S  WRITES/S  READ MiB/S  WRITE MiB/S  FILL WINDOW  AHEAD HIT  HEALTH
        vm1        write-back  1 TiB  12 GiB  300 KiB  95.0 %       44       9.0        17.2          0.0       64 KiB     25.0 %  errors
        long-name  bypass      1 TiB  12 GiB  300 KiB       -       44       9.0        17.2          0.0       64 KiB          -  SILENT

        vm1: its origin /dev/vm1 had 21,254 errors, the last EIO (write) 3.2 s ago
        vm1: 2,309 reads, 110 from the origin; mean 0.30 ms instead of 5.3 ms
          hits take 0.052 ms, 99 % at most 0.21 ms; misses take 5.3 ms, 99 % at most 22 ms; writes take 0.31 ms, 99 % at most 1.2 ms
          since the start: 48 requests to the origin for each 1,000 of clients; 2 MiB of hits were read from the origin; 3 MiB bypassed the cache

        long-name: its origin /dev/long-name is SILENT: it has completed no operation for 12.0 s
        long-name: 2,309 reads, 110 from the origin; mean 0.30 ms instead of 5.3 ms
          hits take 0.052 ms, 99 % at most 0.21 ms; misses take 5.3 ms, 99 % at most 22 ms; writes take 0.31 ms, 99 % at most 1.2 ms
          since the start: 48 requests to the origin for each 1,000 of clients; 3 MiB bypassed the cache
    "#]].assert_eq(&printed(&report, None, None));
}

#[test]
fn an_unreachable_origin_is_reported_with_the_time() {
    let mut report = report(9_500);
    let volume = &mut report.caches[0].volumes[0];
    (volume.damaged_bytes, volume.origin_last_error) = (0, Some(last_error(3)));
    (volume.origin_away_seconds, volume.origin_silent_seconds) = (Some(72.0), Some(71.0));
    volume.origin_away_why = Some("it has 8192 bytes now".into());
    let printed = printed(&report, None, None);
    assert!(
        printed.lines().any(|line| line.starts_with("vm1 ") && line.ends_with("ORIGIN AWAY")),
        "{printed}"
    );
    let told = "vm1: ORIGIN AWAY: the server of /dev/vm1 was lost 1 min 12 s ago: it has 8192 bytes now";
    assert!(printed.lines().any(|line| line == told), "{printed}");
    assert!(!printed.contains("SILENT"), "{printed}");
}

#[test]
fn a_check_lists_only_problems() {
    let commands = DaemonCommands::default();
    let found = |change: &dyn Fn(&mut Report)| {
        let mut report = report(9_500);
        for cache in &mut report.caches {
            (cache.health, cache.record, cache.last_error, cache.silent_seconds) =
                (HealthWord::Good, None, None, None);
            for volume in &mut cache.volumes {
                (volume.damaged_bytes, volume.origin_last_error, volume.incomplete) = (0, None, false);
                (volume.origin_away_seconds, volume.origin_silent_seconds) = (None, None);
                volume.served_at.ublk_removed = None;
            }
        }
        report.unserved.clear();
        change(&mut report);
        problems(&report, &commands)
    };
    assert_eq!(found(&|_| {}), [] as [&str; 0]);
    let one = |change: &dyn Fn(&mut Report), part: &str| {
        let found = found(change);
        assert!(found.len() == 1 && found[0].contains(part), "{part}: {found:?}");
    };
    one(&|report| report.caches[0].health = HealthWord::OutOfService, "OUT OF SERVICE");
    one(&|report| report.caches[0].silent_seconds = Some(12.0), "SILENT");
    one(&|report| report.caches[0].last_error = Some(last_error(3)), "3 errors");
    one(&|report| report.caches[0].volumes[0].damaged_bytes = 4096, "DAMAGED");
    one(&|report| report.caches[0].volumes[0].origin_away_seconds = Some(1.0), "ORIGIN AWAY");
    one(&|report| report.caches[0].volumes[0].origin_silent_seconds = Some(12.0), "SILENT");
    one(&|report| report.caches[0].volumes[0].origin_last_error = Some(last_error(3)), "3 errors");
    one(
        &|report| report.unserved.push(UnservedReport { name: "x".into(), why: "y".into() }),
        "x: NOT SERVED: y",
    );
    one(&|report| report.monitor_ended = true, "the monitor, the part of the daemon that is root, has ended");
    one(
        &|report| report.tls_failure = Some("new certificates cannot be used".into()),
        "new certificates cannot",
    );
    let long_ago = LastError { seconds_ago: 601.0, ..last_error(3) };
    let old = found(&|report| report.caches[0].volumes[0].origin_last_error = Some(long_ago.clone()));
    assert_eq!(old, [] as [&str; 0]);
    let healed = found(&|report| report.caches[0].volumes[0].counters.healed_blocks = 1);
    assert_eq!(healed, [] as [&str; 0], "it was mended");
}

#[test]
fn an_out_of_service_device_has_record_and_next_steps() {
    let told = |record, incomplete, dirty_bytes| {
        let mut report = report(9_500);
        let cache = &mut report.caches[0];
        (cache.health, cache.record) = (HealthWord::OutOfService, Some(record));
        cache.volumes.truncate(1);
        (cache.volumes[0].incomplete, cache.volumes[0].dirty_bytes) = (incomplete, dirty_bytes);
        let page = printed(&report, None, None);
        let lines = page.lines().filter(|line| {
            line.starts_with("  ") && line.contains("next: ")
                || line.starts_with("cache")
                || line.starts_with("vm1: ") && !line.contains(" reads, ")
        });
        lines.map(|line| line.split("; 100 GiB").next().unwrap().to_owned() + "\n").collect::<String>()
    };
    let all = [
        told(RecordWord::OnDevice, false, 0),
        told(RecordWord::InStateDirectory, true, 0),
        told(RecordWord::Pending, true, 8192),
        told(RecordWord::Failed, true, 8192),
        told(RecordWord::Earlier, false, 0),
        told(RecordWord::ByOrder, false, 0),
    ];
    expect![[r#"
        cache device /dev/nvme0n1p4: OUT OF SERVICE: every request goes to the origin
          recorded on the device; next: stop, then `kickcache format /dev/nvme0n1p4` before it is used again

        cache device /dev/nvme0n1p4: OUT OF SERVICE: every request goes to the origin
          noted in the state directory; next: first `kickcache drain vm1 --wait`, then stop, then `kickcache format /dev/nvme0n1p4` before it is used again; if a drain does not progress, do not stop: `kickcache leave-out --cache /dev/nvme0n1p4 --abandon-dirty` loses the unreadable blocks, then `kickcache replace --with DEVICE` puts another device into use
        vm1: its origin has all cached data, and has yet to flush it

        cache device /dev/nvme0n1p4: OUT OF SERVICE: every request goes to the origin
          being recorded: writes wait for that; next: first `kickcache drain vm1 --wait`, then stop, then `kickcache format /dev/nvme0n1p4` before it is used again; if a drain does not progress, do not stop: `kickcache leave-out --cache /dev/nvme0n1p4 --abandon-dirty` loses the unreadable blocks, then `kickcache replace --with DEVICE` puts another device into use
        vm1: 8 KiB are dirty and on the cache device alone: a drain writes back the readable ones

        cache device /dev/nvme0n1p4: OUT OF SERVICE: every request goes to the origin
          NOT RECORDED, on the device or in the state directory: writes fail; next: first `kickcache drain vm1 --wait`, then stop, then `kickcache format /dev/nvme0n1p4` before it is used again; if a drain does not progress, do not stop: `kickcache leave-out --cache /dev/nvme0n1p4 --abandon-dirty` loses the unreadable blocks, then `kickcache replace --with DEVICE` puts another device into use
        vm1: 8 KiB are dirty and on the cache device alone: a drain writes back the readable ones

        cache device /dev/nvme0n1p4: OUT OF SERVICE: every request goes to the origin
          out of service since before the start; next: stop, then `kickcache format /dev/nvme0n1p4` before it is used again

        cache device /dev/nvme0n1p4: LEFT OUT: every request goes to the origin
    "#]].assert_eq(&all.join("\n"));
}

#[test]
fn a_cache_device_that_was_left_out_has_no_figures() {
    let mut report = report(9_500);
    let cache = &mut report.caches[0];
    (cache.health, cache.record) = (HealthWord::OutOfService, Some(RecordWord::ByOrder));
    let sentences = cache_sentence(cache, &DaemonCommands::default());
    assert_eq!(sentences[0].0, "cache device /dev/nvme0n1p4: LEFT OUT: every request goes to the origin");
}

#[test]
fn commands_name_an_unusual_state_directory_and_socket() {
    let mut report = report(9_500);
    report.state_directory = Some("/srv/my notes".into());
    let cache = &mut report.caches[0];
    (cache.health, cache.record) = (HealthWord::OutOfService, Some(RecordWord::OnDevice));
    cache.volumes[0].incomplete = true;
    let mut out = Vec::new();
    let state = StatePlace::Directory("/srv/my notes".into());
    let commands = DaemonCommands { control: Some("/srv/it's/control".into()), state };
    let page = Page { report: &report, rates: None, span: Span::SinceStart, width: None, commands };
    page.print(&mut out, Colour::Off).unwrap();
    let page = String::from_utf8(out).unwrap();
    let wanted = "first `kickcache drain vm1 --wait --control '/srv/it'\\''s/control'`, then stop, then \
                  `kickcache format /dev/nvme0n1p4 --state '/srv/my notes'` before";
    assert!(page.contains(wanted), "{page}");
    let wanted = "`kickcache leave-out --cache /dev/nvme0n1p4 --abandon-dirty --control '/srv/it'\\''s/control'` loses";
    assert!(page.contains(wanted), "{page}");
}

/// The words in capitals in the string literals of a source file.
fn capitals(source: &str) -> BTreeSet<String> {
    let lines = source.lines().filter(|line| !line.trim_start().starts_with("//"));
    let literals = lines.flat_map(|line| line.split('"').skip(1).step_by(2));
    let is_loud = |word: &&str| word.len() > 2 && word.chars().all(|c| c.is_ascii_uppercase());
    let phrase = |literal: &str| {
        let words = literal.split(|c: char| !c.is_ascii_alphabetic()).skip_while(|word| !is_loud(word));
        words.take_while(|word| word.chars().all(|c| c.is_ascii_uppercase())).collect::<Vec<_>>().join(" ")
    };
    literals.map(phrase).map(|phrase| phrase.trim().to_owned()).filter(|phrase| !phrase.is_empty()).collect()
}

#[test]
fn every_health_word_is_documented_with_a_remedy() {
    let volumes = include_str!("volumes.rs");
    let health = &volumes[volumes.find("fn volume_health").unwrap()..];
    let quoted = health.split("(\"").skip(1).map(|rest| rest.split('"').next().unwrap().to_owned());
    let mut printed: BTreeSet<String> = quoted.collect();
    assert!(printed.len() > 4 && printed.contains("good"), "{printed:?}");
    printed
        .extend([include_str!("sentences.rs"), include_str!("page.rs")].iter().flat_map(|it| capitals(it)));
    assert!(printed.contains("OUT OF SERVICE") && printed.contains("NOT SERVED"), "{printed:?}");
    let page = include_str!("../../../../../docs/reference/status.md");
    let table = page.split("## Words").nth(1).unwrap().split("\n## ").next().unwrap();
    let rows = table.lines().filter(|line| line.starts_with("| `"));
    let explained: BTreeSet<String> = rows
        .map(|row| {
            let cells: Vec<&str> = row.split('|').map(str::trim).collect();
            assert!(cells.len() == 5 && !cells[2].is_empty() && !cells[3].is_empty(), "{row}");
            cells[1].trim_matches('`').to_owned()
        })
        .collect();
    assert_eq!(explained, printed);
}
