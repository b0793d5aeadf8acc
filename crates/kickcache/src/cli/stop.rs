//! `kickcache stop`: ends a daemon cleanly.

use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::anyhow;
use kickcache_command::exit::Failure;
use kickcache_command::notice::notice;
use kickcache_command::options::ControlOption;
use kickcache_daemon::control::client::{Client, ClientError, KnownEnd};
use kickcache_daemon::control::report::Report;
use kickcache_daemon::control::wire::{LeftOnCache, Request};
use kickcache_daemon::devices::offline::ublk::user_of;
use kickcache_units::show_bytes;

use crate::cli::drain_all::drain_all;

const EXAMPLES: &str = "\
Examples:
  kickcache stop                        return when all acknowledged writes are durable
  kickcache stop --no-wait
  kickcache stop --drain                write dirty blocks back first: the origins are complete
  kickcache stop --remove               only if no block device (serve --ublk) is in use

Dirty blocks stay on the cache device. For each volume that has any, the command prints the
bytes that its origin lacks, and the command that writes them back.
Exit code 1 if the daemon did not end cleanly: a signal cut the stop short, dirty blocks are lost
or on a cache device out of service alone, or it failed; with --drain also if blocks are left.
Exit code 1 also if a file was removed while it is served: the daemon keeps running, so that
its data can be copied, as the message describes.";

const ASK_EVERY: Duration = Duration::from_millis(50);
/// The interval of messages about the wait.
const SAY_EVERY: Duration = Duration::from_secs(10);

/// Stop a daemon cleanly
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct StopArgs {
    /// Return at once
    #[arg(long)]
    no_wait: bool,
    /// Write the dirty blocks of all volumes back first; until the stop, writes go around the cache
    #[arg(long, conflicts_with = "no_wait")]
    drain: bool,
    /// Refuse while a block device of a volume (serve --ublk) is in use
    ///
    /// Without it such a device stays, and its requests wait for the next daemon.
    #[arg(long)]
    remove: bool,
    /// Stop even if a file was removed while it is served, and its data are lost
    ///
    /// Without it the daemon keeps running, so that the data can be copied (docs/reference/status.md).
    #[arg(long)]
    lose_unlinked: bool,
    #[command(flatten)]
    control: ControlOption,
}

impl StopArgs {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<(), Failure> {
        let client = self.control.client();
        let client = if self.no_wait { client } else { client.patient() };
        if self.remove {
            refuse_used(&client.status()?)?;
        }
        let request = Request::Stop { lose_unlinked: self.lose_unlinked };
        let modes = if self.drain { Some(drain_all(&client)?) } else { None };
        let mut end = client.await_end()?;
        let stopped: Result<(), _> = client.request(&request);
        stopped.inspect_err(|_| modes.iter().for_each(|modes| modes.restore(&client)))?;
        if self.no_wait {
            return Ok(writeln!(out, "stopping")?);
        }
        let client = client.waiting();
        let known = loop {
            if let Some(known) = end.wait(SAY_EVERY) {
                break known;
            }
            client.status().iter().for_each(tell_awaited);
        };
        wait_gone(&client)?;
        match known {
            KnownEnd::Clean(left) => self.tell_left(&left, out),
            KnownEnd::Untold => Ok(writeln!(out, "stopped")?),
            KnownEnd::Unclean(why) => Err(anyhow!("the daemon ended, and not cleanly: {why}").into()),
        }
    }
}

impl StopArgs {
    fn tell_left(&self, left: &[LeftOnCache], out: &mut dyn Write) -> Result<(), Failure> {
        writeln!(out, "stopped")?;
        for LeftOnCache { volume, bytes, device, drain } in left {
            let bytes = show_bytes(*bytes);
            writeln!(
                out,
                "{volume}: {bytes} are only on the cache device {device}; its origin is incomplete until `{drain}`, or until kickcache \
                 serves it again"
            )?;
        }
        match left.first() {
            Some(first) if self.drain => Err(anyhow!(
                "the daemon has stopped, and some blocks were not written back: run `{}`",
                first.drain
            )
            .into()),
            Some(_) | None => Ok(()),
        }
    }
}

/// Waits until the socket is closed, so that the next daemon can listen.
fn wait_gone(client: &Client) -> Result<(), Failure> {
    let mut said = Instant::now();
    loop {
        match client.status() {
            Err(ClientError::NoDaemon(_) | ClientError::AnotherDaemon(_)) => return Ok(()),
            Ok(report) if said.elapsed() >= SAY_EVERY => {
                said = Instant::now();
                tell_awaited(&report);
            }
            // A daemon that is ending may refuse to answer, or close the connection.
            Ok(_) | Err(ClientError::Refused(_) | ClientError::Io { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        std::thread::sleep(ASK_EVERY);
    }
}

/// Refuses a stop while a block device of a volume is in use.
fn refuse_used(report: &Report) -> Result<(), Failure> {
    let volumes = report.caches.iter().flat_map(|cache| &cache.volumes);
    for device in volumes.filter_map(|volume| volume.served_at.ublk.as_deref()) {
        if let Some(user) = user_of(Path::new(device)) {
            return Err(anyhow!(
                "{device} is used by {user}; {} first, or stop without --remove, which leaves it to the next start",
                user.to_let_go()
            )
            .into());
        }
    }
    Ok(())
}

fn tell_awaited(report: &Report) {
    let awaited = report.caches.iter().filter_map(|cache| cache.stop_waits_for.as_deref());
    let awaited: Vec<&str> = awaited.collect();
    if !awaited.is_empty() {
        notice(&format!("the stop waits for {}", awaited.join(", ")));
    }
}
