//! Axes: positions and labels of values.

use std::time::Duration;

use kickcache_units::{show_bytes, show_rate};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Scale {
    Linear,
    Log,
    /// Shares from 0 to 1, with 90 %, 99 %, 99.9 % at equal distances.
    Nines,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unit {
    /// Since the start.
    Seconds,
    /// Operations a second.
    Rate,
    Nanos,
    /// From 0 to 1.
    Share,
    Bytes,
}

impl Unit {
    /// The unit's name in the script of the page.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Unit::Seconds => "seconds",
            Unit::Rate => "rate",
            Unit::Nanos => "nanos",
            Unit::Share => "share",
            Unit::Bytes => "bytes",
        }
    }

    pub(crate) fn show(self, value: f64) -> String {
        match self {
            Unit::Seconds => format!("{} s", trimmed(value)),
            Unit::Rate => show_rate(value).replace(".0k", "k").replace(".00M", "M"),
            Unit::Nanos => show_nanos(value),
            Unit::Share => format!("{} %", trimmed((value * 1e5).round() / 1e3)),
            Unit::Bytes => show_size(value),
        }
    }
}

/// To four decimals, without zeroes at the end.
fn trimmed(number: f64) -> String {
    let text = format!("{number:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// `whole` is the length of the run in seconds.
fn show_time(seconds: f64, whole: f64) -> String {
    let (part, rest) = if whole < 7_200.0 { (60.0, 1.0) } else { (3_600.0, 60.0) };
    if whole < 120.0 {
        return format!("{} s", trimmed(seconds));
    }
    format!("{:.0}:{:02.0}", (seconds / part).floor(), ((seconds % part) / rest).floor())
}

/// In the first of ns, µs and ms in which the latency is below 999.5, or else in s.
pub(crate) fn show_nanos(nanos: f64) -> String {
    let (value, unit) = match nanos {
        small if small < 999.5 => (small, "ns"),
        micros if micros < 999_500.0 => (micros / 1e3, "\u{b5}s"),
        millis if millis < 999_500_000.0 => (millis / 1e6, "ms"),
        seconds => (seconds / 1e9, "s"),
    };
    let digits = if value < 9.95 { 2 } else { usize::from(value < 99.5) };
    let text = format!("{value:.digits$}");
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text} {unit}")
}

/// A negative number is shown as 0.
pub(crate) fn show_size(bytes: f64) -> String {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "sizes are positive and saturate"
    )]
    let whole = bytes.max(0.0).round() as u64;
    show_bytes(whole)
}

pub(crate) fn show_bandwidth(bytes: f64) -> String {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "rates are positive and saturate"
    )]
    let whole = bytes.max(0.0).round() as u64;
    format!("{}/s", show_bytes(whole))
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Span {
    pub(crate) from: f64,
    pub(crate) to: f64,
}

impl Span {
    pub(crate) const fn up_to(to: f64) -> Span {
        Span { from: 0.0, to }
    }
}

#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Axis {
    pub(crate) scale: Scale,
    pub(crate) unit: Unit,
    pub(crate) label: String,
    from: f64,
    to: f64,
    /// The values to be labelled where labels do not overlap; if empty, the axis chooses values.
    marked: Vec<f64>,
}

impl Axis {
    /// A logarithmic axis from the least of some values to the greatest (at least 1.1 times the least), with
    /// labels at these values as far as they do not overlap.
    pub(crate) fn at_points(unit: Unit, label: &str, values: &[f64]) -> Axis {
        let from = values.iter().copied().fold(f64::INFINITY, f64::min).clamp(1e-9, 1e18);
        let to = values.iter().copied().fold(0.0, f64::max).max(from * 1.1);
        Axis { scale: Scale::Log, unit, label: label.into(), from, to, marked: values.to_vec() }
    }

    pub(crate) fn new(scale: Scale, unit: Unit, label: &str, span: Span) -> Axis {
        let Span { from, to } = span;
        let Span { from, to } = match scale {
            Scale::Log => {
                let from = 10_f64.powf(from.max(1e-9).log10().floor());
                let to = 10_f64.powf((to.max(from) * 1.000_001).log10().ceil()).max(from * 10.0);
                Span { from, to }
            }
            Scale::Linear => Span { from, to: if to > from { to } else { from + 1.0 } },
            Scale::Nines => Span { from, to: to.clamp(from + 0.1, 0.999_999_9) },
        };
        Axis { scale, unit, label: label.into(), from, to, marked: Vec::new() }
    }

    /// From 0 to 1; values outside the axis are drawn at its nearer end.
    pub(crate) fn share(&self, value: f64) -> f64 {
        let place = |value: f64| match self.scale {
            Scale::Linear => value,
            Scale::Log => value.max(self.from).log10(),
            Scale::Nines => -(1.0 - value.min(self.to)).log10(),
        };
        let (from, to) = (place(self.from), place(self.to));
        ((place(value) - from) / (to - from)).clamp(0.0, 1.0)
    }

    /// The values to be labelled.
    pub(crate) fn ticks(&self, count: u32) -> Vec<f64> {
        if !self.marked.is_empty() {
            return self.apart(&self.marked, count);
        }
        match self.scale {
            Scale::Linear if self.unit == Unit::Seconds => self.even_ticks(&TIME_STEPS, count),
            Scale::Linear => self.even_ticks(&self.decimal_steps(), count),
            Scale::Log => self.powers(count),
            Scale::Nines => self.nines(count),
        }
    }

    fn even_ticks(&self, steps: &[f64], count: u32) -> Vec<f64> {
        let span = self.to - self.from;
        let fits = |step: &&f64| span / **step <= f64::from(count);
        let step = steps.iter().find(fits).copied().unwrap_or_else(|| span / f64::from(count));
        let first = (self.from / step - 1e-9).ceil();
        (0..=count)
            .map(|index| (first + f64::from(index)) * step)
            .filter(|tick| *tick <= self.to * 1.000_001)
            .collect()
    }

    /// 1, 2 and 5 times powers of ten.
    fn decimal_steps(&self) -> Vec<f64> {
        let base = 10_f64.powf((self.to - self.from).log10().floor() - 2.0);
        (0..4).flat_map(|power| [1.0, 2.0, 5.0].map(|step| step * base * 10_f64.powi(power))).collect()
    }

    /// The shares of [`NINES`] without overlapping labels.
    fn nines(&self, count: u32) -> Vec<f64> {
        let known: Vec<f64> = NINES.into_iter().filter(|share| *share <= self.to * 1.000_000_1).collect();
        self.apart(&known, count)
    }

    fn apart(&self, values: &[f64], count: u32) -> Vec<f64> {
        let apart = 0.9 / f64::from(count);
        let mut ticks: Vec<f64> = Vec::new();
        for value in values {
            if ticks.last().is_none_or(|last| self.share(*value) - self.share(*last) >= apart) {
                ticks.push(*value);
            }
        }
        ticks
    }

    fn powers(&self, count: u32) -> Vec<f64> {
        let decades = (self.to / self.from).log10().round();
        let every = (decades / f64::from(count)).ceil().max(1.0);
        (0..=count)
            .map(|index| self.from * 10_f64.powf(f64::from(index) * every))
            .filter(|tick| *tick <= self.to * 1.001)
            .collect()
    }

    pub(crate) fn show(&self, value: f64) -> String {
        match self.unit {
            Unit::Seconds => show_time(value, self.to),
            Unit::Rate | Unit::Nanos | Unit::Share | Unit::Bytes => self.unit.show(value),
        }
    }

    pub(crate) fn caption(&self) -> String {
        match self.unit {
            Unit::Seconds if self.to >= 7_200.0 => format!("{}, h:min", self.label),
            Unit::Seconds if self.to >= 120.0 => format!("{}, min:s", self.label),
            Unit::Seconds | Unit::Rate | Unit::Nanos | Unit::Share | Unit::Bytes => self.label.clone(),
        }
    }

    pub(crate) fn show_exactly(&self, value: f64) -> String {
        match self.unit {
            Unit::Seconds => {
                let span = Duration::from_secs_f64(value.max(0.0));
                if value < 120.0 { format!("{value:.1} s") } else { kickcache_units::show_duration(span) }
            }
            Unit::Rate | Unit::Nanos | Unit::Share | Unit::Bytes => self.unit.show(value),
        }
    }
}

/// In seconds.
const TIME_STEPS: [f64; 22] = [
    0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1_200.0,
    1_800.0, 3_600.0, 7_200.0, 14_400.0, 43_200.0,
];

const NINES: [f64; 7] = [0.0, 0.5, 0.9, 0.99, 0.999, 0.999_9, 0.999_99];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_numbers_that_fit() {
        let shown = |axis: &Axis| axis.ticks(6).into_iter().map(|tick| axis.show(tick)).collect::<Vec<_>>();
        let rates = Axis::new(Scale::Linear, Unit::Rate, "", Span::up_to(113_000.0));
        assert_eq!(shown(&rates), ["0", "20k", "40k", "60k", "80k", "100k"]);
        let times = Axis::new(Scale::Linear, Unit::Seconds, "", Span::up_to(1_800.0));
        assert_eq!(shown(&times), ["0:00", "5:00", "10:00", "15:00", "20:00", "25:00", "30:00"]);
        let nanos = Axis::new(Scale::Log, Unit::Nanos, "", Span { from: 70_000.0, to: 400_000_000.0 });
        assert_eq!(shown(&nanos), ["10 \u{b5}s", "100 \u{b5}s", "1 ms", "10 ms", "100 ms", "1 s"]);
        let nines = Axis::new(Scale::Nines, Unit::Share, "", Span::up_to(0.999));
        assert_eq!(shown(&nines), ["0 %", "90 %", "99 %", "99.9 %"]);
        let hours = Axis::new(Scale::Linear, Unit::Seconds, "", Span::up_to(43_200.0));
        assert_eq!(shown(&hours), ["0:00", "2:00", "4:00", "6:00", "8:00", "10:00", "12:00"]);
    }

    #[test]
    fn nines_are_at_equal_distances() {
        let axis = Axis::new(Scale::Nines, Unit::Share, "", Span::up_to(0.999));
        assert!((axis.share(0.9) - 1.0 / 3.0).abs() < 1e-9);
        assert!((axis.share(0.99) - 2.0 / 3.0).abs() < 1e-9);
        assert!((axis.share(1.0) - 1.0).abs() < 1e-9);
    }
}
