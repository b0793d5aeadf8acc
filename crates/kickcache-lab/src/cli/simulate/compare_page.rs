//! The page of `kickcache simulate run` and `compare`.

use kickcache_model::cache_model::cache_kind::CacheKind;
use kickcache_model::result::RunResult;
use kickcache_report::{Collection, Group, Overview, OverviewRow, Report};
use kickcache_units::{Size, show_bytes};

use crate::cli::simulate::compared_runs::ComparedRuns;
use crate::cli::simulate::setup_names::SetupNames;

pub(crate) fn page(names: &SetupNames, kinds: &[ComparedRuns<'_>], runs: &[RunResult]) -> String {
    let SetupNames { load, origin, cache } = names;
    let title = "Simulated caches";
    let introduction = format!(
        "{load}. Origin: {origin}. Cache device: {cache}. Both are models in virtual time; caches are empty at first."
    );
    let sizes = sizes(kinds);
    if sizes.len() < 2 {
        return Report { title, introduction: &introduction, runs }.html();
    }
    let groups: Vec<Group> = sizes.iter().map(|size| group(*size, kinds)).collect();
    let overviews = [overview(&sizes, kinds)];
    let answer = kickcache_report::headline(runs);
    Collection {
        title,
        introduction: &introduction,
        answer: &answer,
        overviews: &overviews,
        groups: &groups,
        runs,
    }
    .html()
}

fn sizes(kinds: &[ComparedRuns<'_>]) -> Vec<Size> {
    let mut sizes: Vec<Size> = kinds.iter().filter_map(|kind| kind.size).collect();
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

/// The runs that are compared for a size.
fn group(size: Size, kinds: &[ComparedRuns<'_>]) -> Group {
    let mut runs = Vec::new();
    let mut first = 0;
    for kind in kinds {
        if kind.size.is_none_or(|own| own == size) {
            runs.extend(first..first + kind.runs.len());
        }
        first += kind.runs.len();
    }
    Group { title: format!("Caches of {}", show_bytes(size.bytes())), note: String::new(), runs, first: 0 }
}

fn overview(sizes: &[Size], kinds: &[ComparedRuns<'_>]) -> Overview {
    let mut caches: Vec<CacheKind> = Vec::new();
    for kind in kinds {
        if !caches.contains(&kind.cache) {
            caches.push(kind.cache);
        }
    }
    let find = |cache: CacheKind, size: Size| {
        let is_meant =
            |kind: &&ComparedRuns<'_>| kind.cache == cache && kind.size.is_none_or(|own| own == size);
        kinds.iter().find(is_meant).map(|kind| kind.median(RunResult::iops))
    };
    let row = |(group, size): (usize, &Size)| OverviewRow {
        name: show_bytes(size.bytes()),
        note: String::new(),
        figures: caches.iter().map(|cache| find(*cache, *size)).collect(),
        group: Some(group),
    };
    let name = |cache: &CacheKind| {
        if *cache == CacheKind::None { "no cache".into() } else { cache.name().to_owned() }
    };
    Overview {
        heading: "Results".into(),
        note: "Reads and writes a second by size of the cache: medians, and their ratios to the first \
               column (above: round by round); marks are on a logarithmic scale."
            .into(),
        series: caches.iter().map(name).collect(),
        measure: 0,
        rows: sizes.iter().enumerate().map(row).collect(),
    }
}
