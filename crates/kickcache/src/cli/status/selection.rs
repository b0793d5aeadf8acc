//! The part of a report that concerns one volume.

use anyhow::anyhow;
use kickcache_command::exit::Failure;
use kickcache_daemon::control::ControlError;
use kickcache_daemon::control::condition::{Condition, ConditionKind, Health};
use kickcache_daemon::control::report::{CacheReport, Report};

/// Removes other volumes, cache devices without this volume, and the conditions of both.
///
/// # Errors
/// If the report has no such volume.
pub(super) fn select(report: &mut Report, name: &str) -> Result<(), Failure> {
    let has_it = |cache: &CacheReport| cache.volumes.iter().any(|volume| volume.name == name);
    let served = report.caches.iter().flat_map(|cache| &cache.volumes).map(|volume| &volume.name);
    let known: Vec<String> =
        served.chain(report.unserved.iter().map(|volume| &volume.name)).cloned().collect();
    if known.iter().all(|volume| volume != name) {
        return Err(missing(report, name, known));
    }
    let others: Vec<String> =
        report.caches.iter().filter(|cache| !has_it(cache)).map(|cache| cache.device.clone()).collect();
    report.caches.retain(has_it);
    for cache in &mut report.caches {
        cache.volumes.retain(|volume| volume.name == name);
    }
    report.unserved.retain(|volume| volume.name == name);
    report.conditions.retain(|condition| match (&condition.volume, &condition.device) {
        (Some(volume), _) => volume == name,
        (None, Some(device)) => !others.contains(device),
        (None, None) => true,
    });
    report.health = Health::new(&[name], &report.conditions);
    Ok(())
}

/// The report lacks the volumes of an event loop that does not answer.
fn missing(report: &Report, name: &str, known: Vec<String>) -> Failure {
    let is_silent = |condition: &&Condition| condition.kind == ConditionKind::LoopSilent;
    match report.conditions.iter().find(is_silent) {
        Some(silent) => anyhow!("there is no report of the volume `{name}`. {}", silent.sentence()).into(),
        None => anyhow!(ControlError::NoVolume { name: name.into(), known }).into(),
    }
}
