//! The results of `simulate trace`, as a table and as JSON.

use std::io;

use kickcache_command::table::{Align, Cell, Colour, Table};
use kickcache_command::user_text::Printer;
use kickcache_engine::units::BLOCK_SIZE;
use kickcache_model::reference_policy::{self, Misses};
use kickcache_model::untimed::Outcome;
use kickcache_units::{show_bytes, show_ratio};
use serde_json::{Value, json};

use crate::cli::simulate::finding::{Finding, SurveyedTrace};

pub(crate) fn print(
    traces: &[SurveyedTrace],
    findings: &[Finding],
    notes: &[String],
    out: &mut dyn Printer,
) -> io::Result<()> {
    let mut columns = vec![("TRACE", Align::Left), ("CACHE", Align::Right), ("BYTES", Align::Right)];
    columns.extend(reference_policy::NAMES.map(|name| (name, Align::Right)));
    columns.extend(["KICKCACHE", "WRITTEN", "WIDE", "READ"].map(|name| (name, Align::Right)));
    let mut table = Table::new(&columns);
    for finding in findings {
        let cells = row(&traces[finding.trace], finding);
        table.row(cells.into_iter().map(Cell::new).collect());
    }
    table.print(out, Colour::for_stdout())?;
    writeln!(
        out,
        "\nHits in percent of the blocks read and written; KICKCACHE fills only requested blocks, WIDE \
         uses the adaptive fill window.\nWRITTEN: bytes written to the cache device for each byte that \
         entered the cache. READ: bytes that WIDE read from\nthe origin, divided by those of KICKCACHE."
    )?;
    notes.iter().try_for_each(|note| writeln!(out, "Note: {note}."))
}

fn row(trace: &SurveyedTrace, finding: &Finding) -> Vec<String> {
    let Finding { reference_policies, exact, adaptive, .. } = finding;
    let hits = |touched: u64, missed: u64| show_ratio(touched - missed.min(touched), touched);
    let of_policy = |misses: &Misses| hits(misses.touched_blocks, misses.missed_blocks);
    let of_engine = |outcome: &Outcome| hits(outcome.touched_blocks, outcome.missed_blocks);
    let mut cells =
        vec![trace.name.clone(), finding.size.to_string(), show_bytes(finding.cache_blocks * BLOCK_SIZE)];
    cells.extend(reference_policies.iter().map(of_policy));
    cells.extend([
        of_engine(exact),
        format!("{:.2}", exact.written_per_byte()),
        of_engine(adaptive),
        format!("{:.2}", finding.origin_factor()),
    ]);
    cells
}

pub(crate) fn json(traces: &[SurveyedTrace], findings: &[Finding], scale: u64, notes: &[String]) -> Value {
    let of_trace = |(index, trace): (usize, &SurveyedTrace)| {
        let sizes: Vec<Value> =
            findings.iter().filter(|finding| finding.trace == index).map(of_size).collect();
        let survey = &trace.survey;
        json!({
            "name": trace.name, "format": survey.format.name(), "reads": survey.reads, "writes": survey.writes,
            "touched_blocks": survey.touches, "footprint_blocks": survey.footprint, "bad_lines": survey.bad_lines,
            "sizes": sizes,
        })
    };
    json!({ "scale": scale, "notes": notes, "traces": traces.iter().enumerate().map(of_trace).collect::<Vec<_>>() })
}

fn of_size(finding: &Finding) -> Value {
    let of_policy = |(name, misses): (&str, &Misses)| {
        (name.to_lowercase().replace('-', "_"), json!({ "missed_blocks": misses.missed_blocks }))
    };
    let reference_policies: serde_json::Map<String, Value> =
        reference_policy::NAMES.into_iter().zip(&finding.reference_policies).map(of_policy).collect();
    json!({
        "size": finding.size.to_string(), "cache_blocks": finding.cache_blocks,
        "reference_policies": reference_policies,
        "exact": of_engine(&finding.exact), "adaptive": of_engine(&finding.adaptive),
    })
}

fn of_engine(outcome: &Outcome) -> Value {
    json!({
        "miss_ratio": outcome.miss_ratio(), "written_per_byte": outcome.written_per_byte(),
        "touched_blocks": outcome.touched_blocks, "missed_blocks": outcome.missed_blocks,
        "admitted_blocks": outcome.admitted_blocks, "reinserted_blocks": outcome.reinserted_blocks,
        "cache_write_bytes": outcome.cache_write_bytes, "origin_read_bytes": outcome.origin_read_bytes,
    })
}
