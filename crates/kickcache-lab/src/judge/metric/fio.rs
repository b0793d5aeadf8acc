//! fio's report.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::judge::metric::figure::Figure;

#[derive(Deserialize)]
pub(super) struct FioReport {
    jobs: Vec<Job>,
}

#[derive(Deserialize)]
struct Job {
    jobname: String,
    error: i64,
    read: Direction,
    write: Direction,
    trim: Direction,
}

#[derive(Deserialize)]
struct Direction {
    iops: f64,
    bw_bytes: f64,
    total_ios: u64,
    clat_ns: Latencies,
}

#[derive(Deserialize)]
struct Latencies {
    #[serde(default)]
    mean: f64,
    /// From both formats of fio, `json` and `json+`: nanoseconds by percentage.
    #[serde(default)]
    percentile: BTreeMap<String, f64>,
    /// From fio's format `json+` only: counts by nanoseconds.
    #[serde(default)]
    bins: BTreeMap<u64, u64>,
}

#[expect(clippy::cast_precision_loss, reason = "counts of a run")]
fn float(count: u64) -> f64 {
    count as f64
}

impl FioReport {
    /// A figure of all jobs together.
    ///
    /// # Errors
    /// A sentence, if fio failed, or its output lacks a needed figure.
    pub(super) fn figure(&self, figure: Figure) -> Result<f64, String> {
        if let Some(job) = self.jobs.iter().find(|job| job.error != 0) {
            return Err(format!("fio's job `{}` failed with errno {}", job.jobname, job.error));
        }
        let all = self.jobs.iter().flat_map(|job| [&job.read, &job.write, &job.trim]);
        let used: Vec<&Direction> = all.filter(|direction| direction.total_ios > 0).collect();
        match figure {
            Figure::Iops => Ok(used.iter().map(|direction| direction.iops).sum()),
            Figure::Bandwidth => Ok(used.iter().map(|direction| direction.bw_bytes).sum()),
            Figure::Mean => {
                let count: u64 = used.iter().map(|direction| direction.total_ios).sum();
                let total = used.iter().map(|direction| float(direction.total_ios) * direction.clat_ns.mean);
                Ok(total.sum::<f64>() / float(count))
            }
            Figure::Percentile(percent) => percentile(&used, percent),
        }
    }
}

/// From histograms, if all have them. fio's own percentiles cannot be merged: without histograms, only one direction
/// of one job may have accesses.
fn percentile(used: &[&Direction], percent: f64) -> Result<f64, String> {
    if !used.is_empty() && used.iter().all(|direction| !direction.clat_ns.bins.is_empty()) {
        return Ok(merged_percentile(used, percent));
    }
    let [one] = used else {
        return Err(format!(
            "percentiles of {} jobs and directions need their histograms; run fio with --output-format=json+",
            used.len()
        ));
    };
    let is_it = |name: &str| name.parse().is_ok_and(|named: f64| (named - percent).abs() < 1e-6);
    let found = one.clat_ns.percentile.iter().find(|(name, _)| is_it(name));
    found.map(|(_, nanos)| *nanos).ok_or_else(|| {
        format!("fio's report has no percentile {percent}; run it with --output-format=json+ or --percentile_list={percent}")
    })
}

fn merged_percentile(used: &[&Direction], percent: f64) -> f64 {
    let mut bins: BTreeMap<u64, u64> = BTreeMap::new();
    for (nanos, count) in used.iter().flat_map(|direction| &direction.clat_ns.bins) {
        *bins.entry(*nanos).or_default() += count;
    }
    let wanted = float(bins.values().sum()) * percent / 100.0;
    let mut below = 0;
    let reached = bins.iter().find(|(_, count)| {
        below += **count;
        float(below) >= wanted
    });
    reached.map_or(0.0, |(nanos, _)| float(*nanos))
}
