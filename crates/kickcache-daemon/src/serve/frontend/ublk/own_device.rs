//! Whether a volume would stand on itself: its start would wait for a device that only it can serve.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use super::control::Control;
use super::cookie::cookie;
use crate::plan::cache_spec::CacheSpec;

/// Refuses a cache device or origin that lies on a device which one of these volumes is.
///
/// # Errors
/// A sentence.
pub(crate) fn check(cache: &CacheSpec) -> Result<(), String> {
    let own: Vec<u64> = cache
        .volumes
        .iter()
        .filter(|volume| volume.ublk.is_some())
        .filter_map(|volume| Some(cookie(&volume.name, &volume.origin.identity().ok()?)))
        .collect();
    let origins = cache.volumes.iter().filter_map(|volume| volume.origin.path());
    if own.is_empty() {
        return Ok(());
    }
    for path in origins.chain([cache.device.as_path()]) {
        let Some(id) = ublk_below(path) else { continue };
        let info = Control::open().ok().and_then(|mut control| control.info(id).ok().flatten());
        if info.is_some_and(|info| own.contains(&info.server_flags)) {
            return Err(format!(
                "{} lies on /dev/ublkb{id}, which is a volume of this daemon: it would wait for itself; give another device",
                path.display()
            ));
        }
    }
    Ok(())
}

/// The ublk device that a path is, or is on.
fn ublk_below(path: &Path) -> Option<u32> {
    let found = fs::metadata(path).ok()?;
    let number = if found.file_type().is_block_device() { found.rdev() } else { found.dev() };
    let entry = format!("/sys/dev/block/{}:{}", libc::major(number), libc::minor(number));
    let place = fs::canonicalize(entry).ok()?;
    let names = place.iter().filter_map(|part| part.to_str()?.strip_prefix("ublkb"));
    names.filter_map(|digits| digits.parse().ok()).next()
}
