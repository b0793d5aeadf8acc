//! `kickcache simulate run` and `compare`: a fio job file against one cache or several, of one size or several.

use std::io::Write;
use std::path::{Path, PathBuf};

use kickcache_engine::time::{Duration, Instant};
use kickcache_sim::model::device_file::{DeviceFile, built_in, built_in_names};
use kickcache_sim::others::choice::Choice;
use kickcache_sim::replay::bench::{Course, run};
use kickcache_sim::replay::devices::Devices;
use kickcache_sim::result::RunResult;
use kickcache_sim::workload::Workload;
use kickcache_sim::workload::fio::FioWorkload;

use crate::cli::exit::Failure;
use crate::cli::simulate::compare_table::{Line, print};
use crate::cli::simulate::pool::{Task, processors, run_all};
use crate::units::{Size, show_bytes};

const EXAMPLES: &str = "\
Examples:
  kickcache simulate compare --job mail.fio
  kickcache simulate compare --job mail.fio --cache kickcache,dm-cache,bcache --size 4G,8G,16G --repeat 5
  kickcache simulate compare --job mail.fio --device my-disk.toml --cache-device my-ssd.toml --json";
const RUN_EXAMPLES: &str = "\
Examples:
  kickcache simulate run --job mail.fio
  kickcache simulate run --job mail.fio --cache bcache --size 20G --device cloud-slow --cache-device cloud-fast-20g";
/// Processor time of an access: what fio on the articles' machine took.
const COST: Duration = Duration::from_micros(12);
/// Virtual seconds after which a job file without an end is stopped.
const SECONDS_MAX: u64 = 3_600;

/// What both commands need.
#[derive(Debug, clap::Args)]
struct Setup {
    /// The load: a job file of fio
    #[arg(long, value_name = "FILE")]
    job: PathBuf,
    /// The origin: a device that comes with the program, or a TOML file
    #[arg(long, value_name = "NAME|FILE", default_value = "mirrored-5400")]
    device: String,
    /// The cache device
    #[arg(long, value_name = "NAME|FILE", default_value = "article-ssd")]
    cache_device: String,
    /// Seed of everything that is drawn at random
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Runs of each, with seeds one after the other; the table shows the median and the spread
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1000))]
    repeat: u64,
    /// Stop after so many virtual seconds, whatever the job file says
    #[arg(long, value_name = "SECONDS", default_value_t = SECONDS_MAX)]
    seconds: u64,
    /// Print the results as JSON, with histograms and series
    #[arg(long)]
    json: bool,
}

/// Simulate a fio job file on one cache
#[derive(Debug, clap::Args)]
#[command(after_help = RUN_EXAMPLES)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    setup: Setup,
    /// The cache: none, kickcache, kickcache-write-back, dm-cache, dm-cache-write-back, dm-cache-4.11,
    /// dm-cache-4.12-rc1, bcache, bcache-no-cutoff, lru
    #[arg(long, value_name = "NAME", default_value = "kickcache-write-back")]
    cache: Choice,
    /// Size of the cache
    #[arg(long, value_name = "SIZE", default_value = "4G")]
    size: Size,
}

/// Simulate a fio job file on several caches of several sizes
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CompareArgs {
    #[command(flatten)]
    setup: Setup,
    /// The caches, as for `run`
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        default_value = "none,kickcache-write-back,dm-cache-write-back,bcache"
    )]
    cache: Vec<Choice>,
    /// Sizes of the cache
    #[arg(long, value_name = "SIZES", value_delimiter = ',', default_value = "4G")]
    size: Vec<Size>,
}

impl RunArgs {
    pub(crate) fn run(self, out: &mut dyn Write) -> Result<(), Failure> {
        self.setup.compare(&[self.cache], &[self.size], out)
    }
}

impl CompareArgs {
    pub(crate) fn run(self, out: &mut dyn Write) -> Result<(), Failure> {
        self.setup.compare(&self.cache, &self.size, out)
    }
}

/// One run to be made.
#[derive(Clone)]
struct Plan {
    choice: Choice,
    size: Size,
    seed: u64,
    seconds: u64,
    job: PathBuf,
    origin: DeviceFile,
    cache: DeviceFile,
}

impl Setup {
    fn compare(&self, choices: &[Choice], sizes: &[Size], out: &mut dyn Write) -> Result<(), Failure> {
        let (origin, cache) = (find_device(&self.device)?, find_device(&self.cache_device)?);
        let mut plans = Vec::new();
        for choice in choices {
            // Without a cache its size says nothing.
            let sizes = if *choice == Choice::None { &sizes[..1] } else { sizes };
            for size in sizes {
                let seeds = self.seed..self.seed + self.repeat;
                plans.extend(seeds.map(|seed| Plan {
                    choice: *choice,
                    size: *size,
                    seed,
                    seconds: self.seconds,
                    job: self.job.clone(),
                    origin: origin.clone(),
                    cache: cache.clone(),
                }));
            }
        }
        let first =
            FioWorkload::open(&self.job, self.seed).map_err(|error| Failure::usage(error.to_string()))?;
        first.warnings().iter().for_each(|warning| eprintln!("kickcache: {warning}"));
        check(&plans, first.volume_bytes())?;
        let tasks = plans.iter().cloned().map(task).collect();
        let results: Vec<RunResult> = run_all(tasks, processors())
            .into_iter()
            .collect::<Result<_, String>>()
            .map_err(anyhow::Error::msg)?;
        if self.json {
            let text = serde_json::to_string_pretty(&results).map_err(anyhow::Error::from)?;
            return Ok(writeln!(out, "{text}")?);
        }
        let per_line = usize::try_from(self.repeat).unwrap_or(1);
        let lines = plans.chunks(per_line).zip(results.chunks(per_line));
        let lines: Vec<Line<'_>> =
            lines.map(|(plans, runs)| Line { cache: plans[0].choice, size: plans[0].size, runs }).collect();
        Ok(print(&lines, out)?)
    }
}

/// Refuses what cannot be before anything runs for long.
fn check(plans: &[Plan], origin_bytes: u64) -> Result<(), Failure> {
    let mut tried: Vec<(Choice, Size)> = Vec::new();
    for plan in plans {
        if tried.contains(&(plan.choice, plan.size)) {
            continue;
        }
        tried.push((plan.choice, plan.size));
        plan.choice.start(plan.size.bytes(), origin_bytes, plan.seed).map_err(Failure::usage)?;
    }
    Ok(())
}

/// A device by its name or from its file.
fn find_device(name: &str) -> Result<DeviceFile, Failure> {
    if let Some(device) = built_in(name) {
        return Ok(device);
    }
    let path = Path::new(name);
    if !path.exists() {
        let names: Vec<&str> = built_in_names().collect();
        return Err(Failure::usage(format!(
            "there is no device and no file called `{name}`; the devices are {}",
            names.join(", ")
        )));
    }
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::usage(format!("the device file {name} cannot be read: {error}")))?;
    DeviceFile::parse(&text).map_err(|what| Failure::usage(format!("the device file {name}: {what}")))
}

fn task(plan: Plan) -> Task<Result<RunResult, String>> {
    Task {
        name: format!("{}, {}", plan.choice.name(), show_bytes(plan.size.bytes())),
        weight: 1,
        nanos: plan.seconds * 1_000_000_000,
        work: Box::new(move |progress| plan.simulate(progress)),
    }
}

impl Plan {
    fn simulate(&self, progress: &mut dyn FnMut(u64)) -> Result<RunResult, String> {
        let mut load = FioWorkload::open(&self.job, self.seed).map_err(|error| error.to_string())?;
        let mut contestant = self.choice.start(self.size.bytes(), load.volume_bytes(), self.seed)?;
        let origin = self.origin.start(self.seed.wrapping_add(1));
        let mut devices = match self.choice {
            Choice::None => Devices::bare(origin),
            Choice::Kickcache(_) | Choice::DmCache(..) | Choice::Bcache { .. } | Choice::Lru => {
                Devices::cached(self.cache.start(self.seed), origin)
            }
        };
        let length = Duration::from_millis(self.seconds.saturating_mul(1_000));
        let course = Course { start: Instant::ZERO, length, cost: COST, steady: None };
        let mut result = run(course, &mut load, contestant.as_mut(), &mut devices, progress);
        result.name = format!("{}, {}", self.choice.name(), show_bytes(self.size.bytes()));
        result.cache = (self.choice != Choice::None).then(|| self.cache.name.clone());
        result.origin.clone_from(&self.origin.name);
        result.workload = self.job.display().to_string();
        result.seed = self.seed;
        Ok(result)
    }
}
