//! Deciders: each has its own memory only, chooses, and performs nothing.

pub(crate) mod admission;
pub(crate) mod ghost;
pub(crate) mod pacing;
pub(crate) mod quota;
pub(crate) mod retention;
pub(crate) mod share;
pub(crate) mod stream;
pub(crate) mod trial;
pub(crate) mod window;
