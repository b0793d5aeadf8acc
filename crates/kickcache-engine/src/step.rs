//! The result of one step of a long operation.

/// Whether more steps are needed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    More,
    Done,
}
