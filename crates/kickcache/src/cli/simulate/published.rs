//! `kickcache simulate published`: the published rows, their models, and kickcache on the same virtual devices.

use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Context;
use kickcache_model::published::cloud::{self, CloudCache};
use kickcache_model::published::figures::{Figures, iops_at_end};
use kickcache_model::published::rows::{Row, rows};
use kickcache_model::published::scene::{Cache, Scene};
use kickcache_model::published::steady::{self, Steady, SteadyRow};
use kickcache_model::result::RunResult;

use crate::cli::exit::Failure;
use crate::cli::output;
use crate::cli::simulate::pace::Pace;
use crate::cli::simulate::pool::{Task, parse_threads, processors, run_all};
use crate::cli::simulate::published_page::{Simulated, TimedScene, name_of, name_of_cloud};
use crate::cli::simulate::published_table::{CloudLine, Line, Tables, print};
use crate::cli::simulate::steady_table::{self, SteadyLine};
use crate::cli::simulate::table_format::TableFormat;

/// Minutes at the end of a run that are shown by themselves.
const LAST_MINUTES: u64 = 5;
/// Virtual minutes of a row that ran half a day: its first part is enough to see where it goes.
const MINUTES_MAX: u64 = 30;

const EXAMPLES: &str = "\
Examples:
  kickcache simulate published                          all rows, in minutes
  kickcache simulate published --only cachesize         rows whose name contains a word
  kickcache simulate published --only zipf              hits and fills of skewed reads in steady state
  kickcache simulate published -o report.html           with charts of every run
  kickcache simulate published --json > rows.json";

/// Simulate every row of the published table: published, model, kickcache, ratio
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct PublishedArgs {
    /// Only the rows whose name contains this
    #[arg(long, value_name = "WORD")]
    only: Option<String>,
    /// Seed of everything that is drawn at random
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Simulations at the same time [default: one for each processor]
    #[arg(long, value_name = "N", value_parser = parse_threads)]
    threads: Option<usize>,
    /// Print the rows as JSON
    #[arg(long)]
    json: bool,
    /// Print the rows as tables for a Markdown document
    #[arg(long, conflicts_with = "json")]
    markdown: bool,
    /// Write a report too, an HTML page with charts that needs nothing else
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// What a task gives, and how long a processor had it.
struct Timed {
    outcome: Outcome,
    took: Duration,
}

enum Outcome {
    Disk(Box<RunResult>),
    Cloud(Vec<RunResult>),
    Steady(anyhow::Result<Steady>),
}

/// What all tasks gave.
#[derive(Default)]
struct Gathered {
    disk: Vec<RunResult>,
    clouds: Vec<Vec<RunResult>>,
    steady: Vec<Steady>,
    pace: Pace,
}

impl Gathered {
    fn new(all: Vec<Timed>) -> anyhow::Result<Gathered> {
        let mut gathered = Gathered::default();
        for Timed { outcome, took } in all {
            match outcome {
                Outcome::Disk(result) => {
                    gathered.pace.add(&[&result], took);
                    gathered.disk.push(*result);
                }
                Outcome::Cloud(results) => {
                    gathered.pace.add(&results.iter().collect::<Vec<_>>(), took);
                    gathered.clouds.push(results);
                }
                Outcome::Steady(found) => gathered.steady.push(found?),
            }
        }
        Ok(gathered)
    }
}

impl PublishedArgs {
    pub(crate) fn run(self, out: &mut dyn Write) -> Result<(), Failure> {
        let is_meant = |name: &str| self.only.as_deref().is_none_or(|word| name.contains(word));
        let rows: Vec<Row> = rows().into_iter().filter(|row| is_meant(row.name)).collect();
        let with_cloud = is_meant("cloud");
        let steady_rows: Vec<SteadyRow> =
            steady::ROWS.into_iter().filter(|row| is_meant(&steady_table::name_of(row))).collect();
        if rows.is_empty() && !with_cloud && steady_rows.is_empty() {
            let word = self.only.unwrap_or_default();
            return Err(Failure::usage(format!(
                "no published row has `{word}` in its name; leave --only out to see all"
            )));
        }
        output::try_out(self.output.as_deref())?;
        let scenes = scenes(&rows);
        let mut tasks: Vec<Task<Timed>> =
            scenes.iter().map(|timed| disk_task(timed.scene, timed.minutes, self.seed)).collect();
        if with_cloud {
            tasks.extend(CLOUD.map(|cache| cloud_task(cache, self.seed)));
        }
        tasks.extend(steady_rows.iter().map(|row| steady_task(*row, self.seed)));
        let outcomes = run_all(tasks, self.threads.unwrap_or_else(processors));
        let Gathered { mut disk, mut clouds, steady, pace } = Gathered::new(outcomes)?;
        let steady_lines: Vec<SteadyLine> =
            steady_rows.into_iter().zip(steady).map(|(row, found)| SteadyLine { row, found }).collect();
        name_all(&mut disk, &scenes, &mut clouds, self.seed);
        let find =
            |scene: Scene| disk.iter().zip(&scenes).find(|pair| pair.1.scene == scene).map(|pair| pair.0);
        let lines: Vec<Line> = rows.iter().map(|row| line(row, find)).collect();
        let cloud_lines = if with_cloud { cloud_lines(&clouds) } else { Vec::new() };
        if let Some(path) = &self.output {
            let simulated = Simulated {
                rows: &rows,
                lines: &lines,
                scenes: &scenes,
                disk: &disk,
                cloud_lines: &cloud_lines,
                clouds: &clouds,
                steady: &steady_lines,
            };
            output::write(path, &simulated.page())?;
        }
        let format = match (self.json, self.markdown) {
            (true, _) => TableFormat::Json,
            (false, true) => TableFormat::Markdown,
            (false, false) => TableFormat::Text,
        };
        let tables = Tables { lines: &lines, cloud: &cloud_lines, steady: &steady_lines };
        print(&tables, format, out)?;
        if format == TableFormat::Text {
            pace.print(out)?;
        }
        Ok(())
    }
}

const CLOUD: [CloudCache; 4] =
    [CloudCache::Slow, CloudCache::Fast, CloudCache::Bcache, CloudCache::Kickcache];

/// What must be simulated for some rows, each once, as long as the longest row of it.
fn scenes(rows: &[Row]) -> Vec<TimedScene> {
    let mut scenes: Vec<TimedScene> = Vec::new();
    for row in rows {
        for scene in [Some(row.scene()), row.our_scene()].into_iter().flatten() {
            let minutes = row.minutes.min(MINUTES_MAX);
            match scenes.iter_mut().find(|known| known.scene == scene) {
                Some(known) => known.minutes = known.minutes.max(minutes),
                None => scenes.push(TimedScene { scene, minutes }),
            }
        }
    }
    scenes
}

/// Does something and takes the time.
fn timed(work: impl FnOnce() -> Outcome) -> Timed {
    let begun = Instant::now();
    let outcome = work();
    Timed { outcome, took: begun.elapsed() }
}

fn disk_task(scene: Scene, minutes: u64, seed: u64) -> Task<Timed> {
    // Hits are what takes time: where all data fits, there are most.
    let hits = match scene.cache {
        Cache::BareDisk => 1,
        Cache::BareSsd => 4,
        Cache::DmCache(_) | Cache::Bcache { .. } | Cache::Kickcache => 100 / scene.data_gib.max(1),
    };
    Task {
        name: format!("{}, {} GiB of data", scene.name(), scene.data_gib),
        weight: minutes * hits,
        nanos: minutes * 60_000_000_000,
        work: Box::new(move |progress| timed(|| Outcome::Disk(Box::new(scene.run(minutes, seed, progress))))),
    }
}

fn cloud_task(cache: CloudCache, seed: u64) -> Task<Timed> {
    Task {
        name: format!("cloud disks, {cache:?}"),
        weight: 20,
        nanos: 1,
        work: Box::new(move |_| timed(|| Outcome::Cloud(cache.run(seed)))),
    }
}

fn steady_task(row: SteadyRow, seed: u64) -> Task<Timed> {
    Task {
        name: format!("steady state, cache of 1/{}", row.part),
        weight: 60,
        nanos: 1,
        work: Box::new(move |_| {
            let run = || row.run(seed, steady::READS).context("the row cannot be simulated");
            timed(|| Outcome::Steady(run()))
        }),
    }
}

/// Gives the results names that no two share, and what else a page says of them.
fn name_all(disk: &mut [RunResult], scenes: &[TimedScene], clouds: &mut [Vec<RunResult>], seed: u64) {
    for (run, TimedScene { scene, .. }) in disk.iter_mut().zip(scenes) {
        run.name = name_of(scene);
        let is_bare = matches!(scene.cache, Cache::BareSsd | Cache::BareDisk);
        run.cache = (!is_bare).then(|| "the articles' SSD".into());
        if scene.cache == Cache::BareSsd {
            run.origin = "the articles' SSD".into();
        }
    }
    for (cache, runs) in CLOUD.into_iter().zip(clouds) {
        for (row, run) in cloud::ROWS.iter().zip(runs) {
            run.name = name_of_cloud(cache, row);
            run.workload = row.name.into();
            let is_cached = matches!(cache, CloudCache::Bcache | CloudCache::Kickcache);
            run.cache = is_cached.then(|| "cloud SSD of 20 GiB".into());
            run.origin = if cache == CloudCache::Fast { "cloud SSD of 80 GiB" } else { "cloud disk" }.into();
            run.seed = seed;
        }
    }
}

fn line<'a>(row: &Row, find: impl Fn(Scene) -> Option<&'a RunResult>) -> Line {
    let minutes = row.minutes.min(MINUTES_MAX);
    let figures = |run: &RunResult| Figures::new(run, minutes);
    let ours = row.our_scene().and_then(&find);
    Line {
        name: row.name,
        minutes: row.minutes,
        fitted: row.fitted(),
        published: Figures {
            jobs: row.jobs.clone(),
            share: row.share,
            p50: row.p50.clone(),
            p99: row.p99.clone(),
            written_per_byte: None,
        },
        model: find(row.scene()).map(figures),
        kickcache: ours.map(figures),
        kickcache_at_end: ours.map(|run| iops_at_end(run, minutes, LAST_MINUTES.min(minutes))),
    }
}

fn cloud_lines(results: &[Vec<RunResult>]) -> Vec<CloudLine> {
    let lines = cloud::ROWS.iter().enumerate().map(|(index, row)| {
        let figure = |cache: usize| row.figure(&results[cache][index]);
        CloudLine {
            name: row.name,
            published: row.published,
            models: [figure(0), figure(1), figure(2)],
            kickcache: figure(3),
            asked: row.asked,
        }
    });
    lines.collect()
}
