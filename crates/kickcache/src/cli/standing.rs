//! A cache device that is not used, as `check` and `inspect` show it: out of service, or an older copy.

use std::io::{self, Write};

use kickcache_daemon::extents::show_extents;
use kickcache_daemon::offline::standing::Standing;
use kickcache_daemon::serve::older_copy::OlderCopy;
use serde_json::{Value, json};

/// Extents that are listed for people.
const EXTENTS_SHOWN: usize = 8;

/// Says that the device is out of service, if it is, and which volumes need it.
pub(super) fn print_standing(out: &mut dyn Write, standing: Option<&Standing>) -> io::Result<()> {
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
        writeln!(out, "{} may have dirty blocks that are on it alone: {which}", volume.name)?;
    }
    Ok(())
}

/// The same for programs.
pub(super) fn standing_json(standing: &Standing) -> Value {
    let volumes = standing.incomplete.iter().map(|volume| {
        let extents = volume.extents.as_ref().map(|extents| {
            let pair = extents.iter().map(|extent| json!({ "start": extent.start, "length": extent.length }));
            pair.collect::<Vec<_>>()
        });
        json!({ "name": volume.name, "dirty": extents })
    });
    json!({ "incomplete": volumes.collect::<Vec<_>>() })
}

/// Says that the device is an older copy, if it is.
pub(super) fn print_older_copy(out: &mut dyn Write, copy: Option<&OlderCopy>) -> io::Result<()> {
    let Some(copy) = copy else { return Ok(()) };
    writeln!(out, "\nolder copy: a daemon refuses it. {copy}")
}

/// The same for programs.
pub(super) fn older_copy_json(copy: &OlderCopy) -> Value {
    json!({ "found": copy.found, "noted": copy.noted, "note": copy.note })
}
