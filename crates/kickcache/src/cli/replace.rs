//! `kickcache replace`: another device takes over from a cache device.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::anyhow;
use indicatif::ProgressBar;
use kickcache_command::bar::bar;
use kickcache_command::exit::Failure;
use kickcache_command::options::{ControlOption, parse_cache_size};
use kickcache_daemon::control::client::Client;
use kickcache_daemon::control::replacing_report::{ReplacingReport, ReplacingStep};
use kickcache_daemon::control::report::{CacheReport, Report};
use kickcache_daemon::control::wire::{ReplacementOrder, ReplacementStage, Replacing, Request};
use kickcache_daemon::shell_command::ShellCommand;
use kickcache_daemon::whole_path::{shown_path, whole_path};
use kickcache_units::{Size, show_bytes};

use crate::cli::daemon_loss::vanished;
use crate::cli::daemon_wait::DaemonWait;

const BAR: &str = "{msg} {bar:30} {percent:>3} %  {bytes}/{total_bytes}  {bytes_per_sec}  {eta} left";

const EXAMPLES: &str = "\
Examples:
  kickcache replace --with /dev/nvme1n1p1             the daemon's only cache device
  kickcache replace --with /dev/nvme1n1p1 --dry-run     print the planned changes only
  kickcache replace --cache /var/cache/vm1.img --with /mnt/new/vm1.img
                                                      a cache file is created, of the required size";

/// Replace a cache device by another one while it is served
///
/// All cached data is copied to the new device, dirty or not, while requests continue. Then the new device
/// takes over, and the old device records its successor: a start with the old device in its
/// configuration uses the new one. The new device must be at least as large as the old one; `kickcache
/// grow` uses the rest. After `kickcache leave-out`, a device of any size is put into use, empty. After
/// `kill -9` or a power failure, the next start continues the operation without loss (docs/how-to/replace.md).
///
/// The command waits until the operation is complete, however long it takes, or refused. If the command is
/// interrupted (exit code 130), the daemon continues; `kickcache status` shows the progress, and the same
/// command waits for it again.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ReplaceArgs {
    /// Cache device to be replaced [default: the daemon's only one]
    #[arg(long, value_name = "CACHE")]
    cache: Option<PathBuf>,
    /// The device that takes over: a block device, or a file, which is created if it does not exist
    #[arg(long, value_name = "CACHE")]
    with: PathBuf,
    /// Size of a new file [default: as large as the cache; required after `leave-out`]
    #[arg(long, value_name = "SIZE", value_parser = parse_cache_size, allow_hyphen_values = true)]
    size: Option<Size>,
    /// Use the device even if it holds data; the data is lost
    #[arg(long)]
    force: bool,
    /// Check all conditions and print the planned changes only
    #[arg(long)]
    dry_run: bool,
    /// Print the two devices and the bytes copied as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    control: ControlOption,
}

impl ReplaceArgs {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<(), Failure> {
        let client = self.control.client();
        let request = Request::Replace(ReplacementOrder {
            device: self.cache.as_deref().map(shown_path),
            with: whole_path(&self.with),
            size_bytes: self.size.map(Size::bytes),
            force: self.force,
            dry_run: self.dry_run,
        });
        let (awaited, bar) = (DaemonWait::new()?, bar(1, BAR));
        let asker = client.patient();
        let asked =
            awaited.answer(move || asker.request(&request), || show(&client, self.cache.as_deref(), &bar));
        let replacing: Replacing = asked.inspect_err(|_| bar.finish_and_clear())?;
        let Replacing { device, with, bytes, stage, destroyed } = &replacing;
        if self.dry_run {
            bar.finish_and_clear();
            if self.json {
                let planned = Replacing { stage: ReplacementStage::Planned, ..replacing.clone() };
                return Ok(writeln!(out, "{}", serde_json::to_string_pretty(&planned)?)?);
            }
            if let Some(what) = destroyed {
                writeln!(out, "{what}")?;
            }
            if *bytes == 0 {
                return Ok(writeln!(out, "{with} would be taken in, empty, in the place of {device}")?);
            }
            let copied = show_bytes(*bytes);
            return Ok(writeln!(out, "{with} would take over from {device}; {copied} would be copied")?);
        }
        let replaced = wait(&client, &replacing, &awaited, &bar);
        bar.finish_and_clear();
        let cache = replaced?;
        if self.json {
            return Ok(writeln!(out, "{}", serde_json::to_string_pretty(&replacing)?)?);
        }
        if *stage == ReplacementStage::Done {
            return Ok(writeln!(out, "{with} is the cache device already, since an earlier `replace`")?);
        }
        if *bytes == 0 && with == device {
            return Ok(writeln!(
                out,
                "{with} is the cache device again, and empty; if the configuration names another device, name {with} there"
            )?);
        }
        if *bytes == 0 {
            return Ok(writeln!(
                out,
                "{with} is the cache device now, and empty; {device} stays left out: name {with} in the configuration"
            )?);
        }
        writeln!(out, "{with} has taken over from {device}, which is not used any more")?;
        let used = show_bytes(cache.device_bytes);
        Ok(writeln!(out, "it uses {used}; if it is larger, `kickcache grow` uses the rest")?)
    }
}

fn show(client: &Client, device: Option<&Path>, bar: &ProgressBar) {
    // The reply to the replace request reports the error.
    let Ok(Report { caches, .. }) = client.status() else { return };
    let is_meant = |cache: &&CacheReport| device.is_none_or(|device| shown_path(device) == cache.device);
    if let Some(found) = caches.iter().filter(is_meant).find_map(|cache| cache.replacing.as_ref()) {
        show_progress(found, bar);
    }
}

fn show_progress(found: &ReplacingReport, bar: &ProgressBar) {
    let what = match found.step {
        ReplacingStep::Preparing => "preparing",
        ReplacingStep::Copying => "copying",
        ReplacingStep::TakingOver => "taking over",
    };
    bar.set_message(what);
    bar.set_length(found.bytes);
    bar.set_position(found.copied_bytes);
}

fn wait(
    client: &Client,
    replacing: &Replacing,
    awaited: &DaemonWait,
    bar: &ProgressBar,
) -> Result<CacheReport, Failure> {
    let Replacing { device, with, .. } = replacing;
    loop {
        let Report { caches, .. } = awaited.status(client, |error| {
            let status = ShellCommand::new("status");
            let what = format!("leave that device alone, start it, and see `{status}`");
            vanished(error, &format!("its next start may continue with {with}: {what}"))
        })?;
        let is_meant = |cache: &CacheReport| &cache.device == device || &cache.device == with;
        let cache = caches.into_iter().find(is_meant);
        let cache = cache.ok_or_else(|| anyhow!("neither {device} nor {with} is served any more"))?;
        if &cache.device == with {
            return Ok(cache);
        }
        let Some(progress) = &cache.replacing else {
            let why =
                cache.replacement_failure.unwrap_or_else(|| "see the daemon's log for the reason".into());
            return Err(anyhow!("{device} was not replaced, and stays in use: {why}").into());
        };
        show_progress(progress, bar);
        awaited.pause()?;
    }
}
