//! Line charts as SVG.

pub(crate) mod axis;
pub(crate) mod lines;
pub(crate) mod point;

use std::fmt::Write;

use crate::html::escape;
use crate::plot::axis::{Axis, Unit};
use crate::plot::lines::{Line, thin};
use crate::plot::point::Point;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Width {
    Full,
    /// Two in a row.
    Half,
}

#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Plot {
    pub(crate) title: String,
    pub(crate) note: String,
    pub(crate) width: Width,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    pub(crate) lines: Vec<Line>,
}

/// In units of the view box.
#[derive(Clone, Copy)]
struct Frame {
    class: &'static str,
    width: f64,
    height: f64,
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
}

impl Frame {
    const fn new(class: &'static str, width: f64, height: f64) -> Frame {
        Frame { class, width, height, left: 64.0, right: 14.0, top: 10.0, bottom: 40.0 }
    }

    fn x(&self, share: f64) -> f64 {
        self.left + share * (self.width - self.left - self.right)
    }

    fn y(&self, share: f64) -> f64 {
        self.height - self.bottom - share * (self.height - self.top - self.bottom)
    }

    /// The most points of a joined line.
    fn points(&self) -> usize {
        if self.width > 700.0 { 360 } else { 180 }
    }
}

impl Plot {
    /// Empty if there is no data.
    pub(crate) fn figure(&self) -> String {
        if self.lines.iter().all(|line| line.points.is_empty()) {
            return String::new();
        }
        let frames = match self.width {
            Width::Full => [Frame::new("wide", 1040.0, 340.0), Frame::new("narrow", 360.0, 270.0)],
            Width::Half => [Frame::new("wide", 510.0, 260.0), Frame::new("narrow", 360.0, 240.0)],
        };
        let drawings: String = frames.iter().map(|frame| self.draw(*frame)).collect();
        let note = match self.note.as_str() {
            "" => String::new(),
            note => format!("<p class=\"note\">{}</p>", escape(note)),
        };
        format!(
            "<figure>\n<figcaption>{}</figcaption>\n{note}{}{drawings}</figure>\n",
            escape(&self.title),
            self.legend()
        )
    }

    fn legend(&self) -> String {
        if self.lines.len() < 2 {
            return String::new();
        }
        let entry = |(index, line): (usize, &Line)| {
            format!(
                "<li data-line=\"{index}\"><svg width=\"34\" height=\"12\" aria-hidden=\"true\">\
                 <line x1=\"1\" x2=\"33\" y1=\"6\" y2=\"6\" class=\"{}\"/></svg>{}</li>",
                line.class(),
                escape(&line.name)
            )
        };
        let entries: String = self.lines.iter().enumerate().map(entry).collect();
        format!("<ul class=\"legend\">{entries}</ul>\n")
    }

    fn draw(&self, frame: Frame) -> String {
        let mut svg = format!(
            "<svg class=\"plot {}\" viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\" \
             data-plot=\"{}\">\n",
            frame.class,
            frame.width,
            frame.height,
            escape(&self.title),
            escape(&self.data(frame))
        );
        self.draw_axes(&mut svg, frame);
        for (index, line) in self.lines.iter().enumerate() {
            let points = self.place(line, frame);
            line.draw(&mut svg, index, &points, frame.y(0.0));
        }
        svg.push_str("<line class=\"cursor\" hidden=\"hidden\"/>\n</svg>\n");
        svg
    }

    fn place(&self, line: &Line, frame: Frame) -> Vec<Point> {
        let place =
            |point: Point| Point { x: frame.x(self.x.share(point.x)), y: frame.y(self.y.share(point.y)) };
        thin(&line.points, frame.points(), line.shape).into_iter().map(place).collect()
    }

    fn draw_axes(&self, svg: &mut String, frame: Frame) {
        let (left, right, top, bottom) = (frame.x(0.0), frame.x(1.0), frame.y(1.0), frame.y(0.0));
        for tick in self.y.ticks(if frame.height > 300.0 { 6 } else { 5 }) {
            let y = frame.y(self.y.share(tick));
            line(svg, "grid", Point { x: left, y }, Point { x: right, y });
            text(svg, "end", Point { x: left - 8.0, y: y + 4.0 }, &self.y.unit.show(tick));
        }
        let room = match (frame.class, self.x.unit) {
            ("wide", _) if frame.width > 700.0 => 11,
            // "63.2 MiB" is wider than a time.
            ("narrow", Unit::Bytes) => 3,
            _ => 5,
        };
        for tick in self.x.ticks(room) {
            let x = frame.x(self.x.share(tick));
            line(svg, "grid", Point { x, y: top }, Point { x, y: bottom });
            let anchor = if x > right - 24.0 { "end" } else { "middle" };
            text(
                svg,
                anchor,
                Point { x: if anchor == "end" { right + 8.0 } else { x }, y: bottom + 17.0 },
                &self.x.show(tick),
            );
        }
        line(svg, "axis", Point { x: left, y: bottom }, Point { x: right, y: bottom });
        text(svg, "middle", Point { x: left.midpoint(right), y: bottom + 34.0 }, &self.x.caption());
    }

    /// The data for the labels under the pointer.
    fn data(&self, frame: Frame) -> String {
        let series = |line: &Line| {
            let points = thin(&line.points, frame.points(), line.shape);
            let mark = |point: &Point| [rounded(frame.x(self.x.share(point.x))), significant(point.y)];
            let marks: Vec<[f64; 2]> = points.iter().map(mark).collect();
            let at: Vec<String> = points.iter().map(|point| self.x.show_exactly(point.x)).collect();
            serde_json::json!({ "name": line.name, "class": line.class(), "points": marks, "at": at })
        };
        let frame = [frame.x(0.0), frame.x(1.0), frame.y(1.0), frame.y(0.0)];
        let lines: Vec<serde_json::Value> = self.lines.iter().map(series).collect();
        serde_json::json!({ "frame": frame, "unit": self.y.unit.name(), "lines": lines }).to_string()
    }
}

fn rounded(number: f64) -> f64 {
    (number * 10.0).round() / 10.0
}

/// Four digits; 0 represents numbers that are not finite.
fn significant(number: f64) -> f64 {
    if number == 0.0 || !number.is_finite() {
        return 0.0;
    }
    let scale = 10_f64.powf(3.0 - number.abs().log10().floor());
    (number * scale).round() / scale
}

fn line(svg: &mut String, class: &str, from: Point, to: Point) {
    let _ = writeln!(
        svg,
        "<line class=\"{class}\" x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\"/>",
        from.x, from.y, to.x, to.y
    );
}

fn text(svg: &mut String, anchor: &str, at: Point, what: &str) {
    let _ = writeln!(
        svg,
        "<text text-anchor=\"{anchor}\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
        at.x,
        at.y,
        escape(what)
    );
}
