//! Rates between two reports.

use std::time::Duration;

use kickcache_daemon::control::report::{Report, VolumeReport};

pub(super) struct Rates<'a> {
    pub(super) before: &'a Report,
    pub(super) seconds: Duration,
}

impl Rates<'_> {
    pub(super) fn volume(&self, name: &str) -> Option<&VolumeReport> {
        self.before.caches.iter().flat_map(|cache| &cache.volumes).find(|volume| volume.name == name)
    }

    pub(super) fn per_second(&self, now: u64, before: u64) -> f64 {
        now.saturating_sub(before) as f64 / self.seconds.as_secs_f64().max(1e-3)
    }
}
