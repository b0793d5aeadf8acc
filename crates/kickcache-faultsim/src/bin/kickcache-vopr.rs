//! Runs seeds of the fault simulation: `kickcache-vopr [--seed N] [--count M] [--seconds S] [--threads T] [--focused]
//! [--point-in-time] [--trace]`. Without `--seed`, the first seed is `KICKCACHE_SEED`, or a number made from the commit, or 0. With
//! `--trace`, only the first seed is played. See `docs/dev/testing.md`.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use kickcache_faultsim::plan::PlanKind;
use kickcache_faultsim::run::run_seed_printing;
use kickcache_faultsim::seeds::first_seed;
use kickcache_faultsim::series::{Outcome, Series, play};
use kickcache_faultsim::trace::Printing;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

struct Arguments {
    seed: u64,
    count: u64,
    seconds: Option<u64>,
    threads: usize,
    plans: PlanKind,
    printing: Printing,
}

const USAGE: &str = "usage: kickcache-vopr [--seed N] [--count M] [--seconds S] [--threads T] [--focused] [--point-in-time] [--trace]";

fn parse(mut words: impl Iterator<Item = String>) -> Result<Arguments, String> {
    let (seed, plans, printing) = (first_seed(), PlanKind::Any, Printing::Silent);
    let mut arguments = Arguments { seed, count: 1, seconds: None, threads: 1, plans, printing };
    while let Some(word) = words.next() {
        let mut number = || {
            let value = words.next().ok_or_else(|| format!("{word} needs a number\n{USAGE}"))?;
            value.parse().map_err(|_| format!("{value} is no number\n{USAGE}"))
        };
        match word.as_str() {
            "--seed" => arguments.seed = number()?,
            "--count" => arguments.count = number()?,
            "--seconds" => arguments.seconds = Some(number()?),
            "--threads" => arguments.threads = usize::try_from(number()?).unwrap_or(1).max(1),
            "--focused" => arguments.plans = PlanKind::Focused,
            "--point-in-time" => arguments.plans = PlanKind::PointInTime,
            "--trace" => arguments.printing = Printing::Lines,
            _ => return Err(format!("{word} is no option\n{USAGE}")),
        }
    }
    Ok(arguments)
}

fn run_printing(seed: u64, plans: PlanKind) -> u64 {
    match run_seed_printing(seed, plans, Printing::Lines) {
        Ok(summary) => {
            println!("{summary:?}");
            0
        }
        Err(failure) => {
            eprintln!("{failure}");
            1
        }
    }
}

fn run(arguments: &Arguments) -> u64 {
    if arguments.printing == Printing::Lines {
        return run_printing(arguments.seed, arguments.plans);
    }
    let start = Instant::now();
    let deadline = arguments.seconds.map(|seconds| start + Duration::from_secs(seconds));
    let Arguments { seed, count, threads, plans, .. } = *arguments;
    let series = Series { first: seed, count, deadline, threads, until_failure: false, plans };
    let Outcome { runs, total, failures } = play(&series);
    failures.iter().for_each(|failure| eprintln!("{failure}"));
    let seconds = start.elapsed().as_secs_f64();
    println!("{runs} runs from seed {seed}, {} failed, {seconds:.1} s: {total:#?}", failures.len());
    let rate = |count: u64| rate(count, seconds);
    println!("crash points: {}", total.kills + total.power_cuts);
    let (runs, events) = (rate(runs), rate(total.events));
    println!("per second: {runs} runs, {events} events, {} blocks of requests", rate(total.request_blocks));
    failures.len() as u64
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "for a human"
)]
fn rate(count: u64, seconds: f64) -> u64 {
    (count as f64 / seconds) as u64
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
