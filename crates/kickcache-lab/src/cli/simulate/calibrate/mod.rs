//! `kickcache simulate --calibrate`: measures a device with short runs of fio and describes it.

mod digits;
mod fio_probe;
mod fit;
mod probe;
mod search;
mod simulated;

use std::fmt::Write as _;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::time::Duration;

use anyhow::{bail, ensure};
use indicatif::{ProgressBar, ProgressStyle};
use kickcache_command::interrupt::Interrupt;
use kickcache_command::notice::notice;
use kickcache_model::device_model::device_file::{DeviceFile, DeviceKind};
use kickcache_units::show_bytes;

use crate::bench::{Data, Place, check_unused, has_holes};
use crate::cli::simulate::calibrate::fio_probe::{FioProbe, Submitted};
use crate::cli::simulate::calibrate::probe::{Probe, ProbeResult, READ_COUNT, READS, RunPair, Runs, WRITES};
use crate::cli::simulate::calibrate::simulated::Bench;
use crate::fio::child::folder;

pub(crate) use crate::cli::simulate::calibrate::simulated::cost;

/// A smaller file gives no useful figures.
const BYTES_MIN: u64 = 16 << 20;
/// Rounds of all probes.
const ROUNDS: usize = 3;
/// The least virtual time of a run that the fit compares, and of a run that is printed.
const FITTED: Duration = Duration::from_millis(100);
const SHOWN: Duration = Duration::from_secs(3);

/// Measures a device, a file or an export; returns the text of a device file. Writes to the target only if its
/// data may be destroyed.
///
/// # Errors
/// If the target cannot be used, fio fails, or a signal arrives.
pub(crate) fn calibrate(target: &str, data: Data) -> anyhow::Result<String> {
    let place = find(target)?;
    let bytes = size(target, &place)?;
    if data == Data::Destroy {
        check_unused(&place)?;
    }
    let interrupt = Interrupt::listen("the calibration was interrupted")?;
    let directory = folder("kickcache-calibrate-")?;
    let fio = FioProbe { place: &place, directory: directory.path(), interrupt: &interrupt };
    let bar = progress_bar(data);
    let found = measure(&fio, data, &bar)?;
    bar.finish_and_clear();
    let target = target.to_owned();
    interrupt.wait_for(move || Ok(described(&target, bytes, &found)))
}

fn described(target: &str, bytes: u64, ProbeRounds { measured, access_cost }: &ProbeRounds) -> String {
    let bench = Bench { bytes, access_cost: *access_cost, shortest: FITTED };
    let kind = fit::describe(measured, &bench);
    let given = Bench { shortest: SHOWN, ..bench }.runs(&kind, measured);
    let device = DeviceFile { name: format!("{target}, measured"), access_cost: Some(*access_cost), kind };
    format!("{}{}", remarks(target, measured, &given, kind), device.text())
}

struct ProbeRounds {
    measured: Runs,
    access_cost: f64,
}

/// Runs the probes in rounds, every other round backwards.
fn measure(fio: &FioProbe<'_>, data: Data, bar: &ProgressBar) -> anyhow::Result<ProbeRounds> {
    let probes = probes(data);
    let mut runs = vec![Vec::new(); probes.len()];
    let mut costs = Vec::new();
    for round in 0..ROUNDS {
        let own = fio.own_cost()?;
        for index in 0..probes.len() {
            let index = if round % 2 == 0 { index } else { probes.len() - 1 - index };
            bar.set_message(format!("{} s of fio: {}", fio_probe::SECONDS, probes[index].name));
            let Submitted { measured, submission } = fio.measure(probes[index])?;
            runs[index].push(measured);
            if index == 0 {
                costs.push(own + submission);
            }
            bar.inc(1);
        }
    }
    costs.sort_by(f64::total_cmp);
    let medians: Vec<ProbeResult> = runs.iter().map(|runs| ProbeResult::median(runs)).collect();
    let reads = std::array::from_fn(|index| medians[index]);
    let writes = match data {
        Data::Keep => None,
        Data::Destroy => Some(std::array::from_fn(|index| medians[READ_COUNT + index])),
    };
    let measured = Runs { reads, writes };
    // Submissions to an idle device take longest, so the time of an access at the highest rate is the upper limit.
    let access_cost = costs[ROUNDS / 2].min(1e6 / measured.iops_max());
    Ok(ProbeRounds { measured, access_cost: digits::three_digits(access_cost) })
}

fn probes(data: Data) -> Vec<Probe> {
    let writes: &[Probe] = match data {
        Data::Keep => &[],
        Data::Destroy => &WRITES,
    };
    READS.iter().chain(writes).copied().collect()
}

fn progress_bar(data: Data) -> ProgressBar {
    let bar = ProgressBar::new((ROUNDS * probes(data).len()) as u64);
    if let Ok(style) = ProgressStyle::with_template("{bar:40} {elapsed}  {msg}") {
        bar.set_style(style);
    }
    bar
}

fn find(target: &str) -> anyhow::Result<Place> {
    let is_export = target.contains("://");
    if !is_export && !Path::new(target).exists() {
        bail!("{target} does not exist; name a block device, a file of some GiB, or an NBD export");
    }
    let place = Place::find(target)?;
    if let Place::Directory(_) = place {
        bail!("{target} is a directory; name a block device or a file of some GiB");
    }
    Ok(place)
}

fn size(target: &str, place: &Place) -> anyhow::Result<u64> {
    if let Place::Disk(path) = place {
        let kind = path.metadata()?.file_type();
        let is_disk = kind.is_file() || kind.is_block_device();
        ensure!(
            is_disk,
            "{target} is neither a block device nor a file; name a block device or a file of some GiB"
        );
    }
    let bytes = place.size()?.unwrap_or(0);
    let least = show_bytes(BYTES_MIN);
    ensure!(bytes >= BYTES_MIN, "{target} has {}; at least {least} are needed", show_bytes(bytes));
    if let Place::Disk(path) = place
        && has_holes(path, bytes)
    {
        notice(&format!(
            "warning: {target} has holes, or room that was never written to, which are read faster than data: the figures will be too good; better fill it first."
        ));
    }
    Ok(bytes)
}

fn remarks(target: &str, measured: &Runs, model: &Runs, kind: DeviceKind) -> String {
    let mut text = format!("# {target}, measured by fio; in brackets, the figures of this description.\n");
    for RunPair { probe, measured: fio, given: own } in measured.beside(model) {
        let _ = writeln!(
            text,
            "# {}: {:.0} ({:.0}) IOPS, {:.1} ({:.1}) MiB/s, p50 {:.0} ({:.0}) µs, p99 {:.0} ({:.0}) µs",
            probe.name,
            fio.iops,
            own.iops,
            fio.bytes_per_second / 1_048_576.0,
            own.bytes_per_second / 1_048_576.0,
            fio.p50,
            own.p50,
            fio.p99,
            own.p99
        );
    }
    let assumed = match (kind, measured.writes) {
        (DeviceKind::Disk(_), _) => "textbook: rpm, heads, caches of the drive, all of writing",
        (DeviceKind::Ssd(_), None) => "assumed: dies, die_share, write_median, flush",
        (DeviceKind::Ssd(_), Some(_)) => "assumed: dies, die_share",
        (_, None) => "assumed: write_median and flush; a rate that is limited is described by width",
        (_, Some(_)) => "assumed: the rate is limited by a width",
    };
    let _ = writeln!(text, "# Not measured but {assumed}.");
    text
}
