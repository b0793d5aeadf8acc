//! `kickcache reload`: makes a daemon apply its present configuration file.

use std::io::Write;

use kickcache_command::exit::Failure;
use kickcache_command::options::ControlOption;
use kickcache_daemon::control::wire::{Reloaded, Request};

const EXAMPLES: &str = "\
Examples:
  kickcache reload --dry-run            check and print the difference only
  kickcache reload                      print the difference, and apply it
  systemctl reload kickcache            the same, by SIGHUP

Exit codes:
  0  the difference was applied, or could be
  1  a difference cannot be applied while the daemon runs: the daemon is unchanged; or a step
     failed: the message lists the changes that were made before it, and they stay
  2  the file is wrong: the daemon is unchanged
  3  no daemon answers";

/// Reload the configuration file
///
/// Reads the configuration file of the running daemon again. Volumes are added and removed; sockets, modes
/// and limits of volumes change while they are served. All checks are done first: if one fails, the
/// reload is refused and the daemon is unchanged (docs/how-to/reload.md).
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ReloadArgs {
    /// Print the difference only
    #[arg(long)]
    dry_run: bool,
    /// Print the difference as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    control: ControlOption,
}

impl ReloadArgs {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<(), Failure> {
        let request = Request::Reload { dry_run: self.dry_run };
        let reloaded: Reloaded = self.control.client().request(&request)?;
        if self.json {
            return Ok(writeln!(out, "{}", serde_json::to_string_pretty(&reloaded)?)?);
        }
        let Reloaded { changes, notes } = &reloaded;
        if changes.is_empty() && notes.is_empty() {
            writeln!(out, "no difference")?;
        }
        changes.iter().try_for_each(|change| writeln!(out, "{change}"))?;
        Ok(notes.iter().try_for_each(|note| writeln!(out, "{note}"))?)
    }
}
