//! How zeroes are stored.

use kickcache_engine::request::Unmap;

use super::fua::Fua;
use crate::wire::cmd_flag;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Zeroes {
    /// Whether the zeroes must be durable before the reply.
    pub fua: Fua,
    /// Whether the server may free the space of the zeroes.
    pub unmap: Unmap,
}

impl Zeroes {
    pub(super) fn flags(self) -> u16 {
        match self.unmap {
            Unmap::Allow => self.fua.flag(),
            Unmap::Forbid => self.fua.flag() | cmd_flag::NO_HOLE,
        }
    }
}
