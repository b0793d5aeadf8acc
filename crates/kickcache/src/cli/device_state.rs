//! A cache device that is not used, as `check` and `inspect` show it: out of service, an older copy, or bypassed.

use std::io::{self, Write};
use std::path::Path;

use anyhow::Error;
use kickcache_command::exit::{Exit, Failure};
use kickcache_daemon::devices::offline::OfflineError;
use kickcache_daemon::devices::offline::older_copy::older_copy_at;
use kickcache_daemon::devices::offline::out_of_service::{OutOfServiceDevice, out_of_service};
use kickcache_daemon::devices::offline::stale_blocks::{StaleVolume, bypassed};
use kickcache_daemon::devices::older_copy::OlderCopy;
use kickcache_daemon::extents::show_extents;
use kickcache_daemon::serve::config::StatePlace;
use kickcache_units::printable::printable_line;
use kickcache_units::show_bytes;
use serde_json::{Value, json};

/// The reason why the blocks of a cache device are not used, if there is one.
pub(super) struct UnusedReason {
    pub(super) standing: Option<OutOfServiceDevice>,
    pub(super) copy: Option<OlderCopy>,
    pub(super) bypassed: Vec<StaleVolume>,
}

impl UnusedReason {
    /// # Errors
    /// As [`out_of_service`].
    pub(super) fn look(path: &Path, state: &StatePlace) -> Result<UnusedReason, OfflineError> {
        Ok(UnusedReason {
            standing: out_of_service(path, state, &[])?,
            copy: older_copy_at(path, state),
            bypassed: bypassed(path, state),
        })
    }

    pub(super) fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        print_standing(out, self.standing.as_ref())?;
        print_older_copy(out, self.copy.as_ref())?;
        print_bypassed(out, &self.bypassed)
    }

    /// The failure of a tool that found no other defect; `Ok` if a daemon would use the device.
    ///
    /// # Errors
    /// If no daemon would use the device.
    pub(super) fn end(&self) -> Result<(), Failure> {
        let needed: Vec<&str> = self
            .bypassed
            .iter()
            .filter(|volume| volume.is_needed())
            .map(|volume| volume.name.as_str())
            .collect();
        let what = match () {
            () if self.standing.is_some() => {
                "the cache device is out of service: its blocks may be stale, and it is not used until it is formatted".into()
            }
            () if self.copy.is_some() => {
                "the cache device is an older copy: its blocks may be stale, and a daemon refuses it".into()
            }
            () if !needed.is_empty() => format!(
                "the cache device was bypassed with dirty blocks of {}: they may be older than the data \
                 of the origin, and a daemon refuses them",
                needed.join(", ")
            ),
            () => return Ok(()),
        };
        Err(Failure { exit: Exit::OutOfService, error: Error::msg(what) })
    }
}

const EXTENTS_SHOWN: usize = 8;

pub(super) fn print_standing(out: &mut dyn Write, standing: Option<&OutOfServiceDevice>) -> io::Result<()> {
    let Some(standing) = standing else { return Ok(()) };
    match &standing.doubt {
        None => writeln!(out, "\nout of service: a daemon leaves it out until it is formatted")?,
        Some(doubt) => writeln!(out, "\nout of service: unknown. {doubt}")?,
    }
    for volume in &standing.incomplete {
        let which = match &volume.extents {
            Some(extents) => show_extents(extents, EXTENTS_SHOWN),
            None => "it is unknown which".into(),
        };
        writeln!(
            out,
            "{} may have dirty blocks that are on it alone: {which}",
            printable_line(&volume.name)
        )?;
    }
    Ok(())
}

pub(super) fn standing_json(standing: &OutOfServiceDevice) -> Value {
    let volumes = standing.incomplete.iter().map(|volume| {
        let extents = volume.extents.as_ref().map(|extents| {
            let pair = extents.iter().map(|extent| json!({ "start": extent.start, "length": extent.length }));
            pair.collect::<Vec<_>>()
        });
        json!({ "name": volume.name, "dirty": extents })
    });
    json!({ "incomplete": volumes.collect::<Vec<_>>() })
}

pub(super) fn print_bypassed(out: &mut dyn Write, bypassed: &[StaleVolume]) -> io::Result<()> {
    bypassed.iter().try_for_each(|volume| {
        let does = match volume.is_needed() {
            true => "refuses it until you decide whether to keep or lose these blocks",
            false => "drops its cached blocks",
        };
        let (name, since, dirty) = (printable_line(&volume.name), &volume.since, volume.shown());
        writeln!(out, "\nbypassed: {name}: {since} since; {dirty} on this device: a daemon {does}")
    })
}

pub(super) fn bypassed_json(bypassed: &[StaleVolume]) -> Value {
    let volume = |volume: &StaleVolume| {
        let dirty =
            volume.dirty.iter().map(|extent| json!({ "start": extent.start, "length": extent.length }));
        json!({
            "name": volume.name,
            "why": volume.since.to_string(),
            "needed": volume.is_needed(),
            "dirty": dirty.collect::<Vec<_>>(),
        })
    };
    bypassed.iter().map(volume).collect()
}

pub(super) fn print_older_copy(out: &mut dyn Write, copy: Option<&OlderCopy>) -> io::Result<()> {
    let Some(copy) = copy else { return Ok(()) };
    writeln!(out, "\nolder copy: a daemon refuses it; {copy}")
}

pub(super) fn older_copy_json(copy: &OlderCopy) -> Value {
    json!({ "found": copy.found, "noted": copy.noted, "note": copy.note })
}

/// Blocks that are dirty by the log of a device out of service, and that were written back or given up.
pub(super) fn print_needless(out: &mut dyn Write, volume: &str, bytes: u64) -> io::Result<()> {
    match bytes {
        0 => Ok(()),
        bytes => {
            writeln!(
                out,
                "\n{} of {} that were dirty were written back since, or given up",
                show_bytes(bytes),
                printable_line(volume)
            )
        }
    }
}
