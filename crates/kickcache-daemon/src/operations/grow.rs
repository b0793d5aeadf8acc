//! The cache device grows while it is served.
//!
//! A script on a thread of its own, because each step may wait for the device: the device is extended and examined, the engine
//! prepares for the new size, the superblock gets it, and only then the engine uses it. The caller is answered once the new size is
//! known to be possible, after 8 s at the latest; the status shows the completion.

use std::sync::Arc;

use crate::devices::cache_device::{Extended, check_extension, extend, store_superblock};
use crate::operations::held_superblock::HeldSuperblock;
use crate::operations::script::{Script, Scripts};
use crate::serve::error::ServeError;
use crate::serve::server::ServerHandle;
use crate::serve::verbs::growth::{CacheGrown, DeviceToGrow, Growth, GrowthStart};

/// The growths that have not answered.
pub(crate) type Growths = Scripts<CacheGrown>;

/// Begins to use more of the cache device: this many bytes, or the whole device. A cache file is extended.
///
/// # Errors
/// The device cannot grow in this way; [`ServeError::StillRunning`] if it does not respond for 8 s, and [`ServeError::Stopped`].
pub(crate) fn grow(
    growths: &Arc<Growths>,
    server: &ServerHandle,
    wanted: Option<u64>,
) -> Result<CacheGrown, ServeError> {
    let device = server.device().display().to_string();
    let subject = format!("{device} {wanted:?}");
    let script = match growths.join(&subject) {
        Some(running) => running,
        None => match server.in_turn(move |verbs, _| verbs.begin_growth(wanted))?? {
            GrowthStart::Running(grown) => return Ok(grown),
            GrowthStart::Begun(begun) => begin(growths, server, &subject, begun, wanted)?,
        },
    };
    script.wait().unwrap_or_else(|| {
        let what = "the device has not been extended and read for 8 s; it grows when that is done, \
                    which is logged: check it, or repeat the command";
        Err(ServeError::StillRunning { device, what: what.into() })
    })
}

/// Checks for obstacles, without a change.
///
/// # Errors
/// As [`grow`], for errors that can be detected in advance.
pub(crate) fn check_growth(server: &ServerHandle, wanted: Option<u64>) -> Result<CacheGrown, ServeError> {
    let DeviceToGrow { superblock, cache } = server.in_turn(|verbs, _| verbs.device_to_grow())??;
    let before = superblock.geometry.device_size;
    let size = check_extension(&cache, &superblock, wanted)?;
    Ok(grown(before, size))
}

fn grown(before: u64, size: Option<u64>) -> CacheGrown {
    let growth = if size.is_some() { Growth::Grown } else { Growth::Unchanged };
    CacheGrown { before, size: size.unwrap_or(before), growth }
}

fn begin(
    growths: &Arc<Growths>,
    server: &ServerHandle,
    subject: &str,
    device: DeviceToGrow,
    wanted: Option<u64>,
) -> Result<Arc<Script<CacheGrown>>, ServeError> {
    let server_of = server.clone();
    let started = growths.start(subject, move |answer| {
        let begun = prepare(&server_of, &device, wanted);
        let extended = begun.as_ref().ok().and_then(|begun| begun.extended);
        answer(begun.map(|begun| begun.grown));
        if let Some(extended) = extended {
            finish(&server_of, extended);
        }
    });
    // If the loop has ended, the growth has ended with it.
    started.inspect_err(|_| drop(server.in_turn(|verbs, _| verbs.end_growth())))
}

/// A growth whose size is known.
struct PreparedGrowth {
    grown: CacheGrown,
    /// `None` if the cache device has the wanted size already.
    extended: Option<Extended>,
}

/// Extends and examines the device, and has the engine prepare for the new size.
fn prepare(
    server: &ServerHandle,
    device: &DeviceToGrow,
    wanted: Option<u64>,
) -> Result<PreparedGrowth, ServeError> {
    let before = device.superblock.geometry.device_size;
    let extended = extend(&device.cache, &device.superblock, wanted);
    let prepared = match extended {
        Ok(Some(extended)) => {
            server.in_turn(move |verbs, now| verbs.prepare_growth(now, extended))?.map(|()| Some(extended))
        }
        other => other,
    };
    if !matches!(prepared, Ok(Some(_))) {
        server.in_turn(|verbs, _| verbs.end_growth())?;
    }
    let prepared = prepared?;
    Ok(PreparedGrowth { grown: grown(before, prepared.map(|extended| extended.size)), extended: prepared })
}

/// Writes the superblock once the engine is prepared; the result is logged.
fn finish(server: &ServerHandle, extended: Extended) {
    // Without a lease the server is stopping, or the device is out of service.
    let held = HeldSuperblock::wait_for_growth(server);
    let stored = held.as_ref().map_err(|_| ServeError::Stopped).and_then(|held| {
        let cache = held.cache.as_ref().ok_or(ServeError::Stopped)?;
        let mut grown = extended.grown(&held.superblock, cache.path())?;
        store_superblock(cache, &mut grown)?;
        Ok(grown)
    });
    let ended = match stored {
        Ok(superblock) => server.in_turn(move |verbs, now| verbs.use_grown(now, *superblock)),
        Err(ServeError::Stopped) => server.in_turn(|verbs, _| verbs.end_growth()),
        Err(error) => server.in_turn(move |verbs, _| verbs.give_up_growth(&error)),
    };
    // If the loop has ended, the growth has ended with it.
    drop(ended);
}
