//! `kickcache simulate run` and `compare`: a load on one cache or several, of one size or several.

use std::path::{Path, PathBuf};

use kickcache_command::exit::Failure;
use kickcache_command::notice::notice;
use kickcache_command::output;
use kickcache_command::user_text::Printer;
use kickcache_daemon::plan::cutoff::Cutoff;
use kickcache_daemon::plan::write_budget::WriteBudget;
use kickcache_engine::format::geometry::DEVICE_SIZE_MIN;
use kickcache_model::cache_model::cache_kind::{CacheKind, Tuning};
use kickcache_model::device_model::device_file::{DeviceFile, built_in, built_in_names};
use kickcache_model::result::RunResult;
use kickcache_units::{Size, show_bytes};

use crate::cli::simulate::cache_size::CacheSize;
use crate::cli::simulate::compare_table::Ratios;
use crate::cli::simulate::compared_runs::ComparedRuns;
use crate::cli::simulate::load::{Load, LoadArgs};
use crate::cli::simulate::planned_run::PlannedRun;
use crate::cli::simulate::pool::{parse_threads, processors, run_all};
use crate::cli::simulate::setup_names::SetupNames;
use crate::cli::simulate::shard::Shard;
use crate::cli::simulate::{compare_page, compare_rows, compare_table, compare_verdict, input, parquet_file};

const EXAMPLES: &str = "\
Examples:
  kickcache simulate compare --job mail.fio
  kickcache simulate compare --job mail.fio --cache none,bcache,kickcache --size 4G,8G \\
                             -o report.html
  kickcache simulate compare --job mail.fio --device my-disk.toml \\
                             --cache-device my-ssd.toml --repeat 5
  kickcache simulate compare --trace vm.csv.xz --speed 4 --size 16G --json
  kickcache simulate compare --trace vm.csv.xz --write-budget 50G/day
  kickcache simulate compare --trace vm.csv.xz --size 4G,16G --shard 0/2 --parquet 0.parquet

Devices are mirrored-5400, disk-7200, article-ssd, cloud-slow, cloud-fast-20g,
cloud-fast-80g, network-disk, object-store, and files written by `kickcache simulate --calibrate`.";
const RUN_EXAMPLES: &str = "\
Examples:
  kickcache simulate run --job mail.fio
  kickcache simulate run --job mail.fio --cache bcache --size 20G \\
                         --device cloud-slow --cache-device cloud-fast-20g
  kickcache simulate run --trace vm.csv.xz                  a trace, with its timing
  kickcache simulate run --trace vm.csv.xz --speed 2        twice as fast
  kickcache simulate run --trace vm.csv.xz --depth 32       as fast as possible, 32 in flight";

/// The parameters that both commands need.
#[derive(Debug, clap::Args)]
struct Setup {
    #[command(flatten)]
    load: LoadArgs,
    /// Model of the origin: a device that is part of the program, or a TOML file
    #[arg(long, value_name = "NAME|FILE", default_value = "mirrored-5400")]
    device: String,
    /// Model of the cache device: a device that is part of the program, or a TOML file
    #[arg(long, value_name = "NAME|FILE", default_value = "article-ssd")]
    cache_device: String,
    /// Length from which sequential streams bypass kickcache, as for `serve` [default: auto]
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true)]
    sequential_cutoff: Option<Cutoff>,
    /// Limit of the bytes written to a cache device of kickcache, as for `serve`, such as 50G/day or 0.5dwpd
    /// [default: no limit]
    #[arg(long, value_name = "BUDGET", allow_hyphen_values = true)]
    write_budget: Option<WriteBudget>,
    /// Seed of all random numbers
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Runs of each, 1 to 1000, with successive seeds; the table shows the median and the spread
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1000))]
    repeat: u64,
    /// Simulations in parallel [default: one for each processor]
    #[arg(long, value_name = "N", value_parser = parse_threads)]
    threads: Option<usize>,
    /// Make only this share of the runs, to spread them over several machines: 0/4, 1/4, 2/4 or 3/4
    #[arg(long, value_name = "INDEX/COUNT", default_value_t = Shard::WHOLE, hide_default_value = true)]
    shard: Shard,
    /// Write the results as an Apache Parquet file too, a row a run
    #[arg(long, value_name = "FILE")]
    parquet: Option<PathBuf>,
    /// Print the results as JSON, with histograms and series
    #[arg(long)]
    json: bool,
    /// Write a report, too: one self-contained HTML page with charts
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Simulate a fio job file or a trace on one cache
#[derive(Debug, clap::Args)]
#[command(after_help = RUN_EXAMPLES)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    setup: Setup,
    /// The cache: none, kickcache, kickcache-write-back, dm-cache, dm-cache-write-back, dm-cache-4.11,
    /// dm-cache-4.12-rc1, bcache, bcache-no-cutoff, lru
    #[arg(long, value_name = "NAME", default_value = "kickcache-write-back")]
    cache: CacheKind,
    /// Size of the cache: bytes, or a share of the blocks that the load accesses
    #[arg(long, value_name = "SIZE", default_value = "4G", allow_hyphen_values = true)]
    size: CacheSize,
}

/// Simulate a fio job file or a trace on several caches of several sizes
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CompareArgs {
    #[command(flatten)]
    setup: Setup,
    /// The caches, as for `run`; ratios are to the first
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        default_value = "none,kickcache-write-back,dm-cache-write-back,bcache"
    )]
    cache: Vec<CacheKind>,
    /// Sizes of the cache: bytes, or shares of the blocks that the load accesses
    #[arg(
        long,
        value_name = "SIZES",
        value_delimiter = ',',
        default_value = "4G",
        allow_hyphen_values = true
    )]
    size: Vec<CacheSize>,
}

impl RunArgs {
    pub(crate) fn run(self, out: &mut dyn Printer) -> Result<(), Failure> {
        self.setup.compare(&[self.cache], &[self.size], out)
    }
}

impl CompareArgs {
    pub(crate) fn run(self, out: &mut dyn Printer) -> Result<(), Failure> {
        self.setup.compare(&self.cache, &self.size, out)
    }
}

/// A cache that is simulated in a size.
#[derive(Clone, Copy, PartialEq, Debug)]
struct SizedCache {
    choice: CacheKind,
    size: Size,
}

impl Setup {
    fn compare(
        &self,
        choices: &[CacheKind],
        sizes: &[CacheSize],
        out: &mut dyn Printer,
    ) -> Result<(), Failure> {
        let (origin, cache) = (find_device(&self.device)?, find_device(&self.cache_device)?);
        self.check_tuned(choices)?;
        let load = self.load.look(self.seed)?;
        let names = SetupNames {
            load: load.description.clone(),
            origin: origin.name.clone(),
            cache: cache.name.clone(),
        };
        let sizes: Vec<Size> = sizes.iter().map(|size| size.of(load.footprint_bytes())).collect();
        let mut plans = self.plans(&sized_caches(choices, &sizes), &load, &origin, &cache);
        let total = plans.len();
        plans = plans.drain(self.shard.runs(total)).collect();
        check(&plans)?;
        let devices = [&self.device, &self.cache_device].map(Path::new);
        let read: Vec<&Path> = self.load.files().chain(devices).collect();
        output::try_out(&[self.output.as_deref(), self.parquet.as_deref()], &read)?;
        let tasks = plans.iter().cloned().map(PlannedRun::task).collect();
        let results: Vec<RunResult> = run_all(tasks, self.threads.unwrap_or_else(processors))
            .into_iter()
            .collect::<Result<_, String>>()
            .map_err(anyhow::Error::msg)?;
        say_what_measured_nothing(&results);
        if let Some(path) = &self.output {
            output::write(path, &compare_page::page(&names, &kinds(&plans, &results), &results))?;
        }
        if let Some(path) = &self.parquet {
            parquet_file::write(path, &compare_rows::columns(&plans, &results))?;
        }
        if self.json {
            let text = serde_json::to_string_pretty(&results).map_err(anyhow::Error::from)?;
            return Ok(writeln!(out, "{text}")?);
        }
        let ratios = if self.shard.is_part() { Ratios::None } else { Ratios::ToFirst };
        let kinds = kinds(&plans, &results);
        if ratios == Ratios::ToFirst {
            compare_verdict::sentences(&kinds).iter().try_for_each(|sentence| writeln!(out, "{sentence}"))?;
            writeln!(out)?;
        }
        compare_table::print(&names, &kinds, ratios, out)?;
        Ok(say_what_fell_behind(&load, &results, out)?)
    }

    /// Refuses settings of a cache that is not simulated.
    fn check_tuned(&self, choices: &[CacheKind]) -> Result<(), Failure> {
        let given = [
            self.sequential_cutoff.map(|_| "--sequential-cutoff"),
            self.write_budget.map(|_| "--write-budget"),
        ];
        match given.into_iter().flatten().next() {
            Some(flag) if !choices.iter().any(|choice| matches!(choice, CacheKind::Kickcache(_))) => {
                Err(Failure::usage(format!(
                    "{flag} is for kickcache, which is not among the caches; add it to --cache"
                )))
            }
            Some(_) | None => Ok(()),
        }
    }

    fn tuning(&self, size: Size) -> Tuning {
        Tuning {
            sequential_cutoff: self.sequential_cutoff.unwrap_or_default().to_engine(),
            write_budget: self.write_budget.map(|budget| budget.per_day(size.bytes())),
        }
    }

    fn plans(
        &self,
        caches: &[SizedCache],
        load: &Load,
        origin: &DeviceFile,
        cache: &DeviceFile,
    ) -> Vec<PlannedRun> {
        let mut plans: Vec<PlannedRun> = Vec::new();
        for SizedCache { choice, size } in caches.iter().copied() {
            let seeds = (0..self.repeat).map(|offset| self.seed.wrapping_add(offset));
            plans.extend(seeds.map(|seed| PlannedRun {
                choice,
                size,
                tuning: self.tuning(size),
                seed,
                load: load.clone(),
                origin: origin.clone(),
                cache: cache.clone(),
            }));
        }
        plans
    }
}

/// The runs of each cache and size.
fn kinds<'a>(plans: &[PlannedRun], results: &'a [RunResult]) -> Vec<ComparedRuns<'a>> {
    let mut rest = results;
    let kind = |plans: &[PlannedRun]| {
        let (runs, others) = rest.split_at(plans.len());
        rest = others;
        ComparedRuns { cache: plans[0].choice, size: plans[0].sized(), runs }
    };
    plans.chunk_by(PlannedRun::repeats).map(kind).collect()
}

/// Each pair of a cache and a size once, and no cache once.
fn sized_caches(choices: &[CacheKind], sizes: &[Size]) -> Vec<SizedCache> {
    let mut caches: Vec<SizedCache> = Vec::new();
    for choice in choices {
        let sizes = if *choice == CacheKind::None { &sizes[..1] } else { sizes };
        for size in sizes {
            let cache = SizedCache { choice: *choice, size: *size };
            if !caches.contains(&cache) {
                caches.push(cache);
            }
        }
    }
    caches
}

/// Refuses impossible combinations before the first long run.
fn check(plans: &[PlannedRun]) -> Result<(), Failure> {
    let mut tried: Vec<SizedCache> = Vec::new();
    for plan in plans.iter().filter(|plan| plan.choice != CacheKind::None) {
        let cache = SizedCache { choice: plan.choice, size: plan.size };
        if tried.contains(&cache) {
            continue;
        }
        tried.push(cache);
        if plan.size.bytes() < DEVICE_SIZE_MIN {
            let (size, least) = (show_bytes(plan.size.bytes()), show_bytes(DEVICE_SIZE_MIN));
            return Err(Failure::usage(format!("a cache of {size} is too small; it needs {least} at least")));
        }
        let started =
            plan.choice.start_tuned(plan.size.bytes(), plan.load.volume_bytes, plan.seed, plan.tuning);
        started.map_err(|error| {
            Failure::usage(format!("{} cannot be simulated: {error}", plan.choice.name()))
        })?;
    }
    Ok(())
}

/// A device by its name or from its file.
pub(crate) fn find_device(name: &str) -> Result<DeviceFile, Failure> {
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
    let text = input::read("device file", path)?;
    DeviceFile::parse(&text).map_err(|what| Failure::usage(format!("the device file {name}: {what}")))
}

/// A rate of 0 would be taken for that of a slow device.
fn say_what_measured_nothing(results: &[RunResult]) {
    for run in results.iter().filter(|run| run.count() == 0) {
        notice(&format!(
            "kickcache: {}: no access ended in the measured time, so its figures are meaningless; \
             --runtime and runtime must be longer than ramp_time, startdelay and an access.",
            run.name
        ));
    }
}

/// Prints the runs that ended late.
fn say_what_fell_behind(load: &Load, results: &[RunResult], out: &mut dyn Printer) -> std::io::Result<()> {
    let Some(span) = load.span().map(|span| span.as_nanos()) else { return Ok(()) };
    for run in results.iter().filter(|run| load.is_behind(run)) {
        let (took, span) =
            (std::time::Duration::from_nanos(run.nanos), std::time::Duration::from_nanos(span));
        let (took, span) = (kickcache_units::show_duration(took), kickcache_units::show_duration(span));
        writeln!(out, "{}: fell behind, with {took} for accesses of {span}.", run.name)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_cache_one_size_is_run_once() {
        let (one, two) = (Size::from_bytes(1 << 30), Size::from_bytes(2 << 30));
        let cache = |choice, size| SizedCache { choice, size };
        let expected =
            vec![cache(CacheKind::None, one), cache(CacheKind::Lru, one), cache(CacheKind::Lru, two)];
        assert_eq!(
            sized_caches(&[CacheKind::None, CacheKind::Lru, CacheKind::Lru], &[one, two, one]),
            expected
        );
    }
}
