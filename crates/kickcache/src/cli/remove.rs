//! `kickcache remove`: a daemon serves a volume no longer.

use std::io::Write;

use kickcache_command::exit::Failure;
use kickcache_command::options::ControlOption;
use kickcache_daemon::control::wire::{RemoveOrder, Removed, Request};
use kickcache_units::show_bytes;

const EXAMPLES: &str = "\
Examples:
  kickcache remove vm2 --dry-run        print the planned changes only
  kickcache remove vm2                  write dirty blocks back, then remove it
  kickcache remove vm2 --disconnect     also if clients are connected
  kickcache remove vm2 --abandon-dirty  its origin is lost, or its last writes are not needed

Exit codes: 0 if the volume was removed; 1 if it was not; 3 if no daemon answers.";

/// Stop serving a volume and drop its cached blocks
///
/// Dirty blocks are written back first, however long that takes; the daemon continues if this command is
/// interrupted. Afterwards the origin can be used by other programs, and the volume can be added again. The
/// configuration file is not changed (docs/how-to/reload.md).
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RemoveArgs {
    /// Name of the volume
    volume: String,
    /// Disconnect its clients; without this, a volume with clients is not removed
    #[arg(long)]
    disconnect: bool,
    /// Lose its dirty blocks instead of writing them back
    #[arg(long)]
    abandon_dirty: bool,
    /// Only print the planned changes
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    control: ControlOption,
}

impl RemoveArgs {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<(), Failure> {
        let volume = &self.volume;
        let removed: Removed = self.control.client().request(&Request::Remove(RemoveOrder {
            volume: volume.clone(),
            disconnect: self.disconnect,
            abandon_dirty: self.abandon_dirty,
            dry_run: self.dry_run,
        }))?;
        if self.dry_run {
            return Ok(writeln!(out, "{volume}: can be removed; {}", forecast(removed))?);
        }
        match removed.lost_bytes {
            0 => writeln!(out, "{volume}: removed; its origin has all data")?,
            lost => writeln!(out, "{volume}: removed; {} of dirty blocks LOST", show_bytes(lost))?,
        }
        Ok(())
    }
}

fn forecast(removed: Removed) -> String {
    match removed {
        Removed { lost_bytes: 0, dirty_bytes: 0 } => "its origin has all data".into(),
        Removed { lost_bytes: 0, dirty_bytes } => {
            format!("{} of dirty blocks are written back before", show_bytes(dirty_bytes))
        }
        Removed { lost_bytes, .. } => format!("{} of dirty blocks would be LOST", show_bytes(lost_bytes)),
    }
}
