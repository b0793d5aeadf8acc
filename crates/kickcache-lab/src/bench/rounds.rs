//! The rounds: the targets in their phases, in turns.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use kickcache_command::interrupt::{Interrupt, Interrupted};

use crate::bench::job::JobSource;
use crate::bench::machine::Machine;
use crate::bench::options::{NoiseFloor, Options};
use crate::bench::phase::Phase;
use crate::bench::program::VerbResult;
use crate::bench::progress::Progress;
use crate::bench::result::{
    BenchResult, BenchRun, End, KIND, RESULT_VERSION, Round, RoundValidity, TargetFacts, Turn,
};
use crate::bench::run::Runner;
use crate::bench::target::Target;
use crate::bench::write_check::WriteCheck;

pub(super) struct Place<'a> {
    pub(super) directory: &'a Path,
    pub(super) interrupt: &'a Arc<Interrupt>,
    pub(super) fio: String,
}

/// Measures the rounds of a bench.
///
/// # Errors
/// The error of a run, unless a round is complete or the bench was interrupted.
pub(super) fn measure(
    options: &Options,
    job: &JobSource,
    mut targets: Vec<Target>,
    place: &Place<'_>,
) -> anyhow::Result<BenchResult> {
    let runner = Runner {
        job,
        directory: place.directory,
        stale_bytes: options.stale_bytes.or(job.bytes).unwrap_or(0),
    };
    let own: usize = targets.iter().map(|target| target.phases.len()).sum();
    // A single run has no comparison.
    let noise_floor = if own > 1 { options.noise_floor } else { NoiseFloor::Computed };
    let runs = own + usize::from(noise_floor == NoiseFloor::Measured);
    let one_round = job.length.unwrap_or(Duration::from_secs(60)) * u32::try_from(runs).unwrap_or(1);
    let mut bench = Rounds {
        options,
        runner,
        check: WriteCheck::new(job, options, place.interrupt),
        interrupt: place.interrupt,
        progress: Progress::new(one_round * options.rounds),
        visits: visits(targets.len(), noise_floor),
        one_round,
        rounds: Vec::new(),
    };
    let facts = facts(options, &targets);
    let end = match bench.measure(&mut targets) {
        Ok(end) => end,
        Err(error) if error.is::<Interrupted>() => End::Interrupted,
        Err(error) if bench.rounds.iter().all(|round| round.standing == RoundValidity::Incomplete) => {
            return Err(error);
        }
        Err(error) => End::Failed(format!("{error:#}")),
    };
    let rounds = bench.rounds;
    Ok(BenchResult {
        kind: KIND.into(),
        version: RESULT_VERSION,
        machine: Machine::look(place.fio.clone(), options.commit),
        job: job.description.clone(),
        margin: options.margin,
        busy_limit: options.busy_limit,
        targets: facts,
        rounds,
        predictions: Vec::new(),
        end,
    })
}

fn facts(options: &Options, targets: &[Target]) -> Vec<TargetFacts> {
    let facts = options.targets.iter().zip(targets).map(|(spec, target)| TargetFacts {
        name: spec.name.clone(),
        target: spec.text.clone(),
        has_holes: target.has_holes,
        shares_disk: target.shares_disk,
    });
    facts.collect()
}

#[derive(Clone, Copy)]
struct Visit {
    target: usize,
    turn: Turn,
}

/// The turns of a round. For a measured noise floor, the first target runs again at the other end of the round.
fn visits(targets: usize, noise_floor: NoiseFloor) -> Vec<Visit> {
    let again = Visit { target: 0, turn: Turn::Again };
    let own = (0..targets).map(|target| Visit { target, turn: Turn::Own });
    own.chain((noise_floor == NoiseFloor::Measured).then_some(again)).collect()
}

#[derive(Clone, Copy)]
struct Moment {
    number: u32,
    seed: u64,
    turn: Turn,
}

struct Rounds<'a> {
    options: &'a Options,
    runner: Runner<'a>,
    check: WriteCheck,
    interrupt: &'a Interrupt,
    progress: Progress,
    visits: Vec<Visit>,
    one_round: Duration,
    rounds: Vec<Round>,
}

impl Rounds<'_> {
    fn measure(&mut self, targets: &mut [Target]) -> anyhow::Result<End> {
        let mut counted = 0;
        for number in 0..self.options.rounds_max {
            let mut runs = Vec::new();
            let measured = self.round(number, targets, &mut runs);
            let is_busy = runs.iter().any(|run: &BenchRun| run.others > self.options.busy_limit);
            let standing = match (&measured, is_busy) {
                (Err(_), _) => RoundValidity::Incomplete,
                (Ok(()), true) => RoundValidity::Discarded,
                (Ok(()), false) => RoundValidity::Counts,
            };
            if !runs.is_empty() {
                self.rounds.push(Round { runs, standing });
            }
            measured?;
            counted += u32::from(standing == RoundValidity::Counts);
            if counted == self.options.rounds {
                return Ok(End::Complete);
            }
            if standing == RoundValidity::Discarded && number + 1 < self.options.rounds_max {
                self.progress.add(self.one_round);
            }
        }
        Ok(End::Busy)
    }

    /// All targets, from the first to the last in even rounds and from the last to the first in odd ones.
    fn round(&mut self, number: u32, targets: &mut [Target], runs: &mut Vec<BenchRun>) -> anyhow::Result<()> {
        let seed = self.options.seed.wrapping_add(u64::from(number));
        let mut order = self.visits.clone();
        if number % 2 == 1 {
            order.reverse();
        }
        for visit in order {
            let target = &mut targets[visit.target];
            let name = target.name.clone();
            self.target(Moment { number, seed, turn: visit.turn }, target, runs)
                .with_context(|| format!("the target {name} failed"))?;
        }
        Ok(())
    }

    fn target(
        &mut self,
        moment: Moment,
        target: &mut Target,
        runs: &mut Vec<BenchRun>,
    ) -> anyhow::Result<()> {
        let Moment { number, seed, turn } = moment;
        let phases = match turn {
            Turn::Own => target.phases.clone(),
            Turn::Again => target.phases.iter().take(1).copied().collect(),
        };
        for phase in phases {
            self.progress.say(format!("round {}: {}, {}", number + 1, target.name, phase.name()));
            self.interrupt.check()?;
            if target.enter(phase)? == VerbResult::Unknown {
                bail!("{} cannot be restarted by the bench; leave the phase out", target.name);
            }
            let interrupt = self.interrupt;
            let target: &Target = target;
            let alive = || target.check_origin().and_then(|()| interrupt.check());
            let mut quiet = |_: Duration| alive();
            let place = target.place()?;
            // Another program may use the target since the last run.
            self.check.check_unused(&place)?;
            self.runner.lay_out(&place, seed, &mut quiet)?;
            if phase == Phase::Stale {
                self.runner.read_stale_data(&place, &mut quiet)?;
            }
            let length = self.runner.job.length.unwrap_or(Duration::from_secs(60));
            let progress = &self.progress;
            let mut watch = |elapsed: Duration| {
                progress.show(elapsed, length);
                alive()
            };
            runs.push(BenchRun { turn, ..self.runner.measure(target, phase, seed, &mut watch)? });
            self.progress.finish_run(length);
        }
        target.leave()
    }
}
