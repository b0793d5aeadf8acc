//! The chart: IOPS over time, one panel for each run, on a common logarithmic scale.

use std::io;

use kickcache_command::user_text::Printer;

use crate::demo::result::{Phase, PhaseResult};

const HEIGHT: usize = 10;
/// The most columns of all panels and the gaps between them.
const WIDTH: usize = 73;
const AXIS: usize = 6;
/// The least columns of a panel.
const PANEL_MIN: usize = 10;
/// The number of distinguishable parts of a row.
const STEPS: usize = 8;
const BARS: [char; STEPS + 1] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Colours {
    Plain,
    Ansi,
}

/// Prints the picture, at most 80 columns wide; nothing if no run has an operation.
pub(crate) fn print(phases: &[PhaseResult], colours: Colours, out: &mut dyn Printer) -> io::Result<()> {
    let panels: Vec<Panel> = panels(phases);
    let Some(scale) = Scale::new(&panels) else { return Ok(()) };
    for row in (0..HEIGHT).rev() {
        let label = scale.label(row);
        let mark = if label.is_empty() { '│' } else { '┤' };
        write!(out, "{label:>width$}{mark}", width = AXIS - 1)?;
        let rows: Vec<String> = panels.iter().map(|panel| panel.row(row, &scale)).collect();
        let end = rows.iter().rposition(|row| !row.trim_end().is_empty()).map_or(0, |last| last + 1);
        for (index, (panel, row)) in panels.iter().zip(&rows).enumerate().take(end) {
            let row = if index + 1 == end { row.trim_end() } else { row };
            write!(out, "{}", if index == 0 { "" } else { " " })?;
            paint(panel.phase, colours, row, out)?;
        }
        writeln!(out)?;
    }
    let floor = joined(&panels, "┴", |panel| "─".repeat(panel.columns.len()));
    writeln!(out, "{:>width$}└{floor}", "", width = AXIS - 1)?;
    let names = joined(&panels, " ", |panel| panel.centred(panel.phase.name()));
    let times = joined(&panels, " ", |panel| panel.centred(&panel.time));
    [names, times].iter().try_for_each(|line| writeln!(out, "{}", format!("{:AXIS$}{line}", "").trim_end()))
}

fn joined(panels: &[Panel], gap: &str, part: impl Fn(&Panel) -> String) -> String {
    panels.iter().map(part).collect::<Vec<_>>().join(gap)
}

fn paint(phase: Phase, colours: Colours, text: &str, out: &mut dyn Printer) -> io::Result<()> {
    let sequence = match phase {
        Phase::SlowDisk => "\x1b[31m",
        Phase::FastFile => "\x1b[34m",
        Phase::Cold => "\x1b[36m",
        Phase::Stale => "\x1b[33m",
        Phase::Restart => "\x1b[32m",
    };
    match colours {
        Colours::Plain => write!(out, "{text}"),
        Colours::Ansi => {
            out.control(sequence)?;
            write!(out, "{text}")?;
            out.control("\x1b[0m")
        }
    }
}

struct Panel {
    phase: Phase,
    time: String,
    columns: Vec<u64>,
}

fn panels(phases: &[PhaseResult]) -> Vec<Panel> {
    let whole: u64 = phases.iter().map(|phase| phase.millis).sum();
    let room = WIDTH.saturating_sub(phases.len().saturating_sub(1));
    let spare = room.saturating_sub(PANEL_MIN * phases.len());
    let longest_first = |share: u64| {
        let share = spare as u64 * share / whole.max(1);
        PANEL_MIN + usize::try_from(share).expect("less than the room")
    };
    let shortest = phases.iter().map(|phase| phase.millis).min().unwrap_or(0);
    let extra: u64 = phases.iter().map(|phase| phase.millis - shortest).sum();
    let width = |phase: &PhaseResult| match extra {
        0 => longest_first(phase.millis),
        extra => longest_first((phase.millis - shortest) * whole / extra),
    };
    phases.iter().map(|phase| Panel::new(phase, width(phase))).collect()
}

impl Panel {
    fn new(phase: &PhaseResult, width: usize) -> Panel {
        let columns = u64::try_from(width).expect("a panel is narrow");
        let at = |column: u64| phase.millis * column / columns;
        let length = phase.interval_millis.max(1);
        let iops = |column: u64| {
            let from = at(column) / length * length;
            phase.iops_between(from, at(column + 1).max(from + length))
        };
        let time = format!("{} s", (phase.millis + 500) / 1000);
        Panel { phase: phase.phase, time, columns: (0..columns).map(iops).collect() }
    }

    fn row(&self, row: usize, scale: &Scale) -> String {
        let bar = |iops: &u64| BARS[scale.steps(*iops).saturating_sub(row * STEPS).min(STEPS)];
        self.columns.iter().map(bar).collect()
    }

    fn centred(&self, text: &str) -> String {
        let width = self.columns.len();
        format!("{text:^width$}")
    }
}

struct Scale {
    /// Logarithms of the ends of the scale: a power of ten not above the lowest point, and the highest point
    /// or ten times the low end.
    low: f64,
    high: f64,
}

impl Scale {
    fn new(panels: &[Panel]) -> Option<Scale> {
        let all = || panels.iter().flat_map(|panel| &panel.columns).copied().filter(|iops| *iops > 0);
        let low = (all().min()? as f64).log10().floor();
        let high = (all().max()? as f64).log10().max(low + 1.0);
        Some(Scale { low, high })
    }

    /// The height in steps: 0 for 0, otherwise at least one.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "at most the picture's height"
    )]
    fn steps(&self, iops: u64) -> usize {
        if iops == 0 {
            return 0;
        }
        let part = ((iops as f64).log10() - self.low) / (self.high - self.low);
        let steps = HEIGHT * STEPS;
        ((part * steps as f64).round() as usize).clamp(1, steps)
    }

    /// The power of ten from 1 to 1 million in a row; empty if there is none.
    fn label(&self, row: usize) -> String {
        let labels = [("1", 1), ("10", 10), ("100", 100), ("1k", 1_000), ("10k", 10_000)];
        let labels = labels.into_iter().chain([("100k", 100_000), ("1M", 1_000_000)]);
        let visible = |number: u64| {
            let at = (number as f64).log10();
            self.low - 1e-9 <= at && at <= self.high + 1e-9
        };
        let in_row = |number: u64| self.steps(number).saturating_sub(1) / STEPS == row;
        let found = labels.into_iter().find(|(_, number)| visible(*number) && in_row(*number));
        found.map_or_else(String::new, |(label, _)| label.into())
    }
}
