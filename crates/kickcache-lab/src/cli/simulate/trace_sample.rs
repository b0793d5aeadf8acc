//! `kickcache simulate trace --sample`: hit ratios with their errors, from samples.

use std::io;

use kickcache_command::table::{Align, Cell, Colour, Table};
use kickcache_command::user_text::Printer;
use kickcache_engine::config::SequentialCutoff;
use kickcache_engine::units::BLOCK_SIZE;
use kickcache_model::untimed::sampled::{self, SampledOutcome, SampledTrial, one_in_max};
use kickcache_model::untimed::{Fill, Scale};
use kickcache_units::show_bytes;
use serde_json::{Value, json};

use crate::cli::simulate::cache_size::CacheSize;
use crate::cli::simulate::finding::SurveyedTrace;
use crate::cli::simulate::pool::{Task, processors, run_all};

#[derive(Clone, Copy, Debug)]
pub(crate) struct CandidateCache {
    pub(crate) size: CacheSize,
    pub(crate) cache_blocks: u64,
}

/// The results for one trace: both fills of each size.
pub(crate) struct SampledTrace<'a> {
    trace: &'a SurveyedTrace,
    tried: Vec<CandidateCache>,
    one_in: u64,
    exact: Vec<SampledOutcome>,
    adaptive: Vec<SampledOutcome>,
}

pub(crate) fn run<'a>(
    traces: &'a [SurveyedTrace],
    sizes: Vec<Vec<CandidateCache>>,
    scale: Scale,
    sequential_cutoff: SequentialCutoff,
) -> anyhow::Result<Vec<SampledTrace<'a>>> {
    let fills = [Fill::Exact, Fill::Adaptive { sequential_cutoff }];
    let mut tasks = Vec::new();
    for (trace, tried) in traces.iter().zip(&sizes) {
        let cache_blocks: Vec<u64> = tried.iter().map(|tried| tried.cache_blocks).collect();
        let one_in = one_in(trace, tried, scale);
        for fill in fills {
            let trial = SampledTrial { cache_blocks: cache_blocks.clone(), scale, fill, one_in };
            let (path, survey) = (trace.path.clone(), trace.survey.clone());
            tasks.push(Task {
                name: trace.name.clone(),
                weight: (survey.touches / one_in).div_ceil(1_000),
                nanos: 1,
                work: Box::new(move |_: &mut dyn FnMut(u64)| sampled::run(&path, &survey, &trial)),
            });
        }
    }
    let mut found = run_all(tasks, processors()).into_iter();
    let mut next = || found.next().expect("two for each trace");
    let mut all = Vec::new();
    for (trace, tried) in traces.iter().zip(sizes) {
        let one_in = one_in(trace, &tried, scale);
        let (exact, adaptive) = (next()?, next()?);
        all.push(SampledTrace { trace, tried, one_in, exact, adaptive });
    }
    Ok(all)
}

fn one_in(trace: &SurveyedTrace, tried: &[CandidateCache], scale: Scale) -> u64 {
    let smallest = tried.iter().map(|tried| tried.cache_blocks).min().unwrap_or(0);
    one_in_max(&trace.survey, smallest, scale)
}

pub(crate) fn print(traces: &[SampledTrace<'_>], notes: &[String], out: &mut dyn Printer) -> io::Result<()> {
    let mut columns = vec![("TRACE", Align::Left), ("CACHE", Align::Right), ("BYTES", Align::Right)];
    columns.extend(["LRU", "KICKCACHE", "WRITTEN", "WIDE", "SAMPLE"].map(|heading| (heading, Align::Right)));
    let mut table = Table::new(&columns);
    for found in traces {
        for index in 0..found.tried.len() {
            table.row(row(found, index).into_iter().map(Cell::new).collect());
        }
    }
    table.print(out, Colour::for_stdout())?;
    writeln!(
        out,
        "\nHits in percent of the blocks read and written, with the error of the sample in percent (95 \
         of 100 are within it);\nKICKCACHE fills only requested blocks, WIDE uses the adaptive fill \
         window. WRITTEN: bytes written to the cache device for\neach byte that entered the cache. \
         SAMPLE: the share of the volume that was simulated."
    )?;
    notes.iter().try_for_each(|note| writeln!(out, "Note: {note}."))
}

fn row(found: &SampledTrace<'_>, index: usize) -> Vec<String> {
    let (tried, exact, adaptive) = (found.tried[index], found.exact[index], found.adaptive[index]);
    let hits = |ratio: f64, error: f64| format!("{:.1} ± {:.1} %", ratio * 100.0, error * 100.0);
    vec![
        found.trace.name.clone(),
        tried.size.to_string(),
        show_bytes(tried.cache_blocks * BLOCK_SIZE),
        hits(exact.lru_hit_ratio, exact.lru_error),
        hits(exact.hit_ratio, exact.error),
        format!("{:.2}", exact.written_per_byte),
        hits(adaptive.hit_ratio, adaptive.error),
        if found.one_in == 1 { "all".into() } else { format!("1/{}", found.one_in) },
    ]
}

pub(crate) fn json(traces: &[SampledTrace<'_>], scale: Scale, notes: &[String]) -> Value {
    let of_fill = |outcome: &SampledOutcome| {
        json!({
            "hit_ratio": outcome.hit_ratio, "error": outcome.error, "written_per_byte": outcome.written_per_byte,
            "origin_read_per_byte": outcome.origin_read_per_byte,
        })
    };
    let of_trace = |found: &SampledTrace<'_>| {
        let both = found.exact.iter().zip(&found.adaptive);
        let of_size = |(tried, (exact, adaptive)): (&CandidateCache, (&SampledOutcome, &SampledOutcome))| {
            json!({
                "size": tried.size.to_string(), "cache_blocks": tried.cache_blocks,
                "lru": json!({ "hit_ratio": exact.lru_hit_ratio, "error": exact.lru_error }),
                "exact": of_fill(exact), "adaptive": of_fill(adaptive),
            })
        };
        let sizes: Vec<Value> = found.tried.iter().zip(both).map(of_size).collect();
        json!({ "name": found.trace.name, "one_in": found.one_in, "sizes": sizes })
    };
    json!({ "scale": scale.0, "notes": notes, "traces": traces.iter().map(of_trace).collect::<Vec<_>>() })
}
