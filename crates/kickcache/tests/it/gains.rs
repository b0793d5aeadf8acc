//! The benefit of the cache in `status`.

use serde_json::Value;

use crate::daemon::{Daemon, Spec, VOLUME};
use crate::need_kickcache;
use crate::scratch::{MIB, Scratch};

const BLOCKS: u64 = 32;
/// So far that no miss reads ahead another block.
const STRIDE: u64 = 128 << 10;

fn start(scratch: &Scratch, mode: &'static str) -> Daemon {
    let origin = scratch.random("origin", 16 * MIB, 1);
    let mut spec = Spec::new(scratch, &origin, mode, "16M");
    spec.extra = vec!["--fill-window-max".into(), "4K".into()];
    spec.start()
}

fn volume(daemon: &Daemon) -> Value {
    daemon.status()["caches"][0]["volumes"][0].clone()
}

#[test]
fn reads_and_writes_are_counted_by_device_with_times() {
    need_kickcache!();
    let scratch = Scratch::new();
    let daemon = start(&scratch, "write-through");
    let mut client = daemon.connect();
    // If the cache device is slower than the origin, hits are read from the origin for a while.
    let mut reads = 0;
    while reads < 3 * BLOCKS || volume(&daemon)["since_start"]["hits"]["count"] == 0 {
        (0..BLOCKS).for_each(|block| drop(client.read(block * STRIDE, 4096)));
        reads += BLOCKS;
    }
    (0..7).for_each(|block| client.write(block * STRIDE, &[9; 8192]));
    let found = volume(&daemon);
    for name in ["since_start", "recent"] {
        let activity = &found[name];
        let count = |class: &str| activity[class]["count"].as_u64().unwrap();
        assert_eq!((count("hits") + count("misses"), count("writes")), (reads, 7), "{name}: {activity}");
        let misses = count("misses");
        assert!(misses >= BLOCKS, "{name}: {activity}");
        for class in ["hits", "misses", "writes"] {
            let [mean, p99] = ["mean_ms", "p99_ms"].map(|key| activity[class][key].as_f64().unwrap());
            assert!(mean > 0.0 && p99 > 0.0 && mean < 10_000.0, "{name}, {class}: {activity}");
        }
        let seconds = activity["seconds"].as_f64().unwrap();
        let rate = |key: &str| (activity[key].as_f64().unwrap() * seconds).round();
        let rates =
            ["reads", "writes", "read_bytes", "write_bytes"].map(|what| rate(&format!("{what}_per_second")));
        let bytes = [reads, 7, reads * 4096, 7 * 8192].map(|number| number as f64);
        assert_eq!(rates, bytes, "{name}: {activity}");
    }
    let counted = |name: &str| found["counters"][name].as_f64().unwrap();
    let (hits, all) = (counted("hit_blocks"), counted("hit_blocks") + counted("miss_blocks"));
    assert_eq!((found["hit_ratio"].as_f64(), all), (Some(hits / all), reads as f64));
    let requests = found["origin_requests_per_1000"].as_f64().unwrap();
    let sum = counted("origin_reads") + counted("origin_writes");
    assert!((requests - sum / (reads + 7) as f64 * 1e3).abs() < 1e-6, "{requests}, {sum}");
    assert!(sum >= (BLOCKS + 7) as f64, "{sum}");
    assert!(daemon.status()["caches"][0]["counters"]["write_bytes"].as_u64() > Some(32 * 4096));
    let page = daemon.control(&["status"]);
    assert!(
        page.contains(&format!("v: {reads} reads, {:.1} % of the data from the cache", hits / all * 100.0)),
        "{page}"
    );
    assert!(page.contains("written to it") && page.contains("writes take "), "{page}");
}

#[test]
fn bypassed_bytes_are_reported() {
    need_kickcache!();
    let scratch = Scratch::new();
    let daemon = start(&scratch, "bypass");
    let mut client = daemon.connect();
    (0..BLOCKS).for_each(|block| drop(client.read(block * STRIDE, 4096)));
    let found = volume(&daemon);
    assert_eq!(found["bypass_bytes"].as_u64(), Some(BLOCKS * 4096), "{found}");
    assert_eq!(found["since_start"]["misses"]["count"].as_u64(), Some(BLOCKS), "{found}");
    assert!(daemon.control(&["status"]).contains("128 KiB bypassed the cache"));
}

#[test]
fn the_mode_and_the_io_engine_are_reported() {
    need_kickcache!();
    let scratch = Scratch::new();
    let daemon = start(&scratch, "write-around");
    assert_eq!(daemon.control(&["mode", VOLUME]), "write-around\n");
    daemon.control(&["mode", VOLUME, "bypass"]);
    assert_eq!(daemon.control(&["mode", VOLUME]), "bypass\n");
    let status = daemon.status();
    let used = status["caches"][0]["io_engine"].as_str().unwrap();
    assert!(["io_uring", "threads"].contains(&used), "{used}");
    let page = daemon.control(&["status"]);
    assert!(page.lines().any(|line| line.ends_with(&format!(", auto ({used})"))), "{page}");
}

#[test]
fn a_backup_during_a_pause_displaces_no_blocks() {
    need_kickcache!();
    let scratch = Scratch::new();
    let origin = scratch.random("origin", 64 * MIB, 7);
    let daemon = Spec::new(&scratch, &origin, "write-back", "16M").start();
    let mut client = daemon.connect();
    client.write(0, &[7; 65536]);
    drop(client.read(MIB, 4096));
    let cached = || daemon.volume_count("cached_bytes");
    let before = cached();
    daemon.control(&["pause-caching", VOLUME, "--for", "1h"]);
    (4..64).for_each(|at| drop(client.read(at * MIB, 4096)));
    assert_eq!(cached(), before);
    client.write(2 * MIB, &[8; 4096]);
    assert_eq!(cached(), before + 4096, "writes go on");
    let left = daemon.status()["caches"][0]["volumes"][0]["caching_paused_seconds"].as_f64().unwrap();
    assert!((3_000.0..=3_600.0).contains(&left), "{left}");
    daemon.control(&["pause-caching", VOLUME, "--end"]);
    drop(client.read(40 * MIB, 4096));
    assert!(cached() > before + 4096, "reads are cached again");
    assert!(daemon.status()["caches"][0]["volumes"][0]["caching_paused_seconds"].is_null());
    drop(client);
    daemon.stop();
}
