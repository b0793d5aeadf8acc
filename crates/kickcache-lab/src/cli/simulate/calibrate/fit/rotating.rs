//! A rotating disk.

use kickcache_model::device_model::device_file::DeviceKind;
use kickcache_model::device_model::disk::parameters::DiskParameters;

use crate::cli::simulate::calibrate::probe::Runs;
use crate::cli::simulate::calibrate::simulated::Bench;

/// How often the model is corrected.
const ROUND_COUNT: usize = 16;

pub(super) fn describe(measured: &Runs, bench: &Bench) -> DeviceKind {
    let mut disk = DiskParameters::rpm_7200();
    let reads = Runs { writes: None, ..*measured };
    for _ in 0..ROUND_COUNT {
        disk = corrected(disk, measured, &bench.runs(&DeviceKind::Disk(disk), &reads));
    }
    DeviceKind::Disk(disk)
}

/// The factor for changing a parameter, bounded to one step.
fn step(wanted: f64, given: f64) -> f64 {
    (wanted / given.max(1e-9)).clamp(0.5, 2.0)
}

fn corrected(disk: DiskParameters, measured: &Runs, given: &Runs) -> DiskParameters {
    let [single, .., deep] = measured.random();
    let [own, .., own_deep] = given.random();
    let turn = 30e6 / disk.rpm + disk.overhead;
    let factor = step((single.p50 - turn).max(100.0), (own.p50 - turn).max(100.0));
    let rate = step(measured.reads[5].bytes_per_second, given.reads[5].bytes_per_second);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "bytes of a track"
    )]
    let track_bytes = ((disk.track_bytes as f64 * rate) as u64).clamp(4_096, 1 << 30);
    // In a deep queue seeks are short: the common part of all seeks counts most.
    let short = step(own_deep.iops, deep.iops);
    DiskParameters {
        seek_constant: (disk.seek_constant * short).max(1.0),
        seek_root: (disk.seek_root * factor).max(1e-3),
        seek_linear: (disk.seek_linear * factor).max(1e-6),
        settle: (disk.settle * short).max(1.0),
        track_bytes,
        ..disk
    }
}
