//! Runs of bcache on the devices of the published rows.

use super::*;
use crate::device_model::device_file::built_in;
use crate::replay::bench::{Course, run, run_idle};
use crate::workload::fio::FioWorkload;

const MIB: u64 = 1 << 20;

fn start(origin_bytes: u64) -> (Bcache, Devices) {
    let device = |name, seed| built_in(name).unwrap().start(seed);
    let devices = Devices::cached(device("article-ssd", 1), device("mirrored-5400", 2));
    let shape = BcacheShape { cache_bytes: 64 * MIB, origin_bytes, sequential_cutoff: 4 * MIB, seed: 1 };
    (Bcache::new(shape), devices)
}

fn result_of(job: &str, seconds: u64) -> crate::result::RunResult {
    let mut load = FioWorkload::parse(job, 1).unwrap();
    let (mut cache, mut devices) = start(512 * MIB);
    let course = Course { length: Duration::from_millis(seconds * 1_000), ..Course::default() };
    run(course, &mut load, &mut cache, &mut devices, &mut |_| ())
}

#[test]
fn paced_writes_leave_a_tenth_of_the_cache_dirty() {
    let job = "[w]\nrw=randwrite\nbs=4k\nsize=512m\niodepth=16\nrate_iops=100\ntime_based\nruntime=300\nnorandommap\n";
    let dirty = result_of(job, 300).dirty_bytes;
    let tenth = 64 * MIB / 10;
    assert!((tenth..tenth + 800 * 512 * 40).contains(&dirty), "{dirty} bytes of 64 MiB");
}

#[test]
fn dirty_blocks_are_written_back_once_the_cache_is_idle() {
    let (mut cache, mut devices) = start(512 * MIB);
    let job = "[w]\nrw=randwrite\nbs=4k\nsize=512m\niodepth=16\nnumber_ios=1000\n";
    let mut load = FioWorkload::parse(job, 1).unwrap();
    let course = Course { length: Duration::from_millis(20_000), ..Course::default() };
    let result = run(course, &mut load, &mut cache, &mut devices, &mut |_| ());
    let at = Instant::from_nanos(result.nanos);
    let at = run_idle(&mut cache, &mut devices, at, Duration::from_millis(10_000));
    assert!(cache.tally().dirty_bytes > 3 * MIB, "{result:?}");
    run_idle(&mut cache, &mut devices, at, Duration::from_millis(60_000));
    assert_eq!(cache.tally().dirty_bytes, 0);
}

#[test]
fn metadata_is_written_to_the_cache_device() {
    let job =
        "[w]\nrw=randwrite\nbs=4k\nsize=512m\niodepth=16\nfsync=64\ntime_based\nruntime=10\nnorandommap\n";
    let result = result_of(job, 10);
    let device = result.cache_device.unwrap();
    // Priorities: 64 KiB for each 256 KiB of data; journal and leaves: 24 bytes for each 4 KiB, rounded up to blocks.
    let metadata = device.write_bytes - result.logged_bytes;
    let logged = result.logged_bytes;
    assert!((logged / 4..logged / 2).contains(&metadata), "{metadata} bytes for {logged}");
    assert!(device.flushes * 64 >= result.jobs[0].writes.count, "{} flushes", device.flushes);
}

#[test]
fn write_larger_than_the_free_buckets_ends() {
    let job = "[w]\nrw=write\nbs=4m\nsize=512m\niodepth=2\ntime_based\nruntime=20\n";
    let result = result_of(job, 20);
    assert!(result.count() > 100, "{} writes", result.count());
}
