//! The kept data, its age, and its transfer to the page.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::PAGE;
use super::document::Curves;
use super::history::{COARSE_COUNT, COLUMN_COUNT, FINE_COUNT, Subject, Tracks};
use super::view::LiveView;
use crate::latency::Latencies;
use crate::metrics::scrape::Scrape;

/// A daemon after this many seconds of 10 hits of 2 ms and 5 write requests a second, each a block.
fn scrape(seconds: u64, mode: &str) -> Scrape {
    let mut latencies = Latencies::default();
    latencies.hits.counts[7] = 10 * seconds;
    latencies.hits.total_nanos = 10 * seconds * 2_000_000;
    latencies.writes.counts[7] = 5 * seconds;
    let volume = json!({
        "name": "vm1</script>", "origin": "nbd://a/vm1", "nbd": [], "mode": mode, "size_bytes": 1 << 30, "cached_bytes": 8192,
        "dirty_bytes": 4096 * seconds, "unflushed_bytes": 0, "fill_window_bytes": 0, "requests_in_flight": 0,
        "latencies": latencies,
        "lru_curve": {"points": [{"cache_bytes": 16_777_216, "hit_ratio": 0.5, "error": 0.01}]},
        "counters": {"hit_blocks": 10 * seconds, "origin_errors": seconds / 3},
    });
    let cache = json!({
        "device": "/nowhere/fast", "health": "good", "capacity_bytes": 1 << 20, "segments": 8, "free_segments": 2,
        "probation_bytes": 0, "probation_target_bytes": 0, "main_bytes": 0, "memory_bytes": 0,
        "counters": {"write_bytes": 512 * seconds}, "volumes": [volume],
    });
    let report = json!({"version": "0.1.0", "pid": 1, "uptime_seconds": seconds, "io_engine": "auto", "caches": [cache]});
    Scrape { report: serde_json::from_value(report).unwrap(), silent: Vec::new() }
}

fn view(seconds: u64) -> LiveView {
    let began = Instant::now();
    let mut view = LiveView::new(began);
    (0..=seconds).for_each(|second| {
        view.take(began + Duration::from_secs(second), Some(scrape(second, "write-back")));
    });
    view
}

fn document(view: &LiveView, since: u64, curves: Curves) -> Value {
    serde_json::from_str(&view.document(since, curves)).unwrap()
}

#[test]
fn each_second_has_its_row_and_five_minutes_have_one() {
    let view = view(610);
    let document = document(&view, 0, Curves::Sent);
    let columns: Vec<&str> = document["state"]["volume_columns"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it.as_str().unwrap())
        .collect();
    let of = |row: &Value, column: &str| row[columns.iter().position(|it| *it == column).unwrap()].clone();
    for (track, count) in [("fine", 610), ("coarse", 2)] {
        let rows = document[track]["volumes"]["vm1</script>"].as_array().unwrap();
        assert_eq!((rows.len(), document[track]["times"].as_array().unwrap().len()), (count, count));
        let row = &rows[count - 1];
        assert_eq!(
            (of(row, "hits"), of(row, "hit_ms"), of(row, "writes")),
            (json!(10.0), json!(2.0), json!(5.0))
        );
        assert_eq!((of(row, "hit_bytes"), of(row, "misses")), (json!(40960), json!(0)));
        // No read was a miss, and a remote origin has no busy time.
        assert_eq!((of(row, "miss_ms"), of(row, "origin_busy")), (Value::Null, Value::Null));
        let caches = document[track]["caches"]["/nowhere/fast"].as_array().unwrap();
        assert_eq!((&caches[count - 1][2], &caches[count - 1][4]), (&json!(512), &json!(0.75)));
    }
    assert_eq!(document["state"]["caches"][0]["volumes"][0]["curve"], json!([[16_777_216, 0.5, 0.01]]));
}

#[test]
fn a_repeated_request_returns_the_news_only() {
    let view = view(20);
    let all = document(&view, 0, Curves::Sent);
    let times = all["fine"]["times"].as_array().unwrap();
    let since = times[times.len() - 3].as_u64().unwrap();
    let new = document(&view, since, Curves::LeftOut);
    assert_eq!(new["fine"]["times"].as_array().unwrap().as_slice(), &times[times.len() - 2..]);
    assert_eq!(new["fine"]["volumes"]["vm1</script>"].as_array().unwrap().len(), 2);
    assert!(new["state"]["caches"][0]["volumes"][0].get("curve").is_none());
    assert!(all["state"].get("host").is_some() && new["state"].get("host").is_none());
}

#[test]
fn the_history_is_bounded() {
    let mut tracks = Tracks::default();
    let rows = |name: &str| [(Subject::Volume(name.into()), [1.0; COLUMN_COUNT])].into();
    (0..5).for_each(|second| tracks.add_fine(second, rows("gone")));
    (5..3 * FINE_COUNT as u64).for_each(|second| tracks.add_fine(second, rows("here")));
    (0..3 * COARSE_COUNT as u64).for_each(|turn| tracks.add_coarse(turn * 300, rows("here")));
    let here = |track: &super::history::Track| track.rows[&Subject::Volume("here".into())].len();
    assert_eq!((here(&tracks.fine), tracks.fine.times.len()), (FINE_COUNT, FINE_COUNT));
    assert_eq!((here(&tracks.coarse), tracks.coarse.times.len()), (COARSE_COUNT, COARSE_COUNT));
    assert!(!tracks.fine.rows.contains_key(&Subject::Volume("gone".into())));
    // A clock that is set back leaves times in order.
    tracks.add_fine(7, rows("here"));
    assert!(tracks.fine.times.iter().is_sorted());
}

#[test]
fn each_change_is_reported_once() {
    let mut view = view(4);
    let now = Instant::now();
    (5..8).for_each(|second| view.take(now, Some(scrape(second, "write-through"))));
    view.take(now, None);
    let told: Vec<&str> = view.happenings.kept.iter().map(|happening| happening.what.as_str()).collect();
    let expected =
        ["the daemon started, version 0.1.0", "the mode of vm1</script> is write-through; it was write-back"];
    assert_eq!(told, expected);
}

#[test]
fn the_page_needs_no_external_resource() {
    for word in ["http://", "https://", "src=", "href=", "@import", "url(", "innerHTML"] {
        let found =
            PAGE.lines().find(|line| line.contains(word) && !line.contains("http://www.w3.org/2000/svg"));
        assert_eq!(found, None, "{word}");
    }
}
