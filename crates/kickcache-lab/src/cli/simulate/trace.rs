//! `kickcache simulate trace`: how often a cache would hit on recorded accesses, and how much it would write.

use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};

use kickcache_command::exit::Failure;
use kickcache_command::output;
use kickcache_command::user_text::Printer;
use kickcache_daemon::plan::cutoff::Cutoff;
use kickcache_daemon::plan::write_budget::WriteBudget;
use kickcache_engine::config::SequentialCutoff;
use kickcache_engine::units::BLOCK_SIZE;
use kickcache_model::memory;
use kickcache_model::reference_policy;
use kickcache_model::trace_file::survey::Survey;
use kickcache_model::trace_file::{Format, folder};
use kickcache_model::untimed::{self, Fill, Scale, Trial, blocks_max, blocks_min};
use kickcache_units::show_bytes;

use crate::cli::simulate::cache_size::CacheSize;
use crate::cli::simulate::finding::{Finding, SurveyedTrace};
use crate::cli::simulate::pool::{Task, processors, run_all};
use crate::cli::simulate::shard::Shard;
use crate::cli::simulate::trace_sample::CandidateCache;
use crate::cli::simulate::{input, parquet_file, trace_page, trace_rows, trace_sample, trace_table};
use crate::cli::trace::format_name::parse_format;
use crate::cli::trace::spool::spool_input;

/// The least blocks of a cache; a smaller cache is left out.
const CACHE_BLOCKS_MIN: u64 = 64;

const EXAMPLES: &str = "\
Examples:
  kickcache simulate trace vm.csv.xz                         1, 5, 10, 20, 50 % of its blocks
  kickcache simulate trace traces/ --size 10%,4G --json      every trace of a directory
  kickcache simulate trace vm.csv.xz --sample                from a sample, with the error
  kickcache simulate trace vm.csv.xz -o report.html          hit ratios by cache size as a chart
  kickcache simulate trace traces/ --shard 0/4 --parquet 0.parquet    the first quarter of the runs
  blkparse -i sda | kickcache simulate trace - --size 8G     from a pipe, by a temporary file
  kickcache simulate compare --trace vm.csv.xz --speed 2     with times, on modelled devices

Formats, detected from the file: recordings of `kickcache record`, CSV
(time_us,op,offset,size), blkparse text, blktrace binary, fio I/O logs of version 2 and 3,
MSR Cambridge, SPC, Alibaba, Tencent; each plain, packed by xz, gzip or zstd, or in a tar archive.";

/// Compute the hit ratios of caches of several sizes for recorded accesses
///
/// The real engine runs on devices that take no time. FIFO, LRU, SIEVE, ARC, LIRS and S3-FIFO run as
/// reference policies; they keep single blocks without overhead. For the speed of a replay, use `kickcache
/// simulate run --trace FILE` and `compare --trace FILE`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct TraceArgs {
    /// Trace files, or directories of trace files; `-` is standard input
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Cache sizes: bytes, or shares of the blocks that the trace accesses
    #[arg(
        long = "size",
        alias = "sizes",
        value_name = "SIZES",
        value_delimiter = ',',
        default_value = "1%,5%,10%,20%,50%",
        allow_hyphen_values = true
    )]
    sizes: Vec<CacheSize>,
    /// Format of the trace [default: detected]
    #[arg(long, value_name = "NAME", value_parser = parse_format)]
    format: Option<Format>,
    /// Volume blocks that each block of the trace represents, 1 to 1024, so that a small trace fits a cache
    /// with the proportions of a real one
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=1024))]
    scale: u64,
    /// Length from which sequential streams bypass the cache of WIDE, as for `serve`, in bytes of the trace
    /// [default: auto]
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true)]
    sequential_cutoff: Option<Cutoff>,
    /// Limit of the bytes written to each cache, as for `serve`, such as 50G/day or 0.5dwpd, in the time of
    /// the trace [default: no limit]
    #[arg(long, value_name = "BUDGET", conflicts_with = "sample", allow_hyphen_values = true)]
    write_budget: Option<WriteBudget>,
    /// Run a sample of each trace, with the volume and the caches scaled down: faster, with the errors of the
    /// hit ratios
    ///
    /// A sample is expected to have at least 8,192 blocks, 2,048 extents of 1 MiB, 100,000 reads and, in the
    /// smallest cache, 100 segments; a smaller trace is run as a whole.
    #[arg(long, conflicts_with_all = ["shard", "parquet", "output"])]
    sample: bool,
    /// Make only this share of the runs (each trace with each size), to spread them over several machines:
    /// 0/4, 1/4, 2/4 or 3/4
    #[arg(long, value_name = "INDEX/COUNT", default_value_t = Shard::WHOLE, hide_default_value = true)]
    shard: Shard,
    /// Write the result as an Apache Parquet file too, a row for each trace, size and policy
    #[arg(long, value_name = "FILE")]
    parquet: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    /// Write a report too: a self-contained HTML page with charts
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// A trace file, or standard input.
#[derive(Clone, PartialEq, Eq, Debug)]
struct TraceFile {
    name: String,
    path: PathBuf,
}

type Run = Task<anyhow::Result<Finding>>;

impl TraceArgs {
    pub(crate) fn run(self, out: &mut dyn Printer) -> Result<(), Failure> {
        let mut spool = Vec::new();
        let files = self.files(&mut spool)?;
        let runs = self.shard.runs(files.len() * self.sizes.len());
        let traces = self.surveyed(files, &runs)?;
        if self.sample {
            return self.run_sample(&traces, out);
        }
        let (tasks, notes) = self.tasks(&traces, &runs)?;
        // A directory means its files.
        let read: Vec<&Path> =
            self.files.iter().chain(traces.iter().map(|trace| &trace.path)).map(PathBuf::as_path).collect();
        output::try_out(&[self.output.as_deref(), self.parquet.as_deref()], &read)?;
        let findings = run_all(tasks, processors()).into_iter().collect::<anyhow::Result<Vec<Finding>>>()?;
        if let Some(path) = &self.output {
            output::write(path, &trace_page::page(&traces, &findings))?;
        }
        if let Some(path) = &self.parquet {
            parquet_file::write(path, &trace_rows::columns(&traces, &findings))?;
        }
        if self.json {
            let json = trace_table::json(&traces, &findings, self.scale, &notes);
            return Ok(writeln!(out, "{}", serde_json::to_string_pretty(&json)?)?);
        }
        Ok(trace_table::print(&traces, &findings, &notes, out)?)
    }

    fn run_sample(&self, traces: &[SurveyedTrace], out: &mut dyn Printer) -> Result<(), Failure> {
        let (mut all, mut notes) = (Vec::new(), Vec::new());
        for trace in traces {
            let mut tried = Vec::new();
            for size in &self.sizes {
                let cache_blocks = size.blocks(trace.survey.footprint);
                notes.extend(self.note(*size, cache_blocks, &trace.name));
                if cache_blocks >= CACHE_BLOCKS_MIN {
                    self.check(*size, cache_blocks, &trace.name)?;
                    tried.push(CandidateCache { size: *size, cache_blocks });
                }
            }
            all.push(tried);
        }
        if let Some(note) = notes.first().filter(|_| all.iter().all(Vec::is_empty)) {
            return Err(Failure::usage(format!("{note}; give larger sizes with --size")));
        }
        let scale = Scale(self.scale);
        let found =
            trace_sample::run(traces, all, scale, self.sequential_cutoff.unwrap_or_default().to_engine())?;
        if self.json {
            let json = trace_sample::json(&found, scale, &notes);
            return Ok(writeln!(out, "{}", serde_json::to_string_pretty(&json)?)?);
        }
        Ok(trace_sample::print(&found, &notes, out)?)
    }

    fn files(&self, spool: &mut Vec<File>) -> Result<Vec<TraceFile>, Failure> {
        let mut found = Vec::new();
        for file in &self.files {
            if file.as_os_str() == "-" {
                found.push(TraceFile { name: "standard input".into(), path: spool_input(spool)? });
            } else {
                found.extend(files_of(file)?);
            }
        }
        Ok(found)
    }

    /// The traces with at least one of the runs.
    fn surveyed(&self, files: Vec<TraceFile>, runs: &Range<usize>) -> Result<Vec<SurveyedTrace>, Failure> {
        let per_trace = self.sizes.len();
        let is_asked = |first: usize| first < runs.end && first + per_trace > runs.start;
        let asked = (0..).step_by(per_trace).zip(files).filter(|(first, _)| is_asked(*first));
        let look = |(first_run, TraceFile { name, path }): (usize, TraceFile)| {
            let survey = input::survey_trace(&name, &path, self.format)?;
            Ok(SurveyedTrace { name, path, survey, first_run })
        };
        asked.map(look).collect()
    }

    /// A note for the user on a size that is small for a trace.
    fn note(&self, size: CacheSize, blocks: u64, name: &str) -> Option<String> {
        if blocks < CACHE_BLOCKS_MIN {
            return Some(format!(
                "{name}, {size}: left out; it has {blocks} blocks, and at least {CACHE_BLOCKS_MIN} are needed"
            ));
        }
        let least = blocks_min(Scale(self.scale));
        (blocks < least).then(|| {
            format!(
                "{name}, {size}: KICKCACHE and WIDE got the smallest cache device there is, with room for {least} blocks \
                 instead of {blocks}; a larger --scale makes it fit"
            )
        })
    }

    /// Refuses sizes that are too large for any cache device, or that need more memory than there is.
    fn check(&self, size: CacheSize, blocks: u64, name: &str) -> Result<(), Failure> {
        let most = blocks_max(Scale(self.scale));
        if blocks > most {
            let (found, most) = (show_bytes(blocks * BLOCK_SIZE), show_bytes(most * BLOCK_SIZE));
            return Err(Failure::usage(format!(
                "a cache of {found} is too large for {name}: if a block represents {} (--scale), at most \
                 {most} can be simulated",
                self.scale
            )));
        }
        memory::check(memory::of_engine(blocks * self.scale * BLOCK_SIZE))
            .map_err(|error| Failure::usage(format!("a cache of {size} for {name}: {error}")))
    }

    fn tasks(
        &self,
        traces: &[SurveyedTrace],
        runs: &Range<usize>,
    ) -> Result<(Vec<Run>, Vec<String>), Failure> {
        let (mut tasks, mut notes) = (Vec::new(), Vec::new());
        for (trace, surveyed) in traces.iter().enumerate() {
            let own = (surveyed.first_run..).zip(&self.sizes).filter(|(number, _)| runs.contains(number));
            for (_, size) in own {
                let cache_blocks = size.blocks(surveyed.survey.footprint);
                notes.extend(self.note(*size, cache_blocks, &surveyed.name));
                if cache_blocks < CACHE_BLOCKS_MIN {
                    continue;
                }
                self.check(*size, cache_blocks, &surveyed.name)?;
                let (path, survey) = (surveyed.path.clone(), surveyed.survey.clone());
                let (size, scale) = (*size, Scale(self.scale));
                let write_budget = self.write_budget.map(|budget| budget.per_day(cache_blocks * BLOCK_SIZE));
                let trial = Trial { cache_blocks, scale, fill: Fill::Exact, write_budget };
                let sequential_cutoff = self.sequential_cutoff.unwrap_or_default().to_engine();
                tasks.push(Task {
                    name: format!("{}, {size}", surveyed.name),
                    weight: survey.touches.div_ceil(1_000),
                    nanos: 4,
                    work: Box::new(move |progress: &mut dyn FnMut(u64)| {
                        measure(&path, &survey, trial, sequential_cutoff, progress).map(|found| Finding {
                            trace,
                            size,
                            cache_blocks,
                            ..found
                        })
                    }),
                });
            }
        }
        match notes.first().filter(|_| tasks.is_empty() && !self.shard.is_part()) {
            Some(note) => Err(Failure::usage(format!("{note}; give larger sizes with --size"))),
            None => Ok((tasks, notes)),
        }
    }
}

fn measure(
    path: &Path,
    survey: &Survey,
    trial: Trial,
    sequential_cutoff: SequentialCutoff,
    progress: &mut dyn FnMut(u64),
) -> anyhow::Result<Finding> {
    let cache_blocks = trial.cache_blocks;
    let reference_policies = reference_policy::run_all(path, survey, cache_blocks)?;
    progress(2);
    let exact = untimed::run(path, survey, trial)?;
    progress(3);
    let adaptive = untimed::run(path, survey, Trial { fill: Fill::Adaptive { sequential_cutoff }, ..trial })?;
    let size = CacheSize::Percent(0.0);
    Ok(Finding { trace: 0, size, cache_blocks, reference_policies, exact, adaptive })
}

/// A file, or the files of a directory that may be traces.
fn files_of(path: &Path) -> Result<Vec<TraceFile>, Failure> {
    let found = folder::files(path)
        .map_err(|error| Failure::usage(format!("{} cannot be read: {error}", path.display())))?;
    if found.is_empty() {
        let sentence =
            format!("{} holds no files; name a trace, or a directory that holds some", path.display());
        return Err(Failure::usage(sentence));
    }
    let named = |path: PathBuf| {
        let name = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        TraceFile { name, path }
    };
    Ok(found.into_iter().map(named).collect())
}
