//! Advice as a page.

use kickcache_model::result::RunResult;
use kickcache_report::{Collection, Group, Overview, OverviewRow};
use kickcache_units::{show_duration, show_years};

use crate::cli::advise::advice::Advice;
use crate::cli::advise::candidate::Candidate;
use crate::cli::advise::print::show_hits;
use crate::cli::advise::recommendation::capital;

pub(super) fn page(advice: &Advice, runs: &[RunResult]) -> String {
    let Advice { load, origin, cache, fast, .. } = advice;
    let introduction = format!(
        "{load}. Origin: {origin}. Cache device: {cache}. Fast device: {fast}. Runs are simulated in virtual time; caches are \
         empty at first."
    );
    let answer = [advice.recommendation.reason.clone()];
    let runs: Vec<RunResult> = named(advice, runs);
    let group =
        Group { title: "All layouts".into(), note: String::new(), runs: (0..runs.len()).collect(), first: 0 };
    Collection {
        title: "Which cache to buy",
        introduction: &introduction,
        answer: &answer,
        overviews: &[overview(advice)],
        groups: &[group],
        runs: &runs,
    }
    .html()
}

/// Runs without a cache get the names of their candidates, because both bare devices would have the same name.
fn named(advice: &Advice, runs: &[RunResult]) -> Vec<RunResult> {
    let repeat = (runs.len() / advice.candidates.len().max(1)).max(1);
    let of_candidate = advice.candidates.iter().zip(runs.chunks(repeat));
    let rename = |(candidate, runs): (&Candidate, &[RunResult])| {
        let name = candidate.name();
        let bare = candidate.layout.cache_bytes().is_none();
        let of = move |run: &RunResult| RunResult {
            name: if bare { name.clone() } else { run.name.clone() },
            ..run.clone()
        };
        runs.iter().map(of).collect::<Vec<_>>()
    };
    of_candidate.flat_map(rename).collect()
}

const OVERVIEW_NOTE: &str = "Operations a second of the load, and of the origin (of the fast device if it has all data); marks are on \
                             a logarithmic scale.";

fn overview(advice: &Advice) -> Overview {
    let notes = advice.notes.iter().map(|note| format!("{}.", capital(note)));
    let row = |candidate: &Candidate| OverviewRow {
        name: candidate.name(),
        note: note(candidate, advice),
        figures: vec![Some(candidate.iops), Some(candidate.origin_iops).filter(|rate| *rate > 0.0)],
        group: None,
    };
    Overview {
        heading: "Costs and figures of each candidate".into(),
        note: std::iter::once(OVERVIEW_NOTE.to_owned()).chain(notes).collect::<Vec<String>>().join(" "),
        series: vec!["load".into(), "origin".into()],
        measure: 0,
        rows: advice.candidates.iter().map(row).collect(),
    }
}

fn note(candidate: &Candidate, advice: &Advice) -> String {
    let parts = [
        candidate.cost.map(|cost| format!("cost {} a month", advice.prices.show(cost))),
        Some(format!("mean {}", show_duration(candidate.mean))).filter(|_| candidate.is_open),
        candidate.hits.map(|hits| format!("hits {}", show_hits(hits.ratio, hits.error))),
        Some(format!("p99 {}", show_duration(candidate.p99))),
        candidate.years.map(|life| format!("lasts {}", show_years(life))),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}
