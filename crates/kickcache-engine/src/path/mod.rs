//! The paths of requests and background work, one file or folder each.

pub(crate) mod checkpoint;
pub(crate) mod discard;
pub(crate) mod fill;
pub(crate) mod flush;
pub(crate) mod grow;
pub(crate) mod land;
pub(crate) mod mark;
pub(crate) mod merge;
pub(crate) mod read;
pub(crate) mod reclaim;
pub(crate) mod recover;
pub(crate) mod redo;
pub(crate) mod write;
pub(crate) mod writeback;
