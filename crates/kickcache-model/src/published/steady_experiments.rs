//! The experiments with skewed reads in steady state: hit ratios of caches, and the fills and writes of
//! kickcache.

use crate::published::experiment::{Column, Experiment, Figure, Series, Table};
use crate::published::simulation::{Outcomes, Simulation};
use crate::published::steady::{ROWS, SteadyRow};

pub fn table() -> Table {
    Table {
        key: "steady",
        caption: Some("Reads of 4 KiB, zipf 1.2 over 1 GiB, in steady state, hits and fills for each read:"),
        names: "row",
        heading: "Skewed reads in steady state",
        note: "Misses among a million reads of zipf 1.2, with room for a part of the data, and their \
               ratio to the misses of LRU; the best choice always holds the most popular blocks.",
        series: &[
            Series { name: "LRU", key: "lru_hits" },
            Series { name: "S3-FIFO", key: "s3_fifo_hits" },
            Series { name: "kickcache", key: "kickcache.hits" },
            Series { name: "best choice", key: "ideal_hits" },
        ],
        experiments: ROWS.into_iter().map(experiment).collect(),
    }
}

fn experiment(row: SteadyRow) -> Experiment {
    Experiment {
        name: format!("zipf-1.2-cache-1/{}", row.part),
        mark: String::new(),
        note: format!("required of kickcache: {:.0}", (1.0 - row.asked_hits) * 1_000_000.0),
        run: vec![Simulation::Steady(row)],
        // The rows are counts without times, for which no chart is drawn.
        charts: None,
        columns: Box::new(move |outcomes| columns(row, outcomes)),
    }
}

fn columns(row: SteadyRow, outcomes: &Outcomes) -> Vec<Column> {
    let found = outcomes.counted(row);
    let part = |number: Option<f64>| Figure::of(number, Figure::PartOfReads);
    let lru = found.map(|found| found.lru);
    let written = found.map(|found| found.written);
    vec![
        Column::new("best choice", "ideal_hits", part(found.map(|found| found.ideal))),
        Column::new("LRU", "lru_hits", part(lru)),
        // LRU fills as often as it misses.
        Column::derived("fills", part(lru.map(|hits| 1.0 - hits))),
        Column::new("S3-FIFO", "s3_fifo_hits", part(found.map(|found| found.s3_fifo))),
        Column::new("kickcache", "kickcache.hits", part(found.map(|found| found.hits))),
        Column::new("asked", "asked.hits", Figure::Asked(row.asked_hits)),
        Column::new("fills", "kickcache.fills_per_read", part(found.map(|found| found.fills))),
        Column::new("asked", "asked.fills_per_read", Figure::of(row.asked_fills, Figure::AtMost)),
        Column::untold("kickcache.written_per_byte_read", Figure::of(written, Figure::Ratio)),
    ]
}
