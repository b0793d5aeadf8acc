//! The events in the life of an access.

/// Which event of an access counts, in traces that note several.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Action {
    /// It entered the block layer's queue.
    Queued,
    /// It was issued to the device.
    Issued,
    /// It ended.
    Completed,
}

impl Action {
    pub(crate) const ALL: [Action; 3] = [Action::Queued, Action::Issued, Action::Completed];

    pub(crate) const fn letter(self) -> &'static str {
        match self {
            Action::Queued => "Q",
            Action::Issued => "D",
            Action::Completed => "C",
        }
    }
}
