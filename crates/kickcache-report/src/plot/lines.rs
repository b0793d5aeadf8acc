//! The lines of a chart.

use std::fmt::Write;

use crate::plot::point::Point;

/// The number of styles, with colours that colour-blind people can distinguish (after Okabe and Ito).
pub(crate) const STYLE_COUNT: usize = 10;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Shape {
    /// From point to point; of too many points, averages are drawn.
    Joined,
    /// As [`Shape::Joined`], without averages.
    Exact,
    /// Steps over the ground, filled.
    Steps,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Weight {
    Plain,
    /// The subject of the chart.
    Main,
    /// A simulation, dotted.
    Predicted,
}

#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Line {
    pub(crate) name: String,
    /// Number of the line's colour and dash, modulo [`STYLE_COUNT`].
    pub(crate) style: usize,
    pub(crate) weight: Weight,
    pub(crate) shape: Shape,
    pub(crate) points: Vec<Point>,
}

impl Line {
    pub(crate) fn class(&self) -> String {
        let weight = match self.weight {
            Weight::Plain => "",
            Weight::Main => " main",
            Weight::Predicted => " predicted",
        };
        format!("s{}{weight}", self.style % STYLE_COUNT)
    }

    /// The ground is at `bottom`; a single point becomes a dot.
    pub(crate) fn draw(&self, svg: &mut String, index: usize, points: &[Point], bottom: f64) {
        let Some(first) = points.first() else { return };
        if let [only] = points {
            let _ = writeln!(
                svg,
                "<circle data-line=\"{index}\" class=\"{} dot\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"4\"/>",
                self.class(),
                only.x,
                only.y
            );
            return;
        }
        let mut path = format!("M{:.1} {:.1}", first.x, first.y);
        for pair in points.windows(2) {
            let (from, to) = (pair[0], pair[1]);
            if self.shape == Shape::Steps {
                let _ = write!(path, "H{:.1}V{:.1}", to.x, to.y);
            } else {
                let _ = write!(path, "L{:.1} {:.1}", to.x, to.y);
            }
            debug_assert!(from.x <= to.x, "points are in order");
        }
        if self.shape == Shape::Steps {
            let last = points[points.len() - 1].x;
            let _ = writeln!(
                svg,
                "<path data-line=\"{index}\" class=\"area s{}\" d=\"{path}L{last:.1} {bottom:.1}L{:.1} {bottom:.1}Z\"/>",
                self.style % STYLE_COUNT,
                first.x
            );
        }
        let _ = writeln!(svg, "<path data-line=\"{index}\" class=\"{}\" d=\"{path}\"/>", self.class());
    }
}

/// All points; of more than `most` points in a joined line, averages of neighbours.
pub(crate) fn thin(points: &[Point], most: usize, shape: Shape) -> Vec<Point> {
    if shape != Shape::Joined || points.len() <= most {
        return points.to_vec();
    }
    let group = points.len().div_ceil(most);
    #[expect(clippy::cast_precision_loss, reason = "a few hundred points")]
    let mean = |points: &[Point]| {
        let count = points.len() as f64;
        // The sum begins with 0.0, as an empty sum is -0.0.
        let mean = |of: fn(&Point) -> f64| points.iter().fold(0.0, |sum, point| sum + of(point)) / count;
        Point { x: mean(|point| point.x), y: mean(|point| point.y) }
    };
    points.chunks(group).map(mean).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thinning_keeps_the_mean() {
        let point = |x: i32| Point { x: f64::from(x), y: f64::from(x % 2) };
        let points: Vec<Point> = (0..1_000).map(point).collect();
        let thin = thin(&points, 100, Shape::Joined);
        assert_eq!(thin.len(), 100);
        assert!(thin.iter().all(|point| (point.y - 0.5).abs() < 1e-9));
    }
}
