//! A model that gives what was measured: it is run with the same loads, and what differs is corrected, a few times.

use kickcache_engine::time::{Duration, Instant};
use kickcache_model::cache_model::bare::Bare;
use kickcache_model::device_model::device_file::{DeviceFile, DeviceKind};
use kickcache_model::device_model::disk::parameters::DiskParameters;
use kickcache_model::device_model::ssd::SsdParameters;
use kickcache_model::replay::bench::{Course, run};
use kickcache_model::replay::devices::Devices;
use kickcache_model::result::RunResult;
use kickcache_model::workload::fio::FioWorkload;

use crate::cli::simulate::load::FIO_COST;
use crate::cli::simulate::probe::{Measured, PROBES, Probe, Runs};

/// A device whose single random read takes longer than this has moving parts, in microseconds.
const ROTATES: f64 = 2_000.0;
/// Corrections.
const ROUND_COUNT: usize = 16;
/// Virtual seconds of a run on a disk, which makes few accesses, and on flash.
const DISK_SECONDS: u64 = 30;
const FLASH_SECONDS: u64 = 1;
/// Stalls of flash: this many of 1000 reads.
const STALL_PERMILLE: u64 = 1;

/// The model.
pub(crate) fn describe(measured: &Runs, bytes: u64) -> DeviceKind {
    let mut kind = guess(measured);
    for _ in 0..ROUND_COUNT {
        let given = simulate(&kind, bytes);
        kind = match kind {
            DeviceKind::Disk(disk) => DeviceKind::Disk(corrected_disk(disk, measured, &given)),
            DeviceKind::Ssd(ssd) => DeviceKind::Ssd(corrected_ssd(ssd, measured, &given)),
            other => other,
        };
    }
    match kind {
        DeviceKind::Ssd(ssd) => DeviceKind::Ssd(rounded(ssd)),
        other => other,
    }
}

fn guess(measured: &Runs) -> DeviceKind {
    if measured.single.p50 > ROTATES {
        return DeviceKind::Disk(DiskParameters::rpm_7200());
    }
    let textbook = SsdParameters::articles();
    let read_median = (measured.single.p50 - 2.0).max(1.0);
    // Dies that could give twice the rate that was seen, so that they are not what limits it.
    let dies = (2.0 * measured.deep.iops * textbook.die_share * read_median / 1e6).ceil().clamp(7.0, 1_024.0);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "7 to 1024")]
    let dies = dies as usize;
    let bandwidth = (measured.sequential.bytes_per_second / 1e6).max(1.0);
    DeviceKind::Ssd(SsdParameters { dies, read_median, bandwidth, ..textbook })
}

/// What a model gives for the same loads.
///
/// # Panics
/// Never: the job files are right.
pub(crate) fn simulate(kind: &DeviceKind, bytes: u64) -> Runs {
    let [single, deep, sequential] = PROBES.map(|probe| probe_model(kind, probe, bytes));
    Runs { single, deep, sequential }
}

fn probe_model(kind: &DeviceKind, probe: Probe, bytes: u64) -> Measured {
    let seconds = if matches!(kind, DeviceKind::Disk(_)) { DISK_SECONDS } else { FLASH_SECONDS };
    let Probe { pattern, block, depth, .. } = probe;
    let job = format!(
        "[calibrate]\nioengine=libaio\nrw={pattern}\nbs={block}\niodepth={depth}\nsize={}\nnorandommap\ntime_based\n\
         runtime={seconds}\n",
        bytes >> 20 << 20
    );
    let mut load = FioWorkload::parse(&job, 1).expect("the job is right");
    let device = DeviceFile { name: String::new(), kind: *kind }.start(1);
    let length = Duration::from_millis(seconds * 1_000);
    let course = Course { start: Instant::ZERO, length, cost: FIO_COST, steady: None, ..Course::default() };
    let result = run(course, &mut load, &mut Bare::default(), &mut Devices::bare(device), &mut |_| ());
    of_result(&result)
}

#[expect(clippy::cast_precision_loss, reason = "latencies are far below 2^53 ns")]
fn of_result(result: &RunResult) -> Measured {
    let latencies = result.latencies();
    let micros = |nanos: u64| nanos as f64 / 1_000.0;
    Measured {
        iops: result.iops().max(1e-3),
        bytes_per_second: result.bytes_per_second().max(1.0),
        p50: micros(latencies.p50()),
        p99: micros(latencies.p99()),
    }
}

/// How much to change something that should grow by a ratio, a step at a time.
fn step(wanted: f64, given: f64) -> f64 {
    (wanted / given.max(1e-9)).clamp(0.5, 2.0)
}

fn corrected_ssd(ssd: SsdParameters, measured: &Runs, given: &Runs) -> SsdParameters {
    let (single, own) = (measured.single, given.single);
    let tail = |run: Measured| (run.p99 / run.p50).max(1.02).ln();
    let late = (1e6 / single.iops - 1e6 / own.iops) * 1_000.0;
    #[expect(clippy::cast_precision_loss, reason = "one")]
    let stall_mean = (ssd.stall_mean + late / STALL_PERMILLE as f64).max(0.0);
    SsdParameters {
        bandwidth: ssd.bandwidth
            * step(measured.sequential.bytes_per_second, given.sequential.bytes_per_second),
        command: (ssd.command + 1e6 / measured.deep.iops - 1e6 / given.deep.iops).clamp(0.05, 1e6),
        read_median: (ssd.read_median + single.p50 - own.p50).max(0.5),
        sigma: (ssd.sigma * step(tail(single), tail(own))).clamp(0.02, 1.5),
        stall_permille: if stall_mean > 0.0 { STALL_PERMILLE } else { 0 },
        stall_mean,
        ..ssd
    }
}

fn corrected_disk(disk: DiskParameters, measured: &Runs, given: &Runs) -> DiskParameters {
    let turn = 30e6 / disk.rpm + disk.overhead;
    let factor = step((measured.single.p50 - turn).max(100.0), (given.single.p50 - turn).max(100.0));
    let rate = step(measured.sequential.bytes_per_second, given.sequential.bytes_per_second);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "bytes of a track"
    )]
    let track_bytes = ((disk.track_bytes as f64 * rate) as u64).clamp(4_096, 1 << 30);
    // In a deep queue seeks are short: what is the same for all of them counts most.
    let short = step(given.deep.iops, measured.deep.iops);
    DiskParameters {
        seek_constant: (disk.seek_constant * short).max(1.0),
        seek_root: (disk.seek_root * factor).max(1e-3),
        seek_linear: (disk.seek_linear * factor).max(1e-6),
        settle: (disk.settle * short).max(1.0),
        track_bytes,
        ..disk
    }
}

/// Figures of three digits, which is more than three seconds tell.
fn rounded(ssd: SsdParameters) -> SsdParameters {
    let three = |number: f64| {
        if number <= 0.0 {
            return 0.0;
        }
        let scale = 10_f64.powf(2.0 - number.log10().floor());
        (number * scale).round() / scale
    };
    SsdParameters {
        command: three(ssd.command),
        bandwidth: three(ssd.bandwidth),
        read_median: three(ssd.read_median),
        sigma: three(ssd.sigma),
        stall_mean: three(ssd.stall_mean),
        ..ssd
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_near(one: f64, other: f64, percent: f64) -> bool {
        (one / other - 1.0).abs() * 100.0 <= percent
    }

    #[test]
    fn flash_that_is_measured_is_found_again() {
        let truth = SsdParameters {
            read_median: 70.0,
            bandwidth: 1_500.0,
            command: 4.0,
            ..SsdParameters::articles()
        };
        let measured = simulate(&DeviceKind::Ssd(truth), 4 << 30);
        let DeviceKind::Ssd(found) = describe(&measured, 4 << 30) else { panic!("it is flash") };
        assert!(is_near(found.read_median, 70.0, 5.0) && is_near(found.bandwidth, 1_500.0, 5.0), "{found:?}");
        let given = simulate(&DeviceKind::Ssd(found), 4 << 30);
        assert!(is_near(given.deep.iops, measured.deep.iops, 3.0), "{given:?} {measured:?}");
        assert!(is_near(given.single.p99, measured.single.p99, 10.0), "{given:?} {measured:?}");
    }

    #[test]
    fn a_disk_that_is_measured_is_found_again() {
        let truth =
            DiskParameters { seek_constant: 3_000.0, track_bytes: 900_000, ..DiskParameters::rpm_7200() };
        let measured = simulate(&DeviceKind::Disk(truth), 1 << 40);
        let kind = describe(&measured, 1 << 40);
        assert!(matches!(kind, DeviceKind::Disk(_)), "it rotates");
        let given = simulate(&kind, 1 << 40);
        assert!(is_near(given.single.p50, measured.single.p50, 5.0), "{given:?} {measured:?}");
        assert!(is_near(given.sequential.iops, measured.sequential.iops, 5.0), "{given:?} {measured:?}");
        assert!(is_near(given.deep.iops, measured.deep.iops, 15.0), "{given:?} {measured:?}");
    }
}
