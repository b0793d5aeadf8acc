//! The effect of 50 % and 150 % of each constant of the policies, as a Markdown table.
//!
//!     policy_constants [--scale N] [--only NAME] TRACE...

use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kickcache_engine::time::Duration;
use kickcache_engine::tuning::{IS_ON, Tunable, tune};
use kickcache_model::policy_study::case::Case;
use kickcache_model::policy_study::finding::Finding;
use kickcache_model::policy_study::left_out::{Effect, left_out};
use kickcache_model::policy_study::load::Load;
use kickcache_model::policy_study::practice;
use kickcache_model::policy_study::{ComparedPolicies, Setup, run_all};
use kickcache_model::statistics::mean;
use kickcache_model::trace_file::folder::files;
use kickcache_model::untimed::Scale;

/// In percent of the blocks that a load accesses.
const SIZES: [u64; 5] = [1, 5, 10, 20, 50];
/// The capacity of the cache in the cases of loops, in blocks of the load.
const MADE_CACHE_BLOCKS: u64 = 8_192;
/// Values of a constant, in percent of the present value.
const TRIED: [usize; 2] = [50, 150];

struct Options {
    scale: u64,
    only: Option<String>,
    traces: Vec<PathBuf>,
}

impl Options {
    fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Options, Box<dyn Error>> {
        let mut options = Options { scale: 4, only: None, traces: Vec::new() };
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().ok_or_else(|| format!("{argument} needs a value"));
            match argument.as_str() {
                "--scale" => options.scale = value()?.parse()?,
                "--only" => options.only = Some(value()?),
                _ if argument.starts_with("--") => return Err(format!("unknown option {argument}").into()),
                _ => options.traces.extend(files(Path::new(&argument))?),
            }
        }
        if !Tunable::ALL.iter().any(|tunable| options.is_asked(*tunable)) {
            let names: Vec<String> = Tunable::ALL.iter().map(|tunable| format!("{tunable:?}")).collect();
            return Err(format!("--only accepts one of {}", names.join(", ")).into());
        }
        if options.traces.is_empty() {
            return Err("no trace is named".into());
        }
        Ok(options)
    }

    fn is_asked(&self, tunable: Tunable) -> bool {
        self.only.as_ref().is_none_or(|only| format!("{tunable:?}") == *only)
    }
}

struct Study {
    traces: Vec<Case>,
    /// The number of each case's load.
    trace_of_case: Vec<usize>,
    loops: Vec<Case>,
    scale: Scale,
}

struct ValueResults {
    effects: Vec<Effect>,
    /// The mean over the loops of the hits, in percent of the best set's hits.
    loops: f64,
}

impl Study {
    fn read(options: &Options) -> Result<Study, Box<dyn Error>> {
        let (mut traces, mut trace_of_case) = (Vec::new(), Vec::new());
        let read: Result<Vec<Load>, _> = options.traces.iter().map(|path| Load::read(path)).collect();
        for load in read?.into_iter().chain(practice::all()).map(Arc::new) {
            if !load.tells_something() {
                println!("{}: omitted, too few of its blocks are accessed again.", load.name);
                continue;
            }
            let number = trace_of_case.last().map_or(0, |last| last + 1);
            for percent in SIZES {
                let blocks = load.footprint * percent / 100;
                let case = Case::of_size(&load, blocks, &format!("{percent}%"));
                trace_of_case.extend(case.iter().map(|_| number));
                traces.extend(case);
            }
        }
        let loops = Case::loops(MADE_CACHE_BLOCKS);
        Ok(Study { traces, trace_of_case, loops, scale: Scale(options.scale) })
    }

    fn run(&self) -> ValueResults {
        let effect = |finding: &Finding| {
            let engine = finding.engine;
            Effect { hits: (1.0 - engine.miss_ratio()) * 100.0, written: engine.written_per_byte() }
        };
        let write_time = Duration::from_nanos(0);
        let setup = Setup { scale: self.scale, beside: ComparedPolicies::Nothing, write_time };
        let findings = run_all(&self.traces, setup);
        let loops = run_all(&self.loops, setup);
        let parts = loops.iter().filter_map(|finding| finding.part_of_best(self.scale.0));
        ValueResults { effects: findings.iter().map(effect).collect(), loops: mean(parts) * 100.0 }
    }
}

/// The cells of a value.
fn shown(given: &ValueResults, built: &ValueResults) -> String {
    let (own, usual) = (Effect::mean(&given.effects), Effect::mean(&built.effects));
    let changes = given.effects.iter().zip(&built.effects).map(|(given, built)| given.hits - built.hits);
    let worst = changes.fold(f64::INFINITY, f64::min);
    format!("{:+.2} | {worst:+.1} | {:.2} | {:.1} %", own.hits - usual.hits, own.written, given.loops)
}

fn main() -> Result<(), Box<dyn Error>> {
    if !IS_ON {
        return Err("built without the feature tuning: run scripts/policy-study --constants".into());
    }
    let options = Options::parse(std::env::args().skip(1))?;
    let study = Study::read(&options)?;
    let built = study.run();
    let usual = Effect::mean(&built.effects);
    println!(
        "As built: {:.2} % hits in the mean of {} cases, {:.2} bytes written for each that entered; loops {:.1} % of the best set.\n",
        usual.hits,
        study.traces.len(),
        usual.written,
        built.loops
    );
    let mut names: Vec<&str> = study.traces.iter().map(|case| case.load.name.as_str()).collect();
    names.dedup();
    println!(
        "Choices of the others, for each of {} in this order: · the present value, ½ half of it, 1½ half as much again.\n",
        names.join(", ")
    );
    println!(
        "| constant | is | half | 1.5 times | half: hits | worst | written | loops | 1.5 times: hits | worst | written | loops | others choose | gained |"
    );
    println!("|{}", "---|".repeat(14));
    for tunable in Tunable::ALL.iter().copied().filter(|tunable| options.is_asked(*tunable)) {
        let given = TRIED.map(|percent| {
            tune(tunable, percent);
            study.run()
        });
        tune(tunable, 100);
        let values = [&built, &given[0], &given[1]].map(|given| given.effects.as_slice());
        let found = left_out(&study.trace_of_case, &values);
        let names: Vec<&str> = found.chosen.iter().map(|chosen| ["·", "½", "1½"][*chosen]).collect();
        let cells = given.iter().map(|given| shown(given, &built)).collect::<Vec<_>>().join(" | ");
        let [half, more] = TRIED.map(|percent| tunable.at(percent));
        println!(
            "| {tunable:?}: {} | {} | {half} | {more} | {cells} | {} | {:+.2} |",
            tunable.meaning(),
            tunable.at(100),
            names.join(" "),
            found.gained
        );
    }
    Ok(())
}
