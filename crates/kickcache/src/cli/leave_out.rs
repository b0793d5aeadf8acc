//! `kickcache leave-out`: a daemon serves the volumes of a cache device without it.

use std::io::Write;
use std::path::PathBuf;

use indicatif::ProgressBar;
use kickcache_daemon::control::client::Client;
use kickcache_daemon::control::replacing_report::LeavingOutReport;
use kickcache_daemon::control::report::Report;
use kickcache_daemon::control::wire::{DirtyVolume, LeaveOutOrder, LeftOut};
use kickcache_daemon::whole_path::shown_path;
use kickcache_units::show_bytes;

use crate::bar::bar;
use crate::cli::awaited::Awaited;
use crate::cli::exit::Failure;
use crate::cli::options::ControlOption;

/// How far it is.
const BAR: &str = "writing back {bar:30} {percent:>3} %  {bytes}/{total_bytes}  {bytes_per_sec}  {eta} left";

const EXAMPLES: &str = "\
Examples:
  kickcache leave-out --dry-run         say what would be written back, and change nothing
  kickcache leave-out                   the daemon's only cache device
  kickcache leave-out --cache /dev/nvme0n1p4 --abandon-dirty
                                        a device that fails: what cannot be written back of it is lost
  kickcache replace --with /dev/nvme1n1p1
                                        afterwards: another device is taken in, empty";

/// Leave a cache device out while its volumes are served
///
/// What is dirty there is written back; then the volumes are served from their origins alone, the device says that it is out of service,
/// and it is closed, so that the drive can be pulled. Clients go on. A device that is out of service after errors is left out in the same
/// way. `kickcache replace` takes another one in (docs/how-to/replace.md).
///
/// The daemon goes on with it if this command is interrupted (exit code 130); `kickcache status` says how much is left to be written back.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct LeaveOutArgs {
    /// The cache device, if the daemon has several
    #[arg(long, value_name = "CACHE")]
    cache: Option<PathBuf>,
    /// Lose the dirty blocks that cannot be written back, after 3 s without any
    #[arg(long)]
    abandon_dirty: bool,
    /// Check everything, print what would be done, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Print the device, what was dirty and what is lost as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    control: ControlOption,
}

impl LeaveOutArgs {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<(), Failure> {
        let order = LeaveOutOrder {
            device: self.cache.as_deref().map(shown_path),
            abandon_dirty: self.abandon_dirty,
            dry_run: self.dry_run,
        };
        let (client, awaited, bar) = (self.control.client(), Awaited::new()?, bar(1, BAR));
        let asker = client.patient();
        let answered = awaited.answer(move || asker.leave_out(order), || show(&client, &bar));
        bar.finish_and_clear();
        let left_out = answered?;
        if self.json {
            return Ok(writeln!(out, "{}", serde_json::to_string_pretty(&left_out)?)?);
        }
        let LeftOut { device, dirty, lost } = &left_out;
        if self.dry_run {
            dirty.iter().try_for_each(|found| writeln!(out, "{}: dirty on {device}", told(found)))?;
            return Ok(writeln!(out, "{device} would be left out")?);
        }
        lost.iter().try_for_each(|found| writeln!(out, "{}: LOST", told(found)))?;
        Ok(writeln!(out, "{device} is left out: its volumes are served from their origins alone")?)
    }
}

/// Shows how much is left to be written back.
fn show(client: &Client, bar: &ProgressBar) {
    // Whoever asked will be told what is wrong.
    let Ok(Report { caches, .. }) = client.status() else { return };
    let leaving = caches.into_iter().find_map(|cache| cache.leaving_out);
    if let Some(LeavingOutReport { left_bytes, bytes }) = leaving {
        bar.set_length(bytes);
        bar.set_position(bytes.saturating_sub(left_bytes));
    }
}

fn told(DirtyVolume { volume, bytes }: &DirtyVolume) -> String {
    format!("{volume}: {}", show_bytes(*bytes))
}
