use std::time::Duration;

use kickcache_model::device_model::device_file::built_in;
use kickcache_model::device_model::disk::parameters::DiskParameters;
use kickcache_model::device_model::remote::RemoteParameters;
use kickcache_model::device_model::ssd::SsdParameters;

use super::*;
use crate::cli::simulate::calibrate::probe::{Probe, ProbeResult, READS, RunPair, WRITES};

const GIB: u64 = 1 << 30;
const SHORTEST: Duration = Duration::from_millis(100);

/// The probes' figures on a model whose parameters are unknown to the fit.
fn probed(kind: &DeviceKind, bench: &Bench) -> Runs {
    let unknown = ProbeResult {
        iops: 5_000.0,
        bytes_per_second: 0.0,
        p10: 0.0,
        p50: 0.0,
        p90: 0.0,
        p99: 0.0,
        late: 0.0,
        late_mean: 0.0,
    };
    // Enough long writes are compared to give a rate.
    let long = ProbeResult { iops: 300.0, ..unknown };
    let of = |probe: &Probe| if probe.block == "4k" { unknown } else { long };
    let nothing = Runs { reads: [unknown; READS.len()], writes: Some(WRITES.each_ref().map(of)) };
    bench.runs(kind, &nothing)
}

fn assert_near(name: &str, found: f64, wanted: f64, percent: f64) {
    assert!((found / wanted - 1.0).abs() * 100.0 <= percent, "{name}: {found}, but it is {wanted}");
}

/// Compares rates, medians and tails of a model with those of its calibrated copy.
fn assert_same(found: &DeviceKind, truth: &DeviceKind, bench: &Bench) {
    let measured = probed(truth, bench);
    for RunPair { probe, measured: wanted, given: found } in measured.beside(&probed(found, bench)) {
        assert_near(&format!("{}, IOPS", probe.name), found.iops, wanted.iops, 6.0);
        assert_near(&format!("{}, p50", probe.name), found.p50, wanted.p50, 8.0);
        assert_near(&format!("{}, p99", probe.name), found.p99, wanted.p99, 45.0);
    }
}

#[test]
fn flash_that_slows_down_from_the_first_is_found_again() {
    let bench = Bench { bytes: 4 * GIB, access_cost: 6.0, shortest: SHORTEST };
    let truth = SsdParameters {
        read_median: 33.0,
        command: 2.0,
        crowding: 11.0,
        bandwidth: 1_500.0,
        write_median: 48.0,
        write_crowding: Some(4.0),
        write_bandwidth: Some(700.0),
        wide_crowding: 1.0,
        mixing: 0.2,
        flush: 200.0,
        ..SsdParameters::articles()
    };
    let DeviceKind::Ssd(found) = describe(&probed(&DeviceKind::Ssd(truth), &bench), &bench) else {
        panic!("it is flash")
    };
    assert_near("read_median", found.read_median, 33.0, 8.0);
    assert_near("crowding", found.crowding, 11.0, 15.0);
    assert_near("bandwidth", found.bandwidth, 1_500.0, 5.0);
    assert_near("write_median", found.write_median, 48.0, 8.0);
    assert_near("write_crowding", found.write_crowding.unwrap(), 4.0, 15.0);
    assert_near("write_bandwidth", found.write_bandwidth.unwrap(), 700.0, 5.0);
    assert_near("wide_crowding", found.wide_crowding, 1.0, 15.0);
    assert_near("mixing", found.mixing, 0.2, 30.0);
    assert_near("flush", found.flush, 200.0, 10.0);
    assert!(found.pause_every <= 0.0, "it makes no pauses: {found:?}");
    assert_same(&DeviceKind::Ssd(found), &DeviceKind::Ssd(truth), &bench);
}

#[test]
fn flash_with_a_knee_is_found_again() {
    let bench = Bench { bytes: 4 * GIB, access_cost: 2.0, shortest: SHORTEST };
    let truth =
        SsdParameters { read_median: 70.0, command: 9.0, bandwidth: 900.0, ..SsdParameters::articles() };
    let found = describe(&probed(&DeviceKind::Ssd(truth), &bench), &bench);
    assert_same(&found, &DeviceKind::Ssd(truth), &bench);
}

#[test]
fn flash_that_pauses_is_found_again() {
    let bench = Bench { bytes: 4 * GIB, access_cost: 2.0, shortest: SHORTEST };
    let truth = SsdParameters {
        read_median: 40.0,
        crowding: 10.0,
        pause_every: 25_000.0,
        pause_max: 4_000.0,
        bandwidth: 1_500.0,
        ..SsdParameters::articles()
    };
    let long = Bench { shortest: Duration::from_secs(3), ..bench };
    let DeviceKind::Ssd(found) = describe(&probed(&DeviceKind::Ssd(truth), &long), &bench) else {
        panic!("it is flash")
    };
    assert_same(&DeviceKind::Ssd(found), &DeviceKind::Ssd(truth), &long);
    assert_near("pause_max", found.pause_max, 4_000.0, 30.0);
    assert_near("time in pauses", found.pause_max / found.pause_every, 0.16, 30.0);
}

#[test]
fn a_heavy_tail_is_found_in_addition_to_rare_pauses() {
    let bench = Bench { bytes: 4 * GIB, access_cost: 6.0, shortest: SHORTEST };
    let truth = SsdParameters {
        read_median: 33.0,
        crowding: 11.0,
        sigma: 0.1,
        tail_permille: 20,
        tail_time: 250.0,
        pause_every: 70_000.0,
        pause_max: 3_000.0,
        ..SsdParameters::articles()
    };
    let long = Bench { shortest: Duration::from_secs(3), ..bench };
    let measured = probed(&DeviceKind::Ssd(truth), &long);
    let found = probed(&describe(&measured, &bench), &long);
    for (run, (wanted, found)) in measured.random().iter().zip(found.random()).take(3).enumerate() {
        assert!(wanted.p99 > 1.6 * wanted.p50, "run {run} has a tail: {wanted:?}");
        assert_near(&format!("run {run}, p99"), found.p99, wanted.p99, 15.0);
        assert_near(&format!("run {run}, p50"), found.p50, wanted.p50, 5.0);
        assert_near(&format!("run {run}, IOPS"), found.iops, wanted.iops, 3.0);
    }
}

#[test]
fn the_fastest_run_may_be_one_that_writes() {
    let bench = Bench { bytes: GIB, access_cost: 2.0, shortest: SHORTEST };
    let truth = SsdParameters { read_median: 200.0, write_median: 10.0, ..SsdParameters::articles() };
    let runs = probed(&DeviceKind::Ssd(truth), &bench);
    let writes = runs.writes.unwrap();
    assert!(runs.iops_max() >= writes[1].iops && writes[1].iops > runs.reads[3].iops, "{runs:?}");
    assert!(Runs { writes: None, ..runs }.iops_max() <= runs.reads[3].iops, "{runs:?}");
}

#[test]
fn pauses_of_one_round_of_three_are_not_the_disks() {
    let bench = Bench { bytes: 4 * GIB, access_cost: 2.0, shortest: Duration::from_secs(3) };
    let quiet = SsdParameters { read_median: 40.0, crowding: 10.0, ..SsdParameters::articles() };
    let paused = SsdParameters { pause_every: 25_000.0, pause_max: 4_000.0, ..quiet };
    let [quiet, paused] = [quiet, paused].map(|ssd| probed(&DeviceKind::Ssd(ssd), &bench).reads);
    for (quiet, paused) in quiet.into_iter().zip(paused) {
        assert_eq!(ProbeResult::median(&[quiet, paused, quiet]), quiet);
    }
    assert!(paused[0].late > 0.0 && quiet[0].late <= 0.0, "{paused:?}");
}

#[test]
fn a_network_disk_is_recognised_with_its_width() {
    // In less time, too few transfers would end.
    let bench = Bench { bytes: GIB, access_cost: 10.0, shortest: Duration::from_secs(1) };
    for (read_median, width) in [(5_200.0, 16), (5_200.0, 1), (900.0, 8), (5_200.0, 0)] {
        let truth = RemoteParameters {
            read_median,
            write_median: 2.0 * read_median,
            flush: 1_000.0,
            sigma: 0.05,
            tail_permille: 0,
            tail_factor: 1.0,
            stream_bandwidth: 1_000.0,
            bandwidth: 2_000.0,
            iops: 1e6,
            width,
        };
        let DeviceKind::Remote(found) = describe(&probed(&DeviceKind::Remote(truth), &bench), &bench) else {
            panic!("{read_median} µs, {width} wide: it is remote")
        };
        assert_eq!(found.width, width, "{read_median} µs");
        assert_near("read_median", found.read_median, read_median, 5.0);
        assert_near("write_median", found.write_median, 2.0 * read_median, 5.0);
        assert_near("flush", found.flush, 1_000.0, 20.0);
        assert_same(&DeviceKind::Remote(found), &DeviceKind::Remote(truth), &bench);
    }
}

#[test]
fn the_built_in_devices_are_distinguished() {
    let bench = Bench { bytes: 64 * GIB, access_cost: 2.0, shortest: SHORTEST };
    for (name, wanted) in [
        ("article-ssd", DeviceClass::Flash),
        ("disk-7200", DeviceClass::Rotating),
        ("mirrored-5400", DeviceClass::Rotating),
        ("network-disk", DeviceClass::Remote),
        ("object-store", DeviceClass::Remote),
    ] {
        let runs = probed(&built_in(name).unwrap().kind, &bench);
        assert_eq!(kind::seen(&runs), wanted, "{name}: {runs:?}");
    }
}

#[test]
fn a_disk_that_is_measured_is_found_again() {
    let bench = Bench { bytes: 1 << 40, access_cost: 12.0, shortest: SHORTEST };
    let truth = DiskParameters { seek_constant: 3_000.0, track_bytes: 900_000, ..DiskParameters::rpm_7200() };
    let measured = probed(&DeviceKind::Disk(truth), &bench);
    let kind = describe(&measured, &bench);
    assert!(matches!(kind, DeviceKind::Disk(_)), "it rotates");
    let given = probed(&kind, &bench);
    assert_near("p50", given.reads[0].p50, measured.reads[0].p50, 5.0);
    assert_near("in order", given.reads[5].iops, measured.reads[5].iops, 5.0);
    assert_near("32 in flight", given.reads[3].iops, measured.reads[3].iops, 15.0);
}
