//! The policy study: the engine compared with the reference policies on traces and made loads, as Markdown
//! and a page.
//!
//!     policy_study [--scale N] [--sizes 1%,5%,128M] [--only TEXT] [--engine] [--write-time 20us] [--page FILE] [TRACE...]

use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kickcache_engine::time::Duration;
use kickcache_model::policy_study::case::Case;
use kickcache_model::policy_study::finding::Finding;
use kickcache_model::policy_study::load::Load;
use kickcache_model::policy_study::practice;
use kickcache_model::policy_study::{ComparedPolicies, Setup, run_all};
use kickcache_model::reference_policy::NAMES;
use kickcache_model::statistics::mean;
use kickcache_model::trace_file::folder::files;
use kickcache_model::untimed::Scale;
use kickcache_model::workload::fio::time;
use kickcache_report::{Curve, Curves, TraceCurves};
use kickcache_units::{Size, show_bytes};

const BLOCK_SIZE: u64 = 4096;
/// The capacity of the cache in the cases of loops and shifts, in blocks of the load.
const MADE_CACHE_BLOCKS: u64 = 8_192;

struct Options {
    scale: u64,
    sizes: Vec<String>,
    only: Option<String>,
    beside: ComparedPolicies,
    write_time: Duration,
    page: Option<PathBuf>,
    traces: Vec<PathBuf>,
}

impl Options {
    fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Options, Box<dyn Error>> {
        let sizes = ["1%", "5%", "10%", "20%", "50%"].map(String::from).to_vec();
        let beside = ComparedPolicies::Policies;
        let write_time = Duration::from_nanos(0);
        let mut options =
            Options { scale: 16, sizes, only: None, beside, write_time, page: None, traces: Vec::new() };
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().ok_or_else(|| format!("{argument} needs a value"));
            match argument.as_str() {
                "--scale" => options.scale = value()?.parse()?,
                "--sizes" => options.sizes = value()?.split(',').map(String::from).collect(),
                "--only" => options.only = Some(value()?),
                "--write-time" => options.write_time = time(&value()?, 1_000)?,
                "--page" => options.page = Some(value()?.into()),
                "--engine" => options.beside = ComparedPolicies::Nothing,
                _ if argument.starts_with("--") => return Err(format!("unknown option {argument}").into()),
                _ => options.traces.extend(files(Path::new(&argument))?),
            }
        }
        Ok(options)
    }

    fn setup(&self) -> Setup {
        Setup { scale: Scale(self.scale), beside: self.beside, write_time: self.write_time }
    }

    fn is_asked(&self, name: &str) -> bool {
        self.only.as_ref().is_none_or(|only| name.contains(only.as_str()))
    }

    /// A cache of each size, except sizes that are too large for the load to compare policies.
    fn cases(&self, load: &Arc<Load>) -> Result<Vec<Case>, Box<dyn Error>> {
        let mut cases = Vec::new();
        for size in &self.sizes {
            let blocks = match size.strip_suffix('%') {
                Some(percent) => load.footprint * percent.parse::<u64>()? / 100,
                None => size.parse::<Size>()?.bytes() / BLOCK_SIZE / self.scale,
            };
            cases.extend(Case::of_size(load, blocks, size));
        }
        Ok(cases)
    }
}

fn percent(ratio: f64) -> String {
    format!("{:.1} %", ratio * 100.0)
}

fn hits_of_policies(finding: &Finding) -> String {
    let hits = finding.references.iter().flatten().map(|misses| percent(1.0 - misses.miss_ratio()));
    let cells: Vec<String> = hits.collect();
    if cells.is_empty() { "- | ".repeat(NAMES.len()) } else { cells.join(" | ") + " | " }
}

fn print_table(title: &str, cases: &[Case], findings: &[Finding], scale: u64) {
    println!("\n{title}\n");
    println!(
        "| case, hits | {} | kickcache | behind | written | best set | a miss | fresh |",
        NAMES.join(" | ")
    );
    println!("|{}", "---|".repeat(NAMES.len() + 7));
    for (case, finding) in cases.iter().zip(findings) {
        let signed = |points: f64| format!("{points:+.1}");
        let or_dash = |cell: Option<String>| cell.unwrap_or_else(|| "-".into());
        println!(
            "| {} | {}{} | {} | {:.2} | {} | {:.2} | {} |",
            case.name,
            hits_of_policies(finding),
            percent(1.0 - finding.engine.miss_ratio()),
            or_dash(finding.behind_best().map(signed)),
            finding.engine.written_per_byte(),
            or_dash(finding.part_of_best(scale).map(percent)),
            finding.written_per_miss(),
            or_dash(finding.behind_fresh().map(signed)),
        );
    }
    let behind: Vec<f64> = findings.iter().filter_map(Finding::behind_best).collect();
    let written: Vec<f64> = findings.iter().map(|finding| finding.engine.written_per_byte()).collect();
    let worst = |all: &[f64]| all.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if !behind.is_empty() {
        println!(
            "\nBehind the best: mean {:+.2}, worst {:+.2} points.",
            mean(behind.iter().copied()),
            worst(&behind)
        );
    }
    if !written.is_empty() {
        println!(
            "Written for each that entered: mean {:.2}, worst {:.2}.",
            mean(written.iter().copied()),
            worst(&written)
        );
    }
}

fn curves(load: &Load, cases: &[Case], findings: &[Finding], scale: u64) -> TraceCurves {
    let own: Vec<(&Case, &Finding)> =
        cases.iter().zip(findings).filter(|(case, _)| case.load.name == load.name).collect();
    let each = |value: &dyn Fn(&Finding) -> f64| own.iter().map(|(_, finding)| value(finding)).collect();
    let engine = each(&|finding| 1.0 - finding.engine.miss_ratio());
    let mut curves = vec![Curve { name: "kickcache".into(), is_main: true, hit_ratios: engine }];
    curves.extend(NAMES.into_iter().enumerate().map(|(index, name)| {
        let hits = each(&|finding| finding.references.map_or(0.0, |all| 1.0 - all[index].miss_ratio()));
        Curve { name: name.into(), is_main: false, hit_ratios: hits }
    }));
    let footprint_bytes = load.footprint * BLOCK_SIZE;
    TraceCurves {
        name: load.name.clone(),
        note: format!("It accesses {} of blocks; each represents {scale}.", show_bytes(footprint_bytes)),
        footprint_bytes,
        sizes: own.iter().map(|(case, _)| case.cache_blocks * BLOCK_SIZE).collect(),
        curves,
        written_per_byte: each(&|finding| finding.engine.written_per_byte()),
        origin_factor: own.iter().map(|_| 1.0).collect(),
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let options = Options::parse(std::env::args().skip(1))?;
    let (mut loads, mut cases) = (Vec::new(), Vec::new());
    for path in &options.traces {
        let load = Arc::new(Load::read(path)?);
        if !load.tells_something() {
            println!(
                "{}: omitted, {} of its blocks are accessed again.",
                load.name,
                percent(load.repeated())
            );
            continue;
        }
        cases.extend(options.cases(&load)?.into_iter().filter(|case| options.is_asked(&case.name)));
        loads.push(load);
    }
    let findings = run_all(&cases, options.setup());
    print_table("**Traces**", &cases, &findings, options.scale);
    let mut practiced = Vec::new();
    for load in practice::all().into_iter().map(Arc::new) {
        practiced.extend(options.cases(&load)?.into_iter().filter(|case| options.is_asked(&case.name)));
    }
    let found = run_all(&practiced, options.setup());
    print_table("**Loads of practice**", &practiced, &found, options.scale);
    let made =
        [("**Loops**", Case::loops(MADE_CACHE_BLOCKS)), ("**Shifts**", Case::shifts(MADE_CACHE_BLOCKS))];
    for (title, mut cases) in made {
        cases.retain(|case| options.is_asked(&case.name));
        let findings = run_all(&cases, options.setup());
        print_table(title, &cases, &findings, options.scale);
    }
    if let Some(path) = &options.page {
        let traces = loads.iter().map(|load| curves(load, &cases, &findings, options.scale)).collect();
        let introduction = "The hit ratio of caches of several sizes: the real engine on devices that take no time, and \
             policies that keep single blocks.";
        std::fs::write(path, Curves { title: "The policy study", introduction, traces }.html())?;
    }
    Ok(())
}
