//! `kickcache judge`: reports by its exit code whether a command is worse than a known-good one.
//!
//! An error of the arguments or of the known-good command ends with 128 or more: `git bisect run` takes smaller
//! codes as verdicts, and 125 as "skip this commit".

use std::ffi::OsString;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use kickcache_command::interrupt::Interrupt;
use kickcache_command::notice::notice;
use kickcache_command::output;
use kickcache_model::statistics::sequential::margin::Margin;
use kickcache_model::statistics::sequential::pair_test::rounds_least;
use kickcache_random::Random;

use crate::judge::command::CommandLine;
use crate::judge::failure::{NoVerdict, RunFailure, STOP};
use crate::judge::measure::{CommandSamples, Sides, measure};
use crate::judge::metric::{Metric, MetricDirection};
use crate::judge::numbers::show_value;
use crate::judge::process;
use crate::judge::progress::Progress;
use crate::judge::report::{self, Names, Report};
use crate::judge::rounds::{Judge, Rules};
use crate::judge::side::Side;
use crate::judge::stored_result::{Runs, StoredResult};

const EXAMPLES: &str = "\
Examples:
  kickcache judge --against 'fio --filename=/dev/vdb job.fio --output-format=json' --metric iops \\
                  --worse-than 20% -- fio --filename=/dev/vdc job.fio --output-format=json
  kickcache judge --against ./good/prog --metric time --worse-than 10% -- ./new/prog --input big
  kickcache judge --against './good/bench' --metric json:/search/ns --higher-is-worse -- ./bench
  kickcache judge --save good.json --metric iops -- ./run-fio        # on the good kernel
  kickcache judge --baseline good.json --metric iops -- ./run-fio    # on another one
  git bisect run sh -c 'make || exit 125; kickcache judge --against ./good --metric time -- ./prog'

Metrics:
  iops, bandwidth, mean, p50, p99, p99.9 ...  of fio's JSON (percentiles: best of json+), or of a
                    result of kickcache; or a figure that the command prints as {\"iops\": 123}, or as
                    a number alone on its last line
  time, cpu-time    of the command itself
  number            the last line of its output (needs --higher-is-worse or --lower-is-worse)
  json:/PATH        a number in its JSON output (needs --higher-is-worse or --lower-is-worse)

Exit codes, as `git bisect run` understands them:
  0         good: not worse than the margin
  1         bad: at least half of the margin worse
  125       cannot be judged: --rounds-max was reached, the control drifted, or the new command
            failed (exit codes 1 to 125) or gave no number
  128       a command cannot be started (126 and 127 of a shell count as this), the known-good
            command failed or gave no number, or an argument is wrong
  128 + N   a command died by signal N; 129, 130 and 143: this program was interrupted

docs/evidence/judge.md has an example of a bisection, and the proof of the error bound.";

/// The upper limit of --rounds-max.
const ROUNDS_LIMIT: u16 = 1000;

fn parse_rounds_max(text: &str) -> Result<u16, String> {
    let least = rounds_least();
    let rounds = text.parse::<u16>().ok().filter(|rounds| *rounds <= ROUNDS_LIMIT);
    match rounds {
        None => Err(format!("`{text}` is no number of rounds; write one from {least} to {ROUNDS_LIMIT}")),
        Some(rounds) if usize::from(rounds) < least => Err(format!(
            "{rounds} rounds can never be enough for a verdict, however clear the difference is; write {least} at least"
        )),
        Some(rounds) => Ok(rounds),
    }
}

/// Compare a command with a known-good one, with an exit code for `git bisect run`
///
/// Runs both in alternation, in pairs of random order, until the evidence suffices: 9 or 10 rounds
/// on a quiet machine. A command that is worse by the margin or more is bad, a command that is worse by half
/// the margin or less is good; a command between the two limits may get either verdict. Each of the two verdicts
/// is wrong with a probability of 0.5 % at most, however noisy the machine.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct JudgeArgs {
    /// The known-good command, a line for `sh -c`; with --baseline or --save, the control
    #[arg(long, value_name = "COMMAND", required_unless_present_any = ["baseline", "save"])]
    against: Option<String>,
    /// The measure to compare; see below
    #[arg(long)]
    metric: Metric,
    /// Margin, 1% to 1000%: 20% is 1.2 times the time, or 1/1.2 of the rate
    #[arg(long, value_name = "PERCENT", default_value = "20%")]
    worse_than: Margin,
    /// A higher number is worse, as for times
    #[arg(long, conflicts_with = "lower_is_worse")]
    higher_is_worse: bool,
    /// A lower number is worse, as for rates
    #[arg(long)]
    lower_is_worse: bool,
    /// Compare with a stored result; its control, or --against, is run again, and may have drifted by a quarter of the
    /// margin
    #[arg(long, value_name = "FILE", conflicts_with = "save")]
    baseline: Option<PathBuf>,
    /// Give no verdict: measure COMMAND, and --against as a control, and store the result
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    /// Rounds of --save, 6 to 1000
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u16).range(6..=1000))]
    rounds: u16,
    /// Upper limit of rounds, 9 to 1000; without a verdict by then, the exit code is 125
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = parse_rounds_max)]
    rounds_max: u16,
    /// Seed of the order in each round [default: another one each time]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Run COMMAND by the shell, too
    #[arg(long)]
    shell: bool,
    /// Print the result as JSON, with every round
    #[arg(long)]
    json: bool,
    /// The command to judge
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

impl JudgeArgs {
    pub fn run(self, out: &mut dyn Write) -> u8 {
        // 101, the code of a panic, would be a verdict.
        let code = catch_unwind(AssertUnwindSafe(|| match self.save.clone() {
            Some(path) => self.store(&path),
            None => self.judge(out),
        }));
        match code {
            Ok(Ok(code)) => code,
            Ok(Err(none)) => {
                notice(&format!("kickcache: {none}"));
                none.code()
            }
            Err(_) => STOP,
        }
    }

    fn judge(&self, out: &mut dyn Write) -> Result<u8, NoVerdict> {
        let worse = self.worse()?;
        let stored = self.baseline.as_deref().map(|path| StoredResult::read(path, &self.metric, worse));
        let stored = stored.transpose()?;
        let line = self.against.clone().or_else(|| Some(stored.as_ref()?.control().command.clone()));
        let good = CommandLine::Line(line.ok_or_else(|| NoVerdict::stop("--against is missing"))?);
        let new = self.command_line();
        let names = Names { good: good.to_string(), new: new.to_string() };
        let seed = self.seed.unwrap_or_else(any_seed);
        let rounds_max = usize::from(self.rounds_max);
        let rules = Rules { margin: self.worse_than, worse, rounds_max, seed };
        let mut judge = Judge::new(rules, stored.as_ref())?;
        let result = {
            let (interrupt, progress) = (listen()?, Progress::new(rounds_max));
            loop {
                let ended = judge
                    .run(&mut |side| self.run_one(if side == Side::Good { &good } else { &new }, &interrupt));
                progress.say(judge.rounds().len(), report::progress(&judge));
                match ended {
                    Ok(None) => {}
                    Ok(Some(verdict)) => break Ok(verdict),
                    Err(none) => break Err(none),
                }
            }
        };
        let report = Report::new(&judge, &self.metric, names, &result);
        self.print(&report, out);
        Ok(report.exit_code())
    }

    /// Prints the report; a closed pipe does not change the verdict.
    fn print(&self, report: &Report, out: &mut dyn Write) {
        if report.exit_code() > 1 || self.json {
            notice(&format!("kickcache: {}", report.sentence()));
        }
        let printed = match (self.json, report.exit_code()) {
            (true, _) => serde_json::to_string_pretty(report)
                .map_err(Into::into)
                .and_then(|text| writeln!(out, "{text}")),
            (false, 0 | 1) => writeln!(out, "{}", report.sentence()),
            (false, _) => Ok(()),
        };
        if let Err(error) = printed.and_then(|()| out.flush()) {
            notice(&format!("kickcache: standard output cannot be written: {error}"));
        }
    }

    fn store(&self, path: &Path) -> Result<u8, NoVerdict> {
        let worse = self.worse()?;
        output::try_out(&[Some(path)], &[]).map_err(|failure| NoVerdict::stop(failure.sentence()))?;
        let command = self.command_line();
        let control = self.against.clone().map(CommandLine::Line);
        let sides = if control.is_some() { Sides::WithControl } else { Sides::Alone };
        let rounds = usize::from(self.rounds);
        let mut random = Random::new(self.seed.unwrap_or_else(any_seed));
        let measured = {
            let (interrupt, progress) = (listen()?, Progress::new(rounds));
            let mut runner = |side| match (side, &control) {
                (Side::Good, Some(control)) => self.run_one(control, &interrupt),
                (Side::Good, None) | (Side::New, _) => self.run_one(&command, &interrupt),
            };
            let mut say = |measured: &CommandSamples| {
                let (round, last) = (measured.good.len(), measured.good.last().copied().unwrap_or(0.0));
                progress
                    .say(round, format!("round {round} of {rounds}: {} {}", self.metric, show_value(last)));
            };
            measure(rounds, sides, &mut random, &mut runner, &mut say)?
        };
        let control = control.map(|line| Runs { command: line.to_string(), values: measured.control });
        let good = Runs { command: command.to_string(), values: measured.good };
        let stored = StoredResult::new(&self.metric, worse, good, control);
        stored.write(path)?;
        notice(&format!("{rounds} rounds are stored in {}.", path.display()));
        if let Err(noisy) = stored.check_noise(self.worse_than) {
            notice(&format!("kickcache: warning: {noisy}"));
        }
        Ok(0)
    }

    fn run_one(&self, command: &CommandLine, interrupt: &Interrupt) -> Result<f64, RunFailure> {
        let run = process::run(command, interrupt)?;
        self.metric.read(&run).map_err(RunFailure::Failed)
    }

    fn command_line(&self) -> CommandLine {
        if !self.shell {
            return CommandLine::Words(self.command.clone());
        }
        let words: Vec<_> = self.command.iter().map(|word| word.to_string_lossy()).collect();
        CommandLine::Line(words.join(" "))
    }

    /// The direction of the metric that is worse.
    fn worse(&self) -> Result<MetricDirection, NoVerdict> {
        let said = match (self.higher_is_worse, self.lower_is_worse) {
            (true, _) => Some(MetricDirection::Higher),
            (false, true) => Some(MetricDirection::Lower),
            (false, false) => None,
        };
        let metric = &self.metric;
        match (metric.worse(), said) {
            (Some(known), Some(said)) if known != said => Err(NoVerdict::stop(format!(
                "of {metric} it is known which way is worse, and it is the other one; leave --higher-is-worse and \
                 --lower-is-worse out, or name the number as json:/PATH or number"
            ))),
            (known, said) => known.or(said).ok_or_else(|| {
                NoVerdict::stop(format!(
                    "no direction is given for {metric}; add --higher-is-worse or --lower-is-worse"
                ))
            }),
        }
    }
}

fn listen() -> Result<Interrupt, NoVerdict> {
    Interrupt::listen("the measurement was interrupted")
        .map_err(|error| NoVerdict::stop(format!("signals cannot be listened to: {error}")))
}

fn any_seed() -> u64 {
    RandomState::new().build_hasher().finish() >> 16
}

/// The exit code if clap ends the program with `code`: the same, except that `judge` ends with [`STOP`] for refused
/// arguments. With clap's own 2, `git bisect run` would call the commit bad.
pub fn refusal_code(code: i32) -> u8 {
    let is_judge = std::env::args_os().nth(1).is_some_and(|word| word == "judge");
    match code {
        0 => 0,
        _ if is_judge => STOP,
        code => u8::try_from(code).unwrap_or(1),
    }
}
