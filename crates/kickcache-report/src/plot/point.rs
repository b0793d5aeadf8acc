//! A point of a line or of a drawing.

#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Point {
    /// From left to right.
    pub(crate) x: f64,
    /// Upwards among values, downwards on a drawing.
    pub(crate) y: f64,
}
