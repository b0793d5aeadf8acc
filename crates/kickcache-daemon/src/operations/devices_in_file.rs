//! The cache devices of a configuration file, compared with those of the daemon.

use std::path::Path;

use crate::plan::ServePlan;
use crate::plan::cache_spec::CacheSpec;
use crate::whole_path::{real_path, whole_path};

use crate::start::servers::StartResult;

/// A note that a file names a cache device that was replaced.
pub(crate) fn replaced_in_file(named: &Path, followed: &Path) -> Option<String> {
    let is_other = real_path(named) != real_path(followed);
    let (before, now) = (named.display(), followed.display());
    is_other
        .then(|| format!("{before}: it was replaced, and {now} is the cache device; name {now} in the file"))
}

/// Replaces devices that were taken out of use by the devices put into use instead. Returns a note for each.
pub(crate) fn follow_taken_in(wanted: &mut ServePlan, started: &StartResult) -> Vec<String> {
    let mut notes = Vec::new();
    for served in &started.servers {
        let was = |cache: &&mut CacheSpec| {
            served.cache.former.iter().any(|former| whole_path(former) == whole_path(&cache.device))
        };
        let Some(cache) = wanted.caches.iter_mut().find(was) else { continue };
        let (before, now) = (cache.device.display(), served.cache.device.display());
        notes.push(format!("{before}: it was left out, and {now} is in its place; name that in the file before the next start"));
        (cache.device, cache.size) = (served.cache.device.clone(), served.cache.size);
    }
    notes
}

/// Removes from the file's plan the cache devices that the start could not serve. Returns a note for each.
pub(crate) fn leave_unserved(wanted: &mut ServePlan, served: &ServePlan, plan: &ServePlan) -> Vec<String> {
    let is_left =
        |cache: &CacheSpec| served.cache(&cache.device).is_none() && plan.cache(&cache.device).is_some();
    let left = wanted.caches.iter().filter(|cache| is_left(cache)).map(|cache| {
        let device = cache.device.display();
        format!("{device}: the start could serve none of its volumes, and a reload does not retry it")
    });
    let notes = left.collect();
    wanted.caches.retain(|cache| !is_left(cache));
    notes
}
