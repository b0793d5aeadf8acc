//! `kickcache ublk`: the ublk block devices of this host.

use kickcache_command::exit::Failure;
use kickcache_command::notice::notice;
use kickcache_command::table::{Align, Cell, Colour, Table};
use kickcache_command::user_text::Printer;
use kickcache_daemon::devices::offline::ublk::{self, InUse, Removed, UblkDevice, UblkMaker, UblkState};
use kickcache_daemon::plan::frontends::ublk::id::ublk_number;
use kickcache_units::show_bytes;
use serde_json::json;

const EXAMPLES: &str = "\
Examples:
  kickcache ublk list
  kickcache ublk remove 0               delete a device that has lost its daemon
  kickcache ublk remove 0 --force       delete it even if it is mounted: its I/O fails

States of `list`:
  live    a process serves it: SERVED BY
  waits   its daemon has ended; its reads and writes wait until the volume is served again
  ends    its daemon was just killed; if the state persists, the device is stuck until a reboot
  dead    not started, or being deleted: the next start of its volume deletes it";

/// List and remove block devices of volumes (serve --ublk), with or without a daemon
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct UblkArgs {
    #[command(subcommand)]
    command: UblkCommand,
}

#[derive(Debug, clap::Subcommand)]
enum UblkCommand {
    /// Show all ublk devices of this host
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Delete a device that has no daemon; a device that is served is deleted when its daemon stops
    Remove {
        /// Number of the device: N of /dev/ublkbN
        #[arg(value_parser = ublk_number, allow_hyphen_values = true)]
        id: u32,
        /// Delete it even if it is in use: its waiting requests fail
        #[arg(long)]
        force: bool,
    },
    /// Make the kernel start a device that a daemon serves; only a daemon runs this command
    #[command(hide = true)]
    Start {
        /// Its number
        id: u32,
        /// The process that serves it
        server: u32,
    },
}

impl UblkArgs {
    pub(crate) fn run(&self, out: &mut dyn Printer) -> Result<(), Failure> {
        match self.command {
            UblkCommand::List { json: true } => list_json(out),
            UblkCommand::List { json: false } => list(out),
            UblkCommand::Start { id, server } => Ok(writeln!(out, "{}", ublk::start(id, server))?),
            UblkCommand::Remove { id, force } => {
                let in_use = if force { InUse::Fail } else { InUse::Keep };
                match ublk::remove(id, in_use, Box::new(tell)).map_err(failed)? {
                    Removed::Gone => Ok(writeln!(out, "/dev/ublkb{id} was removed")?),
                    Removed::Ended(user) => Ok(writeln!(
                        out,
                        "/dev/ublkb{id} was ended: reads and writes to it fail; it is deleted when {user} has ended: {}",
                        user.to_let_go()
                    )?),
                }
            }
        }
    }
}

fn list_json(out: &mut dyn Printer) -> Result<(), Failure> {
    let devices = ublk::list(Box::new(tell)).map_err(failed)?;
    let all: Vec<_> = devices.iter().map(as_value).collect();
    Ok(writeln!(out, "{:#}", json!({ "devices": all }))?)
}

fn list(out: &mut dyn Printer) -> Result<(), Failure> {
    let devices = ublk::list(Box::new(tell)).map_err(failed)?;
    if devices.is_empty() {
        return Ok(writeln!(out, "there are no ublk devices")?);
    }
    let mut table = Table::new(&[
        ("DEVICE", Align::Left),
        ("SIZE", Align::Right),
        ("STATE", Align::Left),
        ("SERVED BY", Align::Right),
        ("MADE BY", Align::Left),
        ("USED BY", Align::Left),
    ]);
    for device in &devices {
        let server = device.server.map_or_else(|| "-".into(), |pid| pid.to_string());
        table.row(vec![
            Cell::new(device.path.display().to_string()),
            Cell::new(show_bytes(device.size)),
            Cell::new(state(device)),
            Cell::new(server),
            Cell::new(maker(device)),
            Cell::new(device.user.as_ref().map_or_else(|| "-".into(), ToString::to_string)),
        ]);
    }
    Ok(table.print(out, Colour::for_stdout())?)
}

fn as_value(device: &UblkDevice) -> serde_json::Value {
    json!({
        "device": device.path,
        "size_bytes": device.size,
        "state": state(device),
        "server_pid": device.server,
        "made_by": maker(device),
        "used_by": device.user.as_ref().map(ToString::to_string),
    })
}

fn state(device: &UblkDevice) -> &'static str {
    match device.state {
        UblkState::Dead => "dead",
        UblkState::Live => "live",
        UblkState::Waiting => "waits",
        UblkState::Ending => "ends",
    }
}

fn maker(device: &UblkDevice) -> &'static str {
    match device.maker {
        UblkMaker::Kickcache => "kickcache",
        UblkMaker::Other => "other",
    }
}

fn tell(line: &str) {
    notice(&format!("kickcache: {line}"));
}

fn failed(what: String) -> Failure {
    anyhow::Error::msg(what).into()
}
