//! The options of a job.

use kickcache_engine::time::Duration;

use crate::quote::{quote, shorten};
use crate::workload::fio::direction::{Direction, PerDirection};
use crate::workload::fio::error::JobFileError;
use crate::workload::fio::section::{Line, Section};
use crate::workload::fio::values::{KbBase, count, size, sizes, switch, time};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Pattern {
    Read,
    Write,
    Mixed,
    Trim,
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Distribution {
    /// Each block once before any block repeats, unless `norandommap` is set.
    Random,
    Zipf(f64, Option<f64>),
    Pareto(f64, Option<f64>),
}

#[derive(Clone, PartialEq, Debug)]
pub(crate) struct JobOptions {
    pub(crate) name: String,
    pub(crate) pattern: Pattern,
    pub(crate) is_random: bool,
    /// Reads in 100 accesses, of a mixed job.
    pub(crate) read_percent: u64,
    pub(crate) block: PerDirection<u64>,
    pub(crate) size: u64,
    pub(crate) io_size: Option<u64>,
    pub(crate) accesses_max: Option<u64>,
    pub(crate) offset: u64,
    pub(crate) filename: Option<String>,
    pub(crate) numjobs: u32,
    pub(crate) iodepth: u32,
    pub(crate) engine: Engine,
    pub(crate) runtime: Option<Duration>,
    pub(crate) time_based: bool,
    pub(crate) ramp: Duration,
    pub(crate) start_delay: Duration,
    pub(crate) distribution: Distribution,
    pub(crate) has_map: bool,
    /// The limits of the rate of each direction, in bytes and in accesses a second; 0 for no limit.
    pub(crate) bytes_per_second: PerDirection<u64>,
    pub(crate) accesses_per_second: PerDirection<u64>,
    pub(crate) think: Duration,
    pub(crate) think_blocks: u64,
    pub(crate) flush_every: u64,
    pub(crate) stonewall: bool,
}

/// Options that are skipped without a warning.
const HARMLESS: &[&str] = &[
    "allow_file_create",
    "allow_mounted_write",
    "allrandrepeat",
    "buffer_compress_chunk",
    "buffer_compress_percentage",
    "buffer_pattern",
    "clat_percentiles",
    "clocksource",
    "continue_on_error",
    "cpus_allowed",
    "cpus_allowed_policy",
    "create_on_open",
    "create_serialize",
    "dedupe_percentage",
    "description",
    "directory",
    "disable_clat",
    "disable_lat",
    "disable_slat",
    "disk_util",
    "eta",
    "eta-newline",
    "fallocate",
    "file_service_type",
    "group_reporting",
    "gtod_cpu",
    "gtod_reduce",
    "iomem",
    "iomem_align",
    "kb_base",
    "lat_percentiles",
    "log_avg_msec",
    "log_hist_msec",
    "log_offset",
    "log_unix_epoch",
    "mem",
    "name",
    "new_group",
    "percentile_list",
    "randrepeat",
    "randseed",
    "refill_buffers",
    "scramble_buffers",
    "thread",
    "unit_base",
    "unlink",
    "zero_buffers",
];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Engine {
    Synchronous,
    /// Of depth `iodepth`, but trims one at a time: these engines trim by a synchronous system call.
    SynchronousTrims,
    Asynchronous,
}

impl Engine {
    fn of(name: &str) -> Engine {
        match name {
            "sync" | "psync" | "vsync" | "pvsync" | "pvsync2" | "mmap" => Engine::Synchronous,
            "libaio" | "io_uring" | "posixaio" => Engine::SynchronousTrims,
            _ => Engine::Asynchronous,
        }
    }
}

impl JobOptions {
    /// Reads a section; some skipped options add a warning.
    pub(crate) fn read(section: &Section, warnings: &mut Vec<String>) -> Result<JobOptions, JobFileError> {
        let mut options = JobOptions::new(&section.name);
        for line in &section.lines {
            if is_passed_over(line, warnings) {
                continue;
            }
            let option = shorten(&line.option);
            let known = options.set(line).map_err(|what| line.error(format!("`{option}`: {what}")))?;
            if !known {
                let what = "is not known to the simulator; remove the line, or run the job with fio itself";
                return Err(line.error(format!("option `{option}` {what}")));
            }
            warnings.extend(unit_warning(line));
        }
        options.check(section)?;
        Ok(options)
    }

    fn new(name: &str) -> JobOptions {
        JobOptions {
            name: name.into(),
            pattern: Pattern::Read,
            is_random: false,
            read_percent: 50,
            block: PerDirection([4096; 3]),
            size: 0,
            io_size: None,
            accesses_max: None,
            offset: 0,
            filename: None,
            numjobs: 1,
            iodepth: 1,
            engine: Engine::Synchronous,
            runtime: None,
            time_based: false,
            ramp: Duration::default(),
            start_delay: Duration::default(),
            distribution: Distribution::Random,
            has_map: true,
            bytes_per_second: PerDirection::default(),
            accesses_per_second: PerDirection::default(),
            think: Duration::default(),
            think_blocks: 1,
            flush_every: 0,
            stonewall: false,
        }
    }

    fn set(&mut self, line: &Line) -> Result<bool, String> {
        Ok(self.set_accesses(line)? || self.set_sizes(line)? || self.set_times(line)?)
    }

    fn set_sizes(&mut self, line: &Line) -> Result<bool, String> {
        let (value, base) = (line.value.as_str(), line.kb_base);
        match line.option.as_str() {
            "bs" | "blocksize" => self.block = sizes(value, base, self.block)?,
            "size" => self.size = size(value, base)?,
            "io_size" | "io_limit" => self.io_size = Some(size(value, base)?).filter(|bytes| *bytes > 0),
            "offset" => self.offset = size(value, base)?,
            "rate" => self.bytes_per_second = sizes(value, base, self.bytes_per_second)?,
            "rate_iops" => self.accesses_per_second = sizes(value, base, self.accesses_per_second)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn set_accesses(&mut self, line: &Line) -> Result<bool, String> {
        let value = line.value.as_str();
        match line.option.as_str() {
            "rw" | "readwrite" => self.set_pattern(value)?,
            "rwmixread" => self.read_percent = percent(value)?,
            "rwmixwrite" => self.read_percent = 100 - percent(value)?,
            "number_ios" => self.accesses_max = Some(count(value)?).filter(|most| *most > 0),
            "filename" => self.filename = Some(value.into()),
            "numjobs" => self.numjobs = small(value)?,
            "iodepth" => self.iodepth = small(value)?,
            "ioengine" => self.engine = Engine::of(value),
            "random_distribution" => self.distribution = distribution(value)?,
            "norandommap" => self.has_map = !switch(value)?,
            "fsync" | "fdatasync" => self.flush_every = count(value)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn set_times(&mut self, line: &Line) -> Result<bool, String> {
        const SECOND: u64 = 1_000_000_000;
        let value = line.value.as_str();
        match line.option.as_str() {
            "runtime" | "timeout" => {
                self.runtime = Some(time(value, SECOND)?).filter(|runtime| *runtime > Duration::default());
            }
            "time_based" => self.time_based = switch(value)?,
            "ramp_time" => self.ramp = time(value, SECOND)?,
            "startdelay" => self.start_delay = time(value, SECOND)?,
            "thinktime" => self.think = time(value, 1_000)?,
            "thinktime_blocks" => self.think_blocks = count(value)?.max(1),
            "stonewall" | "wait_for_previous" => self.stonewall = switch(value)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn set_pattern(&mut self, value: &str) -> Result<(), String> {
        self.is_random = value.starts_with("rand");
        self.pattern = match value {
            "read" | "randread" => Pattern::Read,
            "write" | "randwrite" => Pattern::Write,
            "rw" | "readwrite" | "randrw" => Pattern::Mixed,
            "trim" | "randtrim" => Pattern::Trim,
            _ => {
                return Err(format!(
                    "{} was found; read, write, rw or trim, or randread, randwrite, randrw or randtrim was expected",
                    quote(value)
                ));
            }
        };
        Ok(())
    }

    fn check(&self, section: &Section) -> Result<(), JobFileError> {
        let blocks = self.directions().iter().map(|direction| self.block[*direction]);
        let block = blocks.clone().max().unwrap_or_default();
        if self.size == 0 {
            return Err(section.error("no size was found; write how much data the job has, such as size=2g"));
        }
        if blocks.clone().any(|bytes| bytes == 0 || bytes % 512 != 0) || block > 16 << 20 {
            return Err(section.error("bs must be a multiple of 512, at most 16m"));
        }
        if self.size < block * 4 || self.size > 1 << 50 || self.offset > 1 << 50 {
            return Err(section.error("size must be at least four times bs, and below 1024t"));
        }
        if self.time_based && self.runtime.is_none() {
            return Err(
                section.error("time_based was found without a runtime; write one, such as runtime=60")
            );
        }
        if !self.offset.is_multiple_of(512) {
            return Err(section.error("offset must be a multiple of 512"));
        }
        Ok(())
    }

    /// How long the job begins accesses at most, from when its group begins; `None` without a `runtime`.
    pub(crate) fn longest(&self) -> Option<Duration> {
        let before = self.ramp.as_nanos().saturating_add(self.start_delay.as_nanos());
        let runtime = self.runtime?.as_nanos();
        Some(Duration::from_nanos(runtime.saturating_add(before)))
    }

    pub(crate) fn depth(&self) -> u32 {
        match (self.engine, self.pattern) {
            (Engine::Synchronous, _) | (Engine::SynchronousTrims, Pattern::Trim) => 1,
            (Engine::SynchronousTrims | Engine::Asynchronous, _) => self.iodepth,
        }
    }

    pub(crate) const fn directions(&self) -> &'static [Direction] {
        match self.pattern {
            Pattern::Read => &[Direction::Read],
            Pattern::Write => &[Direction::Write],
            Pattern::Mixed => &[Direction::Read, Direction::Write],
            Pattern::Trim => &[Direction::Trim],
        }
    }

    /// Bytes of the smallest block of the job's directions.
    pub(crate) fn step(&self) -> u64 {
        let blocks = self.directions().iter().map(|direction| self.block[*direction]);
        blocks.min().expect("each pattern has a direction")
    }
}

/// Whether an option is skipped; some add a warning.
fn is_passed_over(line: &Line, warnings: &mut Vec<String>) -> bool {
    let is_log = line.option.starts_with("write_") && line.option.ends_with("_log");
    if HARMLESS.contains(&line.option.as_str()) || line.option.starts_with("iodepth_batch") || is_log {
        return true;
    }
    let warning = match line.option.as_str() {
        "direct" | "buffered" if (line.option == "direct") == (line.value != "0") => return true,
        "direct" | "buffered" => "there is no page cache in the simulator",
        "invalidate" | "overwrite" | "end_fsync" | "exitall" | "loops" | "nice" | "prio" | "prioclass" => {
            "it is passed over"
        }
        _ => return false,
    };
    warnings.push(warning_of(line, warning));
    true
}

fn warning_of(line: &Line, what: &str) -> String {
    format!("line {}: `{}={}`: {what}.", line.number, shorten(&line.option), shorten(&line.value))
}

/// A warning of the units that fio reads in another way than all standards.
fn unit_warning(line: &Line) -> Option<String> {
    const SIZES: [&str; 7] = ["bs", "blocksize", "size", "io_size", "io_limit", "offset", "rate"];
    let mut parts = line.value.split([',', ':', '-']);
    let is_ib =
        SIZES.contains(&line.option.as_str()) && parts.any(|part| part.to_ascii_lowercase().ends_with("ib"));
    (is_ib && line.kb_base == KbBase::Binary).then(|| {
        warning_of(line, "as with fio, KiB, MiB and the like are powers of 1000 here, and Ki and k of 1024 (kb_base=1000 exchanges them)")
    })
}

fn percent(text: &str) -> Result<u64, String> {
    let percent = count(text)?;
    if percent > 100 {
        return Err(format!("{percent} was found; at most 100 was expected"));
    }
    Ok(percent)
}

fn small(text: &str) -> Result<u32, String> {
    let wrong = || format!("{} was found; a number from 1 to 65536 was expected", quote(text));
    u32::try_from(count(text)?).ok().filter(|count| (1..=65_536).contains(count)).ok_or_else(wrong)
}

fn distribution(text: &str) -> Result<Distribution, String> {
    let mut parts = text.split(':');
    let name = parts.next().unwrap_or_default();
    let number = |part: &str| {
        part.parse::<f64>().map_err(|_| format!("{} was found; a number was expected", quote(part)))
    };
    let first = parts.next().map(number).transpose()?;
    let centre = parts.next().map(centre).transpose()?;
    if let Some(more) = parts.next() {
        return Err(format!("{} was found; nothing more was expected", quote(more)));
    }
    match (name, first) {
        ("random" | "uniform", _) => Ok(Distribution::Random),
        ("zipf", theta) => {
            let theta = theta.unwrap_or(1.1);
            let is_good = theta > 0.0 && theta < 100.0 && (theta - 1.0).abs() > 1e-6;
            let wrong = || format!("zipf:{theta} was found; a theta above 0 that is not 1 was expected");
            is_good.then_some(Distribution::Zipf(theta, centre)).ok_or_else(wrong)
        }
        ("pareto", h) => {
            let h = h.unwrap_or(0.2);
            let wrong = || format!("pareto:{h} was found; a number between 0 and 1 was expected");
            (h > 0.0 && h < 1.0).then_some(Distribution::Pareto(h, centre)).ok_or_else(wrong)
        }
        _ => Err(format!("{} was found; random, zipf:THETA or pareto:H was expected", quote(text))),
    }
}

fn centre(text: &str) -> Result<f64, String> {
    let place = text.parse().ok().filter(|place| (0.0..=1.0).contains(place));
    place.ok_or_else(|| format!("{} was found; a place from 0 to 1 was expected", quote(text)))
}
