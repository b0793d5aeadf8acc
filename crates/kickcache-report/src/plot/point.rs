//! A point of a line, in the units of its axes, or of a drawing, in units of its view box.

/// A position in a plot.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Point {
    /// From left to right.
    pub(crate) x: f64,
    /// Upwards among values, downwards on a drawing.
    pub(crate) y: f64,
}
