//! The payload of commands.

use kickcache_nbd::{Command, CommandKind};

pub(super) fn is_write(command: &Command) -> bool {
    matches!(command.kind, CommandKind::Write { .. })
}

/// Bytes of payload of a command.
pub(super) fn payload_length(command: &Command) -> u64 {
    match command.kind {
        CommandKind::Read { .. } | CommandKind::Write { .. } => command.length,
        CommandKind::Flush
        | CommandKind::Trim { .. }
        | CommandKind::WriteZeroes { .. }
        | CommandKind::Cache
        | CommandKind::BlockStatus { .. } => 0,
    }
}
