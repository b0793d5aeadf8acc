//! One load on one pair of devices with a cache of one size.

use std::fmt;

use serde::Serialize;

use crate::result::Pacing;
use crate::workload::fio::FioWorkload;
use crate::workload::fio::values::{KbBase, size};

/// Sizes are as fio reads them.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Case {
    /// The origin: a built-in device, or a device file.
    pub origin: String,
    pub cache_device: String,
    /// The part of reads in percent; separate jobs without a rate ignore it.
    pub reads: u64,
    /// Reads and writes are two jobs.
    pub separate: bool,
    /// `random_distribution` of fio.
    pub distribution: String,
    pub bs: String,
    /// Accesses a second; 0 is as many as possible.
    pub rate: u64,
    pub data: String,
    pub cache: String,
    /// Writes between two flushes; 0 is never.
    pub fsync: u64,
    pub depth: u64,
    pub seed: u64,
    pub seconds: u64,
}

impl Default for Case {
    fn default() -> Case {
        Case {
            origin: "mirrored-5400".into(),
            cache_device: "article-ssd".into(),
            reads: 70,
            separate: false,
            distribution: "zipf:1.1".into(),
            bs: "4k".into(),
            rate: 0,
            data: "4g".into(),
            cache: "1G".into(),
            fsync: 0,
            depth: 16,
            seed: 1,
            seconds: 400,
        }
    }
}

impl Case {
    /// # Errors
    /// A sentence about the value that makes no sense.
    pub fn check(&self) -> Result<(), String> {
        if self.reads > 100 {
            return Err(format!("{} % reads were found; 0 to 100 were expected", self.reads));
        }
        if self.seconds == 0 {
            return Err("a length of 0 seconds was found; 1 or more were expected".into());
        }
        self.cache_bytes()?;
        size(&self.data, KbBase::Binary).map_err(|error| format!("the size of the data: {error}"))?;
        // A workload prepares its distribution for all of the data, which takes time.
        let small = Case { data: "1m".into(), ..self.clone() };
        FioWorkload::parse(&small.job_file(), self.seed).map(|_| ()).map_err(|error| error.to_string())
    }

    /// # Errors
    /// A sentence if the size makes no sense.
    pub fn cache_bytes(&self) -> Result<u64, String> {
        size(&self.cache, KbBase::Binary).map_err(|error| format!("the size of the cache: {error}"))
    }

    pub fn pacing(&self) -> Pacing {
        if self.rate == 0 { Pacing::Closed } else { Pacing::Open }
    }

    pub fn job_file(&self) -> String {
        let Case { bs, depth, data, seconds, distribution, .. } = self;
        let common = format!(
            "ioengine=libaio\ndirect=1\nbs={bs}\niodepth={depth}\nsize={data}\ntime_based\nruntime={seconds}\n\
             norandommap\nrandom_distribution={distribution}\n"
        );
        if self.separate {
            let reader = self.job("reader", "randread", self.reads);
            let writer = self.job("writer", "randwrite", 100 - self.reads);
            return format!("[global]\n{common}{reader}{writer}{}", self.fsync_line());
        }
        let fsync = if self.reads < 100 { self.fsync_line() } else { String::new() };
        format!("[load]\n{common}{}{fsync}{}", self.direction(), self.rate_line())
    }

    fn direction(&self) -> String {
        match self.reads {
            100 => "rw=randread\n".into(),
            0 => "rw=randwrite\n".into(),
            reads => format!("rw=randrw\nrwmixread={reads}\n"),
        }
    }

    fn fsync_line(&self) -> String {
        if self.fsync == 0 { String::new() } else { format!("fsync={}\n", self.fsync) }
    }

    fn rate_line(&self) -> String {
        let part = |percent: u64| self.rate * percent / 100;
        match (self.rate, self.reads) {
            (0, _) => String::new(),
            (rate, 0 | 100) => format!("rate_iops={rate}\n"),
            (_, reads) => format!("rate_iops={},{}\n", part(reads), part(100 - reads)),
        }
    }

    fn job(&self, name: &str, direction: &str, percent: u64) -> String {
        let job = format!("[{name}]\nrw={direction}\n");
        if self.rate == 0 {
            return job;
        }
        format!("{job}rate_iops={}\n", (self.rate * percent / 100).max(1))
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Case { origin, reads, distribution, bs, data, cache, seed, .. } = self;
        let separate = if self.separate { " of separate jobs" } else { "" };
        let rate = if self.rate == 0 { "as fast as it goes".into() } else { format!("{}/s", self.rate) };
        write!(f, "{origin}, {reads}% reads{separate}, {distribution}, {bs}, {rate}, {data} behind {cache}")?;
        if self.fsync > 0 {
            write!(f, ", fsync {}", self.fsync)?;
        }
        write!(f, ", seed {seed}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn job_file_has_the_load_of_the_case() {
        let mixed = Case { rate: 150, fsync: 64, ..Case::default() };
        assert!(mixed.job_file().ends_with("rw=randrw\nrwmixread=70\nfsync=64\nrate_iops=105,45\n"));
        let reads = Case { reads: 100, rate: 1000, fsync: 64, ..Case::default() };
        assert!(reads.job_file().ends_with("rw=randread\nrate_iops=1000\n"));
        let separate = Case { reads: 50, rate: 400, separate: true, ..Case::default() };
        let jobs = "[reader]\nrw=randread\nrate_iops=200\n[writer]\nrw=randwrite\nrate_iops=200\n";
        assert!(separate.job_file().starts_with("[global]\n") && separate.job_file().ends_with(jobs));
        assert_eq!(
            separate.to_string(),
            "mirrored-5400, 50% reads of separate jobs, zipf:1.1, 4k, 400/s, 4g behind 1G, seed 1"
        );
    }
}
