//! fio job files as workloads.
//!
//! Options that concern only fio itself are skipped, some others with a warning. Other options that are not
//! supported are refused. As with fio, each job has its own file unless jobs name the same one; the files are
//! adjacent on the volume.

mod direction;
mod error;
mod job;
mod offsets;
mod options;
mod section;
pub(crate) mod values;

use kickcache_engine::time::{Duration, Instant};
use kickcache_random::Random;

pub use crate::workload::fio::error::JobFileError;
pub use crate::workload::fio::values::time;

use crate::quote::shorten;
use crate::workload::fio::job::Job;
use crate::workload::fio::options::JobOptions;
use crate::workload::{JobShape, JobStep, Workload};

/// Bytes: each job's file begins at a multiple of this number.
const ALIGNMENT: u64 = 1 << 20;
/// The most jobs of a job file.
const JOB_COUNT_MAX: u64 = 1_024;

#[derive(Debug)]
pub struct FioWorkload {
    shapes: Vec<JobShape>,
    jobs: Vec<Job>,
    volume_bytes: u64,
    measured_from: Instant,
    longest: Option<Duration>,
    warnings: Vec<String>,
}

struct JobFile {
    name: String,
    base: u64,
}

impl FioWorkload {
    /// # Errors
    /// If a line or a job is invalid, or uses an unsupported option.
    pub fn parse(text: &str, seed: u64) -> Result<FioWorkload, JobFileError> {
        let sections = section::parse(text)?;
        let mut all = Vec::new();
        let mut warnings = Vec::new();
        for section in &sections {
            all.push(JobOptions::read(section, &mut warnings)?);
        }
        FioWorkload::build(&all, warnings, seed)
    }

    fn build(all: &[JobOptions], warnings: Vec<String>, seed: u64) -> Result<FioWorkload, JobFileError> {
        let mut workload = FioWorkload {
            shapes: Vec::new(),
            jobs: Vec::new(),
            volume_bytes: 0,
            measured_from: Instant::ZERO,
            longest: longest(all),
            warnings,
        };
        let mut random = Random::new(seed);
        let mut files = Vec::new();
        let mut group = 0;
        for (index, options) in all.iter().enumerate() {
            group += usize::from(options.stonewall && index > 0);
            if workload.jobs.len() as u64 + u64::from(options.numjobs) > JOB_COUNT_MAX {
                let what = format!("more than {JOB_COUNT_MAX} jobs were found; lower numjobs");
                return Err(JobFileError { place: format!("job [{}]", shorten(&options.name)), what });
            }
            for copy in 0..options.numjobs {
                let base = workload.place(&mut files, all, options, copy);
                workload.jobs.push(Job::new(options, base, group, random.split()));
                workload.shapes.push(JobShape { name: options.name.clone(), depth: options.depth() });
            }
        }
        let first_group = all.iter().take_while(|options| !options.stonewall || *options == &all[0]);
        let ramp = first_group.map(|options| options.ramp).max().unwrap_or_default();
        workload.measured_from = Instant::ZERO.plus(ramp);
        Ok(workload)
    }

    /// Files of one name are one file.
    fn place(
        &mut self,
        files: &mut Vec<JobFile>,
        all: &[JobOptions],
        options: &JobOptions,
        copy: u32,
    ) -> u64 {
        let own = || format!("{}.{copy}.{}", options.name, self.jobs.len());
        let name = options.filename.clone().unwrap_or_else(own);
        if let Some(file) = files.iter().find(|file| file.name == name) {
            return file.base;
        }
        let shares = |other: &&JobOptions| other.filename.is_some() && other.filename == options.filename;
        let lengths = all.iter().filter(shares).chain([options]).map(|job| job.offset + job.size);
        let needed = lengths.max().unwrap_or(0).div_ceil(ALIGNMENT) * ALIGNMENT;
        let base = self.volume_bytes;
        self.volume_bytes += needed;
        files.push(JobFile { name, base });
        base
    }

    /// The time after which no job begins an access, apart from waits for the last accesses of earlier groups; `None`
    /// unless each has a `runtime`.
    pub fn longest(&self) -> Option<Duration> {
        self.longest
    }

    /// Sentences on skipped options and on unusual units.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }
}

/// The sum over the groups of the time of the longest job; `None` if the time of a job has no limit.
fn longest(all: &[JobOptions]) -> Option<Duration> {
    let (mut before, mut group) = (0_u64, 0);
    for options in all {
        if options.stonewall {
            before = before.saturating_add(group);
            group = 0;
        }
        group = group.max(options.longest()?.as_nanos());
    }
    Some(Duration::from_nanos(before.saturating_add(group)))
}

impl Workload for FioWorkload {
    fn jobs(&self) -> &[JobShape] {
        &self.shapes
    }

    fn volume_bytes(&self) -> u64 {
        self.volume_bytes.max(ALIGNMENT)
    }

    fn measured_from(&self) -> Instant {
        self.measured_from
    }

    fn next(&mut self, job: usize, now: Instant) -> JobStep {
        let group = self.jobs[job].group();
        let is_early = self.jobs.iter().any(|other| other.group() < group && !other.is_finished());
        if is_early {
            return JobStep::WaitForJobs;
        }
        self.jobs[job].next(now)
    }
}

#[cfg(test)]
mod tests;
