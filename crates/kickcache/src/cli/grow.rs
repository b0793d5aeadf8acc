//! `kickcache grow`: a daemon uses more of a cache device.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use anyhow::anyhow;
use kickcache_command::exit::Failure;
use kickcache_command::options::{ControlOption, parse_cache_size};
use kickcache_daemon::control::client::Client;
use kickcache_daemon::control::wire::{Growing, Request};
use kickcache_daemon::whole_path::shown_path;
use kickcache_units::{Size, show_bytes};

use crate::cli::daemon_loss::vanished;

const PAUSE: Duration = Duration::from_millis(100);

const EXAMPLES: &str = "\
Examples:
  kickcache grow --size 40G             extend the cache file, and use its new size
  lvextend -L +20G vg/fast && kickcache grow
  kickcache grow --size 40G --dry-run   print the planned changes only
  kickcache grow /dev/vg/fast           where a daemon has several cache devices";

/// Use more of a cache device while it is served
///
/// A cache file is extended to --size, and its blocks are allocated at once, as by `serve`. A block device or
/// an LVM volume must be extended first; the command then uses its new size. Cached data is kept, dirty or
/// not, and requests continue. A cache device cannot shrink. The journal, which is sized at `format`, limits
/// the growth, as `kickcache inspect` shows (docs/how-to/grow.md).
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct GrowArgs {
    /// Cache device [default: the daemon's only one]
    #[arg(value_name = "CACHE")]
    cache: Option<PathBuf>,
    /// Bytes to use, such as 40G [default: the whole device]
    #[arg(long, value_name = "SIZE", value_parser = parse_cache_size, allow_hyphen_values = true)]
    size: Option<Size>,
    /// Check all conditions and print the planned changes only
    #[arg(long)]
    dry_run: bool,
    /// Print the device and its sizes as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    control: ControlOption,
}

impl GrowArgs {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<(), Failure> {
        let client = self.control.client().patient();
        let device = self.cache.as_deref().map(shown_path);
        let size_bytes = self.size.map(Size::bytes);
        let growing: Growing =
            client.request(&Request::Grow { device, size_bytes, dry_run: self.dry_run })?;
        let is_growing = !self.dry_run && growing.before_bytes != growing.size_bytes;
        if is_growing {
            wait(&client, &growing)?;
        }
        if self.json {
            return Ok(writeln!(out, "{}", serde_json::to_string_pretty(&growing)?)?);
        }
        self.tell(out, &growing)
    }

    fn tell(&self, out: &mut dyn Write, growing: &Growing) -> Result<(), Failure> {
        let Growing { device, before_bytes, size_bytes } = growing;
        if before_bytes == size_bytes {
            let hint = if Path::new(device).is_file() {
                "; --size extends the file"
            } else {
                "; extend the device first"
            };
            return Ok(writeln!(
                out,
                "{device}: {} ({size_bytes} bytes), unchanged{hint}",
                show_bytes(*size_bytes)
            )?);
        }
        let (before, now) = (show_bytes(*before_bytes), show_bytes(*size_bytes));
        if self.dry_run {
            return Ok(writeln!(out, "{device}: would have {now} ({size_bytes} bytes), has {before}")?);
        }
        Ok(writeln!(out, "{device}: {now} ({size_bytes} bytes) now, {before} before")?)
    }
}

/// Waits until a device has grown; another client may have grown it further.
fn wait(client: &Client, Growing { device, size_bytes, .. }: &Growing) -> Result<(), Failure> {
    let client = client.waiting();
    loop {
        let report = client.status().map_err(|error| {
            vanished(error, "the next start uses the size in the superblock, which `status` shows")
        })?;
        let cache = report.caches.into_iter().find(|cache| cache.device == *device);
        let cache = cache.ok_or_else(|| anyhow!("{device} is not served any more"))?;
        let used = cache.device_bytes;
        match cache.growing_to_bytes {
            None if used >= *size_bytes => return Ok(()),
            None => {
                let what = "see the daemon's log for the reason";
                return Err(anyhow!("{device} still uses {used} bytes, not {size_bytes}; {what}").into());
            }
            Some(_) => {}
        }
        thread::sleep(PAUSE);
    }
}
