//! `kickcache advise`: which size of cache is worth its money.

mod advice;
mod candidate;
mod devices;
mod knee;
mod live;
mod need;
mod page;
mod price;
mod print;
mod recommendation;

use std::path::{Path, PathBuf};

use kickcache_command::exit::Failure;
use kickcache_command::options::ControlOption;
use kickcache_command::output;
use kickcache_command::user_text::Printer;
use kickcache_daemon::plan::endurance::Endurance;
use kickcache_engine::config::Mode;
use kickcache_engine::format::geometry::DEVICE_SIZE_MIN;
use kickcache_model::cache_model::cache_kind::{CacheKind, Tuning};
use kickcache_model::device_model::device_file::DeviceFile;
use kickcache_model::result::RunResult;
use kickcache_units::{Size, show_bytes};

use crate::cli::advise::advice::Advice;
use crate::cli::advise::candidate::{Candidate, Economy, Layout};
use crate::cli::advise::devices::Devices;
use crate::cli::advise::live::LiveVolume;
use crate::cli::advise::need::Need;
use crate::cli::advise::price::{NamedPrice, Prices};
use crate::cli::advise::recommendation::{recommend, warnings};
use crate::cli::simulate::cache_size::CacheSize;
use crate::cli::simulate::compare::find_device;
use crate::cli::simulate::load::{Load, LoadArgs};
use crate::cli::simulate::planned_run::PlannedRun;
use crate::cli::simulate::pool::{parse_threads, processors, run_all};

const EXAMPLES: &str = "\
Examples:
  kickcache advise --job mail.fio                           the size that pays for a job of fio
  kickcache advise --volume vm1                             for a volume, from its requests
  kickcache advise --trace vm1.kct --endurance 600TBW       for a recording, with years of life
  kickcache advise --job contrib/cloud.fio --device cloud-slow \\
      --cache-device cloud-fast-20g --size 25GB --fast-device cloud-fast-80g \\
      --volume-size 100GB --prices contrib/prices.toml
  kickcache advise --trace vm1.kct --price cache=0.08/GiB-month --price origin=0.02/GiB-month \\
      --need iops=5000,p99=5ms                              the cheapest that meets these, or exit code 1

A load is run on each candidate in virtual time, by the engine of the daemon on modelled devices,
with a cache that is empty at first. Devices are mirrored-5400, disk-7200, article-ssd,
cloud-slow, cloud-fast-20g, cloud-fast-80g, network-disk, object-store, and files written by
`kickcache simulate --calibrate`.";

/// Recommend a cache size by cost, for a served volume, a trace or a job file
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct AdviseArgs {
    #[command(flatten)]
    load: LoadArgs,
    /// A served volume, by its hit-ratio curve and its counters, with --depth requests in flight [default:
    /// 32]
    #[arg(long, value_name = "NAME", group = "LoadInput", conflicts_with_all = ["speed", "format", "runtime", "mode"])]
    volume: Option<String>,
    #[command(flatten)]
    control: ControlOption,
    /// Sizes of the cache: bytes, or shares of the blocks that the load accesses
    #[arg(
        long,
        value_name = "SIZES",
        value_delimiter = ',',
        default_value = "3%,6%,12%,25%,50%,100%",
        allow_hyphen_values = true
    )]
    size: Vec<CacheSize>,
    /// Model of the origin: a device that is part of the program, or a TOML file
    #[arg(long, value_name = "NAME|FILE", default_value = "mirrored-5400")]
    device: String,
    /// Model of the cache device: a device that is part of the program, or a TOML file
    #[arg(long, value_name = "NAME|FILE", default_value = "article-ssd")]
    cache_device: String,
    /// Model of a fast device for all data [default: the cache device]
    #[arg(long, value_name = "NAME|FILE")]
    fast_device: Option<String>,
    /// The write mode: write-through or write-back
    #[arg(long, value_name = "MODE", default_value = "write-back", value_parser = parse_mode)]
    mode: CacheKind,
    /// Size of the volume in bytes, for its cost [default: the smallest volume that fits the load]
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true)]
    volume_size: Option<Size>,
    /// A price of cache, origin or fast (a fast device with all data), such as cache=0.08/GiB-month
    #[arg(long, value_name = "NAME=PRICE")]
    price: Vec<NamedPrice>,
    /// A file of prices, such as contrib/prices.toml; --price has precedence
    #[arg(long, value_name = "FILE")]
    prices: Option<PathBuf>,
    /// Bytes that the cache device can be written in its life, such as 600TBW [default: unknown]
    #[arg(long, value_name = "BYTES")]
    endurance: Option<Endurance>,
    /// Requirements, of iops=N, p50=TIME, p99=TIME, cost=AMOUNT (a month), years=N; the cheapest candidate
    /// that meets all is chosen
    #[arg(long, value_name = "NEEDS", value_delimiter = ',')]
    need: Vec<Need>,
    /// Seed of all random numbers
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Runs of each candidate, 1 to 1000, with successive seeds; medians are shown [default: 3 of a job file,
    /// 1 of a trace]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1000))]
    repeat: Option<u64>,
    /// Simulations in parallel [default: one for each processor]
    #[arg(long, value_name = "N", value_parser = parse_threads)]
    threads: Option<usize>,
    /// Print the advice as JSON
    #[arg(long)]
    json: bool,
    /// Write a report too: a self-contained HTML page with charts
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

fn parse_mode(text: &str) -> Result<CacheKind, String> {
    match text {
        "write-through" => Ok(CacheKind::Kickcache(Mode::WriteThrough)),
        "write-back" => Ok(CacheKind::Kickcache(Mode::WriteBack)),
        _ => Err(format!("`{text}` is no mode of a simulated cache; write write-through or write-back")),
    }
}

/// The subject of the advice.
enum Source {
    Load(Box<Load>),
    Live(Box<LiveVolume>),
}

impl Source {
    fn volume_bytes(&self) -> u64 {
        match self {
            Source::Load(load) => load.volume_bytes,
            Source::Live(volume) => volume.volume_bytes(),
        }
    }

    fn footprint_bytes(&self) -> u64 {
        match self {
            Source::Load(load) => load.footprint_bytes(),
            Source::Live(volume) => volume.footprint_bytes(),
        }
    }

    fn description(&self) -> String {
        match self {
            Source::Load(load) => load.description.clone(),
            Source::Live(volume) => volume.description(),
        }
    }

    fn candidate(&self, layout: Layout, runs: &[RunResult], economy: &Economy) -> Candidate {
        match self {
            Source::Load(_) => Candidate::new(layout, runs, economy),
            Source::Live(volume) => volume.candidate(layout, runs, economy),
        }
    }

    /// A note on the measured latency of the origin.
    fn measured(&self) -> Option<String> {
        match self {
            Source::Load(_) => None,
            Source::Live(volume) => volume.measured_origin(),
        }
    }

    /// A note on the layouts that are too slow for the load.
    fn behind<'a>(
        &self,
        candidates: &[Candidate],
        runs: impl Iterator<Item = &'a [RunResult]>,
    ) -> Option<String> {
        let Source::Load(load) = self else { return None };
        let is_behind = |runs: &[RunResult]| runs.iter().any(|run| load.is_behind(run));
        let slow: Vec<String> = candidates
            .iter()
            .zip(runs)
            .filter(|(_, runs)| is_behind(runs))
            .map(|(one, _)| one.name())
            .collect();
        let list = slow.join(", ");
        (!slow.is_empty())
            .then(|| format!("too slow for the load: {list}; latencies there grow for as long as it lasts"))
    }
}

/// A device and where its figures are from.
fn described(device: &DeviceFile) -> String {
    // A device with an access cost counts as measured.
    let source = if device.access_cost.is_some() { "measured" } else { "model" };
    format!("{} ({source})", device.name)
}

impl AdviseArgs {
    pub fn run(&self, out: &mut dyn Printer) -> Result<(), Failure> {
        let devices = self.devices()?;
        let load = self.look()?;
        let economy = Economy {
            prices: Prices::read(self.prices.as_deref(), &self.price)?,
            volume_bytes: self.volume_size.map_or_else(|| load.volume_bytes(), Size::bytes),
            endurance_bytes: self.endurance.map(Endurance::bytes),
        };
        self.check_needs(&economy)?;
        output::try_out(&[self.output.as_deref()], &self.files())?;
        let mut notes = Vec::new();
        let layouts = self.layouts(load.footprint_bytes(), &mut notes)?;
        let runs = match &load {
            Source::Load(load) => self.simulate(&layouts, load, &devices)?,
            Source::Live(volume) => self.simulate_live(&layouts, volume, &devices),
        };
        let repeat = runs.len() / layouts.len();
        let of_layout = layouts.iter().zip(runs.chunks(repeat));
        let candidates: Vec<Candidate> =
            of_layout.map(|(layout, runs)| load.candidate(*layout, runs, &economy)).collect();
        notes.extend(load.behind(&candidates, runs.chunks(repeat)));
        notes.extend(load.measured());
        notes.extend(warnings(&candidates, &self.need));
        let recommendation = recommend(&candidates, &self.need, &economy.prices);
        let advice = Advice {
            load: load.description(),
            origin: described(&devices.origin),
            cache: described(&devices.cache),
            fast: described(&devices.fast),
            candidates,
            needs: self.need.clone(),
            prices: economy.prices,
            notes,
            recommendation,
        };
        self.show(&advice, &runs, out)
    }

    fn show(&self, advice: &Advice, runs: &[RunResult], out: &mut dyn Printer) -> Result<(), Failure> {
        if let Some(path) = &self.output {
            output::write(path, &page::page(advice, runs))?;
        }
        if self.json {
            writeln!(out, "{}", serde_json::to_string_pretty(&print::json(advice))?)?;
        } else {
            print::table(advice, out)?;
        }
        match advice.recommendation.chosen {
            Some(_) => Ok(()),
            None => Err(anyhow::Error::msg(advice.recommendation.reason.clone()).into()),
        }
    }

    fn files(&self) -> Vec<&Path> {
        let devices = [&self.device, &self.cache_device].into_iter().chain(&self.fast_device).map(Path::new);
        self.load.files().chain(self.prices.as_deref()).chain(devices).collect()
    }

    fn devices(&self) -> Result<Devices, Failure> {
        let cache = find_device(&self.cache_device)?;
        let fast = self.fast_device.as_deref().map(find_device).transpose()?;
        Ok(Devices { origin: find_device(&self.device)?, fast: fast.unwrap_or_else(|| cache.clone()), cache })
    }

    /// Refuses a required cost without prices, and required years of life without an endurance.
    fn check_needs(&self, economy: &Economy) -> Result<(), Failure> {
        for need in &self.need {
            match need {
                Need::Cost(_) if !economy.prices.are_known() => {
                    return Err(Failure::usage(
                        "a cost is needed, but no price is known; write --price or --prices",
                    ));
                }
                Need::Years(_) if economy.endurance_bytes.is_none() => {
                    return Err(Failure::usage(
                        "years of life are needed, but not known; write --endurance, such as --endurance 600TBW",
                    ));
                }
                Need::Iops(_) | Need::P50(_) | Need::P99(_) | Need::Cost(_) | Need::Years(_) => {}
            }
        }
        Ok(())
    }

    /// No cache, a cache of each size that is not below [`DEVICE_SIZE_MIN`], and the fast device alone.
    fn layouts(&self, footprint_bytes: u64, notes: &mut Vec<String>) -> Result<Vec<Layout>, Failure> {
        let bytes = |size: &CacheSize| size.of(footprint_bytes).bytes();
        let (large, small): (Vec<&CacheSize>, Vec<&CacheSize>) =
            self.size.iter().partition(|size| bytes(size) >= DEVICE_SIZE_MIN);
        let least = show_bytes(DEVICE_SIZE_MIN);
        if large.is_empty() {
            let largest = self.size.iter().map(bytes).max().unwrap_or(0);
            return Err(Failure::usage(format!(
                "the load touches {}, and the largest of the sizes has {}; {least} is the least for a cache, so give \
                 larger sizes (--size {}M)",
                show_bytes(footprint_bytes),
                show_bytes(largest),
                DEVICE_SIZE_MIN >> 20
            )));
        }
        if !small.is_empty() {
            let list: Vec<String> =
                small.iter().map(|size| format!("{size} ({})", show_bytes(bytes(size)))).collect();
            notes.push(format!("caches of {} are left out: {least} is the least", list.join(", ")));
        }
        let mut sizes: Vec<u64> = large.into_iter().map(bytes).collect();
        sizes.sort_unstable();
        sizes.dedup();
        let caches = sizes.into_iter().map(Layout::Cached);
        Ok([Layout::Origin].into_iter().chain(caches).chain([Layout::Fast]).collect())
    }

    fn look(&self) -> Result<Source, Failure> {
        let Some(name) = &self.volume else { return Ok(Source::Load(Box::new(self.load.look(self.seed)?))) };
        let report = self.control.client().status()?;
        Ok(Source::Live(Box::new(LiveVolume::find(&report, name, self.load.depth())?)))
    }

    fn seeds(&self, count: u64) -> impl Iterator<Item = u64> {
        (0..self.repeat.unwrap_or(count)).map(|offset| self.seed.wrapping_add(offset))
    }

    fn simulate_live(&self, layouts: &[Layout], volume: &LiveVolume, devices: &Devices) -> Vec<RunResult> {
        let of_layout = |layout: &Layout| {
            self.seeds(1).map(|seed| volume.task(*layout, seed, devices)).collect::<Vec<_>>()
        };
        run_all(layouts.iter().flat_map(of_layout).collect(), self.threads.unwrap_or_else(processors))
    }

    fn simulate(
        &self,
        layouts: &[Layout],
        load: &Load,
        devices: &Devices,
    ) -> Result<Vec<RunResult>, Failure> {
        let repeat = if load.is_trace() { 1 } else { 3 };
        let mut plans = Vec::new();
        for layout in layouts {
            plans.extend(self.seeds(repeat).map(|seed| self.plan(*layout, seed, load, devices)));
        }
        for plan in &plans {
            plan.choice.start(plan.size.bytes(), load.volume_bytes, plan.seed).map_err(|error| {
                Failure::usage(format!(
                    "a cache of {} cannot be simulated: {error}",
                    show_bytes(plan.size.bytes())
                ))
            })?;
        }
        let tasks = plans.into_iter().map(PlannedRun::task).collect();
        let results = run_all(tasks, self.threads.unwrap_or_else(processors));
        let results: Vec<RunResult> =
            results.into_iter().collect::<Result<_, String>>().map_err(anyhow::Error::msg)?;
        match results.iter().find(|run| run.count() == 0) {
            Some(run) => Err(Failure::usage(format!(
                "{}: no access ended in the measured time, so there is no basis for advice; --runtime \
                 and runtime must be longer than ramp_time, startdelay and an access",
                run.name
            ))),
            None => Ok(results),
        }
    }

    fn plan(&self, layout: Layout, seed: u64, load: &Load, devices: &Devices) -> PlannedRun {
        let (choice, bytes) = match layout {
            Layout::Cached(bytes) => (self.mode, bytes),
            Layout::Origin | Layout::Fast => (CacheKind::None, 0),
        };
        let origin = if layout == Layout::Fast { &devices.fast } else { &devices.origin };
        PlannedRun {
            choice,
            size: Size::from_bytes(bytes),
            tuning: Tuning::default(),
            seed,
            load: load.clone(),
            origin: origin.clone(),
            cache: devices.cache.clone(),
        }
    }
}
