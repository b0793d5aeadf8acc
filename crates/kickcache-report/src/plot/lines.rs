//! The lines of a chart.

use std::fmt::Write;

/// Colours that colour-blind people can tell apart (Okabe and Ito); each has a dash of its own too.
pub(crate) const STYLE_COUNT: usize = 10;

/// How points are joined.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Shape {
    /// From point to point; where there are too many, averages are drawn.
    Joined,
    /// As [`Shape::Joined`], each point as it is.
    Exact,
    /// Steps over the ground, filled.
    Steps,
}

/// A line with its name.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Line {
    pub(crate) name: String,
    /// Number of its colour and dash; more than there are begin again.
    pub(crate) style: usize,
    /// Drawn thicker than others.
    pub(crate) is_main: bool,
    pub(crate) shape: Shape,
    pub(crate) points: Vec<(f64, f64)>,
}

impl Line {
    /// The CSS classes of its stroke.
    pub(crate) fn class(&self) -> String {
        let weight = if self.is_main { " main" } else { "" };
        format!("s{}{weight}", self.style % STYLE_COUNT)
    }

    /// Draws it through points of the drawing, the ground at `bottom`.
    pub(crate) fn draw(&self, svg: &mut String, index: usize, points: &[(f64, f64)], bottom: f64) {
        let Some(first) = points.first() else { return };
        if let [only] = points {
            let _ = writeln!(
                svg,
                "<circle data-line=\"{index}\" class=\"{} dot\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"4\"/>",
                self.class(),
                only.0,
                only.1
            );
            return;
        }
        let mut path = format!("M{:.1} {:.1}", first.0, first.1);
        for pair in points.windows(2) {
            let (from, to) = (pair[0], pair[1]);
            if self.shape == Shape::Steps {
                let _ = write!(path, "H{:.1}V{:.1}", to.0, to.1);
            } else {
                let _ = write!(path, "L{:.1} {:.1}", to.0, to.1);
            }
            debug_assert!(from.0 <= to.0, "points stand in order");
        }
        if self.shape == Shape::Steps {
            let last = points[points.len() - 1].0;
            let _ = writeln!(
                svg,
                "<path data-line=\"{index}\" class=\"area s{}\" d=\"{path}L{last:.1} {bottom:.1}L{:.1} {bottom:.1}Z\"/>",
                self.style % STYLE_COUNT,
                first.0
            );
        }
        let _ = writeln!(svg, "<path data-line=\"{index}\" class=\"{}\" d=\"{path}\"/>", self.class());
    }
}

/// At most so many points: averages of neighbours, or for exact lines all of them.
pub(crate) fn thin(points: &[(f64, f64)], most: usize, shape: Shape) -> Vec<(f64, f64)> {
    if shape != Shape::Joined || points.len() <= most {
        return points.to_vec();
    }
    let group = points.len().div_ceil(most);
    #[expect(clippy::cast_precision_loss, reason = "a few hundred points")]
    let mean = |points: &[(f64, f64)]| {
        let count = points.len() as f64;
        let sum = points.iter().fold((0.0, 0.0), |sum, point| (sum.0 + point.0, sum.1 + point.1));
        (sum.0 / count, sum.1 / count)
    };
    points.chunks(group).map(mean).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thinning_keeps_the_mean() {
        let points: Vec<(f64, f64)> = (0..1_000).map(|x| (f64::from(x), f64::from(x % 2))).collect();
        let thin = thin(&points, 100, Shape::Joined);
        assert_eq!(thin.len(), 100);
        assert!(thin.iter().all(|(_, y)| (y - 0.5).abs() < 1e-9));
    }
}
