//! The output of `top`, in terminals of several sizes.

use std::time::{Duration, Instant};

use kickcache_daemon::control::report::Report;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use serde_json::json;

use super::board::{Board, Detail, Look};
use super::keys::{Wish, wish};
use super::view::draw;

/// A report of three volumes: `busy` has the most requests, `dirty` the most dirty bytes.
fn report(seconds: u64) -> Report {
    let volume = |name: &str, rate: u64, hits: u64, dirty: u64| {
        let reads = json!({"count": rate * seconds, "mean_ms": 2.0, "p99_ms": 9.0});
        json!({
            "name": name, "origin": format!("/dev/{name}"), "nbd": [], "mode": "write-back", "size_bytes": 1_u64 << 40, "cached_bytes": 1_u64 << 30,
            "dirty_bytes": dirty, "unflushed_bytes": 0, "fill_window_bytes": 0, "requests_in_flight": 3,
            "since_start": {"hits": reads}, "recent": {"hits": reads},
            "counters": {"reads": rate * seconds, "hit_blocks": hits * seconds, "miss_blocks": (rate - hits) * seconds},
        })
    };
    let volumes = [volume("a-busy", 1000, 500, 0), volume("dirty", 10, 9, 5 << 20), volume("idle", 0, 0, 0)];
    let cache = json!({
        "device": "/dev/fast", "health": "good", "capacity_bytes": 1 << 20, "segments": 8, "free_segments": 2,
        "probation_bytes": 0, "probation_target_bytes": 0, "main_bytes": 0, "memory_bytes": 0, "counters": {}, "volumes": volumes,
    });
    let report = json!({
        "version": "0.1.0", "pid": 7, "uptime_seconds": seconds, "io_engine": "auto", "caches": [cache],
        "health": {"colour": "red", "sentence": "lost: not served: it is away. Start it."},
        "conditions": [{
            "kind": "volume-not-served", "severity": "error", "since": 1, "lasted_seconds": 1.0, "volume": "lost", "device": null,
            "summary": "not served", "cause": "it is away", "figures": [], "remedy": "start it", "commands": [],
        }],
    });
    serde_json::from_value(report).unwrap()
}

fn board(seconds: u64) -> Board {
    let (mut board, began) = (Board::default(), Instant::now());
    (1..=seconds).for_each(|second| board.take(began + Duration::from_secs(second), report(second)));
    board
}

fn screen(board: &Board, width: u16, height: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, board)).unwrap();
    let buffer = terminal.backend().buffer();
    let line = |y: u16| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>();
    (0..height).map(|y| line(y).trim_end().to_owned()).collect()
}

/// In their order on the screen.
fn names(lines: &[String]) -> Vec<&str> {
    let known = ["a-busy", "dirty", "idle"];
    lines.iter().filter_map(|line| known.into_iter().find(|name| line.starts_with(name))).collect()
}

#[test]
fn an_80_by_24_screen_has_all_columns_and_bars() {
    let lines = screen(&board(9), 80, 24);
    assert!(lines[0].starts_with(" kickcache 0.1.0, process 7, up 9"), "{}", lines[0]);
    assert!(lines[0].ends_with("3 volumes, 1.0k requests/s, 5 MiB dirty"), "{}", lines[0]);
    assert_eq!(lines[1], " lost: not served: it is away. Start it.");
    assert_eq!(lines[2], "VOLUME^        HEALTH          REQ/S  HITS    READ    DIRTY   CACHED TREND");
    assert!(
        lines[3].starts_with(&format!("{:<14} {:<14} {:>6} {:>5}", "a-busy", "good", "1.0k", "50 %")),
        "{}",
        lines[3]
    );
    assert!(lines[3].ends_with("██████"), "{}", lines[3]);
    assert!(
        lines[5].starts_with(&format!(
            "{:<14} {:<14} {:>6} {:>5} {:>7} {:>8}",
            "idle", "good", "0", "-", "-", "0 B"
        )),
        "{}",
        lines[5]
    );
    assert!(lines[23].contains("q quit"));
}

#[test]
fn a_narrow_screen_leaves_columns_out_from_the_end() {
    let lines = screen(&board(9), 40, 10);
    assert!(
        lines[3].starts_with(&format!("{:<14} {:<14}", "VOLUME^", "HEALTH")) && !lines[3].contains("MODE"),
        "{}",
        lines[3]
    );
    for (width, height) in [(1, 1), (3, 2), (20, 5), (300, 100)] {
        let _ = screen(&board(2), width, height);
    }
}

#[test]
fn volumes_are_sorted_by_the_selected_column() {
    let mut board = board(3);
    assert_eq!(names(&screen(&board, 80, 24)), ["a-busy", "dirty", "idle"]);
    board.turn(Look::Around);
    assert_eq!(names(&screen(&board, 80, 24)), ["idle", "dirty", "a-busy"]);
    board.turn(Look::Around);
    let orders: Vec<Vec<String>> = (0..5)
        .map(|_| {
            board.turn(Look::NextOrder);
            names(&screen(&board, 80, 24)).into_iter().map(str::to_owned).collect()
        })
        .collect();
    assert_eq!(orders[0], ["a-busy", "dirty", "idle"], "requests");
    assert_eq!(orders[1], ["dirty", "a-busy", "idle"], "hits");
    assert_eq!(orders[3], ["dirty", "a-busy", "idle"], "dirty");
    board.turn(Look::OrderBefore);
    assert!(screen(&board, 80, 24)[2].contains("DIRTYv"));
}

#[test]
fn the_chosen_volume_stays_chosen_when_the_order_changes() {
    let mut board = board(3);
    board.turn(Look::After);
    assert_eq!(board.chosen(), 1);
    (0..4).for_each(|_| board.turn(Look::NextOrder));
    assert_eq!((board.chosen(), board.volumes[0].report.name.as_str()), (0, "dirty"));
    (0..9).for_each(|_| board.turn(Look::After));
    assert_eq!(board.chosen(), 2);
    (0..9).for_each(|_| board.turn(Look::Before));
    assert_eq!(board.chosen(), 0);
}

#[test]
fn details_have_the_rates_and_the_charts_of_a_volume() {
    let mut board = board(30);
    board.turn(Look::Closer);
    assert_eq!(board.detail, Detail::Shown);
    let lines = screen(&board, 80, 24);
    let text = lines.join("\n");
    for part in [
        "a-busy",
        "origin    /dev/a-busy",
        "reads     1.0k/s, 0 B/s, 2.00 ms",
        "requests/s, at most 1.0k",
        "in flight 3 of clients",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    board.turn(Look::Closer);
    assert!(!screen(&board, 80, 24).join("\n").contains("in flight"));
}

#[test]
fn a_silent_daemon_is_reported_and_a_new_one_reset() {
    let mut board = board(9);
    board.miss("no kickcache daemon answers".into());
    assert!(screen(&board, 80, 24)[1].contains("no kickcache daemon answers"));
    board.take(Instant::now(), report(1));
    let lines = screen(&board, 80, 24);
    assert!(lines[3].starts_with(&format!("{:<14} {:<14} {:>6}", "a-busy", "good", "0")), "{}", lines[3]);
}

#[test]
fn keys_match_the_help() {
    let press = |code, modifiers| wish(KeyEvent::new(code, modifiers));
    let plain = |code| press(code, KeyModifiers::NONE);
    for code in [KeyCode::Char('q'), KeyCode::Esc] {
        assert_eq!(plain(code), Some(Wish::End));
    }
    assert_eq!(press(KeyCode::Char('c'), KeyModifiers::CONTROL), Some(Wish::End));
    assert_eq!((plain(KeyCode::Char('c')), plain(KeyCode::Enter)), (None, Some(Wish::Look(Look::Closer))));
    assert_eq!(plain(KeyCode::Char('j')), Some(Wish::Look(Look::After)));
}
