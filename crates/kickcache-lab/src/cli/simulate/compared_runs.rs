//! Runs that differ in their seed only.

use kickcache_model::cache_model::cache_kind::CacheKind;
use kickcache_model::result::RunResult;
use kickcache_units::Size;

pub(crate) struct ComparedRuns<'a> {
    pub(crate) cache: CacheKind,
    /// The size of the cache; `None` without a cache.
    pub(crate) size: Option<Size>,
    pub(crate) runs: &'a [RunResult],
}

impl ComparedRuns<'_> {
    /// The median of a figure of the runs; 0 if there is none.
    pub(crate) fn median(&self, figure: impl Fn(&RunResult) -> f64) -> f64 {
        median(self.runs.iter().map(figure).collect()).unwrap_or(0.0)
    }

    /// The median of a figure over the runs that have it.
    pub(crate) fn median_of_known(&self, figure: impl Fn(&RunResult) -> Option<f64>) -> Option<f64> {
        median(self.runs.iter().filter_map(figure).collect())
    }
}

fn median(mut numbers: Vec<f64>) -> Option<f64> {
    numbers.sort_by(f64::total_cmp);
    numbers.get(numbers.len() / 2).copied()
}
