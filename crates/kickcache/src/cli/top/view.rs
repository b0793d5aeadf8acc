//! How the board looks.

use std::collections::VecDeque;
use std::time::Duration;

use kickcache_command::width::wrap;
use kickcache_daemon::control::condition::{HealthColour, Severity};
use kickcache_units::printable::printable_line;
use kickcache_units::{counted, show_bytes, show_duration, show_rate};
use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Cell, Paragraph, Row, Sparkline, Table, TableState};

use crate::cli::top::board::{Board, Detail, Direction, Order};
use crate::cli::top::volume_line::{VolumeLine, whole};

/// The last columns are dropped first if there is no room, but never the first two; bars fill the remaining
/// width.
const COLUMNS: [(&str, u16, Option<Order>); 8] = [
    ("VOLUME", 14, Some(Order::Name)),
    ("HEALTH", 14, None),
    ("REQ/S", 6, Some(Order::Requests)),
    ("HITS", 5, Some(Order::Hits)),
    ("READ", 7, Some(Order::Latency)),
    ("DIRTY", 8, Some(Order::Dirty)),
    ("CACHED", 8, Some(Order::Cached)),
    ("MODE", 13, None),
];
const HEALTH_HEIGHT_MAX: u16 = 4;
const BARS_MIN: u16 = 6;
/// With their frame.
const DETAIL_HEIGHT: u16 = 12;
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

pub(super) fn draw(frame: &mut Frame<'_>, board: &Board) {
    let health = health(board, frame.area().width);
    let detail = match board.detail {
        Detail::Shown => DETAIL_HEIGHT,
        Detail::Hidden => 0,
    };
    let health_height = u16::try_from(health.len()).unwrap_or(u16::MAX).min(HEALTH_HEIGHT_MAX);
    let cache_height = u16::try_from(board.caches.len() + 1).unwrap_or(u16::MAX).min(5);
    let parts = [
        Constraint::Length(1),
        Constraint::Length(health_height),
        Constraint::Min(3),
        Constraint::Length(cache_height),
        Constraint::Length(detail),
        Constraint::Length(1),
    ];
    let [head, top, table, caches, details, keys] = Layout::vertical(parts).areas(frame.area());
    draw_head(frame, head, board);
    frame.render_widget(Paragraph::new(health), top);
    draw_table(frame, table, board);
    draw_caches(frame, caches, board);
    if let (Detail::Shown, Some(line)) = (board.detail, board.volumes.get(board.chosen())) {
        draw_details(frame, details, line);
    }
    let help = " up/down choose  Enter details  s sort  r reverse  q quit";
    frame.render_widget(Paragraph::new(help).style(Style::new().dim()), keys);
}

/// The health in a sentence, and the other problems in a line each; only the reason if the daemon did not
/// answer.
fn health(board: &Board, width: u16) -> Vec<Line<'static>> {
    let width = usize::from(width).max(8);
    let lines = |text: &str, style: Style| {
        let wrapped = wrap(&printable_line(text), Some(width - 2));
        wrapped.lines().map(|line| Line::from(format!(" {line}")).style(style)).collect::<Vec<_>>()
    };
    if let Some(why) = &board.missed {
        return lines(why, Style::new().fg(Color::Red));
    }
    let colour = match board.health.colour {
        HealthColour::Green => Color::Green,
        HealthColour::Amber => Color::Yellow,
        HealthColour::Red => Color::Red,
    };
    let others = board.conditions.iter().filter(|it| it.severity.is_problem()).skip(1);
    let others =
        others.map(|it| Line::from(format!(" {}", printable_line(&it.what()))).style(style(it.severity)));
    lines(&board.health.sentence, Style::new().fg(colour)).into_iter().chain(others).collect()
}

fn style(severity: Severity) -> Style {
    match severity {
        Severity::Notice => Style::new(),
        Severity::Warning => Style::new().fg(Color::Yellow),
        Severity::Error => Style::new().fg(Color::Red).bold(),
    }
}

fn draw_caches(frame: &mut Frame<'_>, area: Rect, board: &Board) {
    let right = |text: String| Cell::from(Line::from(text).alignment(Alignment::Right));
    let heads = [
        Cell::from("CACHE DEVICE"),
        right("USED".into()),
        right("SIZE".into()),
        right("DIRTY".into()),
        right("WRITTEN".into()),
        right("BUDGET".into()),
    ];
    let rows = board.caches.iter().map(|cache| {
        let budget = cache.budget.map_or_else(
            || "-".into(),
            |budget| format!("{:.0} %", cache.written as f64 * 100.0 / budget.max(1) as f64),
        );
        let used = format!("{:.0} %", cache.used as f64 * 100.0 / cache.size.max(1) as f64);
        let sizes =
            [used, show_bytes(cache.size), show_bytes(cache.dirty), show_bytes(cache.written), budget];
        Row::new([Cell::from(cache.device.clone())].into_iter().chain(sizes.map(right)))
    });
    let widths = [Constraint::Min(12)].into_iter().chain([6, 9, 9, 9, 6].map(Constraint::Length));
    let table = Table::new(rows, widths).header(Row::new(heads).style(Style::new().dim())).column_spacing(1);
    frame.render_widget(table, area);
}

fn draw_head(frame: &mut Frame<'_>, area: Rect, board: &Board) {
    let uptime = Duration::from_secs_f64(board.uptime_seconds.clamp(0.0, 1e12));
    let sum = |of: fn(&VolumeLine) -> f64| board.volumes.iter().map(of).sum::<f64>();
    let dirty: u64 = board.volumes.iter().map(|line| line.report.dirty_bytes).sum();
    let left = format!(" {}, up {}", board.head, show_duration(uptime));
    let right = format!(
        "{}, {} requests/s, {} dirty ",
        counted(board.volumes.len() as u64, "volume"),
        show_rate(sum(|line| line.rates.reads + line.rates.writes)),
        show_bytes(dirty)
    );
    frame.render_widget(Paragraph::new(left).bold(), area);
    frame.render_widget(Paragraph::new(right).alignment(Alignment::Right), area);
}

fn draw_table(frame: &mut Frame<'_>, area: Rect, board: &Board) {
    let mut shown = COLUMNS.as_slice();
    // A column has a space behind it.
    let width =
        |columns: &[(&str, u16, Option<Order>)]| columns.iter().map(|column| column.1 + 1).sum::<u16>();
    while width(shown) + BARS_MIN > area.width && shown.len() > 2 {
        shown = &shown[..shown.len() - 1];
    }
    let bars = usize::from(area.width.saturating_sub(width(shown)));
    let heads = shown.iter().map(|(name, _, order)| heading(name, *order, board));
    let header = Row::new(heads.chain([Cell::from("TREND")])).style(Style::new().dim());
    let rows = board.volumes.iter().map(|line| {
        let cells = cells(line).into_iter().take(shown.len());
        Row::new(
            cells.chain([Cell::from(bar_text(&line.requests, bars)).style(Style::new().fg(Color::Cyan))]),
        )
    });
    let widths = shown.iter().map(|column| Constraint::Length(column.1)).chain([Constraint::Min(0)]);
    let table = Table::new(rows, widths)
        .header(header)
        .column_spacing(1)
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
    let mut state = TableState::default().with_selected(board.chosen());
    frame.render_stateful_widget(table, area, &mut state);
}

/// The heading of the sort column has an arrow.
fn heading(name: &'static str, order: Option<Order>, board: &Board) -> Cell<'static> {
    let is_name = order == Some(Order::Name);
    let text = match board.direction {
        _ if order != Some(board.order) => name.into(),
        Direction::Usual => format!("{name}{}", if is_name { '^' } else { 'v' }),
        Direction::Reversed => format!("{name}{}", if is_name { 'v' } else { '^' }),
    };
    let is_text = is_name || order.is_none();
    Cell::from(Line::from(text).alignment(if is_text { Alignment::Left } else { Alignment::Right }))
}

fn cells(line: &VolumeLine) -> [Cell<'static>; COLUMNS.len()] {
    let right = |text: String| Cell::from(Line::from(text).alignment(Alignment::Right));
    let volume = &line.report;
    let health = match line.health {
        Some((word, severity)) => Cell::from(word).style(style(severity)),
        None => Cell::from("good").style(Style::new().fg(Color::Green)),
    };
    [
        Cell::from(volume.name.clone()),
        health,
        right(show_rate(line.rates.reads + line.rates.writes)),
        right(line.hit_ratio().map_or_else(|| "-".into(), |ratio| format!("{:.0} %", ratio * 100.0))),
        right(millis(line.rates.read_ms)),
        right(show_bytes(volume.dirty_bytes)),
        right(show_bytes(volume.cached_bytes)),
        Cell::from(volume.mode.as_str()),
    ]
}

fn millis(time: Option<f64>) -> String {
    time.map_or_else(
        || "-".into(),
        |time| show_duration(Duration::from_secs_f64((time / 1e3).clamp(0.0, 1e9))),
    )
}

/// The highest number is as high as a line.
fn bar_text(numbers: &VecDeque<u64>, width: usize) -> String {
    let shown = numbers.len().saturating_sub(width);
    let most = numbers.iter().skip(shown).copied().max().unwrap_or(0);
    let bar = |number: &u64| match (*number, most) {
        (0, _) | (_, 0) => ' ',
        // Rounded up, so that every number above 0 is visible.
        (number, most) => BARS[usize::try_from((number * 8).div_ceil(most) - 1).unwrap_or(7).min(7)],
    };
    numbers.iter().skip(shown).map(bar).collect()
}

fn draw_details(frame: &mut Frame<'_>, area: Rect, line: &VolumeLine) {
    let block = Block::bordered().title(format!(" {} ", line.report.name));
    let inner = block.inner(area);
    frame.render_widget(block, area);
    let [facts, charts] = Layout::horizontal([Constraint::Length(44), Constraint::Min(10)]).areas(inner);
    frame.render_widget(Paragraph::new(facts_of(line)), facts);
    let [requests, latency] = Layout::vertical([Constraint::Fill(1); 2]).areas(charts);
    for (area, name, numbers, color, most) in [
        (
            requests,
            "requests/s",
            &line.requests,
            Color::Cyan,
            show_most(&line.requests, |most| show_rate(most as f64)),
        ),
        (
            latency,
            "read",
            &line.read_micros,
            Color::Yellow,
            show_most(&line.read_micros, |most| show_duration(Duration::from_micros(most))),
        ),
    ] {
        let first = numbers.len().saturating_sub(usize::from(area.width));
        let numbers: Vec<u64> = numbers.iter().skip(first).copied().collect();
        let title = Line::from(format!("{name}, at most {most}")).style(Style::new().dim());
        let [top, chart] = Layout::vertical([Constraint::Length(1), Constraint::Min(1)]).areas(area);
        frame.render_widget(Paragraph::new(title), top);
        frame.render_widget(Sparkline::default().data(numbers).style(Style::new().fg(color)), chart);
    }
}

fn show_most(numbers: &VecDeque<u64>, show: impl Fn(u64) -> String) -> String {
    numbers.iter().copied().max().map_or_else(|| "-".into(), show)
}

fn facts_of(line: &VolumeLine) -> Vec<Line<'static>> {
    let (volume, rates) = (&line.report, &line.rates);
    let per_second = |bytes: f64| format!("{}/s", show_bytes(whole(bytes)));
    let fact = |name: &'static str, value: String| {
        Line::from(vec![Span::from(format!("{name:<10}")).dim(), Span::from(value)])
    };
    vec![
        fact("origin", volume.origin.clone()),
        fact("cache", line.cache.clone()),
        fact(
            "size",
            format!("{}, {} cached", show_bytes(volume.size_bytes), show_bytes(volume.cached_bytes)),
        ),
        fact(
            "reads",
            format!(
                "{}/s, {}, {}",
                show_rate(rates.reads),
                per_second(rates.read_bytes),
                millis(rates.read_ms)
            ),
        ),
        fact(
            "writes",
            format!(
                "{}/s, {}, {}",
                show_rate(rates.writes),
                per_second(rates.write_bytes),
                millis(rates.write_ms)
            ),
        ),
        fact(
            "dirty",
            format!("{}, {} written back", show_bytes(volume.dirty_bytes), per_second(rates.writeback_bytes)),
        ),
        fact(
            "p99",
            format!(
                "hits {}, misses {}, writes {}",
                millis_of(&volume.recent.hits),
                millis_of(&volume.recent.misses),
                millis_of(&volume.recent.writes)
            ),
        ),
        fact(
            "in flight",
            format!(
                "{} of clients, {} origin errors",
                volume.requests_in_flight, volume.counters.origin_errors
            ),
        ),
        fact(
            "mode",
            line.health.map_or_else(
                || volume.mode.as_str().into(),
                |(word, _)| format!("{}, {word}", volume.mode.as_str()),
            ),
        ),
    ]
}

fn millis_of(took: &kickcache_daemon::control::activity::RequestLatency) -> String {
    millis((took.count > 0).then_some(took.p99_ms))
}
