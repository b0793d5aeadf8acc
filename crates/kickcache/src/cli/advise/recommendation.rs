//! Which candidate is worth its money, and why.

use kickcache_units::{show_duration, show_whole};

use crate::cli::advise::candidate::{Candidate, Layout};
use crate::cli::advise::need::Need;
use crate::cli::advise::price::Prices;

/// The part of the highest speed that is nearly as fast.
const NEARLY: f64 = 0.85;

/// A cache that is slower by more than this factor counts as slower, regardless of the other figures.
const SLOWER: f64 = 1.05;

/// The recommended candidate, and the reason in a sentence; `None` if no candidate meets the requirements.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Recommendation {
    /// Which candidate.
    pub(crate) chosen: Option<usize>,
    pub(crate) reason: String,
}

/// The cheapest candidate that meets the requirements; without requirements, the cheapest that is nearly as
/// fast as the fastest.
pub(crate) fn recommend(candidates: &[Candidate], needs: &[Need], prices: &Prices) -> Recommendation {
    let fastest = candidates.iter().map(Candidate::speed).fold(0.0, f64::max);
    let is_good = |candidate: &Candidate| match needs {
        [] => candidate.speed() >= NEARLY * fastest,
        _ => needs.iter().all(|need| need.is_met_by(candidate)),
    };
    let good = candidates.iter().enumerate().filter(|(_, candidate)| is_good(candidate));
    let chosen = good.min_by(|one, other| rank(one.1).total_cmp(&rank(other.1))).map(|(index, _)| index);
    let reason = match (chosen, needs) {
        (None, _) => none(candidates, needs),
        (Some(index), []) => nearly(&candidates[index], candidates, prices),
        (Some(index), _) => enough(&candidates[index], needs, prices),
    };
    Recommendation { chosen, reason }
}

/// Warnings before a purchase: caches that slow the load down, and an unknown life.
pub(crate) fn warnings(candidates: &[Candidate], needs: &[Need]) -> Vec<String> {
    let mut warnings = Vec::new();
    let bare = candidates.iter().find(|one| one.layout == Layout::Origin);
    let slower = |one: &&Candidate| {
        one.layout.cache_bytes().is_some() && bare.is_some_and(|bare| one.speed() < bare.speed() / SLOWER)
    };
    let slower: Vec<&Candidate> = candidates.iter().filter(slower).collect();
    if let (Some(bare), [first, ..]) = (bare, &slower[..]) {
        let names: Vec<String> = slower.iter().map(|one| one.name()).collect();
        warnings.push(format!(
            "slower than without a cache: {} (the first: {}; without: {})",
            names.join(", "),
            gives(first),
            gives(bare)
        ));
    }
    if needs.iter().any(|need| matches!(need, Need::Years(_))) {
        warnings.push(
            "how long the fast device lasts is not known, as --endurance is that of the cache device".into(),
        );
    }
    warnings
}

/// The cost of a candidate: money, or otherwise fast storage.
fn rank(candidate: &Candidate) -> f64 {
    candidate.cost.unwrap_or(match candidate.layout {
        Layout::Origin => 0.0,
        Layout::Cached(bytes) => bytes as f64,
        Layout::Fast => f64::MAX,
    })
}

fn costs(candidate: &Candidate, prices: &Prices) -> String {
    candidate.cost.map_or_else(String::new, |cost| format!(", {} a month", prices.show(cost)))
}

fn gives(candidate: &Candidate) -> String {
    let p99 = show_duration(candidate.p99);
    if candidate.is_open {
        format!("a mean latency of {}, p99 {p99}", show_duration(candidate.mean))
    } else {
        format!("{} IOPS, p99 {p99}", show_whole(candidate.iops))
    }
}

/// A text that begins a sentence.
pub(crate) fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

fn nearly(chosen: &Candidate, candidates: &[Candidate], prices: &Prices) -> String {
    let what = capital(&chosen.name());
    let itself = format!("{what}{}: {}", costs(chosen, prices), gives(chosen));
    let fastest = candidates.iter().max_by(|one, other| one.speed().total_cmp(&other.speed()));
    match fastest.filter(|fastest| fastest.layout != chosen.layout) {
        None => format!("{itself}; no other is faster."),
        Some(fastest) => format!(
            "{itself}, which is {:.0} % of the speed of the fastest ({}{}: {}).",
            chosen.speed() / fastest.speed() * 100.0,
            fastest.name(),
            costs(fastest, prices),
            gives(fastest)
        ),
    }
}

fn enough(chosen: &Candidate, needs: &[Need], prices: &Prices) -> String {
    let what = capital(&chosen.name());
    let least = if chosen.cost.is_some() { "cheapest" } else { "smallest" };
    format!("{what}{}: {}; the {least} with {}.", costs(chosen, prices), gives(chosen), listed(needs))
}

/// The table has the figures of each candidate; the sentence names the requirements that none meets.
fn none(candidates: &[Candidate], needs: &[Need]) -> String {
    let missing: Vec<Need> =
        needs.iter().copied().filter(|need| !candidates.iter().any(|one| need.is_met_by(one))).collect();
    if missing.is_empty() {
        return format!("None has all of {} together.", listed(needs));
    }
    let most = candidates.iter().map(|one| one.iops).fold(0.0, f64::max);
    let is_rate_given = candidates.iter().all(|one| one.is_open);
    let why = if is_rate_given && missing.iter().any(|need| matches!(need, Need::Iops(_))) {
        format!(
            " The load runs at its own times: the fastest does {} a second, and none can do more than the \
             load requests; use --depth N, or require a p99.",
            show_whole(most)
        )
    } else {
        String::new()
    };
    format!("None has {}.{why}", listed(&missing))
}

fn listed(needs: &[Need]) -> String {
    needs.iter().map(ToString::to_string).collect::<Vec<_>>().join(" and ")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn candidate(layout: Layout, iops: f64, cost: Option<f64>) -> Candidate {
        Candidate {
            layout,
            iops,
            mean: Duration::from_millis(1),
            p50: Duration::from_millis(1),
            p99: Duration::from_millis(5),
            hits: None,
            origin_iops: 0.0,
            origin_bytes: 0.0,
            written_per_day: None,
            years: None,
            cost,
            is_open: false,
        }
    }

    fn article() -> Vec<Candidate> {
        vec![
            candidate(Layout::Origin, 2_467.0, Some(3.07)),
            candidate(Layout::Cached(25_000_000_000), 5_286.0, Some(6.30)),
            candidate(Layout::Fast, 5_942.0, Some(12.90)),
        ]
    }

    fn prices() -> Prices {
        Prices { currency: "$".into(), ..Prices::default() }
    }

    #[test]
    fn the_articles_conclusion_follows_from_its_figures() {
        let found = recommend(&article(), &[], &prices());
        assert_eq!(found.chosen, Some(1));
        assert_eq!(
            found.reason,
            "Cache of 23.3 GiB, 6.30 $ a month: 5,286 IOPS, p99 5.00 ms, which is 89 % of the speed of the fastest (all \
             on the fast device, 12.90 $ a month: 5,942 IOPS, p99 5.00 ms)."
        );
    }

    #[test]
    fn the_cheapest_sufficient_candidate_is_chosen_or_none() {
        let chosen = |needs: &[Need]| recommend(&article(), needs, &prices()).chosen;
        assert_eq!(chosen(&[Need::Iops(2_000)]), Some(0));
        assert_eq!(chosen(&[Need::Iops(5_500)]), Some(2));
        assert_eq!(chosen(&[Need::Iops(5_500), Need::Cost(10.0)]), None);
        let none = recommend(&article(), &[Need::Iops(9_000), Need::Cost(10.0)], &prices());
        assert_eq!(none.reason, "None has at least 9,000 IOPS.");
        let paced: Vec<_> = article().into_iter().map(|one| Candidate { is_open: true, ..one }).collect();
        assert_eq!(
            recommend(&paced, &[Need::Iops(9_000)], &prices()).reason,
            "None has at least 9,000 IOPS. The load runs at its own times: the fastest does 5,942 a \
             second, and none can do more than the load requests; use --depth N, or require a p99."
        );
        let both = recommend(&article(), &[Need::Iops(5_500), Need::Cost(10.0)], &prices());
        assert_eq!(both.reason, "None has all of at least 5,500 IOPS and at most 10 a month together.");
    }

    #[test]
    fn a_cache_that_makes_it_slower_is_named() {
        let mut candidates = article();
        assert_eq!(warnings(&candidates, &[]), Vec::<String>::new());
        candidates[1].iops = 800.0;
        assert_eq!(
            warnings(&candidates, &[]),
            [
                "slower than without a cache: cache of 23.3 GiB (the first: 800 IOPS, p99 5.00 ms; without: 2,467 IOPS, p99 5.00 ms)"
            ]
        );
    }

    #[test]
    fn a_life_that_is_not_known_is_not_long_enough() {
        let mut candidates = article();
        candidates[1].years = Some(4.0);
        let years = [Need::Years(3.0), Need::Iops(5_500)];
        assert_eq!(recommend(&candidates, &years, &prices()).chosen, None);
        assert_eq!(recommend(&candidates, &years[..1], &prices()).chosen, Some(0));
        assert!(warnings(&candidates, &years)[0].starts_with("how long the fast device lasts is not known"));
    }

    #[test]
    fn without_prices_the_smallest_cache_is_the_cheapest() {
        let candidates = [
            candidate(Layout::Fast, 6_000.0, None),
            candidate(Layout::Cached(2 << 30), 5_900.0, None),
            candidate(Layout::Cached(1 << 30), 5_800.0, None),
        ];
        assert_eq!(recommend(&candidates, &[], &prices()).chosen, Some(2));
    }
}
