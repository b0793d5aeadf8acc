//! `kickcache simulate grid`: mixed loads, on which kickcache is judged against the best of the other caches.

use std::path::{Path, PathBuf};

use kickcache_command::exit::{Exit, Failure};
use kickcache_command::output;
use kickcache_command::user_text::Printer;
use kickcache_model::cache_model::cache_kind::CacheKind;
use kickcache_model::grid::case::Case;
use kickcache_model::grid::figures::Figures;
use kickcache_model::grid::set::{DEFAULT, GridSet};
use kickcache_model::grid::simulation::{BEGINNING_SECONDS, JUDGED, OTHERS, Setup};
use kickcache_model::grid::verdict::{Bounds, CaseFigures};

use crate::cli::simulate::case_result::CaseResult;
use crate::cli::simulate::compare::find_device;
use crate::cli::simulate::load::fio_cost;
use crate::cli::simulate::pool::{Task, parse_threads, processors, run_all};
use crate::cli::simulate::{grid_table, input};

const EXAMPLES: &str = "\
Examples:
  kickcache simulate grid --only network-disk           some of the built-in cases
  kickcache simulate grid --seed 2 --save grid.json     all of them, with other random numbers
  kickcache simulate grid --set my-cases.json           cases of your own (docs/evidence/grid.md)

The exit code is 0 if the share of the cases within all bounds is at least that of the set, and 1 if it is less.";

/// Simulate many mixed loads, and compare kickcache with the best other cache
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct GridArgs {
    /// The cases and their bounds, as JSON [default: the built-in cases]
    #[arg(long, value_name = "FILE")]
    set: Option<PathBuf>,
    /// Only the cases with this text in their names
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Seed of all random numbers, in place of the seeds of the set
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Simulations in parallel [default: one for each processor]
    #[arg(long, value_name = "N", value_parser = parse_threads)]
    threads: Option<usize>,
    /// Print the figures of all caches as JSON
    #[arg(long)]
    json: bool,
    /// Write the figures of all caches to a file, too, as JSON
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
}

impl GridArgs {
    pub(crate) fn run(self, out: &mut dyn Printer) -> Result<(), Failure> {
        let set = self.read_set()?;
        let setups: Vec<Setup> = set.cases.iter().map(setup).collect::<Result<_, Failure>>()?;
        let inputs: Vec<&Path> = self.set.as_deref().into_iter().collect();
        output::try_out(&[self.save.as_deref()], &inputs)?;
        let results = results(&setups, &set.bounds, self.threads.unwrap_or_else(processors))?;
        if let Some(path) = &self.save {
            output::write_result(path, &to_json(&results)?)?;
        }
        if self.json {
            writeln!(out, "{}", to_json(&results)?)?;
        } else {
            grid_table::print(&results, out)?;
        }
        judge(&results, set.share)
    }

    fn read_set(&self) -> Result<GridSet, Failure> {
        let mut set = match &self.set {
            None => GridSet::parse(DEFAULT).map_err(anyhow::Error::msg)?,
            Some(path) => GridSet::parse(&input::read("set of cases", path)?).map_err(|error| {
                Failure::usage(format!("the set of cases {} cannot be read: {error}", path.display()))
            })?,
        };
        let only = self.only.as_deref().unwrap_or_default();
        set.cases.retain(|case| case.to_string().contains(only));
        if set.cases.is_empty() {
            return Err(Failure::usage(format!(
                "no case has `{only}` in its name; leave --only out to simulate all"
            )));
        }
        if let Some(seed) = self.seed {
            set.cases.iter_mut().for_each(|case| case.seed = seed);
            let mut seen = Vec::new();
            set.cases.retain(|case| {
                !seen.contains(case) && {
                    seen.push(case.clone());
                    true
                }
            });
        }
        Ok(set)
    }
}

fn to_json(results: &[CaseResult]) -> Result<String, Failure> {
    Ok(serde_json::to_string_pretty(results)?)
}

fn setup(case: &Case) -> Result<Setup, Failure> {
    let (origin, cache_device) = (find_device(&case.origin)?, find_device(&case.cache_device)?);
    let access_cost = fio_cost([&origin, &cache_device]);
    Ok(Setup { case: case.clone(), origin, cache_device, access_cost, beginning_seconds: BEGINNING_SECONDS })
}

fn kinds() -> impl Iterator<Item = CacheKind> + Clone {
    std::iter::once(JUDGED).chain(OTHERS)
}

fn results(setups: &[Setup], bounds: &Bounds, threads: usize) -> Result<Vec<CaseResult>, Failure> {
    let tasks = setups.iter().flat_map(|setup| kinds().map(|kind| task(setup.clone(), kind))).collect();
    let figures: Result<Vec<Figures>, String> = run_all(tasks, threads).into_iter().collect();
    let figures = figures.map_err(anyhow::Error::msg)?;
    let of_cases = figures.chunks(kinds().count()).zip(setups);
    Ok(of_cases.map(|(figures, setup)| case_result(&setup.case, figures, bounds)).collect())
}

fn case_result(case: &Case, figures: &[Figures], bounds: &Bounds) -> CaseResult {
    let compared =
        CaseFigures { judged: figures[0].clone(), bare: figures[1].clone(), others: figures[2..].to_vec() };
    let comparisons = compared.comparisons(bounds, case.pacing());
    let missed = comparisons.iter().filter(|comparison| !comparison.is_within());
    let misses = missed.map(ToString::to_string).collect();
    let got = kinds().map(name).zip(figures.iter().cloned()).collect();
    CaseResult { case: case.clone(), got, misses, comparisons }
}

fn name(kind: CacheKind) -> &'static str {
    if kind == CacheKind::None { "no cache" } else { kind.name() }
}

fn task(setup: Setup, kind: CacheKind) -> Task<Result<Figures, String>> {
    let Case { seconds, rate, .. } = setup.case;
    // At full speed there are far more accesses.
    let weight = if rate == 0 { 20 } else { 1 + rate / 1_000 };
    let work = move |progress: &mut dyn FnMut(u64)| {
        setup.figures(kind, progress).map_err(|error| format!("{}, {}: {error}", setup.case, name(kind)))
    };
    Task { name: name(kind).into(), weight, nanos: seconds * 1_000_000_000, work: Box::new(work) }
}

/// Fails if too few cases are within all bounds.
fn judge(results: &[CaseResult], share: f64) -> Result<(), Failure> {
    let within = results.iter().filter(|result| result.misses.is_empty()).count();
    #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
    let found = within as f64 / results.len() as f64;
    if found >= share {
        return Ok(());
    }
    let sentence = format!(
        "{within} of {} cases are within all bounds, which is {:.0} %; {:.0} % are required",
        results.len(),
        found * 100.0,
        share * 100.0
    );
    Err(Failure { exit: Exit::Failed, error: anyhow::Error::msg(sentence) })
}
