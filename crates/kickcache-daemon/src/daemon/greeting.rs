//! The text that a daemon prints when it serves.

use std::io::Write;
use std::path::Path;

use kickcache_engine::units::BLOCK_SIZE;
use kickcache_units::counted;

use crate::metrics::server::MetricsServer;
use crate::plan::address::NbdAddress;
use crate::plan::cache_spec::{CacheService, CacheSpec};
use crate::plan::tls_plan::TlsWord;
use crate::serve::config::StatePlace;
use crate::serve::server::VolumeInfo;
use crate::start::servers::PlannedServer;

pub(crate) struct Greeting<'a> {
    pub(crate) control: &'a Path,
    pub(crate) state: &'a StatePlace,
    pub(crate) metrics: Option<&'a MetricsServer>,
    pub(crate) servers: &'a [PlannedServer],
    pub(crate) tls: TlsWord,
}

/// An address as it is printed.
fn shown(place: &str, tls: TlsWord) -> String {
    match (place.strip_prefix("nbd"), tls) {
        (Some(rest), TlsWord::Require) => format!("nbds{rest}"),
        _ => place.to_owned(),
    }
}

/// A closed pipe does not stop the daemon.
pub(crate) fn greet(out: &mut dyn Write, &Greeting { control, state, metrics, servers, tls }: &Greeting<'_>) {
    let mut text = format!("kickcache {}\n", env!("CARGO_PKG_VERSION"));
    let volumes = servers.iter().flat_map(|served| served.cache.volumes.iter().map(move |it| (served, it)));
    for (served, volume) in volumes {
        let name = &volume.name;
        let mode = match served.cache.service {
            CacheService::InService => volume.mode.as_str(),
            CacheService::LeftOut | CacheService::OutOfService | CacheService::WrittenBackOnly => {
                "without cache"
            }
        };
        for place in volume.served_by().announcements(name) {
            text += &format!("volume {name}, {mode}: {}\n", shown(&place, tls));
        }
    }
    for served in servers.iter().filter(|served| chooses_port(&served.cache)) {
        let served_at = served.handle.status().map(|status| status.served_at).unwrap_or_default();
        let uris: Vec<String> =
            served_at.iter().flat_map(|volume| &volume.nbd).map(|uri| shown(uri, tls)).collect();
        text += &format!("listening on: {}\n", uris.join(", "));
    }
    if let Some(metrics) = metrics {
        text += &format!("metrics: {}\n", metrics.address());
        if let Some(page) = metrics.page() {
            text += &format!("live page: {page}\n");
        }
    }
    text += &format!("control socket: {}\n", control.display());
    if let StatePlace::Directory(directory) = state {
        text += &format!("state directory: {}\n", directory.display());
    }
    servers.iter().for_each(|served| text += &recovered(served));
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// A line for each volume with recovered dirty blocks.
fn recovered(served: &PlannedServer) -> String {
    let Ok(status) = served.handle.status() else { return String::new() };
    let took = status.recovery.took.as_nanos() as f64 / 1e9;
    let line = |volume: &VolumeInfo| {
        let blocks = status.recovery.dirty_bytes(volume.id) / BLOCK_SIZE;
        let count = counted(blocks, "dirty block");
        (blocks > 0).then(|| format!("{}: {count} recovered in {took:.1} s\n", volume.name))
    };
    status.volumes.iter().filter_map(line).collect()
}

fn chooses_port(cache: &CacheSpec) -> bool {
    let any_port = |address: &NbdAddress| matches!(address, NbdAddress::Tcp { port: 0, .. });
    cache.volumes.iter().any(|volume| volume.served_by().nbd.addresses().iter().any(any_port))
}
