//! The remedy for an origin that is not where it was.

use std::io;
use std::path::Path;

use kickcache_units::show_bytes;

use crate::devices::offline::give_up::needed;
use crate::driver::device::OpenError;
use crate::plan::cache_spec::CacheSpec;
use crate::serve::config::StatePlace;
use crate::shell_command::ShellCommand;

pub(crate) fn is_missing(error: &OpenError) -> bool {
    matches!(error, OpenError::Open { source, .. } if source.kind() == io::ErrorKind::NotFound)
}

/// The remedy for the missing origin of a volume.
pub(crate) fn what_to_do(cache: &CacheSpec, name: &str, state: &StatePlace) -> String {
    let detach = ShellCommand::new("detach").path(&cache.device).word(name);
    let back = "put it back, or name its new place (--origin, with --origin-moved), then `kickcache reload`, or start again";
    let give_up = "or, if it is lost, stop the daemon and remove the volume";
    match dirty_bytes(&cache.device, name, state) {
        Some(0) => {
            format!(
                "{back}; {give_up} ({}): none of its blocks on the cache device is dirty",
                detach.state(state)
            )
        }
        Some(bytes) => format!(
            "{back}; {give_up} ({}), which loses {} that are dirty on the cache device",
            detach.word("--lose-dirty").state(state),
            show_bytes(bytes)
        ),
        None => format!("{back}; {give_up} ({})", detach.state(state)),
    }
}

/// Bytes of dirty blocks on the cache device that the origin may lack; `None` if they are unknown.
fn dirty_bytes(device: &Path, name: &str, state: &StatePlace) -> Option<u64> {
    let held = needed(device, &[name], state).ok()?;
    Some(held.iter().flat_map(|volume| &volume.dirty).map(|extent| extent.length).sum())
}
