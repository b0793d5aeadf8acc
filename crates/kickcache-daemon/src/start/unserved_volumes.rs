//! Volumes with blocks on a cache device whose server does not serve them.

use kickcache_engine::units::BLOCK_SIZE;
use kickcache_units::show_bytes;

use crate::control::ControlError;
use crate::control::report::UnservedReport;
use crate::plan::cache_spec::SkippedVolume;
use crate::plan::origin_source::OriginSource;
use crate::serve::server::Orphan;
use crate::shell_command::{DaemonCommands, ShellCommand};
use crate::start::servers::{PlannedServer, StartResult};

/// The volumes with blocks on the cache device of a server that does not serve them, except volumes in
/// `started.unserved`.
pub(crate) fn orphans(started: &StartResult) -> Vec<SkippedVolume> {
    let told = |served: &PlannedServer| Some(told(started, served, &served.handle.status().ok()?.orphans));
    started.servers.iter().filter_map(told).flatten().collect()
}

fn told(started: &StartResult, served: &PlannedServer, orphans: &[Orphan]) -> Vec<SkippedVolume> {
    let unknown = orphans.iter().filter(|orphan| !started.is_unserved(&orphan.name));
    unknown.map(|orphan| SkippedVolume { name: orphan.name.clone(), why: why(served, orphan) }).collect()
}

/// Reports of the unserved volumes, with the commands that serve each volume and write its blocks back.
pub(crate) fn orphan_reports(
    started: &StartResult,
    served: &PlannedServer,
    orphans: &[Orphan],
    commands: &DaemonCommands,
) -> Vec<UnservedReport> {
    let unknown = orphans.iter().filter(|orphan| !started.is_unserved(&orphan.name));
    let report = |orphan: &Orphan| {
        let remedy = remedy(served, orphan).map(|command| commands.to_daemon(command).to_string());
        UnservedReport { name: orphan.name.clone(), why: why(served, orphan), commands: remedy.into() }
    };
    unknown.map(report).collect()
}

fn remedy(served: &PlannedServer, Orphan { name, origin, .. }: &Orphan) -> [ShellCommand; 2] {
    let (device, origin) = (&served.cache.device, OriginSource::of_identity(origin));
    let add =
        ShellCommand::new("add").word("--cache").path(device).word("--origin").word(&origin.to_string());
    [add.word("--name").word(name), ShellCommand::new("remove").word(name)]
}

fn why(served: &PlannedServer, orphan: &Orphan) -> String {
    let Orphan { origin, blocks, .. } = orphan;
    let [add, remove] = remedy(served, orphan);
    let (device, origin) = (&served.cache.device, OriginSource::of_identity(origin));
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
/// If the volume is not served.
pub(crate) fn server_of(started: &StartResult, volume: &str) -> Result<PlannedServer, ControlError> {
    let StartResult { servers, unserved, .. } = started;
    let serves = |served: &PlannedServer| served.cache.names().any(|name| name == volume);
    if let Some(found) = servers.iter().find(|served| serves(served)) {
        return Ok(found.clone());
    }
    let orphans = orphans(started);
    if let Some(SkippedVolume { name, why }) =
        unserved.iter().chain(&orphans).find(|known| known.name == volume)
    {
        return Err(ControlError::Refused(format!("volume {name} is not served: {why}")));
    }
    let known = servers.iter().flat_map(|served| served.cache.names()).map(str::to_owned).collect();
    Err(ControlError::NoVolume { name: volume.into(), known })
}
