//! Volumes that no daemon serves and whose cache device holds blocks that their origins lack.

use kickcache_daemon::control::ControlError;
use kickcache_daemon::plan::cache_spec::Unserved;
use kickcache_daemon::plan::origin_source::OriginSource;
use kickcache_daemon::serve::server::Orphan;
use kickcache_daemon::shell_command::ShellCommand;
use kickcache_engine::units::BLOCK_SIZE;
use kickcache_units::show_bytes;

use crate::cli::start::{Served, Started};

/// They, as all servers know them.
pub(super) fn orphans(started: &Started) -> Vec<Unserved> {
    let told = |served: &Served| Some(told(started, served, &served.handle.status().ok()?.orphans));
    started.servers.iter().filter_map(told).flatten().collect()
}

/// The unserved volumes that a server found, except volumes of the plan: for those the reason is known.
pub(super) fn told(started: &Started, served: &Served, orphans: &[Orphan]) -> Vec<Unserved> {
    let unknown = orphans.iter().filter(|orphan| !started.is_unserved(&orphan.name));
    unknown.map(|orphan| Unserved { name: orphan.name.clone(), why: why(served, orphan) }).collect()
}

fn why(served: &Served, Orphan { name, origin, blocks }: &Orphan) -> String {
    let (device, origin) = (&served.cache.device, OriginSource::of_identity(origin));
    let add =
        ShellCommand::new("add").word("--cache").path(device).word("--origin").word(&origin.to_string());
    let (add, remove) = (add.word("--name").word(name), ShellCommand::new("remove").word(name));
    format!(
        "{} holds {} of it that its origin {origin} lacks, and no configuration has it; serve it again \
         (`{add}`), then `{remove}` writes these blocks back",
        device.display(),
        show_bytes(blocks * BLOCK_SIZE)
    )
}

/// The server of a volume.
///
/// # Errors
/// The volume is not served; the error has the reason, if it is known.
pub(super) fn server_of(started: &Started, volume: &str) -> Result<Served, ControlError> {
    let Started { servers, unserved, .. } = started;
    let serves = |served: &Served| served.cache.names().any(|name| name == volume);
    if let Some(found) = servers.iter().find(|served| serves(served)) {
        return Ok(found.clone());
    }
    let orphans = orphans(started);
    if let Some(Unserved { name, why }) = unserved.iter().chain(&orphans).find(|known| known.name == volume) {
        return Err(ControlError::Refused(format!("volume {name} is not served: {why}")));
    }
    let known = servers.iter().flat_map(|served| served.cache.names()).map(str::to_owned).collect();
    Err(ControlError::NoVolume { name: volume.into(), known })
}
