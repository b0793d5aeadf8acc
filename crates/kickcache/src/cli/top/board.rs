//! The shown state of a daemon.

use std::cmp::Ordering;
use std::time::Instant;

use kickcache_daemon::control::condition::{Condition, Health};
use kickcache_daemon::control::report::{CacheReport, Report};

use crate::cli::top::volume_line::VolumeLine;

#[derive(Default)]
pub(super) struct Board {
    pub(super) volumes: Vec<VolumeLine>,
    pub(super) head: String,
    pub(super) uptime_seconds: f64,
    pub(super) health: Health,
    pub(super) conditions: Vec<Condition>,
    pub(super) caches: Vec<DeviceLine>,
    /// The reason why there is no newer report.
    pub(super) missed: Option<String>,
    pub(super) order: Order,
    pub(super) direction: Direction,
    pub(super) detail: Detail,
    /// The name of the selected volume.
    chosen: Option<String>,
    at: Option<Instant>,
}

pub(super) struct DeviceLine {
    pub(super) device: String,
    pub(super) used: u64,
    pub(super) size: u64,
    pub(super) dirty: u64,
    /// Bytes written in the last day.
    pub(super) written: u64,
    pub(super) budget: Option<u64>,
}

impl DeviceLine {
    fn new(cache: &CacheReport) -> DeviceLine {
        DeviceLine {
            device: cache.device.clone(),
            used: cache.used_bytes(),
            size: cache.capacity_bytes,
            dirty: cache.dirty_bytes(),
            written: cache.wear.day_bytes,
            budget: cache.wear.budget_bytes_per_day,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Order {
    #[default]
    Name,
    Requests,
    Hits,
    Latency,
    Dirty,
    Cached,
}

pub(super) const ORDERS: [Order; 6] =
    [Order::Name, Order::Requests, Order::Hits, Order::Latency, Order::Dirty, Order::Cached];

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Direction {
    /// Names from A on, numbers from the highest down.
    #[default]
    Usual,
    Reversed,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Detail {
    #[default]
    Hidden,
    Shown,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Look {
    Before,
    After,
    Closer,
    NextOrder,
    OrderBefore,
    Around,
}

impl Board {
    pub(super) fn take(&mut self, at: Instant, mut report: Report) {
        let seconds = self.at.map_or(1.0, |before| at.duration_since(before).as_secs_f64().max(1e-3));
        // Another daemon counts from 0.
        let is_same = report.uptime_seconds >= self.uptime_seconds;
        let mut before = if is_same { std::mem::take(&mut self.volumes) } else { Vec::new() };
        self.volumes.clear();
        self.caches = report.caches.iter().map(DeviceLine::new).collect();
        for mut cache in std::mem::take(&mut report.caches) {
            for volume in std::mem::take(&mut cache.volumes) {
                let known = before.iter().position(|line| line.report.name == volume.name);
                let known = known.map(|index| before.swap_remove(index));
                self.volumes.push(VolumeLine::new(&cache, volume, known, seconds));
                let line = self.volumes.last_mut().expect("it was just added");
                let found = report.condition_of(&line.report.name, &line.cache);
                line.health = found.map(|found| (found.kind.entry().word, found.severity));
            }
        }
        self.head = format!("kickcache {}, process {}", report.version, report.pid);
        self.uptime_seconds = report.uptime_seconds;
        (self.health, self.conditions) = (report.health, report.conditions);
        self.missed = None;
        self.at = Some(at);
        self.sort();
    }

    pub(super) fn miss(&mut self, why: String) {
        self.missed = Some(why);
    }

    /// The index of the selected volume; 0 if none is selected or it is not in the report.
    pub(super) fn chosen(&self) -> usize {
        let is_chosen = |line: &VolumeLine| Some(&line.report.name) == self.chosen.as_ref();
        self.volumes.iter().position(is_chosen).unwrap_or(0)
    }

    pub(super) fn turn(&mut self, look: Look) {
        let step = |by: usize| {
            let index = ORDERS.iter().position(|order| *order == self.order).unwrap_or(0);
            ORDERS[(index + by) % ORDERS.len()]
        };
        match look {
            Look::Before => self.choose(self.chosen().saturating_sub(1)),
            Look::After => self.choose(self.chosen() + 1),
            Look::Closer => {
                self.detail = match self.detail {
                    Detail::Hidden => Detail::Shown,
                    Detail::Shown => Detail::Hidden,
                };
            }
            Look::NextOrder => self.order = step(1),
            Look::OrderBefore => self.order = step(ORDERS.len() - 1),
            Look::Around => {
                self.direction = match self.direction {
                    Direction::Usual => Direction::Reversed,
                    Direction::Reversed => Direction::Usual,
                };
            }
        }
        self.sort();
    }

    fn choose(&mut self, index: usize) {
        let last = self.volumes.len().saturating_sub(1);
        self.chosen = self.volumes.get(index.min(last)).map(|line| line.report.name.clone());
    }

    fn sort(&mut self) {
        let (order, direction) = (self.order, self.direction);
        self.volumes.sort_by(|one, other| {
            let usual = order.compare(one, other);
            let turned = match direction {
                Direction::Usual => usual,
                Direction::Reversed => usual.reverse(),
            };
            turned.then_with(|| one.report.name.cmp(&other.report.name))
        });
    }
}

impl Order {
    fn compare(self, one: &VolumeLine, other: &VolumeLine) -> Ordering {
        match self.number(one).zip(self.number(other)) {
            Some((one, other)) => other.total_cmp(&one),
            None => one.report.name.cmp(&other.report.name),
        }
    }

    /// `None` for the order by name.
    fn number(self, line: &VolumeLine) -> Option<f64> {
        match self {
            Order::Name => None,
            Order::Requests => Some(line.rates.reads + line.rates.writes),
            Order::Hits => Some(line.hit_ratio().unwrap_or(-1.0)),
            Order::Latency => Some(line.rates.read_ms.unwrap_or(-1.0)),
            Order::Dirty => Some(line.report.dirty_bytes as f64),
            Order::Cached => Some(line.report.cached_bytes as f64),
        }
    }
}
