//! Force unit access: durability of a single request.

use crate::wire::cmd_flag;

/// Whether a request must be durable before its reply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fua {
    No,
    Yes,
}

impl Fua {
    pub(super) fn flag(self) -> u16 {
        match self {
            Fua::No => 0,
            Fua::Yes => cmd_flag::FUA,
        }
    }
}
