//! The two queues of segments, each with a head of the log.

/// The two queues of the retention policy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Queue {
    /// Recently admitted blocks.
    Probation,
    /// Blocks that are kept longer.
    Main,
}

impl Queue {
    pub(crate) const ALL: [Queue; 2] = [Queue::Probation, Queue::Main];

    pub(crate) const fn index(self) -> usize {
        match self {
            Queue::Probation => 0,
            Queue::Main => 1,
        }
    }
}
