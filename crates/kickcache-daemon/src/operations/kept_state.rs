//! The state of a running daemon that its configuration file does not have.

use std::collections::BTreeSet;

use crate::plan::ServePlan;
use crate::plan::cache_spec::CacheSpec;
use crate::plan::volume_spec::VolumeSpec;
use crate::whole_path::whole_path;

use crate::start::servers::StartResult;

/// Removes volumes that are about to go from both plans. Returns a note for each.
pub(crate) fn leave_alone(leaving: &BTreeSet<String>, plans: [&mut ServePlan; 2]) -> Vec<String> {
    for cache in plans.into_iter().flat_map(|plan| &mut plan.caches) {
        cache.volumes.retain(|volume| !leaving.contains(&volume.name));
    }
    let note = |name: &String| {
        format!(
            "{name}: it is being removed, or its cache device is being taken out of use; its entry in the file is ignored"
        )
    };
    leaving.iter().map(note).collect()
}

/// Where the file has another size than the plan, the plan gets the present size of the device.
pub(crate) fn know_grown(served: &mut ServePlan, wanted: &ServePlan, started: &StartResult) {
    for (cache, server) in served.caches.iter_mut().zip(&started.servers) {
        let wanted = wanted.cache(&cache.device).and_then(|wanted| wanted.size);
        if wanted.is_some_and(|wanted| cache.size != Some(wanted)) {
            cache.size = server.size().or(cache.size);
        }
    }
}

/// In the file's plan, a volume that got its sockets from the service manager gets no default NBD address.
pub(crate) fn keep_activation(wanted: &mut ServePlan, served: &ServePlan) {
    let volumes = served.caches.iter().flat_map(|cache| &cache.volumes);
    let is_handed = |volume: &&VolumeSpec| volume.frontends.nbd.nbd.as_ref().is_some_and(Vec::is_empty);
    for handed in volumes.filter(is_handed) {
        let same = wanted.caches.iter_mut().flat_map(|cache| &mut cache.volumes);
        same.filter(|volume| volume.name == handed.name).for_each(|volume| {
            volume.frontends.nbd.nbd.get_or_insert_default();
        });
    }
}

/// Adds to the file's plan volumes that a command added, if it lacks them. Returns a note for each.
pub(crate) fn keep_added(wanted: &mut ServePlan, started: &StartResult) -> Vec<String> {
    let mut notes = Vec::new();
    for served in &started.servers {
        let Some(cache) = wanted.caches.iter_mut().find(|cache| is_same(cache, &served.cache)) else {
            continue;
        };
        let is_added = |volume: &&VolumeSpec| started.added.contains(&volume.name);
        for volume in served.cache.volumes.iter().filter(is_added) {
            if cache.names().all(|name| name != volume.name) {
                notes.push(format!("{}: added by a command, not in the file; it stays", volume.name));
                cache.volumes.push(volume.clone());
            }
        }
    }
    notes
}

fn is_same(cache: &CacheSpec, other: &CacheSpec) -> bool {
    whole_path(&cache.device) == whole_path(&other.device)
}
