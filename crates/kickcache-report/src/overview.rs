//! Figures in rows: a table with their ratios to one column, and a mark for each figure above 0 on a common
//! scale.

use kickcache_units::show_rate;

use crate::html::{escape, section};
use crate::summary::show_factor;

/// A table of figures of one kind.
#[derive(Clone, PartialEq, Debug)]
pub struct Overview {
    pub heading: String,
    pub note: String,
    /// The headings of the columns.
    pub series: Vec<String>,
    /// The index of the column that ratios are to.
    pub measure: usize,
    pub rows: Vec<OverviewRow>,
}

/// The figures of one subject.
#[derive(Clone, PartialEq, Debug)]
pub struct OverviewRow {
    pub name: String,
    pub note: String,
    /// A figure for each series; `None` if it is missing.
    pub figures: Vec<Option<f64>>,
    /// The index of the group with the charts of the row.
    pub group: Option<usize>,
}

pub(crate) fn anchor(group: usize) -> String {
    format!("group-{group}")
}

/// The exponents of the powers of ten between which all marks are.
#[derive(Clone, Copy)]
struct Scale {
    first: i32,
    last: i32,
}

impl Scale {
    fn new(rows: &[OverviewRow]) -> Scale {
        let figures =
            || rows.iter().flat_map(|row| &row.figures).flatten().copied().filter(|rate| *rate > 0.0);
        let (low, high) = (figures().fold(f64::INFINITY, f64::min), figures().fold(0.0, f64::max));
        if high <= 0.0 {
            return Scale { first: 0, last: 1 };
        }
        let (first, last) = (power(low.log10().floor()), power(high.log10().ceil()));
        Scale { first, last: last.max(first + 1) }
    }

    /// In percent.
    fn place(self, figure: f64) -> f64 {
        let span = f64::from(self.last - self.first);
        ((figure.max(f64::MIN_POSITIVE).log10() - f64::from(self.first)) / span * 100.0).clamp(0.0, 100.0)
    }

    fn powers(self) -> impl Iterator<Item = f64> {
        (self.first..=self.last).map(|power| 10_f64.powi(power))
    }
}

#[expect(clippy::cast_possible_truncation, reason = "an exponent of ten")]
fn power(exponent: f64) -> i32 {
    exponent as i32
}

impl Overview {
    pub(crate) fn html(&self) -> String {
        let scale = Scale::new(&self.rows);
        let head: String = self.series.iter().enumerate().map(|(index, name)| heading(index, name)).collect();
        let rows: String = self.rows.iter().map(|row| self.row(row, scale)).collect();
        let legend: String = self.series.iter().enumerate().map(|(index, name)| key(index, name)).collect();
        let body = format!(
            "<p class=\"note\">{}</p>\n<ul class=\"legend\">{legend}</ul>\n<div class=\"wide-table\"><table class=\"overview\">\n\
             <thead><tr><th scope=\"col\"></th>{head}<th class=\"strip-head\">{}</th></tr></thead>\n\
             <tbody>\n{rows}</tbody>\n</table></div>\n",
            escape(&self.note),
            axis(scale)
        );
        section(&self.heading, &body)
    }

    fn row(&self, row: &OverviewRow, scale: Scale) -> String {
        let name = match row.group {
            Some(group) => format!("<a href=\"#{}\">{}</a>", anchor(group), escape(&row.name)),
            None => escape(&row.name),
        };
        let note =
            if row.note.is_empty() { String::new() } else { format!("<small>{}</small>", escape(&row.note)) };
        let cells: String = (0..self.series.len()).map(|index| self.cell(row, index)).collect();
        format!(
            "<tr><th scope=\"row\">{name}{note}</th>{cells}<td class=\"strip-cell\">{}</td></tr>\n",
            strip(row, scale)
        )
    }

    fn cell(&self, row: &OverviewRow, index: usize) -> String {
        let label = escape(&self.series[index]);
        let Some(figure) = row.figures.get(index).copied().flatten() else {
            return format!("<td class=\"none\" data-label=\"{label}\">\u{2013}</td>");
        };
        let measure = row.figures.get(self.measure).copied().flatten().filter(|_| index != self.measure);
        let ratio = measure
            .map_or_else(String::new, |measure| format!(" <small>{}</small>", show_factor(figure / measure)));
        format!("<td data-label=\"{label}\"><span>{}{ratio}</span></td>", show_rate(figure))
    }
}

fn heading(index: usize, name: &str) -> String {
    format!("<th scope=\"col\"><i class=\"mark m{index}\"></i> {}</th>", escape(name))
}

fn key(index: usize, name: &str) -> String {
    format!("<li><i class=\"mark m{index}\"></i>{}</li>", escape(name))
}

fn axis(scale: Scale) -> String {
    let tick = |power: f64| {
        let text = show_rate(power).replace(".0k", "k").replace(".00M", "M");
        format!("<span style=\"left:{:.2}%\">{text}</span>", scale.place(power))
    };
    format!("<div class=\"ticks\">{}</div>", scale.powers().map(tick).collect::<String>())
}

fn strip(row: &OverviewRow, scale: Scale) -> String {
    let places: Vec<(usize, f64)> = (0..)
        .zip(&row.figures)
        .filter_map(|(index, figure)| Some((index, scale.place(figure.filter(|rate| *rate > 0.0)?))))
        .collect();
    let lines: String =
        scale.powers().map(|power| format!("<u style=\"left:{:.2}%\"></u>", scale.place(power))).collect();
    let (low, high) =
        places.iter().fold((100.0_f64, 0.0_f64), |(low, high), (_, at)| (low.min(*at), high.max(*at)));
    let span = if places.len() > 1 {
        format!("<b style=\"left:{low:.2}%;width:{:.2}%\"></b>", high - low)
    } else {
        String::new()
    };
    let mark =
        |(index, at): &(usize, f64)| format!("<i class=\"mark m{index}\" style=\"left:{at:.2}%\"></i>");
    format!("<div class=\"strip\">{lines}{span}{}</div>", places.iter().map(mark).collect::<String>())
}
