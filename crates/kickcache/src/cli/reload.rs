//! `kickcache reload`: a daemon serves what its configuration file says by now.

use std::io::Write;

use kickcache_daemon::control::ReloadExtent;
use kickcache_daemon::control::wire::Reloaded;

use crate::cli::exit::Failure;
use crate::cli::options::ControlOption;

const EXAMPLES: &str = "\
Examples:
  kickcache reload --dry-run            print what is different in the file, and change nothing
  kickcache reload                      print it, and do it
  systemctl reload kickcache            the same; SIGHUP does it, too

Exit codes: 0 if the daemon serves what the file says, or would; 1 if something cannot change while it
runs, or fails, 2 if the file is wrong: then nothing has changed, and the daemon serves on as before;
3 if no daemon answers.";

/// Serve what the configuration file says by now
///
/// Reads the file again that the daemon was started with. Volumes come and go, and places, modes and limits of volumes change while they are
/// served. What cannot change is refused, and then nothing changes at all (docs/how-to/reload.md).
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ReloadArgs {
    /// Print the difference and change nothing
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
        let extent = if self.dry_run { ReloadExtent::DifferenceOnly } else { ReloadExtent::All };
        let reloaded = self.control.client().reload(extent)?;
        if self.json {
            return Ok(writeln!(out, "{}", serde_json::to_string_pretty(&reloaded)?)?);
        }
        let Reloaded { changes, notes } = &reloaded;
        if changes.is_empty() && notes.is_empty() {
            writeln!(out, "nothing is different")?;
        }
        changes.iter().try_for_each(|change| writeln!(out, "{change}"))?;
        Ok(notes.iter().try_for_each(|note| writeln!(out, "{note}"))?)
    }
}
