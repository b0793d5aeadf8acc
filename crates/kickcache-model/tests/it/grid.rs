//! A small grid: no figure of kickcache may get worse by more than a tenth and a slack. `UPDATE_EXPECT=1` stores the
//! figures of today.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use kickcache_engine::time::Duration;
use kickcache_model::device_model::device_file::built_in;
use kickcache_model::grid::case::Case;
use kickcache_model::grid::figures::Figures;
use kickcache_model::grid::set::GridSet;
use kickcache_model::grid::simulation::{JUDGED, Setup};
use kickcache_model::grid::verdict::{MEASURES, Measure};

const CASES: &str = include_str!("grid_cases.json");
const EXPECTED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/grid_expected.json");
const ACCESS_COST: Duration = Duration::from_micros(12);
/// Microseconds that a latency may be longer beyond a tenth.
const SLACK: f64 = 20.0;

type StoredFigures = BTreeMap<String, BTreeMap<String, f64>>;

fn figures(case: &Case) -> Figures {
    let device = |name: &str| built_in(name).expect("the cases name devices of the program");
    let (origin, cache_device) = (device(&case.origin), device(&case.cache_device));
    let setup =
        Setup { case: case.clone(), origin, cache_device, access_cost: ACCESS_COST, beginning_seconds: 0 };
    setup.figures(JUDGED, &mut |_| ()).expect("the cases can be simulated")
}

/// One decimal is enough: stored figures may get worse by a tenth.
fn round(figure: f64) -> f64 {
    (figure * 10.0).round() / 10.0
}

fn simulate(cases: &[Case]) -> StoredFigures {
    let (next, found) = (AtomicUsize::new(0), Mutex::new(StoredFigures::new()));
    let work = || {
        while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
            let figures = figures(case);
            let of_measure = |measure: Measure| Some((measure.to_string(), round(measure.of(&figures)?)));
            let stored = MEASURES.into_iter().filter_map(of_measure).collect();
            found.lock().expect("no thread panics").insert(case.to_string(), stored);
        }
    };
    std::thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(work))));
    found.into_inner().expect("no thread panics")
}

fn limit(measure: Measure, stored: f64) -> f64 {
    match measure {
        Measure::Iops | Measure::Hits => stored * 0.9,
        Measure::Latency(..) => stored * 1.1 + SLACK,
        Measure::Written => stored * 1.1 + 0.1,
    }
}

fn worse(found: &StoredFigures, expected: &StoredFigures) -> Vec<String> {
    let mut worse = Vec::new();
    for (case, figures) in expected {
        for measure in MEASURES {
            let name = measure.to_string();
            let Some(stored) = figures.get(&name).copied() else { continue };
            let limit = limit(measure, stored);
            let now = found.get(case).and_then(|figures| figures.get(&name)).copied();
            let is_within = |now: f64| if measure.grows() { now >= limit } else { now <= limit };
            if !now.is_some_and(is_within) {
                worse.push(format!("{case}: {name} {now:?} for {stored}"));
            }
        }
    }
    worse
}

#[test]
fn no_small_grid_figure_is_worse_by_a_tenth() {
    let cases = GridSet::parse(CASES).unwrap().cases;
    let found = simulate(&cases);
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        let text = serde_json::to_string_pretty(&found).unwrap();
        return std::fs::write(EXPECTED, text + "\n").unwrap();
    }
    let expected: StoredFigures = serde_json::from_str(&std::fs::read_to_string(EXPECTED).unwrap()).unwrap();
    assert_eq!(expected.len(), cases.len(), "UPDATE_EXPECT=1 stores the figures of new cases");
    let worse = worse(&found, &expected);
    assert!(worse.is_empty(), "worse by a tenth:\n{}", worse.join("\n"));
}

#[test]
fn figure_worse_by_more_than_a_tenth_is_found() {
    let stored = |iops: f64, p99: f64| {
        let figures = [("IOPS".to_owned(), iops), ("reads p99".to_owned(), p99)];
        StoredFigures::from([("case".to_owned(), BTreeMap::from(figures))])
    };
    let expected = stored(1_000.0, 1_000.0);
    assert!(worse(&stored(901.0, 1_119.0), &expected).is_empty());
    assert_eq!(worse(&stored(899.0, 1_121.0), &expected).len(), 2);
    assert_eq!(worse(&StoredFigures::new(), &expected).len(), 2);
}
