//! Which candidate is worth its money, and why.

use kickcache_units::{show_duration, show_whole};

use crate::cli::advise::candidate::{Candidate, Layout};
use crate::cli::advise::knee::{DOUBLING_GAIN_MIN, Knee, knee};
use crate::cli::advise::need::Need;
use crate::cli::advise::price::Prices;

/// A candidate with this part of the highest speed, or more, counts as nearly as fast.
const NEARLY: f64 = 0.85;

/// The least rise of the p99 that is explained, as a factor.
const P99_RISE: f64 = 1.2;

/// A cache pays only if the fastest one has at least this many times the speed without a cache.
const PAYS: f64 = 1.1;

/// The least hit ratio that needs no note on missing larger caches.
const ENOUGH_HITS: f64 = 0.95;

/// A faster cache than the recommended one is mentioned from this factor on.
const MUCH_FASTER: f64 = 2.0;

const NO_SMALLER: &str = " No smaller cache was simulated.";

/// A cache that is slower than the origin alone by more than this factor gets a warning.
const SLOWER: f64 = 1.05;

/// The recommended candidate, if there is one, and the reason.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Recommendation {
    pub(crate) chosen: Option<usize>,
    pub(crate) reason: String,
}

pub(crate) fn recommend(candidates: &[Candidate], needs: &[Need], prices: &Prices) -> Recommendation {
    if needs.is_empty() {
        return without_needs(candidates, prices);
    }
    let is_good = |candidate: &Candidate| needs.iter().all(|need| need.is_met_by(candidate));
    let chosen = cheapest(candidates, is_good);
    let reason = match chosen {
        None => none(candidates, needs),
        Some(index) => enough(&candidates[index], needs, prices),
    };
    Recommendation { chosen, reason }
}

fn cheapest(candidates: &[Candidate], is_good: impl Fn(&Candidate) -> bool) -> Option<usize> {
    let good = candidates.iter().enumerate().filter(|(_, candidate)| is_good(candidate));
    good.min_by(|one, other| rank(one.1).total_cmp(&rank(other.1))).map(|(index, _)| index)
}

fn without_needs(candidates: &[Candidate], prices: &Prices) -> Recommendation {
    let find = |layout: Layout| candidates.iter().position(|one| one.layout == layout);
    let speed = |index: usize| candidates[index].speed();
    let caches = (0..candidates.len()).filter(|index| candidates[*index].layout.cache_bytes().is_some());
    let best = caches.max_by(|one, other| speed(*one).total_cmp(&speed(*other)));
    if let (Some(bare), Some(best)) = (find(Layout::Origin), best)
        && speed(best) < PAYS * speed(bare)
    {
        let reason = does_not_pay(&candidates[bare], &candidates[best]);
        return Recommendation { chosen: Some(bare), reason };
    }
    let Some(knee) = knee(candidates) else {
        let fastest = candidates.iter().map(Candidate::speed).fold(0.0, f64::max);
        let chosen = cheapest(candidates, |one| one.speed() >= NEARLY * fastest);
        let reason = chosen.map_or_else(String::new, |index| nearly(&candidates[index], candidates, prices));
        return Recommendation { chosen, reason };
    };
    let chosen = &candidates[knee.index];
    let cheaper = find(Layout::Fast).filter(|fast| {
        let costs = candidates[*fast].cost.zip(chosen.cost);
        costs.is_some_and(|(fast, cached)| fast <= cached) && speed(*fast) >= chosen.speed()
    });
    match cheaper {
        Some(fast) => {
            let [fast_text, cache_text] = [&candidates[fast], chosen]
                .map(|one| format!("{}{}: {}", one.name(), costs(one, prices), gives(one)));
            let reason = format!("{}, which costs no more than a {cache_text}.", capital(&fast_text));
            Recommendation { chosen: Some(fast), reason }
        }
        None => Recommendation { chosen: Some(knee.index), reason: at_knee(knee, candidates, prices) },
    }
}

fn does_not_pay(bare: &Candidate, best: &Candidate) -> String {
    format!(
        "A cache does not pay: the fastest ({}) has {:.2} times the speed without one ({}; without: {}).",
        best.name(),
        best.times(bare),
        gives(best),
        gives(bare)
    )
}

fn at_knee(knee: Knee, candidates: &[Candidate], prices: &Prices) -> String {
    let chosen = &candidates[knee.index];
    let bare = Layout::Origin.among(candidates);
    let times = |one: &Candidate| {
        bare.map_or_else(String::new, |bare| {
            format!(", {:.1} times the speed without a cache", one.times(bare))
        })
    };
    let figures = |one: &Candidate| {
        let hits = one.hits.map_or_else(String::new, |hits| format!("{:.1} % hits, ", hits.ratio * 100.0));
        format!("{}: {hits}{}{}.", costs(one, prices), gives(one), times(one))
    };
    let first = format!("{}{}", capital(&chosen.name()), figures(chosen));
    let more = match knee.gain {
        Some(gain) => format!(
            " A larger cache adds at most {:.1} points of hit ratio for each doubling, fewer than the {:.0} for which it is \
             recommended, at any price.",
            gain.max(0.0) * 100.0,
            DOUBLING_GAIN_MIN * 100.0
        ),
        None if chosen.hits.is_some_and(|hits| hits.ratio < ENOUGH_HITS) => {
            " No larger cache was simulated: give larger sizes with --size.".into()
        }
        None => String::new(),
    };
    let fast = Layout::Fast.among(candidates);
    let fast = fast.map_or_else(String::new, |fast| format!(" {}{}", capital(&fast.name()), figures(fast)));
    let cached = |one: &&Candidate| one.layout.cache_bytes().is_some();
    let larger = candidates.iter().filter(|one| one.layout.cache_bytes() > chosen.layout.cache_bytes());
    let fastest = larger.max_by(|one, other| one.speed().total_cmp(&other.speed()));
    let faster = fastest.filter(|one| one.speed() >= MUCH_FASTER * chosen.speed());
    let faster = faster.map_or_else(String::new, |one| {
        format!(" The fastest cache is much faster: {}{}", one.name(), figures(one))
    });
    let is_least =
        candidates.iter().filter(cached).all(|one| one.layout.cache_bytes() >= chosen.layout.cache_bytes());
    let less = if is_least && candidates.iter().filter(cached).count() > 1 { NO_SMALLER } else { "" };
    format!("{first}{more}{less}{faster}{fast}")
}

/// Warnings before a purchase.
pub(crate) fn warnings(candidates: &[Candidate], needs: &[Need]) -> Vec<String> {
    let mut warnings = Vec::new();
    let bare = Layout::Origin.among(candidates);
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
    warnings.extend(rising_p99(candidates));
    if needs.iter().any(|need| matches!(need, Need::Years(_))) {
        warnings.push(
            "how long the fast device lasts is not known, as --endurance is that of the cache device".into(),
        );
    }
    warnings
}

/// Explains the first p99 that is more than [`P99_RISE`] times that of the next smaller cache.
fn rising_p99(candidates: &[Candidate]) -> Option<String> {
    let mut caches: Vec<&Candidate> =
        candidates.iter().filter(|one| one.layout.cache_bytes().is_some()).collect();
    caches.sort_by_key(|one| one.layout.cache_bytes());
    let rise = caches.windows(2).find(|pair| pair[1].p99 > pair[0].p99.mul_f64(P99_RISE))?;
    Some(format!(
        "p99 rises from {} ({}) to {} ({}): among the slowest 1 in 100 requests are only misses and waits for the devices, and \
         fewer misses do not shorten the longest; compare the means",
        show_duration(rise[0].p99),
        rise[0].name(),
        show_duration(rise[1].p99),
        rise[1].name()
    ))
}

/// The cost of a candidate, or a substitute if it is unknown.
fn rank(candidate: &Candidate) -> f64 {
    candidate.cost.unwrap_or(match candidate.layout {
        Layout::Origin => 0.0,
        Layout::Cached(bytes) => bytes as f64,
        Layout::Fast => f64::MAX,
    })
}

fn costs(candidate: &Candidate, prices: &Prices) -> String {
    candidate.cost.map_or_else(String::new, |cost| format!(", cost {} a month", prices.show(cost)))
}

fn gives(candidate: &Candidate) -> String {
    let p99 = show_duration(candidate.p99);
    if candidate.is_open {
        format!("a mean latency of {}, p99 {p99}", show_duration(candidate.mean))
    } else {
        format!("{} IOPS, p99 {p99}", show_whole(candidate.iops))
    }
}

/// The text with a capital first letter.
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
    use crate::cli::advise::candidate::Hits;
    use crate::cli::advise::candidate::tests::candidate;

    fn cached(bytes: u64, iops: f64, ratio: f64) -> Candidate {
        let hits = Some(Hits { ratio, error: None });
        Candidate { hits, ..candidate(Layout::Cached(bytes), iops, Some(6.30)) }
    }

    fn article() -> Vec<Candidate> {
        vec![
            candidate(Layout::Origin, 2_467.0, Some(3.07)),
            cached(25_000_000_000, 5_286.0, 0.999),
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
            "Cache of 23.3 GiB, cost 6.30 $ a month: 99.9 % hits, 5,286 IOPS, p99 5.00 ms, 2.1 times the speed without a cache. All on the \
             fast device, cost 12.90 $ a month: 5,942 IOPS, p99 5.00 ms, 2.4 times the speed without a cache."
        );
    }

    #[test]
    fn the_smallest_cache_before_little_gain_is_chosen() {
        let disk = |ratios: [f64; 3]| {
            let [bare, fast] =
                [candidate(Layout::Origin, 150.0, None), candidate(Layout::Fast, 90_000.0, None)];
            let caches = [25, 51, 127].into_iter().zip(ratios);
            let caches = caches.map(|(mib, ratio)| cached(mib << 20, 150.0 / (1.0 - ratio), ratio));
            let all: Vec<Candidate> = [bare].into_iter().chain(caches).chain([fast]).collect();
            recommend(&all, &[], &prices())
        };
        let found = disk([0.77, 0.80, 0.83]);
        assert_eq!(found.chosen, Some(1), "not the fast device, which is always faster: {}", found.reason);
        assert!(
            found.reason.contains(
                "A larger cache adds at most 2.9 points of hit ratio for each doubling, fewer than the 10 for which it is \
                 recommended, at any price."
            ),
            "{}",
            found.reason
        );
        assert_eq!(disk([0.5, 0.7, 0.75]).chosen, Some(2));
        let rising = disk([0.3, 0.5, 0.8]);
        assert!(
            rising.chosen == Some(3) && rising.reason.contains("No larger cache was simulated"),
            "{}",
            rising.reason
        );
    }

    /// The hit ratio decides the size; the administrator decides whether the speed is worth the price.
    #[test]
    fn a_larger_cache_with_much_more_speed_is_mentioned() {
        let all = |largest: f64| {
            let bare = candidate(Layout::Origin, 150.0, None);
            let caches = [cached(16 << 20, 435.0, 0.777), cached(32 << 20, 450.0, 0.781)];
            [bare].into_iter().chain(caches).chain([cached(256 << 20, largest, 0.97)]).collect::<Vec<_>>()
        };
        let found = recommend(&all(1_770.0), &[], &prices());
        assert_eq!(found.chosen, Some(1));
        assert_eq!(
            found.reason,
            "Cache of 16 MiB, cost 6.30 $ a month: 77.7 % hits, 435 IOPS, p99 5.00 ms, 2.9 times the speed without a cache. A larger \
             cache adds at most 4.8 points of hit ratio for each doubling, fewer than the 10 for which it is recommended, at any \
             price. No smaller cache was simulated. The fastest cache is much faster: cache of 256 MiB, cost 6.30 $ a month: 97.0 % \
             hits, 1,770 IOPS, p99 5.00 ms, 11.8 times the speed without a cache."
        );
        assert!(!recommend(&all(860.0), &[], &prices()).reason.contains("much faster"));
    }

    #[test]
    fn a_cache_that_is_hardly_faster_does_not_pay() {
        let all = [
            candidate(Layout::Origin, 1_000.0, None),
            cached(1 << 30, 1_050.0, 0.9),
            candidate(Layout::Fast, 2_000.0, None),
        ];
        let found = recommend(&all, &[], &prices());
        assert_eq!(found.chosen, Some(0));
        let expected = "A cache does not pay: the fastest (cache of 1 GiB) has 1.05 times the speed without one (1,050 IOPS, p99 5.00 ms; \
                        without: 1,000 IOPS, p99 5.00 ms).";
        assert_eq!(found.reason, expected);
    }

    #[test]
    fn a_cheaper_and_faster_device_is_preferred() {
        let mut all = article();
        all[2].cost = Some(5.0);
        let found = recommend(&all, &[], &prices());
        assert_eq!(found.chosen, Some(2), "{}", found.reason);
    }

    #[test]
    fn a_p99_that_rises_with_the_size_is_explained() {
        let mut all = [cached(1 << 20, 1_000.0, 0.7), cached(2 << 20, 1_100.0, 0.8)];
        assert_eq!(warnings(&all, &[]), Vec::<String>::new());
        all[1].p99 = Duration::from_millis(7);
        assert!(
            warnings(&all, &[])[0]
                .starts_with("p99 rises from 5.00 ms (cache of 1 MiB) to 7.00 ms (cache of 2 MiB): ")
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
        assert_eq!(
            both.reason,
            "None has all of at least 5,500 IOPS and a cost of at most 10 a month together."
        );
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
