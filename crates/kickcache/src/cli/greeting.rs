//! The text that a daemon prints when it serves.

use std::io::Write;
use std::path::Path;

use kickcache_daemon::metrics::server::MetricsServer;
use kickcache_daemon::plan::address::NbdAddress;
use kickcache_daemon::plan::cache_spec::{CacheService, CacheSpec};
use kickcache_daemon::plan::tls_plan::TlsWord;

use crate::cli::start::PlannedServer;

/// The addresses to print.
pub(super) struct Greeting<'a> {
    pub(super) control: &'a Path,
    pub(super) metrics: Option<&'a MetricsServer>,
    pub(super) servers: &'a [PlannedServer],
    pub(super) tls: TlsWord,
}

/// The URI for NBD clients of an address.
fn shown(place: &str, tls: TlsWord) -> String {
    match (place.strip_prefix("nbd"), tls) {
        (Some(rest), TlsWord::Require) => format!("nbds{rest}"),
        _ => place.to_owned(),
    }
}

/// Prints all addresses. A closed pipe does not stop the daemon.
pub(super) fn greet(out: &mut dyn Write, &Greeting { control, metrics, servers, tls }: &Greeting<'_>) {
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
    }
    text += &format!("control socket: {}\n", control.display());
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// Whether the system chooses a port for one of the volumes.
fn chooses_port(cache: &CacheSpec) -> bool {
    let any_port = |address: &NbdAddress| matches!(address, NbdAddress::Tcp { port: 0, .. });
    cache.volumes.iter().any(|volume| volume.served_by().nbd.addresses().iter().any(any_port))
}
