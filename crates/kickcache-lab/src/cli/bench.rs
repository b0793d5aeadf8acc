//! `kickcache bench`: starts the bench, and prints its results.

use std::path::{Path, PathBuf};
use std::time::Duration;

use kickcache_command::exit::{Exit, Failure};
use kickcache_command::options::{parse_blocks, parse_span};
use kickcache_command::output;
use kickcache_command::user_text::Printer;
use kickcache_engine::units::BLOCK_SIZE;
use kickcache_report::Report;
use kickcache_units::{Size, are, counted, show_bytes};

use crate::bench::{
    ArticleJob, BenchResult, Data, End, Job, NoiseFloor, Options, Phase, SimulatedLoad, Summary, TargetSpec,
};
use crate::cli::bench_table;
use crate::cli::prediction::{PredictionSpec, Predictions};

const EXAMPLES: &str = "\
Examples:
  kickcache bench --target hdd=/dev/sdb \\
                  --target 'cached=nbd+unix:///vm1?socket=/run/kickcache/vm1.sock'
  kickcache bench --target raw=/srv/x.img \\
                  --target kickcache=cache:/nvme/c.img,size:4G,origin:/srv/x.img
  kickcache bench --job mail.fio --target slow=/mnt/hdd \\
                  --target lvm=cmd:contrib/bench/lvmcache -o bench.html
  kickcache bench --target a=/srv/x.img --rounds 10 --runtime 30 --size 1G --json > bench.json
  kickcache bench --target hdd=/dev/sdb --predict hdd=hdd.toml \\
                  --target k=cache:/dev/nvme0n1p4,origin:/dev/sdb \\
                  --predict k=origin:hdd.toml,cache:nvme.toml -o bench.html

A target is NAME=SPEC, where SPEC is
  a path                     a block device, a file, or a directory of a file system
  nbd://... nbd+unix://...   an export of an NBD server
  cmd:EXECUTABLE             a target that an executable sets up (contrib/bench/, docs/evidence/bench.md)
  cache:PATH,origin:PATH     a volume served by the bench; also mode:MODE and size:SIZE

Exit codes: 0 all rounds were measured; 1 a run failed, or other programs disturbed too many rounds;
2 an argument is wrong; 130 interrupted. The results so far are printed and written in every
case.";

/// Compare the speed of disks and caches with fio, in alternating runs
///
/// Every round runs every target, in an order that the next round reverses. If other programs used more than
/// --busy-limit of the processors in a round, the round is discarded and repeated. Only with
/// --destroy-data does the bench write to a device that holds data; on file systems it uses only files that it created.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct BenchArgs {
    /// A target to measure; the first one is the base of the comparisons
    #[arg(long = "target", value_name = "NAME=SPEC", required = true)]
    targets: Vec<TargetSpec>,
    /// The load: a job file of fio [default: 2 jobs x 8 random reads of 4 KiB, zipf 1.2]
    #[arg(long, value_name = "FILE", conflicts_with_all = ["size", "runtime"])]
    job: Option<PathBuf>,
    /// Data of each of the two jobs, in bytes
    #[arg(long, value_name = "SIZE", default_value = "2G", allow_hyphen_values = true, value_parser = parse_size)]
    size: Size,
    /// Length of a run, such as 30s or 2m; a number without a unit is in seconds
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = parse_span)]
    runtime: Duration,
    /// States of the caches, in this order [default: found; for cmd: and cache: targets empty and stale]
    #[arg(long, value_name = "PHASES", value_delimiter = ',', value_enum)]
    phases: Option<Vec<Phase>>,
    /// Bytes of stale data that the stale phase reads twice [default: as many as the job has]
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true)]
    stale: Option<Size>,
    /// Valid rounds to make, 1 to 10000; fewer than 3 give no verdict
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    rounds: u32,
    /// Upper limit of rounds, 1 to 100000, discarded ones included [default: twice --rounds]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    rounds_max: Option<u32>,
    /// The source of the noise floor, the smallest difference that a verdict can show
    #[arg(long, value_name = "HOW", value_enum, default_value = "measured")]
    noise_floor: NoiseFloor,
    /// Margin in percent: smaller differences count as equal
    #[arg(long, value_name = "PERCENT", default_value_t = 5.0, value_parser = parse_percent)]
    margin: f64,
    /// Limit of the processor time of other programs, in percent; a round above it is discarded
    #[arg(long, value_name = "PERCENT", default_value_t = 2.0, value_parser = parse_percent)]
    busy_limit: f64,
    /// Seed of the first round; each later one has the next
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Simulate a target as well, on models of its devices: TARGET=DEVICE, or
    /// TARGET=origin:DEVICE,cache:DEVICE; a device is a file written by `kickcache simulate --calibrate`, or
    /// a model that is part of the program
    #[arg(long, value_name = "TARGET=SPEC")]
    predict: Vec<PredictionSpec>,
    /// Write to devices that hold data; the data is lost
    #[arg(long)]
    destroy_data: bool,
    /// Print the result as JSON, with histograms and series
    #[arg(long)]
    json: bool,
    /// Write the JSON to a file too, for `kickcache report`
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    /// Write a report too: a self-contained HTML page with charts
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// The size of a job's data, at least one block.
fn parse_size(text: &str) -> Result<Size, String> {
    let size = parse_blocks(text)?;
    if size.bytes() < BLOCK_SIZE {
        return Err(format!(
            "a job on {} reads no block of 4 KiB; give 4K at least",
            show_bytes(size.bytes())
        ));
    }
    Ok(size)
}

fn parse_percent(text: &str) -> Result<f64, String> {
    let number = text.trim_end_matches('%').trim().parse::<f64>().ok();
    number
        .filter(|percent| (0.01..=100.0).contains(percent))
        .ok_or_else(|| format!("`{text}` is no percentage; write a number from 0.01 to 100"))
}

impl BenchArgs {
    pub fn run(self, commit: Option<&'static str>, out: &mut dyn Printer) -> Result<(), Failure> {
        output::try_out(&[self.output.as_deref(), self.save.as_deref()], &self.files())?;
        if let Some(most) = self.rounds_max.filter(|most| *most < self.rounds) {
            return Err(Failure::usage(format!(
                "--rounds-max {most} is less than --rounds {}, so that it could never be enough; raise it",
                self.rounds
            )));
        }
        let options = self.options(commit);
        let predictions = self.predictions(&options)?;
        let mut result = crate::bench::run(&options)?;
        if let Some(predictions) = predictions.filter(|_| result.end == End::Complete) {
            // The measurements are kept, even if the prediction fails.
            if let Err(error) = predictions.add_to(&mut result, self.seed) {
                result.end = End::Failed(format!("{error:#}"));
            }
        }
        let json = serde_json::to_string(&result)?;
        let summary = Summary::of(&result);
        // An error of one output must not prevent the other outputs.
        let kept = self.keep(&result, &summary, &json);
        let printed =
            if self.json { writeln!(out, "{json}") } else { bench_table::print(&result, &summary, out) };
        kept?;
        // A closed terminal interrupts the bench and then cannot show anything.
        if result.end != End::Interrupted {
            printed?;
        }
        end(&result.end, &summary)
    }

    fn files(&self) -> Vec<&Path> {
        let targets = self.targets.iter().flat_map(TargetSpec::files);
        let devices = self.predict.iter().flat_map(PredictionSpec::files);
        self.job.as_deref().into_iter().chain(targets).chain(devices).collect()
    }

    fn keep(&self, result: &BenchResult, summary: &Summary, json: &str) -> anyhow::Result<()> {
        let saved = self.save.as_ref().map_or(Ok(()), |path| output::write_result(path, json));
        let page = || page(result, summary);
        saved.and(self.output.as_ref().map_or(Ok(()), |path| output::write(path, &page())))
    }

    fn predictions(&self, options: &Options) -> Result<Option<Predictions>, Failure> {
        if self.predict.is_empty() {
            return Ok(None);
        }
        let load = SimulatedLoad::of(options)?;
        Predictions::plan(&self.predict, &self.targets, load).map(Some)
    }

    fn options(&self, commit: Option<&'static str>) -> Options {
        let article = || Job::Article(ArticleJob { size: self.size.bytes(), runtime: self.runtime });
        Options {
            targets: self.targets.clone(),
            job: self.job.clone().map_or_else(article, Job::File),
            phases: self.phases.clone(),
            rounds: self.rounds,
            rounds_max: self.rounds_max.unwrap_or(self.rounds * 2).max(self.rounds),
            margin: self.margin / 100.0,
            noise_floor: self.noise_floor,
            busy_limit: self.busy_limit / 100.0,
            stale_bytes: self.stale.map(Size::bytes),
            seed: self.seed,
            data: if self.destroy_data { Data::Destroy } else { Data::Keep },
            commit,
        }
    }
}

fn end(end: &End, summary: &Summary) -> Result<(), Failure> {
    let fail = |exit, sentence: String| Err(Failure { exit, error: anyhow::Error::msg(sentence) });
    match end {
        End::Complete => Ok(()),
        End::Interrupted => {
            let rounds = summary.rounds as u64;
            let sentence = format!("interrupted; {} {} complete", counted(rounds, "round"), are(rounds));
            fail(Exit::Interrupted, sentence)
        }
        End::Failed(why) => fail(Exit::Failed, why.clone()),
        End::Busy => fail(
            Exit::Failed,
            format!(
                "only {} of {} rounds count: other programs took up to {:.1} % of the processors; stop them, or raise \
                 --busy-limit or --rounds-max",
                summary.rounds,
                summary.rounds + summary.discarded,
                summary.others_most * 100.0
            ),
        ),
    }
}

fn page(result: &BenchResult, summary: &Summary) -> String {
    let runs = result.runs();
    let machine = &result.machine;
    let introduction = format!(
        "{}; {} in turns. {}, {} processors, Linux {}, {}, kickcache {}. {}",
        result.job,
        counted(summary.rounds as u64, "round"),
        machine.processor,
        machine.processor_count,
        machine.kernel,
        machine.fio,
        machine.kickcache,
        [bench_table::same_disk(summary, result), bench_table::footnotes(summary, result)].concat().join(" ")
    );
    Report { title: "kickcache bench", introduction: &introduction, runs: &runs }.html()
}
