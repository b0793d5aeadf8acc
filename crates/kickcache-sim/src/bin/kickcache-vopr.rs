//! Runs seeds of the fault world: `kickcache-vopr --seed N [--count M] [--seconds S] [--trace]`.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use kickcache_sim::world::report::Summary;
use kickcache_sim::world::run::run_seed_printing;
use kickcache_sim::world::trace::Printing;

struct Arguments {
    seed: u64,
    count: u64,
    seconds: Option<u64>,
    printing: Printing,
}

const USAGE: &str = "usage: kickcache-vopr [--seed N] [--count M] [--seconds S] [--trace]";

fn parse(mut words: impl Iterator<Item = String>) -> Result<Arguments, String> {
    let mut arguments = Arguments { seed: 0, count: 1, seconds: None, printing: Printing::Silent };
    while let Some(word) = words.next() {
        let mut number = || {
            let value = words.next().ok_or_else(|| format!("{word} needs a number\n{USAGE}"))?;
            value.parse().map_err(|_| format!("{value} is no number\n{USAGE}"))
        };
        match word.as_str() {
            "--seed" => arguments.seed = number()?,
            "--count" => arguments.count = number()?,
            "--seconds" => arguments.seconds = Some(number()?),
            "--trace" => arguments.printing = Printing::Lines,
            _ => return Err(format!("{word} is no option\n{USAGE}")),
        }
    }
    Ok(arguments)
}

fn run(arguments: &Arguments) -> u64 {
    let start = Instant::now();
    let deadline = arguments.seconds.map(|seconds| start + Duration::from_secs(seconds));
    let (mut total, mut runs, mut failures) = (Summary::default(), 0, 0);
    for seed in arguments.seed..arguments.seed.saturating_add(arguments.count) {
        if deadline.is_some_and(|deadline| Instant::now() > deadline) {
            break;
        }
        runs += 1;
        match run_seed_printing(seed, arguments.printing) {
            Ok(summary) => total.add(&summary),
            Err(failure) => {
                failures += 1;
                eprintln!("{failure}");
            }
        }
    }
    println!("{runs} runs, {failures} failed, {:.1} s: {total:?}", start.elapsed().as_secs_f64());
    failures
}

fn main() -> ExitCode {
    let arguments = match parse(std::env::args().skip(1)) {
        Ok(arguments) => arguments,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(2);
        }
    };
    if run(&arguments) == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
