//! The results of `simulate trace`, as a table with a row for each trace, size and policy.

use kickcache_engine::units::BLOCK_SIZE;
use kickcache_model::reference_policy::{self, Misses};
use kickcache_model::untimed::Outcome;

use crate::cli::simulate::finding::{Finding, SurveyedTrace};
use crate::cli::simulate::parquet_file::Column;

struct Row<'a> {
    trace: &'a SurveyedTrace,
    finding: &'a Finding,
    policy: String,
    counts: Misses,
    /// Figures of the engine only.
    engine: Option<&'a Outcome>,
}

pub(crate) fn columns(traces: &[SurveyedTrace], findings: &[Finding]) -> Vec<Column> {
    let rows: Vec<Row<'_>> =
        findings.iter().flat_map(|finding| rows_of(&traces[finding.trace], finding)).collect();
    let of_engine =
        |figure: fn(&Outcome) -> u64| rows.iter().map(move |row| row.engine.map(figure)).collect::<Vec<_>>();
    vec![
        Column::text("trace", rows.iter().map(|row| row.trace.name.clone())),
        Column::text("size", rows.iter().map(|row| row.finding.size.to_string())),
        Column::text("policy", rows.iter().map(|row| row.policy.clone())),
        Column::count("cache_bytes", rows.iter().map(|row| Some(row.finding.cache_blocks * BLOCK_SIZE))),
        Column::count(
            "footprint_bytes",
            rows.iter().map(|row| Some(row.trace.survey.footprint * BLOCK_SIZE)),
        ),
        Column::count("touched_blocks", rows.iter().map(|row| Some(row.counts.touched_blocks))),
        Column::count("missed_blocks", rows.iter().map(|row| Some(row.counts.missed_blocks))),
        Column::real("hit_ratio", rows.iter().map(|row| Some(1.0 - row.counts.miss_ratio()))),
        Column::count("admitted_blocks", of_engine(|outcome| outcome.admitted_blocks)),
        Column::count("cache_write_bytes", of_engine(|outcome| outcome.cache_write_bytes)),
        Column::count("origin_read_bytes", of_engine(|outcome| outcome.origin_read_bytes)),
    ]
}

fn rows_of<'a>(trace: &'a SurveyedTrace, finding: &'a Finding) -> Vec<Row<'a>> {
    let of_engine = |policy: &str, outcome: &'a Outcome| {
        let counts = Misses { touched_blocks: outcome.touched_blocks, missed_blocks: outcome.missed_blocks };
        Row { trace, finding, policy: policy.into(), counts, engine: Some(outcome) }
    };
    let mut rows =
        vec![of_engine("kickcache", &finding.exact), of_engine("kickcache-wide", &finding.adaptive)];
    rows.extend(
        reference_policy::NAMES.into_iter().zip(finding.reference_policies).map(|(name, counts)| Row {
            trace,
            finding,
            policy: name.to_lowercase(),
            counts,
            engine: None,
        }),
    );
    rows
}
