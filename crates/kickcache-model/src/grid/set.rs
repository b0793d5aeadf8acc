//! Sets of cases: groups of lists, in which every combination of a group is a case, and the bounds of all cases.

use serde::Deserialize;

use crate::grid::case::Case;
use crate::grid::verdict::Bounds;

pub const DEFAULT: &str = include_str!("cases.json");

#[derive(Clone, PartialEq, Debug)]
pub struct GridSet {
    /// The part of the cases that must be within all bounds.
    pub share: f64,
    pub bounds: Bounds,
    pub cases: Vec<Case>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    share: f64,
    bounds: Bounds,
    groups: Vec<Group>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum Values<T> {
    One(T),
    Many(Vec<T>),
}

impl<T> Values<T> {
    fn list(&self) -> &[T] {
        match self {
            Values::One(value) => std::slice::from_ref(value),
            Values::Many(values) => values,
        }
    }
}

/// Lists of values; a case has one value of each list.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Group {
    origin: Values<String>,
    cache_device: Values<String>,
    reads: Values<u64>,
    separate: Values<bool>,
    distribution: Values<String>,
    bs: Values<String>,
    rate: Values<u64>,
    data: Values<String>,
    cache: Values<String>,
    fsync: Values<u64>,
    depth: Values<u64>,
    seed: Values<u64>,
    seconds: Values<u64>,
}

impl Default for Group {
    fn default() -> Group {
        let case = Case::default();
        Group {
            origin: Values::One(case.origin),
            cache_device: Values::One(case.cache_device),
            reads: Values::One(case.reads),
            separate: Values::One(case.separate),
            distribution: Values::One(case.distribution),
            bs: Values::One(case.bs),
            rate: Values::One(case.rate),
            data: Values::One(case.data),
            cache: Values::One(case.cache),
            fsync: Values::One(case.fsync),
            depth: Values::One(case.depth),
            seed: Values::One(case.seed),
            seconds: Values::One(case.seconds),
        }
    }
}

impl GridSet {
    /// # Errors
    /// A sentence if the text is no set of cases, or a case makes no sense.
    pub fn parse(text: &str) -> Result<GridSet, String> {
        let File { share, bounds, groups } = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let cases: Vec<Case> = groups.iter().flat_map(Group::cases).collect();
        if cases.is_empty() {
            return Err("no case was found; one group with cases was expected at least".into());
        }
        for case in &cases {
            case.check().map_err(|error| format!("{case}: {error}"))?;
        }
        Ok(GridSet { share, bounds, cases })
    }
}

fn each<T: Clone>(cases: &[Case], values: &Values<T>, set: impl Fn(&mut Case, T)) -> Vec<Case> {
    let with = |case: &Case, value: &T| {
        let mut case = case.clone();
        set(&mut case, value.clone());
        case
    };
    cases.iter().flat_map(|case| values.list().iter().map(move |value| with(case, value))).collect()
}

impl Group {
    fn cases(&self) -> Vec<Case> {
        let mut cases = each(&[Case::default()], &self.origin, |case, value| case.origin = value);
        cases = each(&cases, &self.cache_device, |case, value| case.cache_device = value);
        cases = each(&cases, &self.reads, |case, value| case.reads = value);
        cases = each(&cases, &self.separate, |case, value| case.separate = value);
        cases = each(&cases, &self.distribution, |case, value| case.distribution = value);
        cases = each(&cases, &self.bs, |case, value| case.bs = value);
        cases = each(&cases, &self.rate, |case, value| case.rate = value);
        cases = each(&cases, &self.data, |case, value| case.data = value);
        cases = each(&cases, &self.cache, |case, value| case.cache = value);
        cases = each(&cases, &self.fsync, |case, value| case.fsync = value);
        cases = each(&cases, &self.depth, |case, value| case.depth = value);
        cases = each(&cases, &self.seed, |case, value| case.seed = value);
        each(&cases, &self.seconds, |case, value| case.seconds = value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: &str = r#""share": 0.95, "bounds": {"iops": 0.97, "mean": 1.05, "p99": 1.2, "p99.9": 1.5, "first minute": 2.0,
        "slack_us": 20, "hits": 0.5, "written": 2.2, "written, paced": 3.2}"#;

    #[test]
    fn every_combination_of_a_group_is_a_case() {
        assert_eq!(GridSet::parse(DEFAULT).unwrap().cases.len(), 114);
        let text =
            format!(r#"{{{BOUNDS}, "groups": [{{"reads": [0, 70], "cache": ["8M", "32M"], "rate": 100}}]}}"#);
        let cases = GridSet::parse(&text).unwrap().cases;
        let found: Vec<_> = cases.iter().map(|case| (case.reads, case.cache.as_str(), case.rate)).collect();
        assert_eq!(found, [(0, "8M", 100), (0, "32M", 100), (70, "8M", 100), (70, "32M", 100)]);
    }

    #[test]
    fn wrong_sets_are_refused_with_a_sentence() {
        let error =
            |groups: &str| GridSet::parse(&format!("{{{BOUNDS}, \"groups\": [{groups}]}}")).unwrap_err();
        assert!(error("").contains("no case"));
        assert!(error(r#"{"raeds": 70}"#).contains("raeds"));
        assert!(error(r#"{"reads": 101}"#).contains("0 to 100"));
        assert!(error(r#"{"cache": "big"}"#).contains("size"));
        assert!(error(r#"{"distribution": "zipf:x"}"#).contains("zipf"));
        assert!(error(r#"{"seconds": 0}"#).contains("seconds"));
    }
}
