//! `kickcache ublk`: the block devices of this host that volumes are.

use std::io::Write;

use kickcache_daemon::offline::ublk::{self, InUse, UblkDevice, UblkMaker, UblkState};
use kickcache_units::show_bytes;
use serde_json::json;

use crate::cli::exit::Failure;
use crate::cli::table::{Align, Cell, Colour, Table};

const EXAMPLES: &str = "\
Examples:
  kickcache ublk list
  kickcache ublk remove 0               delete a device whose daemon does not return
  kickcache ublk remove 0 --force       delete it even if it is mounted: its I/O fails";

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
        /// Its number: N of /dev/ublkbN
        id: u32,
        /// Delete it even if it is in use: its waiting requests fail
        #[arg(long)]
        force: bool,
    },
}

impl UblkArgs {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<(), Failure> {
        match self.command {
            UblkCommand::List { json: true } => list_json(out),
            UblkCommand::List { json: false } => list(out),
            UblkCommand::Remove { id, force } => {
                let in_use = if force { InUse::Fail } else { InUse::Keep };
                ublk::remove(id, in_use).map_err(failed)?;
                Ok(writeln!(out, "/dev/ublkb{id} was removed")?)
            }
        }
    }
}

fn list_json(out: &mut dyn Write) -> Result<(), Failure> {
    let devices = ublk::list().map_err(failed)?;
    let all: Vec<_> = devices.iter().map(as_value).collect();
    Ok(writeln!(out, "{:#}", json!({ "devices": all }))?)
}

fn list(out: &mut dyn Write) -> Result<(), Failure> {
    let devices = ublk::list().map_err(failed)?;
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
            Cell::new(device.user.as_deref().unwrap_or("-")),
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
        "used_by": device.user,
    })
}

fn state(device: &UblkDevice) -> &'static str {
    match device.state {
        UblkState::Dead => "dead",
        UblkState::Live => "live",
        UblkState::Waiting => "waits",
    }
}

fn maker(device: &UblkDevice) -> &'static str {
    match device.maker {
        UblkMaker::Kickcache => "kickcache",
        UblkMaker::Other => "other",
    }
}

fn failed(what: String) -> Failure {
    anyhow::Error::msg(what).into()
}
