//! A cache device that grows.

use crate::format::geometry::Geometry;
use crate::units::Generation;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Growth {
    /// The layout that the cache device is to have.
    pub(crate) geometry: Geometry,
    /// See [`Superblock::unopened`].
    ///
    /// [`Superblock::unopened`]: crate::format::superblock::Superblock::unopened
    pub(crate) unopened: Generation,
    pub(crate) stage: Stage,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stage {
    /// The journal must get space for larger checkpoints.
    Room,
    /// The metadata of the cache gets larger tables.
    Tables,
    /// The policy gets larger tables.
    Policy,
    /// All is ready.
    Ready,
}
