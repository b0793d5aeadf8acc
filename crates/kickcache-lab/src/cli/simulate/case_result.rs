//! A case of the grid with the figures of all caches, as it is printed and stored.

use std::collections::BTreeMap;

use kickcache_model::grid::case::Case;
use kickcache_model::grid::figures::Figures;
use kickcache_model::grid::verdict::Comparison;
use serde::Serialize;

#[derive(Debug, Serialize)]
pub(crate) struct CaseResult {
    pub(crate) case: Case,
    /// The figures by the name of the cache.
    pub(crate) got: BTreeMap<&'static str, Figures>,
    /// The bounds that are missed, a sentence each.
    pub(crate) misses: Vec<String>,
    #[serde(skip)]
    pub(crate) comparisons: Vec<Comparison>,
}
