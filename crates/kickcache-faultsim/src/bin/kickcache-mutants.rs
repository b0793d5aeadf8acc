//! Plants each flaw, or each of the named flaws, in the engine and counts the seeds that the fault simulation needs to
//! find it: `kickcache-mutants [--count N] [--known FILE [--update]] [NAME...]`.
//!
//! A file of known seeds has lines "NAME SEED". `--update` replaces the file with the seeds that found flaws
//! in this run.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use kickcache_engine::mutants::{Mutant, plant};
use kickcache_faultsim::plan::PlanKind;
use kickcache_faultsim::report::Failure;
use kickcache_faultsim::seeds::first_seed_or;
use kickcache_faultsim::series::{Outcome, Series, play};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The most seeds of the series for each flaw without `--count`.
const COUNT: u64 = 4_000;

/// The first seed of the series, unless `KICKCACHE_SEED` sets another.
const FIRST_SEED: u64 = 420_420;

const USAGE: &str = "usage: kickcache-mutants [--count N] [--known FILE [--update]] [NAME...]";

type Seeds = BTreeMap<String, u64>;

struct Arguments {
    count: u64,
    known: Option<PathBuf>,
    is_update: bool,
    names: Vec<String>,
}

fn parse(mut words: impl Iterator<Item = String>) -> Result<Arguments, String> {
    let mut arguments = Arguments { count: COUNT, known: None, is_update: false, names: Vec::new() };
    while let Some(word) = words.next() {
        match word.as_str() {
            "--count" => {
                let count = words.next().and_then(|count| count.parse().ok());
                arguments.count = count.ok_or_else(|| format!("--count needs a number\n{USAGE}"))?;
            }
            "--known" => {
                let file = words.next().ok_or_else(|| format!("--known needs a file\n{USAGE}"))?;
                arguments.known = Some(file.into());
            }
            "--update" => arguments.is_update = true,
            name if Mutant::ALL.iter().any(|mutant| format!("{mutant:?}") == name) => {
                arguments.names.push(word);
            }
            _ => return Err(format!("{word} is no option and no flaw\n{USAGE}")),
        }
    }
    if arguments.is_update && (arguments.known.is_none() || !arguments.names.is_empty()) {
        return Err(format!("--update writes the seeds of all flaws into the file of --known\n{USAGE}"));
    }
    Ok(arguments)
}

fn read_seeds(text: &str) -> Option<Seeds> {
    let seed_of = |line: &str| {
        let (name, seed) = line.split_once(' ')?;
        Some((name.to_owned(), seed.trim().parse().ok()?))
    };
    text.lines().map(seed_of).collect()
}

fn known_seeds(arguments: &Arguments) -> Result<Seeds, String> {
    let Some(file) = &arguments.known else { return Ok(Seeds::new()) };
    let text = fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
    read_seeds(&text).ok_or_else(|| format!("{}: lines are a name and a seed", file.display()))
}

fn hunt(mutant: Mutant, first: u64, count: u64) -> Outcome {
    plant(Some(mutant));
    let series =
        Series { first, count, deadline: None, threads: 2, until_failure: true, plans: PlanKind::Any };
    let outcome = play(&series);
    plant(None);
    outcome
}

fn line_of(failure: &Failure) -> String {
    let line: String = failure.what.chars().take(110).collect();
    line.replace('\n', " ")
}

/// Searches for a flaw; returns the seed that finds it, `None` if no seed does.
fn search(mutant: Mutant, known: Option<u64>, count: u64) -> Option<u64> {
    let name = format!("{mutant:?}");
    if let Some(failure) = known.and_then(|seed| hunt(mutant, seed, 1).failures.pop()) {
        println!("{name:<28} found by its known seed {}: {}", failure.seed, line_of(&failure));
        return Some(failure.seed);
    }
    let outcome = hunt(mutant, first_seed_or(FIRST_SEED), count);
    let Some(failure) = outcome.failures.first() else {
        println!("{name:<28} NOT FOUND by {} seeds", outcome.runs);
        return None;
    };
    println!("{name:<28} found after {:>4} seeds: {}", outcome.runs, line_of(failure));
    Some(failure.seed)
}

fn run(arguments: &Arguments) -> Result<usize, String> {
    let known = known_seeds(arguments)?;
    let (mut seeds, mut missed) = (Seeds::new(), 0);
    println!("first seed {}", first_seed_or(FIRST_SEED));
    for mutant in Mutant::ALL {
        let name = format!("{mutant:?}");
        if !arguments.names.is_empty() && !arguments.names.contains(&name) {
            continue;
        }
        match search(*mutant, known.get(&name).copied(), arguments.count) {
            Some(seed) => drop(seeds.insert(name, seed)),
            None => missed += 1,
        }
    }
    println!("{missed} flaws were not found");
    if let Some(file) = arguments.known.as_ref().filter(|_| arguments.is_update) {
        let text: String = seeds.iter().map(|(name, seed)| format!("{name} {seed}\n")).collect();
        fs::write(file, text).map_err(|error| format!("{}: {error}", file.display()))?;
    }
    Ok(missed)
}

fn main() -> ExitCode {
    let arguments = match parse(std::env::args().skip(1)) {
        Ok(arguments) => arguments,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(2);
        }
    };
    std::panic::set_hook(Box::new(|_| {}));
    match run(&arguments) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}
