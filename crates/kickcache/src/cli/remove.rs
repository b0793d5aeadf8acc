//! `kickcache remove`: a daemon serves a volume no longer.

use std::io::Write;

use kickcache_daemon::plan::removal::{Clients, DirtyFate};
use kickcache_units::show_bytes;

use crate::cli::exit::Failure;
use crate::cli::options::ControlOption;

const EXAMPLES: &str = "\
Examples:
  kickcache remove vm2                  write back what is dirty, then let go of it
  kickcache remove vm2 --disconnect     also if clients are connected
  kickcache remove vm2 --abandon-dirty  its origin is gone, or its last writes are worth nothing

Exit codes: 0 if the volume is gone; 1 if it stays; 3 if no daemon answers.";

/// Serve a volume no longer, and forget what the cache device holds of it
///
/// Dirty blocks are written back first, which takes as long as it takes; it goes on if this command is interrupted. Then the origin can be
/// used otherwise, and the volume added again. The configuration file stays as it is (docs/how-to/reload.md).
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RemoveArgs {
    /// Name of the volume
    volume: String,
    /// Disconnect its clients; without it, a volume that has any stays
    #[arg(long)]
    disconnect: bool,
    /// Lose its dirty blocks instead of writing them back
    #[arg(long)]
    abandon_dirty: bool,
    #[command(flatten)]
    control: ControlOption,
}

impl RemoveArgs {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<(), Failure> {
        let clients = if self.disconnect { Clients::Disconnected } else { Clients::Respected };
        let dirty = if self.abandon_dirty { DirtyFate::Abandoned } else { DirtyFate::WrittenBack };
        let removed = self.control.client().remove(&self.volume, clients, dirty)?;
        let volume = &self.volume;
        match removed.lost_bytes {
            0 => writeln!(out, "{volume}: removed; its origin has everything")?,
            lost => writeln!(out, "{volume}: removed; {} of dirty blocks LOST", show_bytes(lost))?,
        }
        Ok(())
    }
}
