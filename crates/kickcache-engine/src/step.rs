//! A step of something that is done in many.

/// Whether there is more to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    More,
    Done,
}
