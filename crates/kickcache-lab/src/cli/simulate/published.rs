//! `kickcache simulate published`: the published rows, simulated.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use kickcache_command::exit::Failure;
use kickcache_command::output;
use kickcache_command::user_text::Printer;
use kickcache_model::published::scene::{Cache, Scene};
use kickcache_model::published::simulation::{Outcome, Outcomes, Simulated, Simulation};
use kickcache_model::published::tables::{simulations, tables};
use kickcache_model::result::RunResult;

use crate::cli::simulate::pace::{Pace, processor_time};
use crate::cli::simulate::pool::{Task, parse_threads, processors, run_all};
use crate::cli::simulate::published_table::Layout;
use crate::cli::simulate::{published_json, published_page, published_table};

const EXAMPLES: &str = "\
Examples:
  kickcache simulate published                          all rows, in minutes
  kickcache simulate published --only cachesize         rows with a word in their name
  kickcache simulate published --only zipf              hits and fills of skewed reads in steady state
  kickcache simulate published -o report.html           with charts of every run
  kickcache simulate published --json > rows.json";

/// Simulate every row of the published table: published, model, kickcache, ratio
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct PublishedArgs {
    /// Only rows with this word in their name
    #[arg(long, value_name = "WORD")]
    only: Option<String>,
    /// Seed of all random numbers
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Simulations in parallel [default: one for each processor]
    #[arg(long, value_name = "N", value_parser = parse_threads)]
    threads: Option<usize>,
    /// Print the rows as JSON
    #[arg(long)]
    json: bool,
    /// Print the rows as tables for a Markdown document
    #[arg(long, conflicts_with = "json")]
    markdown: bool,
    /// Write a report, too: one self-contained HTML page with charts
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

struct Timed {
    outcome: anyhow::Result<Outcome>,
    took: Duration,
}

impl PublishedArgs {
    pub(crate) fn run(self, out: &mut dyn Printer) -> Result<(), Failure> {
        let tables = tables(self.only.as_deref());
        let simulations = simulations(&tables);
        if simulations.is_empty() {
            let word = self.only.unwrap_or_default();
            return Err(Failure::usage(format!(
                "no published row has `{word}` in its name; leave --only out to see all"
            )));
        }
        output::try_out(&[self.output.as_deref()], &[])?;
        let tasks = simulations.iter().map(|simulation| task(*simulation, self.seed)).collect();
        let results = run_all(tasks, self.threads.unwrap_or_else(processors));
        let pace = pace(&results);
        let outcomes = outcomes(simulations, results)?;
        if let Some(path) = &self.output {
            output::write(path, &published_page::page(&tables, &outcomes))?;
        }
        if self.json {
            return Ok(published_json::print(&tables, &outcomes, out)?);
        }
        let layout = if self.markdown { Layout::Markdown } else { Layout::Text };
        published_table::print(&tables, &outcomes, layout, out)?;
        match layout {
            Layout::Text => Ok(pace.print(out)?),
            Layout::Markdown => Ok(()),
        }
    }
}

/// The pace of all tasks that made runs.
fn pace(results: &[Timed]) -> Pace {
    let mut pace = Pace::default();
    for Timed { outcome, took } in results {
        if let Ok(Outcome::Runs(runs)) = outcome {
            pace.add(&runs.iter().collect::<Vec<&RunResult>>(), *took);
        }
    }
    pace
}

fn outcomes(simulations: Vec<Simulation>, results: Vec<Timed>) -> anyhow::Result<Outcomes> {
    let simulated = simulations.into_iter().zip(results).map(|(simulation, timed)| {
        let outcome = timed.outcome?;
        Ok(Simulated { simulation, outcome })
    });
    Ok(Outcomes::new(simulated.collect::<anyhow::Result<_>>()?))
}

fn task(simulation: Simulation, seed: u64) -> Task<Timed> {
    let Length { name, weight, nanos } = Length::of(simulation);
    let work = Box::new(move |progress: &mut dyn FnMut(u64)| {
        let before = processor_time();
        let outcome = simulation.run(seed, progress).context("the row cannot be simulated");
        Timed { outcome, took: processor_time().saturating_sub(before) }
    });
    Task { name, weight, nanos, work }
}

/// How long a simulation takes, for the progress bar.
struct Length {
    name: String,
    weight: u64,
    nanos: u64,
}

impl Length {
    fn of(simulation: Simulation) -> Length {
        match simulation {
            Simulation::Disks { scene, minutes } => Length {
                name: format!("{}, {} GiB of data", scene.name(), scene.data_gib),
                weight: minutes * hits(scene),
                nanos: minutes * 60_000_000_000,
            },
            Simulation::Cloud(cache) => {
                Length { name: format!("cloud disks, {cache:?}"), weight: 20, nanos: 1 }
            }
            Simulation::Steady(row) => {
                Length { name: format!("steady state, cache of 1/{}", row.part), weight: 60, nanos: 1 }
            }
        }
    }
}

/// The weight of a minute.
fn hits(scene: Scene) -> u64 {
    match scene.cache {
        Cache::BareDisk => 1,
        Cache::BareSsd => 4,
        Cache::DmCache(_) | Cache::Bcache { .. } | Cache::Kickcache => 100 / scene.data_gib.max(1),
    }
}
