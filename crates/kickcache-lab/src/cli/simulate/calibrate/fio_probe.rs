//! The probes on a device, by fio.

use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use kickcache_command::interrupt::Interrupt;
use serde_json::Value;

use crate::bench::Place;
use crate::cli::simulate::calibrate::probe::{Probe, ProbeResult};
use crate::fio::child::Fio;
use crate::fio::report;

/// Seconds of a probe.
pub(super) const SECONDS: u64 = 2;
/// Seconds of the run that measures fio's own time.
const OWN_SECONDS: u64 = 1;
/// A run that takes this much longer than its given time is ended.
const GRACE: Duration = Duration::from_secs(60);

pub(super) struct FioProbe<'a> {
    pub(super) place: &'a Place,
    pub(super) directory: &'a Path,
    /// A signal that this receives ends fio.
    pub(super) interrupt: &'a Interrupt,
}

pub(super) struct Submitted {
    pub(super) measured: ProbeResult,
    /// Mean time to submit a read to the kernel, in microseconds; 0 if fio reports none.
    pub(super) submission: f64,
}

impl FioProbe<'_> {
    /// Processor time of fio itself for an access, in microseconds: its engine `null` makes no I/O.
    pub(super) fn own_cost(&self) -> anyhow::Result<f64> {
        let report =
            self.run(OWN_SECONDS, &["ioengine=null", "rw=randread", "bs=4k", "size=1g", "iodepth=1"])?;
        Ok(1e6 / measured(&report).context("fio reported no operation with its engine null")?.iops)
    }

    pub(super) fn measure(&self, probe: Probe) -> anyhow::Result<Submitted> {
        let mut options = vec!["ioengine=libaio".to_owned(), "direct=1".into(), "norandommap=1".into()];
        options.extend(self.place.options());
        let Probe { pattern, block, depth, flushes, .. } = probe;
        options.extend([format!("rw={pattern}"), format!("bs={block}"), format!("iodepth={depth}")]);
        if flushes {
            options.push("fsync=1".into());
        }
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        let report = self.run(SECONDS, &options)?;
        let measured = measured(&report).context("fio reported no operation")?;
        Ok(Submitted { measured, submission: submission(&report).unwrap_or(0.0) })
    }

    fn run(&self, seconds: u64, options: &[&str]) -> anyhow::Result<String> {
        let common = ["name=calibrate", "time_based=1", "ramp_time=200ms"].into_iter();
        let runtime = format!("runtime={seconds}");
        let all = common.chain([runtime.as_str()]).chain(options.iter().copied());
        let arguments = all.map(|option| format!("--{option}").into()).collect();
        let longest = Some(Duration::from_secs(seconds) + GRACE);
        Fio { arguments, directory: self.directory, longest }.run(&mut |_| self.interrupt.check())
    }
}

fn measured(report: &str) -> Option<ProbeResult> {
    let run = report::read(report, &[String::new()], Duration::from_secs(1)).ok()?;
    let job = run.jobs.first()?;
    ProbeResult::of(job, run.took.as_secs_f64())
}

fn submission(report: &str) -> Option<f64> {
    let json: Value = serde_json::from_str(&report[report.find('{')?..]).ok()?;
    Some(json["jobs"][0]["read"]["slat_ns"]["mean"].as_f64()? / 1_000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_output_of_fio_is_parsed() {
        let text = r#"nbd: a line before {"jobs":[{"jobname":"c","error":0,"write":{"io_bytes":0,"runtime":0,"total_ios":0,"clat_ns":{}},
            "read":{"io_bytes":40960,"runtime":2000,"total_ios":10,"slat_ns":{"mean":2500.0},
            "clat_ns":{"bins":{"1000":9,"20000":1}}}}]}"#;
        let found = measured(text).unwrap();
        assert!((found.iops - 5.0).abs() < 1e-9 && (found.bytes_per_second - 20_480.0).abs() < 1e-6);
        assert!((found.p50 - 1.0).abs() < 0.01 && (found.late - 0.1).abs() < 1e-9, "{found:?}");
        assert!((found.late_mean - 20.0).abs() < 0.1, "{found:?}");
        assert_eq!(submission(text), Some(2.5));
        assert_eq!(measured("{}"), None);
    }
}
