//! `kickcache simulate --calibrate`: measures a device with a few short reads of fio and describes it.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail};
use kickcache_sim::model::device_file::{DeviceFile, DeviceKind};
use kickcache_sim::model::disk::DiskParameters;
use kickcache_sim::model::ssd::SsdParameters;
use serde_json::Value;

/// Seconds of each run.
const SECONDS: &str = "3";
/// A device whose single random read takes longer than this has moving parts, in microseconds.
const ROTATES: f64 = 2_000.0;
/// Bytes of a random read.
const BLOCK: f64 = 4096.0;

/// What one run of fio gave.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Measured {
    iops: f64,
    bytes_per_second: f64,
    p50_micros: f64,
    p99_micros: f64,
}

/// The runs that describe a device.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Runs {
    single: Measured,
    deep: Measured,
    sequential: Measured,
}

/// Measures a device or a file; only reads.
pub(crate) fn calibrate(path: &Path) -> anyhow::Result<DeviceFile> {
    if !path.exists() {
        bail!("{} does not exist; name a block device or a file of some GiB", path.display());
    }
    let runs = Runs {
        single: fio(path, "randread", "4k", 1)?,
        deep: fio(path, "randread", "4k", 32)?,
        sequential: fio(path, "read", "1m", 4)?,
    };
    Ok(DeviceFile { name: format!("{}, measured", path.display()), kind: describe(&runs) })
}

fn fio(path: &Path, access: &str, block: &str, depth: u32) -> anyhow::Result<Measured> {
    let output = Command::new("fio")
        .args(["--name=calibrate", "--readonly", "--direct=1", "--ioengine=libaio", "--time_based"])
        .args(["--output-format=json", "--norandommap", &format!("--runtime={SECONDS}")])
        .arg(format!("--filename={}", path.display()))
        .args([format!("--rw={access}"), format!("--bs={block}"), format!("--iodepth={depth}")])
        .output()
        .context("fio cannot be run; install fio, which measures the device")?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        bail!("fio could not read {}: {said}", path.display());
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let json = text.find('{').map(|start| &text[start..]).unwrap_or_default();
    let value: Value = serde_json::from_str(json).context("fio printed something else than JSON")?;
    parse(&value).with_context(|| format!("fio measured nothing on {}; is the file empty?", path.display()))
}

fn parse(value: &Value) -> Option<Measured> {
    let read = value.get("jobs")?.get(0)?.get("read")?;
    let percentile = |name: &str| {
        let nanos = read.get("clat_ns")?.get("percentile")?.get(name)?.as_f64()?;
        Some(nanos / 1_000.0)
    };
    Some(Measured {
        iops: read.get("iops")?.as_f64()?,
        bytes_per_second: read.get("bw_bytes")?.as_f64()?,
        p50_micros: percentile("50.000000")?,
        p99_micros: percentile("99.000000")?,
    })
}

/// The model that gives about these figures.
fn describe(runs: &Runs) -> DeviceKind {
    if runs.single.p50_micros > ROTATES { DeviceKind::Disk(disk(runs)) } else { DeviceKind::Ssd(ssd(runs)) }
}

fn ssd(runs: &Runs) -> SsdParameters {
    let bandwidth = (runs.sequential.bytes_per_second / 1e6).max(1.0);
    let bus = BLOCK / bandwidth;
    // What a command takes beside its bytes: the deep run shows the highest rate.
    let command = (1e6 / runs.deep.iops.max(1.0) - bus).max(0.1) * 0.5;
    let median = (runs.single.p50_micros - bus - command).max(1.0);
    // 99 % of a log-normal distribution lie below 2.33 deviations.
    let sigma = ((runs.single.p99_micros / runs.single.p50_micros).max(1.0).ln() / 2.33).clamp(0.05, 1.0);
    SsdParameters { command, bandwidth, read_median: median, sigma, ..SsdParameters::articles() }
}

fn disk(runs: &Runs) -> DiskParameters {
    let textbook = DiskParameters::rpm_7200();
    // A single read takes a seek, half a revolution and the overhead.
    let seek = runs.single.p50_micros - 30e6 / textbook.rpm - textbook.overhead;
    let usual = runs_of(&textbook);
    let factor = (seek / usual).clamp(0.1, 10.0);
    let revolution = 60.0 / textbook.rpm;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "at least a block, at most GB/s"
    )]
    let track_bytes = (runs.sequential.bytes_per_second * revolution).max(BLOCK) as u64;
    DiskParameters {
        seek_constant: textbook.seek_constant * factor,
        seek_root: textbook.seek_root * factor,
        seek_linear: textbook.seek_linear * factor,
        settle: textbook.settle * factor,
        track_bytes,
        ..textbook
    }
}

/// The seek over a third of a disk's way, in microseconds.
fn runs_of(disk: &DiskParameters) -> f64 {
    /// Cylinders of a third of 4 TB on a textbook disk.
    const THIRD: f64 = 89_000.0;
    disk.seek_constant + disk.seek_root * THIRD.sqrt() + disk.seek_linear * THIRD
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(iops: f64, megabytes: f64, p50_micros: f64, p99_micros: f64) -> Measured {
        Measured { iops, bytes_per_second: megabytes * 1e6, p50_micros, p99_micros }
    }

    #[test]
    fn flash_and_rotating_disks_are_told_apart() {
        let single = measured(8_000.0, 33.0, 110.0, 170.0);
        let runs = Runs {
            single,
            deep: measured(100_000.0, 400.0, 300.0, 500.0),
            sequential: measured(540.0, 540.0, 7_000.0, 9_000.0),
        };
        let DeviceKind::Ssd(ssd) = describe(&runs) else { panic!("it is flash") };
        assert!((90.0..110.0).contains(&ssd.read_median), "{ssd:?}");
        let slow = measured(75.0, 0.3, 13_000.0, 25_000.0);
        let runs = Runs { single: slow, sequential: measured(180.0, 180.0, 22_000.0, 25_000.0), ..runs };
        let DeviceKind::Disk(disk) = describe(&runs) else { panic!("it rotates") };
        assert!((1_400_000..1_600_000).contains(&disk.track_bytes), "{disk:?}");
    }

    #[test]
    fn what_fio_prints_is_read() {
        let text = r#"{"jobs":[{"read":{"iops":5.5,"bw_bytes":22528,
            "clat_ns":{"percentile":{"50.000000":1000,"99.000000":2000}}}}]}"#;
        let value: Value = serde_json::from_str(text).unwrap();
        assert_eq!(parse(&value), Some(measured(5.5, 0.022_528, 1.0, 2.0)));
        assert_eq!(parse(&Value::Null), None);
    }
}
