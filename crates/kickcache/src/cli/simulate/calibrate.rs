//! `kickcache simulate --calibrate`: measures a device with a few short reads of fio and describes it.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail, ensure};
use indicatif::{ProgressBar, ProgressStyle};
use kickcache_model::device_model::device_file::{DeviceFile, DeviceKind};
use kickcache_units::show_bytes;
use serde_json::Value;

use crate::cli::simulate::fit;
use crate::cli::simulate::probe::{Measured, PROBES, Probe, Runs};

/// Seconds of each run.
const SECONDS: u64 = 3;
/// A smaller file says nothing.
const BYTES_MIN: u64 = 16 << 20;

/// Measures a device or a file; gives the text of a device file. Only reads.
pub(crate) fn calibrate(path: &Path) -> anyhow::Result<String> {
    let bytes = size(path)?;
    let bar = ProgressBar::new(PROBES.len() as u64);
    if let Ok(style) = ProgressStyle::with_template("{bar:40} {elapsed}  {msg}") {
        bar.set_style(style);
    }
    let measure = |probe: &Probe| {
        bar.set_message(format!("{SECONDS} s of fio: {}", probe.name));
        let measured = fio(path, probe)?;
        bar.inc(1);
        anyhow::Ok(measured)
    };
    let [single, deep, sequential] = &PROBES;
    let runs = Runs { single: measure(single)?, deep: measure(deep)?, sequential: measure(sequential)? };
    bar.finish_and_clear();
    let kind = fit::describe(&runs, bytes);
    let device = DeviceFile { name: format!("{}, measured", path.display()), kind };
    Ok(format!("{}{}", remarks(path, &runs, &fit::simulate(&kind, bytes), kind), device.text()))
}

fn size(path: &Path) -> anyhow::Result<u64> {
    let name = path.display();
    if !path.exists() {
        bail!("{name} does not exist; name a block device or a file of some GiB");
    }
    let kind = path.metadata().with_context(|| format!("{name} cannot be read"))?.file_type();
    ensure!(!kind.is_dir(), "{name} is a directory; name a block device or a file of some GiB");
    let is_disk = kind.is_file() || kind.is_block_device();
    ensure!(
        is_disk,
        "{name} is neither a block device nor a file; name a block device or a file of some GiB"
    );
    let mut file = File::open(path).with_context(|| format!("{name} cannot be read"))?;
    let bytes = file.seek(SeekFrom::End(0)).with_context(|| format!("{name} has no size"))?;
    let least = show_bytes(BYTES_MIN);
    ensure!(bytes >= BYTES_MIN, "{name} has {}; at least {least} are needed", show_bytes(bytes));
    let known = file.metadata()?;
    if known.is_file() && known.blocks() * 512 < bytes / 10 * 9 {
        eprintln!(
            "warning: {name} has holes, which are read faster than data: the figures will be too good; better fill it first."
        );
    }
    Ok(bytes)
}

fn fio(path: &Path, probe: &Probe) -> anyhow::Result<Measured> {
    let output = Command::new("fio")
        .args(["--name=calibrate", "--readonly", "--direct=1", "--ioengine=libaio", "--time_based"])
        .args(["--output-format=json", "--norandommap", "--lat_percentiles=1", "--ramp_time=200ms"])
        .args([format!("--runtime={SECONDS}"), format!("--filename={}", path.display())])
        .args([format!("--rw={}", probe.pattern), format!("--bs={}", probe.block)])
        .arg(format!("--iodepth={}", probe.depth))
        .output()
        .context("fio cannot be run; install fio, which measures the device")?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ");
        bail!("fio could not read {}: {said}", path.display());
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let json = text.find('{').map(|start| &text[start..]).unwrap_or_default();
    let value: Value = serde_json::from_str(json).context("fio printed something else than JSON")?;
    parse(&value).with_context(|| format!("fio measured nothing on {}", path.display()))
}

fn parse(value: &Value) -> Option<Measured> {
    let read = value.get("jobs")?.get(0)?.get("read")?;
    let latency = read.get("lat_ns")?;
    let micros = |value: Option<&Value>| Some(value?.as_f64()? / 1_000.0);
    let percentile = |name: &str| micros(latency.get("percentile")?.get(name));
    Some(Measured {
        iops: read.get("iops")?.as_f64().filter(|iops| *iops > 0.0)?,
        bytes_per_second: read.get("bw_bytes")?.as_f64()?,
        p50: percentile("50.000000")?,
        p99: percentile("99.000000")?,
    })
}

/// What was measured, and what the description gives for it, as comments.
fn remarks(path: &Path, measured: &Runs, model: &Runs, kind: DeviceKind) -> String {
    let mut text =
        format!("# {}, measured by fio; in brackets, what this description gives.\n", path.display());
    for (probe, (fio, own)) in PROBES.iter().zip(measured.pairs(model)) {
        let _ = writeln!(
            text,
            "# {}: {:.0} ({:.0}) IOPS, {:.1} ({:.1}) MB/s, p50 {:.0} ({:.0}) us, p99 {:.0} ({:.0}) us",
            probe.name,
            fio.iops,
            own.iops,
            fio.bytes_per_second / 1e6,
            own.bytes_per_second / 1e6,
            fio.p50,
            own.p50,
            fio.p99,
            own.p99
        );
    }
    text + match kind {
        DeviceKind::Disk(_) => {
            "# Not measured but textbook: rpm, heads, caches of the drive, all of writing.\n"
        }
        _ => "# Not measured but assumed: dies, die_share, write_median, flush.\n",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fio_prints_is_read() {
        let text = r#"{"jobs":[{"read":{"iops":5.5,"bw_bytes":22528,
            "lat_ns":{"percentile":{"50.000000":1000,"99.000000":2000}}}}]}"#;
        let value: Value = serde_json::from_str(text).unwrap();
        let expected = Measured { iops: 5.5, bytes_per_second: 22_528.0, p50: 1.0, p99: 2.0 };
        assert_eq!(parse(&value), Some(expected));
        assert_eq!(parse(&Value::Null), None);
    }
}
