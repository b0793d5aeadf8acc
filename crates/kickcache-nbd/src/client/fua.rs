//! Force unit access: durability of a single request.

use crate::wire::cmd_flag;

/// Whether a request must be durable before its reply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fua {
    /// The request becomes durable by a later flush.
    No,
    /// The request must be durable before its reply.
    Yes,
}

impl Fua {
    /// The flag of a request.
    pub(super) fn flag(self) -> u16 {
        match self {
            Fua::No => 0,
            Fua::Yes => cmd_flag::FUA,
        }
    }
}
