//! The rows of skewed reads in steady state, as tables and JSON.

use kickcache_model::published::steady::{Steady, SteadyRow};
use serde_json::{Value, json};

/// A row with what was counted.
pub(crate) struct SteadyLine {
    pub(crate) row: SteadyRow,
    pub(crate) found: Steady,
}

pub(crate) const HEADINGS: [&str; 9] =
    ["row", "best choice", "LRU", "fills", "S3-FIFO", "kickcache", "asked", "fills", "asked"];

/// What `--only` looks for.
pub(crate) fn name_of(row: &SteadyRow) -> String {
    format!("zipf-1.2-cache-1/{}", row.part)
}

pub(crate) fn cells(line: &SteadyLine) -> Vec<String> {
    let SteadyLine { row, found } = line;
    let hits = |hits: f64| format!("{hits:.4}");
    let asked = row.asked_fills.map_or_else(|| "-".into(), |fills| format!("at most {fills}"));
    vec![
        name_of(row),
        hits(found.ideal),
        hits(found.lru),
        hits(1.0 - found.lru),
        hits(found.s3_fifo),
        hits(found.hits),
        row.asked_hits.to_string(),
        hits(found.fills),
        asked,
    ]
}

pub(crate) fn to_json(line: &SteadyLine) -> Value {
    let SteadyLine { row, found } = line;
    json!({
        "name": name_of(row),
        "ideal_hits": found.ideal,
        "lru_hits": found.lru,
        "s3_fifo_hits": found.s3_fifo,
        "kickcache": {
            "hits": found.hits,
            "fills_per_read": found.fills,
            "written_per_byte_read": found.written,
        },
        "asked": { "hits": row.asked_hits, "fills_per_read": row.asked_fills },
    })
}
