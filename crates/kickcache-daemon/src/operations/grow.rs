//! The cache device grows while it is served.
//!
//! The superblock gets the new size before the engine uses it.

use std::sync::Arc;

use kickcache_engine::format::superblock::Superblock;

use crate::devices::cache_device::{Extended, check_extension, extend, store_superblock};
use crate::driver::device::BlockFile;
use crate::operations::held_superblock::HeldSuperblock;
use crate::operations::script::{Script, Scripts};
use crate::serve::error::ServeError;
use crate::serve::server::ServerHandle;
use crate::serve::verbs::growth::{CacheGrown, DeviceToGrow, Growth, GrowthStart};

/// The growths that have not answered.
pub(crate) type Growths = Scripts<CacheGrown>;

/// Begins to use more of the cache device: this many bytes, or the whole device.
///
/// # Errors
/// The device cannot grow in this way; [`ServeError::StillRunning`] if it does not respond for 8 s, and
/// [`ServeError::Stopped`].
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
    extended: Option<Extended>,
}

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

fn finish(server: &ServerHandle, extended: Extended) {
    match HeldSuperblock::wait_for_growth(server) {
        // The superblock is released only once the loop has the new one.
        Ok(held) => end(server, store(&held.superblock, held.cache.as_deref(), extended)),
        Err(error) => end(server, Err(error)),
    }
}

/// Writes the superblock with the new size; only if this returns it, the new segments may be used (G-1).
fn store(
    superblock: &Superblock,
    cache: Option<&BlockFile>,
    extended: Extended,
) -> Result<Box<Superblock>, ServeError> {
    let cache = cache.ok_or(ServeError::Stopped)?;
    let mut grown = extended.grown(superblock, cache.path())?;
    store_superblock(cache, &mut grown)?;
    Ok(grown)
}

fn end(server: &ServerHandle, stored: Result<Box<Superblock>, ServeError>) {
    let ended = match stored {
        Ok(superblock) => server.in_turn(move |verbs, now| verbs.use_grown(now, *superblock)),
        Err(ServeError::Stopped) => server.in_turn(|verbs, _| verbs.end_growth()),
        Err(error) => server.in_turn(move |verbs, _| verbs.give_up_growth(&error)),
    };
    drop(ended);
}

#[cfg(test)]
mod tests {
    use kickcache_engine::format::geometry::DEVICE_SIZE_MIN;

    use super::*;
    use crate::devices::missed_device::any_superblock_at;
    use crate::driver::device::{AccessMode, Emptiness};

    const GROWN: Extended = Extended { size: 2 * DEVICE_SIZE_MIN, found: None };

    fn store_on(access: Option<AccessMode>) -> (Result<Box<Superblock>, ServeError>, Option<u64>) {
        let directory = tempfile::tempdir_in("/var/tmp").unwrap();
        let path = directory.path().join("cache");
        std::fs::File::create(&path).unwrap().set_len(GROWN.size).unwrap();
        let open = |access| BlockFile::open(&path, access, Emptiness::Refused).unwrap();
        let mut before = Superblock::new([1; 16], DEVICE_SIZE_MIN).unwrap();
        store_superblock(&open(AccessMode::ReadWrite), &mut before).unwrap();
        let stored = store(&before, access.map(open).as_ref(), GROWN);
        let on_device = any_superblock_at(&path).map(|superblock| superblock.geometry.device_size);
        (stored, on_device)
    }

    #[test]
    fn a_grown_superblock_is_used_only_once_it_is_stored() {
        let (stored, on_device) = store_on(Some(AccessMode::ReadWrite));
        assert_eq!(stored.unwrap().geometry.device_size, GROWN.size);
        assert_eq!(on_device, Some(GROWN.size));
        let (stored, on_device) = store_on(Some(AccessMode::ReadOnly));
        assert!(matches!(stored, Err(ServeError::CacheIo { .. })));
        assert_eq!(on_device, Some(DEVICE_SIZE_MIN));
        let (stored, on_device) = store_on(None);
        assert!(matches!(stored, Err(ServeError::Stopped)));
        assert_eq!(on_device, Some(DEVICE_SIZE_MIN));
    }
}
