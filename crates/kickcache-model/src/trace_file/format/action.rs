//! The events in the life of an access.

/// The event of an access that counts, in traces with several events for each access.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Action {
    Queued,
    Issued,
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
