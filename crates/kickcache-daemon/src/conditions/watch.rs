//! The conditions of a daemon from report to report.

use std::collections::BTreeMap;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use crate::conditions::of_volume::VolumeContext;
use crate::conditions::volume_history::VolumeHistory;
use crate::conditions::{Surroundings, of_cache, of_daemon};
use crate::control::condition::{Condition, ConditionKind, Health, Severity};
use crate::control::report::Report;

/// The identity of a condition.
type Key = (ConditionKind, Option<String>, Option<String>);

#[derive(Debug, Default)]
pub struct ConditionWatch {
    present: BTreeMap<Key, Present>,
    volumes: BTreeMap<String, VolumeHistory>,
    /// The first of the latest reports that all had requests that wait for memory; `None` if the last report had
    /// none.
    memory_waits: Option<Instant>,
    health: Health,
}

#[derive(Debug)]
struct Present {
    since: u64,
    begun: Instant,
    severity: Severity,
    what: String,
}

impl ConditionWatch {
    /// Completes a report with its conditions and the health.
    pub fn complete(&mut self, report: &mut Report, around: &Surroundings<'_>) {
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        self.complete_at(Instant::now(), unix, report, around);
    }

    /// The health at the last report; green without a sentence before the first.
    pub fn health(&self) -> &Health {
        &self.health
    }

    /// Like [`ConditionWatch::complete`], with a report of `now`, which is `unix` in seconds since 1970.
    pub fn complete_at(&mut self, now: Instant, unix: u64, report: &mut Report, around: &Surroundings<'_>) {
        let mut conditions = self.find(now, report, around);
        conditions.sort_by(|one, other| {
            (one.kind, &one.volume, &one.device).cmp(&(other.kind, &other.volume, &other.device))
        });
        self.follow(now, unix, &mut conditions);
        let served = report.caches.iter().flat_map(|cache| &cache.volumes);
        let names: Vec<&str> = served.map(|volume| volume.name.as_str()).collect();
        self.health = Health::new(&names, &conditions);
        report.health = self.health.clone();
        report.conditions = conditions;
    }

    fn find(&mut self, now: Instant, report: &Report, around: &Surroundings<'_>) -> Vec<Condition> {
        let mut found = Vec::new();
        let is_waiting = report.memory.waiting_requests > 0;
        self.memory_waits = is_waiting.then(|| self.memory_waits.unwrap_or(now));
        let wait = self.memory_waits.map_or(0.0, |since| now.duration_since(since).as_secs_f64());
        of_daemon::find(report, around, wait, &mut found);
        let mut before = std::mem::take(&mut self.volumes);
        for cache in &report.caches {
            of_cache::find(cache, around, &mut found);
            for volume in &cache.volumes {
                let history = before.remove(&volume.name);
                let mut history = history.unwrap_or_else(|| VolumeHistory::new(now, volume));
                history.see(now, volume);
                VolumeContext { cache, volume, history: &history, now }.find(around, &mut found);
                self.volumes.insert(volume.name.clone(), history);
            }
        }
        found
    }

    /// Adds to each condition when it began and how long it has lasted.
    fn follow(&mut self, now: Instant, unix: u64, conditions: &mut [Condition]) {
        let mut before = std::mem::take(&mut self.present);
        for condition in conditions {
            let key = (condition.kind, condition.volume.clone(), condition.device.clone());
            let present = before.remove(&key).unwrap_or_else(|| {
                log_begin(condition);
                let since = unix.saturating_sub(whole(condition.lasted_seconds));
                Present { since, begun: now, severity: condition.severity, what: condition.what() }
            });
            condition.since = present.since;
            let seen = now.duration_since(present.begun).as_secs_f64();
            condition.lasted_seconds = condition.lasted_seconds.max(seen);
            self.present.insert(key, present);
        }
        for ((kind, volume, device), present) in before {
            log_end(kind, volume.as_deref(), device.as_deref(), &present);
        }
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a span in seconds is small and positive"
)]
fn whole(seconds: f64) -> u64 {
    seconds as u64
}

/// Logs the begin of a condition, unless the kind has an event of its own.
fn log_begin(condition: &Condition) {
    let entry = condition.kind.entry();
    if entry.event.is_some() {
        return;
    }
    let (name, volume, device) = (entry.name, &condition.volume, &condition.device);
    let text = condition.sentence();
    match condition.severity {
        Severity::Error => {
            tracing::error!(event = "condition_begun", volume, device, condition = name, "{text}");
        }
        Severity::Warning => {
            tracing::warn!(event = "condition_begun", volume, device, condition = name, "{text}");
        }
        Severity::Notice => {
            tracing::info!(event = "condition_begun", volume, device, condition = name, "{text}");
        }
    }
}

fn log_end(kind: ConditionKind, volume: Option<&str>, device: Option<&str>, present: &Present) {
    if kind.entry().event.is_some() || present.severity == Severity::Notice {
        return;
    }
    let name = kind.as_str();
    tracing::info!(
        event = "condition_ended",
        volume,
        device,
        condition = name,
        "no longer so: {}",
        present.what
    );
}
