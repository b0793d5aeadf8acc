//! The changes between two reports, in sentences.

use std::collections::VecDeque;
use std::time::Duration;

use kickcache_units::{counted, show_bytes};

use crate::control::condition::{Condition, ConditionKind, Severity};
use crate::control::report::{CacheReport, HealthWord, Report, VolumeReport};

/// The most events that are kept.
const COUNT_MAX: usize = 200;

/// Recent events, the oldest first.
#[derive(Default)]
pub(super) struct LiveEvents {
    pub(super) kept: VecDeque<LiveEvent>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct LiveEvent {
    pub(super) at: u64,
    pub(super) severity: Severity,
    pub(super) what: String,
}

impl LiveEvents {
    /// Adds events for the differences between two reports.
    pub(super) fn look(&mut self, at: u64, before: Option<&Report>, now: &Report) {
        let Some(before) = before else {
            let begun =
                at.saturating_sub(Duration::from_secs_f64(now.uptime_seconds.clamp(0.0, 1e12)).as_secs());
            self.note(begun, format!("the daemon started, version {}", now.version));
            now.conditions.iter().for_each(|condition| self.begin(condition.since.max(begun), condition));
            return;
        };
        self.look_at_conditions(at, before, now);
        for cache in &now.caches {
            match before.caches.iter().find(|old| old.device == cache.device) {
                Some(old) => self.look_at_cache(at, old, cache),
                None => self.look_at_new_cache(at, before, cache),
            }
        }
        let [old, new] = [before, now].map(all_volumes);
        for volume in &new {
            match old.iter().find(|old| old.name == volume.name) {
                Some(old) => self.look_at_volume(at, old, volume),
                None => self.note(at, format!("{} is served", volume.name)),
            }
        }
        for volume in old.iter().filter(|old| new.iter().all(|new| new.name != old.name)) {
            self.note(at, format!("{} is no longer served", volume.name));
        }
    }

    fn look_at_conditions(&mut self, at: u64, before: &Report, now: &Report) {
        let is_same = |one: &Condition, other: &Condition| {
            (one.kind, &one.volume, &one.device) == (other.kind, &other.volume, &other.device)
        };
        let [old, new] = [&before.conditions, &now.conditions];
        for condition in new.iter().filter(|new| old.iter().all(|old| !is_same(old, new))) {
            self.begin(at, condition);
        }
        for condition in old.iter().filter(|old| new.iter().all(|new| !is_same(old, new))) {
            self.end(at, condition);
        }
    }

    fn begin(&mut self, at: u64, condition: &Condition) {
        self.add(at, condition.severity, condition.what());
    }

    fn end(&mut self, at: u64, condition: &Condition) {
        let subject = condition.volume.as_ref().or(condition.device.as_ref());
        let subject = subject.map_or_else(String::new, |subject| format!("{subject}: "));
        let what = match condition.kind {
            ConditionKind::OperationRunning => return,
            kind => kind.as_str().replace('-', " "),
        };
        self.note(at, format!("{subject}{what}: ended after {:.0} s", condition.lasted_seconds));
    }

    fn look_at_cache(&mut self, at: u64, old: &CacheReport, new: &CacheReport) {
        let device = &new.device;
        let are_used = [old, new].iter().all(|cache| cache.health == HealthWord::Good);
        if old.device_bytes != new.device_bytes && are_used {
            let [before, now] = [old, new].map(|cache| show_bytes(cache.device_bytes));
            self.note(at, format!("{device} uses {now}; it used {before}"));
        }
        if old.wear.budget_bytes_per_day != new.wear.budget_bytes_per_day {
            let budget = new.wear.budget_bytes_per_day.map_or_else(|| "none".into(), show_bytes);
            self.note(at, format!("the write budget of {device} is {budget}"));
        }
        if old.leaving_out.is_some() && new.leaving_out.is_none() {
            self.note(at, format!("the leave-out of {device} ended"));
        }
    }

    /// A new cache device takes the place of another one if it serves a volume that the other one
    /// had.
    fn look_at_new_cache(&mut self, at: u64, before: &Report, cache: &CacheReport) {
        let serves = |old: &&CacheReport| {
            let is_own = |name: &String| cache.volumes.iter().any(|volume| volume.name == *name);
            old.volumes.iter().any(|volume| is_own(&volume.name))
        };
        match before.caches.iter().find(serves) {
            Some(old) if old.health == HealthWord::OutOfService => {
                self.note(
                    at,
                    format!("{} is used, empty at first, in place of {}", cache.device, old.device),
                );
            }
            Some(old) => self.note(at, format!("{} has replaced {}", cache.device, old.device)),
            None => self.note(at, format!("the cache device {} is used", cache.device)),
        }
    }

    fn look_at_volume(&mut self, at: u64, old: &VolumeReport, new: &VolumeReport) {
        let name = &new.name;
        if old.mode != new.mode {
            let (before, now) = (old.mode.as_str(), new.mode.as_str());
            self.note(at, format!("the mode of {name} is {now}; it was {before}"));
        }
        if old.draining && !new.draining {
            self.note(at, format!("the drain of {name} ended"));
        }
        if old.limits != new.limits {
            self.note(at, format!("the limits of {name} have changed"));
        }
        if old.size_bytes != new.size_bytes {
            let [before, now] = [old, new].map(|volume| show_bytes(volume.size_bytes));
            self.note(at, format!("{name} has {now}; it had {before}"));
        }
        let failed = new.counters.failed_requests.saturating_sub(old.counters.failed_requests);
        if failed > 0 {
            let what = format!("{} of clients of {name} failed", counted(failed, "request"));
            self.add(at, Severity::Error, what);
        }
    }

    fn note(&mut self, at: u64, what: String) {
        self.add(at, Severity::Notice, what);
    }

    fn add(&mut self, at: u64, severity: Severity, what: String) {
        if self.kept.len() == COUNT_MAX {
            self.kept.pop_front();
        }
        self.kept.push_back(LiveEvent { at, severity, what });
    }
}

fn all_volumes(report: &Report) -> Vec<&VolumeReport> {
    report.caches.iter().flat_map(|cache| &cache.volumes).collect()
}
