//! The changes between two reports, in sentences.

use std::collections::VecDeque;
use std::time::Duration;

use kickcache_units::counted;

use crate::control::report::{CacheReport, HealthWord, Report, VolumeReport};

/// Happenings that are kept.
const COUNT_MAX: usize = 200;

/// Recent events, the oldest first.
#[derive(Default)]
pub(super) struct Happenings {
    pub(super) kept: VecDeque<Happening>,
}

/// An event.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Happening {
    pub(super) at: u64,
    pub(super) weight: Weight,
    pub(super) what: String,
}

/// How bad it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Weight {
    Good,
    Bad,
}

impl Happenings {
    /// Finds changes.
    pub(super) fn look(&mut self, at: u64, before: Option<&Report>, now: &Report) {
        let Some(before) = before else {
            let begun =
                at.saturating_sub(Duration::from_secs_f64(now.uptime_seconds.clamp(0.0, 1e12)).as_secs());
            self.add(begun, Weight::Good, format!("the daemon started, version {}", now.version));
            for volume in &now.unserved {
                self.add(begun, Weight::Bad, format!("{} is not served: {}", volume.name, volume.why));
            }
            let volumes = now.caches.iter().flat_map(|cache| &cache.volumes);
            volumes.filter(|volume| volume.incomplete).for_each(|volume| {
                self.add(at, Weight::Bad, format!("the origin of {} may lack blocks", volume.name));
            });
            return;
        };
        for cache in &now.caches {
            let Some(old) = before.caches.iter().find(|old| old.device == cache.device) else { continue };
            self.look_at_cache(at, old, cache);
            for volume in &cache.volumes {
                if let Some(old) = old.volumes.iter().find(|old| old.name == volume.name) {
                    self.look_at_volume(at, old, volume);
                }
            }
        }
        for old in &before.caches {
            if now.caches.iter().all(|cache| cache.device != old.device) {
                self.add(
                    at,
                    Weight::Bad,
                    format!("{}: its server does not answer, or has ended", old.device),
                );
            }
        }
    }

    fn look_at_cache(&mut self, at: u64, old: &CacheReport, new: &CacheReport) {
        let device = &new.device;
        if old.health == HealthWord::Good && new.health == HealthWord::OutOfService {
            self.add(at, Weight::Bad, format!("{device} is out of service"));
        }
        self.look_at_errors(at, device, old.counters.errors, new.counters.errors);
        self.look_at_silence(at, device, [old.silent_seconds, new.silent_seconds].map(|span| span.is_some()));
        if let (None, Some(_)) = (&old.stop_waits_for, &new.stop_waits_for) {
            self.add(at, Weight::Good, format!("{device}: its server stops"));
        }
    }

    fn look_at_volume(&mut self, at: u64, old: &VolumeReport, new: &VolumeReport) {
        let name = &new.name;
        if old.mode != new.mode {
            let (before, now) = (old.mode.as_str(), new.mode.as_str());
            self.add(at, Weight::Good, format!("the mode of {name} is now {now}; it was {before}"));
        }
        match (old.draining, new.draining) {
            (false, true) => self.add(at, Weight::Good, format!("the drain of {name} began")),
            (true, false) => self.add(at, Weight::Good, format!("the drain of {name} ended")),
            (_, _) => {}
        }
        match (old.caching_paused_seconds, new.caching_paused_seconds) {
            (None, Some(_)) => {
                self.add(at, Weight::Good, format!("reads of {name} are not cached for a while"));
            }
            (Some(_), None) => self.add(at, Weight::Good, format!("reads of {name} are cached again")),
            (_, _) => {}
        }
        if old.size_bytes != new.size_bytes {
            self.add(at, Weight::Good, format!("{name} now has {} bytes", new.size_bytes));
        }
        if new.damaged_bytes > old.damaged_bytes {
            self.add(at, Weight::Bad, format!("dirty blocks of {name} are damaged"));
        }
        let (origin, counters) = (format!("the origin of {name}"), [&old.counters, &new.counters]);
        self.look_at_errors(at, &origin, counters[0].origin_errors, counters[1].origin_errors);
        let failed = counters[1].failed_requests.saturating_sub(counters[0].failed_requests);
        if failed > 0 {
            self.add(at, Weight::Bad, format!("{} of clients of {name} failed", counted(failed, "request")));
        }
        self.look_at_silence(at, &origin, [old, new].map(is_origin_silent));
    }

    fn look_at_errors(&mut self, at: u64, device: &str, old: u64, new: u64) {
        let count = new.saturating_sub(old);
        if count > 0 {
            self.add(at, Weight::Bad, format!("{device} had {}", counted(count, "error")));
        }
    }

    fn look_at_silence(&mut self, at: u64, device: &str, silent: [bool; 2]) {
        match silent {
            [false, true] => self.add(at, Weight::Bad, format!("{device} does not answer")),
            [true, false] => self.add(at, Weight::Good, format!("{device} answers again")),
            _ => {}
        }
    }

    fn add(&mut self, at: u64, weight: Weight, what: String) {
        if self.kept.len() == COUNT_MAX {
            self.kept.pop_front();
        }
        self.kept.push_back(Happening { at, weight, what });
    }
}

fn is_origin_silent(volume: &VolumeReport) -> bool {
    volume.origin_silent_seconds.is_some() || volume.origin_away_seconds.is_some()
}
