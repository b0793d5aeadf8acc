//! `kickcache leave-out`: a daemon serves the volumes of a cache device without it.

use std::io::Write;
use std::path::PathBuf;

use indicatif::ProgressBar;
use kickcache_command::bar::bar;
use kickcache_command::exit::Failure;
use kickcache_command::options::ControlOption;
use kickcache_daemon::control::client::Client;
use kickcache_daemon::control::replacing_report::LeavingOutReport;
use kickcache_daemon::control::report::Report;
use kickcache_daemon::control::wire::{DirtyVolume, LeaveOutOrder, LeftOut, Request};
use kickcache_daemon::whole_path::shown_path;
use kickcache_units::show_bytes;

use crate::cli::daemon_wait::DaemonWait;

const BAR: &str = "writing back {bar:30} {percent:>3} %  {bytes}/{total_bytes}  {bytes_per_sec}  {eta} left";

const EXAMPLES: &str = "\
Examples:
  kickcache leave-out --dry-run         print the planned changes only
  kickcache leave-out                   the daemon's only cache device
  kickcache leave-out --cache /dev/nvme0n1p4 --abandon-dirty
                                        a failing device: blocks that cannot be read are lost
  kickcache replace --with /dev/nvme1n1p1
                                        afterwards: put another device into use, empty";

/// Take a cache device out of use while its volumes are served
///
/// The dirty blocks of the device are written back. Then the volumes are served from their origins alone, the
/// device is marked as out of service, and it is closed, so that the drive can be removed. Clients continue.
/// A device that is out of service after errors is handled in the same way. `kickcache replace` puts
/// another one into use (docs/how-to/replace.md).
///
/// If this command is interrupted (exit code 130), the daemon continues the operation; `kickcache status`
/// shows how many bytes are left to be written back.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct LeaveOutArgs {
    /// Cache device [default: the daemon's only one]
    #[arg(long, value_name = "CACHE")]
    cache: Option<PathBuf>,
    /// Lose the dirty blocks that cannot be written back, after 3 s without progress
    #[arg(long)]
    abandon_dirty: bool,
    /// Check all conditions and print the planned changes only
    #[arg(long)]
    dry_run: bool,
    /// Print the device, its dirty bytes and its lost bytes as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    control: ControlOption,
}

impl LeaveOutArgs {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<(), Failure> {
        let request = Request::LeaveOut(LeaveOutOrder {
            device: self.cache.as_deref().map(shown_path),
            abandon_dirty: self.abandon_dirty,
            dry_run: self.dry_run,
        });
        let (client, awaited, bar) = (self.control.client(), DaemonWait::new()?, bar(1, BAR));
        let asker = client.patient();
        let answered = awaited.answer(move || asker.request(&request), || show(&client, &bar));
        bar.finish_and_clear();
        let left_out: LeftOut = answered?;
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

fn show(client: &Client, bar: &ProgressBar) {
    // The reply to the leave-out request reports the error.
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
