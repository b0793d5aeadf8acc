//! The metrics of a daemon.

use crate::control::condition::{Condition, Severity};
use crate::control::report::VolumeReport;
use crate::metrics::family::{Family, Labelled, Labels, Subject, Values};
use crate::metrics::scrape::Scrape;

pub(super) const FAMILIES: &[Family<Scrape>] = &[
    Family {
        name: "kickcache",
        help: "The daemon.",
        values: Values::Info(|scrape| {
            let state = scrape.report.state_directory.as_ref();
            vec![
                ("version", scrape.report.version.clone()),
                ("io_engine", scrape.report.io_engine.clone()),
                ("state_directory", state.map_or_else(String::new, |state| state.display().to_string())),
            ]
        }),
    },
    Family {
        name: "kickcache_uptime_seconds",
        help: "Time since the daemon started.",
        values: Values::Gauge(|scrape| scrape.report.uptime_seconds),
    },
    Family {
        name: "kickcache_condition",
        help: "The conditions that there are: 1 for each, with its kind, its severity, and the volume or the device.",
        values: Values::Gauges(|scrape| conditions(scrape, |_| 1.0)),
    },
    Family {
        name: "kickcache_condition_seconds",
        help: "How long each condition has lasted.",
        values: Values::Gauges(|scrape| conditions(scrape, |condition| condition.lasted_seconds)),
    },
    Family {
        name: "kickcache_health",
        help: "The most urgent severity of all conditions: 0 none, 1 notice, 2 warning, 3 error.",
        values: Values::Gauge(|scrape| {
            let worst = scrape.report.conditions.iter().map(|condition| condition.severity).max();
            worst.map_or(0.0, |severity| match severity {
                Severity::Notice => 1.0,
                Severity::Warning => 2.0,
                Severity::Error => 3.0,
            })
        }),
    },
    Family {
        name: "kickcache_monitor_ended",
        help: "Whether the part of the daemon that is root has ended before it.",
        values: Values::Gauge(|scrape| f64::from(u8::from(scrape.report.monitor_ended))),
    },
    Family {
        name: "kickcache_tls_stale",
        help: "Whether the files of certificates for clients cannot be used as they are now, so that those before them are.",
        values: Values::Gauge(|scrape| f64::from(u8::from(scrape.report.tls_failure.is_some()))),
    },
    Family {
        name: "kickcache_memory_limit_bytes",
        help: "Memory for the payload of requests that there may be.",
        values: Values::Count(|scrape| scrape.report.memory.limit_bytes),
    },
    Family {
        name: "kickcache_memory_used_bytes",
        help: "Memory for the payload of requests that requests have.",
        values: Values::Count(|scrape| scrape.report.memory.used_bytes),
    },
    Family {
        name: "kickcache_memory_waiting_requests",
        help: "Requests that wait for memory for their payload.",
        values: Values::Count(|scrape| scrape.report.memory.waiting_requests),
    },
    Family {
        name: "kickcache_cache_up",
        help: "Whether the server of the cache device answered this scrape.",
        values: Values::Gauges(|scrape| {
            let up = scrape.report.caches.iter().map(|cache| Labelled::one("cache", &cache.device, 1.0));
            up.chain(scrape.silent.iter().map(|device| Labelled::one("cache", device, 0.0))).collect()
        }),
    },
    Family {
        name: "kickcache_volume_up",
        help: "Whether the volume is served; 0 for a configured volume that could not be served.",
        values: Values::Gauges(|scrape| {
            let up = scrape.report.caches.iter().flat_map(|cache| {
                let labels = |volume: &VolumeReport| {
                    vec![("volume", volume.name.clone()), ("cache", cache.device.clone())]
                };
                cache.volumes.iter().map(move |volume| Labelled { labels: labels(volume), value: 1.0 })
            });
            let unserved = scrape.report.unserved.iter();
            up.chain(unserved.map(|volume| Labelled::one("volume", &volume.name, 0.0))).collect()
        }),
    },
];

fn conditions(scrape: &Scrape, value: fn(&Condition) -> f64) -> Vec<Labelled<f64>> {
    let labelled = |condition: &Condition| {
        let name = |name: &Option<String>| name.clone().unwrap_or_default();
        let labels = vec![
            ("kind", condition.kind.as_str().into()),
            ("severity", condition.severity.as_str().into()),
            ("volume", name(&condition.volume)),
            ("device", name(&condition.device)),
        ];
        Labelled { labels, value: value(condition) }
    };
    scrape.report.conditions.iter().map(labelled).collect()
}

impl Subject for Scrape {
    fn labels(&self) -> Labels {
        Labels::new()
    }
}
