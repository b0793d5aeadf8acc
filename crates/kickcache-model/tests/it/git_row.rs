//! A clone and greps of a repository of 20,000 files, as `kickcache record` saw them, on the disks of the published runs.

use std::path::{Path, PathBuf};

use kickcache_engine::time::{Duration, Instant};
use kickcache_model::cache_model::cache_kind::CacheKind;
use kickcache_model::device_model::device_file::built_in;
use kickcache_model::replay::bench::{Course, run, run_idle};
use kickcache_model::replay::devices::Devices;
use kickcache_model::trace_file::survey::survey;
use kickcache_model::workload::trace::{Pace, TraceWorkload};

/// The git of the published runs searches with this many threads.
const DEPTH: u32 = 8;
const SIZE: u64 = 4 << 30;
const PARTS: [&str; 5] = ["clone", "grep", "grep", "grep", "grep"];
/// Pause while the page cache is dropped.
const PAUSE: Duration = Duration::from_millis(2_000);
const LENGTH: Duration = Duration::from_millis(3_600_000);

fn recording(part: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/git").join(part).with_extension("kct")
}

fn seconds(cache: CacheKind, mut devices: Devices) -> Vec<f64> {
    let mut model = cache.start(SIZE, SIZE, 1).expect("possible sizes");
    let mut start = Instant::ZERO;
    let mut took = Vec::new();
    for part in PARTS {
        let path = recording(part);
        let mut load = TraceWorkload::open(
            &path,
            &survey(&path, None).expect("a recording"),
            Pace::Closed { depth: DEPTH },
        )
        .expect("a recording");
        let course = Course { start, length: LENGTH, ..Course::default() };
        let nanos = run(course, &mut load, model.as_mut(), &mut devices, &mut |_| ()).nanos;
        took.push(std::time::Duration::from_nanos(nanos).as_secs_f64());
        start = run_idle(model.as_mut(), &mut devices, start.plus(Duration::from_nanos(nanos)), PAUSE);
    }
    took
}

#[test]
fn git_clone_and_later_greps_match_the_ssd() {
    let device = |name, seed| built_in(name).unwrap().start(seed);
    let cached = || Devices::cached(device("article-ssd", 1), device("mirrored-5400", 2));
    let ssd = seconds(CacheKind::None, Devices::bare(device("article-ssd", 1)));
    let show = |name: &str, took: &[f64]| {
        let cells: Vec<String> =
            took.iter().zip(&ssd).map(|(took, ssd)| format!("{took:.2} s ({:.2}x)", took / ssd)).collect();
        println!("| {name} | {} |", cells.join(" | "));
    };
    show("SSD", &ssd);
    show("disks", &seconds(CacheKind::None, Devices::bare(device("mirrored-5400", 2))));
    for name in ["dm-cache-write-back", "bcache", "bcache-no-cutoff"] {
        show(name, &seconds(name.parse().unwrap(), cached()));
    }
    let ours = seconds("kickcache-write-back".parse().unwrap(), cached());
    show("kickcache", &ours);
    assert!(ours[0] <= 1.10 * ssd[0], "{ours:?} against {ssd:?}");
    for later in 2..PARTS.len() {
        assert!(ours[later] <= 1.15 * ssd[later], "{ours:?} against {ssd:?}");
    }
}
