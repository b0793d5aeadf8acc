//! The load of a simulation: a job file of fio, or a trace at its own times or as fast as the devices allow.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::str::FromStr;

use kickcache_command::exit::Failure;
use kickcache_command::notice::notice;
use kickcache_command::options::parse_whole_seconds;
use kickcache_engine::time::{Duration, Instant};
use kickcache_engine::units::BLOCK_SIZE;
use kickcache_model::device_model::device_file::DeviceFile;
use kickcache_model::result::RunResult;
use kickcache_model::trace_file::Format;
use kickcache_model::trace_file::survey::Survey;
use kickcache_model::workload::fio::FioWorkload;
use kickcache_model::workload::trace::{Pace, TraceWorkload, at_speed};
use kickcache_model::workload::{JobShape, JobStep, Workload};
use kickcache_units::{show_bytes, show_count, show_duration};

use crate::cli::simulate::{calibrate, input};
use crate::cli::trace::format_name::parse_format;

/// Processor time of an access of fio, if none was measured with a device.
const FIO_COST: Duration = Duration::from_micros(12);
/// Virtual seconds after which a job file is stopped, unless the user gives a time.
const SECONDS_MAX: u64 = 3_600;
/// A replay at the times of its trace may last longer than expected by a second and one part in this many, without a
/// note.
const BEHIND: u64 = 20;

/// The source of the accesses.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
pub(crate) struct LoadInput {
    /// The load: a job file of fio
    #[arg(long, value_name = "FILE")]
    job: Option<PathBuf>,
    /// The load: a trace, in any format that `kickcache simulate trace` reads
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
}

/// The user's parameters of the load.
#[derive(Debug, clap::Args)]
pub(crate) struct LoadArgs {
    #[command(flatten)]
    source: LoadInput,
    /// Replay the trace at its recorded times, FACTOR times as fast [default: 1]
    #[arg(long, value_name = "FACTOR", conflicts_with_all = ["job", "depth"])]
    speed: Option<Speed>,
    /// Replay the trace as fast as the devices permit, with N accesses in flight, 1 to 4096; recorded times
    /// are ignored
    #[arg(long, value_name = "N", conflicts_with = "job", value_parser = clap::value_parser!(u32).range(1..=4096))]
    depth: Option<u32>,
    /// Format of the trace [default: detected]
    #[arg(long, value_name = "NAME", conflicts_with = "job", value_parser = parse_format)]
    format: Option<Format>,
    /// Virtual time after which the run stops, 1s to 10000000s [default: 1h for a job file, all of a trace]
    #[arg(long, alias = "seconds", value_name = "TIME", value_parser = parse_runtime)]
    runtime: Option<std::time::Duration>,
}

fn parse_runtime(text: &str) -> Result<std::time::Duration, String> {
    parse_whole_seconds(text, 10_000_000, "1s to 10000000s")
}

/// How many times as fast as recorded.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Speed(f64);

impl FromStr for Speed {
    type Err = String;

    fn from_str(text: &str) -> Result<Speed, String> {
        let number = text.trim_end_matches(['x', 'X']).parse::<f64>().ok();
        let good = number.filter(|factor| (1e-6..=1e6).contains(factor));
        good.map(Speed).ok_or_else(|| {
            format!("`{text}` is not a speed; write a factor above 0, at most 1000000, such as 2 or 0.5")
        })
    }
}

#[derive(Clone, Debug)]
enum LoadKind {
    /// The text of a job file.
    Job(String),
    Trace(PathBuf, Box<Survey>, Pace),
}

/// A load that was examined.
#[derive(Clone, Debug)]
pub(crate) struct Load {
    kind: LoadKind,
    /// Bytes of the smallest volume that the load fits on.
    pub(crate) volume_bytes: u64,
    /// When a run ends at the latest.
    pub(crate) length: Duration,
    /// The length of a job file, or the span of a replayed trace; 0 without times.
    pub(crate) expected: Duration,
    pub(crate) description: String,
}

impl LoadArgs {
    /// The limit of virtual time, in seconds.
    fn seconds(&self) -> Option<u64> {
        self.runtime.map(|runtime| runtime.as_secs())
    }

    pub(crate) fn depth(&self) -> Option<u32> {
        self.depth
    }

    pub(crate) fn files(&self) -> impl Iterator<Item = &Path> {
        self.source.job.iter().chain(&self.source.trace).map(PathBuf::as_path)
    }

    /// Examines the load; warnings are printed on standard error.
    pub(crate) fn look(&self, seed: u64) -> Result<Load, Failure> {
        match (&self.source.job, &self.source.trace) {
            (Some(job), _) => self.look_at_job(job, seed),
            (None, Some(trace)) => self.look_at_trace(trace),
            (None, None) => Err(Failure::usage("no load was named; write --job FILE or --trace FILE")),
        }
    }

    fn look_at_job(&self, path: &Path, seed: u64) -> Result<Load, Failure> {
        let text = input::read("job file", path)?;
        let jobs = FioWorkload::parse(&text, seed)
            .map_err(|error| Failure::usage(format!("{}: {error}", path.display())))?;
        jobs.warnings()
            .iter()
            .for_each(|warning| notice(&format!("kickcache: {}: {warning}", path.display())));
        let length = seconds(self.seconds().unwrap_or(SECONDS_MAX));
        let (count, bytes) = (jobs.jobs().len(), jobs.volume_bytes());
        let plural = if count == 1 { "job" } else { "jobs" };
        let description = format!("{}, {count} {plural} on {}", path.display(), show_bytes(bytes));
        Ok(Load {
            kind: LoadKind::Job(text),
            volume_bytes: bytes,
            length,
            expected: jobs.longest().unwrap_or(length).min(length),
            description,
        })
    }

    fn look_at_trace(&self, path: &Path) -> Result<Load, Failure> {
        let name = path.display();
        let survey = input::survey_trace(&name.to_string(), path, self.format)?;
        let pace = self.pace(path, &survey)?;
        let span = match (pace, survey.span) {
            (Pace::Open { speed }, Some(span)) => at_speed(span, speed),
            (Pace::Open { .. } | Pace::Closed { .. }, _) => Duration::default(),
        };
        let how = match pace {
            Pace::Open { speed } if (speed - 1.0).abs() > f64::EPSILON => {
                format!("at {speed} times its speed, {}", show_span(span))
            }
            Pace::Open { .. } => format!("at its own times, {}", show_span(span)),
            Pace::Closed { depth } => format!("{depth} in flight"),
        };
        let count = survey.reads + survey.writes + survey.others;
        Ok(Load {
            volume_bytes: survey.placement.volume_bytes(),
            length: self.seconds().map_or(Duration::from_nanos(u64::MAX / 4), seconds),
            expected: span,
            description: format!(
                "{name}, {} access{}, {how}",
                show_count(count),
                if count == 1 { "" } else { "es" }
            ),
            kind: LoadKind::Trace(path.to_owned(), Box::new(survey), pace),
        })
    }

    fn pace(&self, path: &Path, survey: &Survey) -> Result<Pace, Failure> {
        if let Some(depth) = self.depth {
            return Ok(Pace::Closed { depth });
        }
        if survey.span.is_none() {
            let name = path.display();
            return Err(Failure::usage(format!(
                "the trace {name} has no times; write --depth N to replay it with N accesses in flight"
            )));
        }
        Ok(Pace::Open { speed: self.speed.map_or(1.0, |speed| speed.0) })
    }
}

/// A workload, with the count of its records if it is a trace.
pub(crate) struct Opened {
    pub(crate) workload: Box<dyn Workload>,
    made: Option<(Rc<Cell<u64>>, u64)>,
}

/// Processor time of an access of fio on these devices: the longest measured one, otherwise [`FIO_COST`].
pub(crate) fn fio_cost<const N: usize>(devices: [&DeviceFile; N]) -> Duration {
    let measured = devices.iter().filter_map(|device| device.access_cost).max_by(f64::total_cmp);
    measured.map_or(FIO_COST, calibrate::cost)
}

impl Load {
    /// Processor time of an access; 0 for a trace.
    pub(crate) fn access_cost(&self, devices: [&DeviceFile; 2]) -> Duration {
        match self.kind {
            LoadKind::Job(_) => fio_cost(devices),
            LoadKind::Trace(..) => Duration::default(),
        }
    }

    pub(crate) fn open(&self, seed: u64) -> Result<Opened, String> {
        let (path, survey, pace) = match &self.kind {
            LoadKind::Job(text) => {
                let jobs = FioWorkload::parse(text, seed).map_err(|error| error.to_string())?;
                return Ok(Opened { workload: Box::new(jobs), made: None });
            }
            LoadKind::Trace(path, survey, pace) => (path, survey, *pace),
        };
        let trace = TraceWorkload::open(path, survey, pace).map_err(|error| error.to_string())?;
        let made = Rc::new(Cell::new(0));
        let count = survey.reads + survey.writes + survey.others;
        let workload = Box::new(Counted { trace, made: Rc::clone(&made) });
        Ok(Opened { workload, made: Some((made, count.max(1))) })
    }

    /// Bytes of the blocks that a trace touches; for a job file, the size of its files.
    pub(crate) fn footprint_bytes(&self) -> u64 {
        match &self.kind {
            LoadKind::Job(_) => self.volume_bytes,
            LoadKind::Trace(_, survey, _) => survey.footprint * BLOCK_SIZE,
        }
    }

    /// The span of a trace that is replayed by its times, at the chosen speed; `None` for other loads.
    pub(crate) fn span(&self) -> Option<Duration> {
        matches!(self.kind, LoadKind::Trace(_, _, Pace::Open { .. })).then_some(self.expected)
    }

    /// Whether a run ended late, because the devices were too slow.
    pub(crate) fn is_behind(&self, run: &RunResult) -> bool {
        let span = self.span().map(|span| span.as_nanos());
        span.is_some_and(|span| run.nanos > span.saturating_add(span / BEHIND + 1_000_000_000))
    }

    pub(crate) fn is_trace(&self) -> bool {
        matches!(self.kind, LoadKind::Trace(..))
    }
}

impl Opened {
    /// The progress of a run on a trace, out of [`PROGRESS_MAX`]; `None` for a job file.
    pub(crate) fn share(&self) -> Option<impl Fn() -> u64 + use<>> {
        let (made, count) = self.made.clone()?;
        Some(move || made.get().saturating_mul(PROGRESS_MAX) / count)
    }
}

/// The progress of a whole trace, as [`Opened::share`] counts it.
pub(crate) const PROGRESS_MAX: u64 = 1_000_000;

struct Counted {
    trace: TraceWorkload,
    made: Rc<Cell<u64>>,
}

impl Workload for Counted {
    fn jobs(&self) -> &[JobShape] {
        self.trace.jobs()
    }

    fn volume_bytes(&self) -> u64 {
        self.trace.volume_bytes()
    }

    fn next(&mut self, job: usize, now: Instant) -> JobStep {
        let next = self.trace.next(job, now);
        self.made.set(self.trace.record_count());
        next
    }
}

fn seconds(count: u64) -> Duration {
    Duration::from_millis(count.saturating_mul(1_000))
}

fn show_span(span: Duration) -> String {
    show_duration(std::time::Duration::from_nanos(span.as_nanos()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speeds_are_factors_above_0() {
        assert_eq!("2".parse(), Ok(Speed(2.0)));
        assert_eq!("0.5x".parse(), Ok(Speed(0.5)));
        for bad in ["0", "-1", "nan", "inf", "fast", ""] {
            assert!(bad.parse::<Speed>().unwrap_err().contains("factor above 0"), "{bad}");
        }
    }
}
