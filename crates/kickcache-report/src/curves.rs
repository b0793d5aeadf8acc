//! Hit ratios of caches of several sizes: a chart and a table for each trace.

use kickcache_units::show_bytes;
use serde::Serialize;

use crate::charts::float;
use crate::html::{self, escape, json, section};
use crate::page::Page;
use crate::plot::axis::{Axis, Scale, Span, Unit};
use crate::plot::lines::{Line, Shape, Weight};
use crate::plot::point::Point;
use crate::plot::{Plot, Width};

/// The results of caches of several sizes on some traces.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Curves<'a> {
    pub title: &'a str,
    /// The runs, in a sentence or two.
    pub introduction: &'a str,
    pub traces: Vec<TraceCurves>,
}

#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct TraceCurves {
    pub name: String,
    /// The content of the trace, in a sentence.
    pub note: String,
    /// Bytes that the trace accesses.
    pub footprint_bytes: u64,
    /// In bytes, ascending.
    pub sizes: Vec<u64>,
    pub curves: Vec<Curve>,
    /// Bytes written to the cache device for each byte that entered the cache, by size.
    pub written_per_byte: Vec<f64>,
    /// Bytes that the adaptive fill window read from the origin for each byte that fills of single blocks
    /// read, by size; 1 without a measurement.
    pub origin_factor: Vec<f64>,
}

#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Curve {
    pub name: String,
    /// Whether the cache is the subject of the page, and not a reference policy.
    pub is_main: bool,
    /// The share of the requested blocks that hit, for each size.
    pub hit_ratios: Vec<f64>,
}

impl Curves<'_> {
    pub fn html(&self) -> String {
        let answer: Vec<String> = self.traces.iter().filter_map(TraceCurves::answer).collect();
        let body = html::answer(&answer) + &self.traces.iter().map(TraceCurves::html).collect::<String>();
        Page { title: self.title, introduction: self.introduction, body: &body, data: &json(self) }.html()
    }
}

impl TraceCurves {
    /// The hit ratio of the cache of the middle size, compared with the best of the reference policies;
    /// `None` without sizes or a main curve.
    fn answer(&self) -> Option<String> {
        let middle = self.sizes.len() / 2;
        let size = show_bytes(*self.sizes.get(middle)?);
        let at = |curve: &Curve| curve.hit_ratios.get(middle).copied().unwrap_or(0.0);
        let highest = |is_main: bool| {
            let curves = self.curves.iter().filter(|curve| curve.is_main == is_main);
            curves.max_by(|one, other| at(one).total_cmp(&at(other)))
        };
        let percent = |curve: &Curve| format!("{:.1} %", at(curve) * 100.0);
        let best = highest(false).map_or_else(String::new, |best| {
            format!("; the best reference policy, {}, {}", best.name, percent(best))
        });
        let main = highest(true)?;
        Some(format!("{}, a cache of {size}: {} hits {}{best}.", self.name, main.name, percent(main)))
    }

    fn html(&self) -> String {
        let note = format!("<p class=\"note\">{}</p>\n", escape(&self.note));
        section(&self.name, &(note + &self.plot().figure() + &self.table()))
    }

    fn plot(&self) -> Plot {
        let sizes: Vec<f64> = self.sizes.iter().map(|size| float(*size)).collect();
        let line = |(style, curve): (usize, &Curve)| Line {
            name: curve.name.clone(),
            style,
            weight: if curve.is_main { Weight::Main } else { Weight::Plain },
            shape: Shape::Exact,
            points: sizes.iter().zip(&curve.hit_ratios).map(|(x, y)| Point { x: *x, y: *y }).collect(),
        };
        let label = "size of the cache";
        Plot {
            title: "Hit ratio".into(),
            note: String::new(),
            width: Width::Full,
            x: Axis::at_points(Unit::Bytes, label, &sizes),
            y: Axis::new(Scale::Linear, Unit::Share, "", self.span()),
            lines: self.curves.iter().enumerate().map(line).collect(),
        }
    }

    /// The span of all ratios, extended to whole tenths.
    fn span(&self) -> Span {
        let ratios = || self.curves.iter().flat_map(|curve| curve.hit_ratios.iter().copied());
        let (low, high) = (ratios().fold(1.0, f64::min), ratios().fold(0.0, f64::max));
        Span { from: (low * 10.0).floor() / 10.0, to: (high * 10.0).ceil() / 10.0 }
    }

    fn table(&self) -> String {
        let head: String = self
            .curves
            .iter()
            .map(|curve| format!("<th scope=\"col\">{}</th>", escape(&curve.name)))
            .collect();
        let rows: String = (0..self.sizes.len()).map(|index| self.row(index)).collect();
        format!(
            "<div class=\"wide-table\"><table class=\"summary curves\">\n<thead><tr><th scope=\"col\">cache</th>{head}\
             <th scope=\"col\">write amplification</th><th scope=\"col\">origin bytes, wide</th></tr></thead>\n\
             <tbody>\n{rows}</tbody>\n</table></div>\n"
        )
    }

    fn row(&self, index: usize) -> String {
        let best = self.curves.iter().filter(|curve| !curve.is_main).map(|curve| curve.hit_ratios[index]);
        let best = best.fold(0.0, f64::max);
        let cell = |curve: &Curve| {
            let ratio = curve.hit_ratios[index];
            let class = if curve.is_main || ratio >= best { "strong" } else { "" };
            format!(
                "<td class=\"{class}\" data-label=\"{}\">{:.1} %</td>",
                escape(&curve.name),
                ratio * 100.0
            )
        };
        let cells: String = self.curves.iter().map(cell).collect();
        format!(
            "<tr><th scope=\"row\">{}</th>{cells}<td data-label=\"write amplification\">{:.2}</td>\
             <td data-label=\"origin bytes, wide\">\u{d7} {:.2}</td></tr>\n",
            show_bytes(self.sizes[index]),
            self.written_per_byte[index],
            self.origin_factor[index]
        )
    }
}
