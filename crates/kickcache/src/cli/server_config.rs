//! A plan in the words of the servers that carry it out.

use std::net::ToSocketAddrs;

use anyhow::{Context, anyhow};
use kickcache_daemon::driver::executor::IoEngine;
use kickcache_daemon::plan::address::NbdAddress;
use kickcache_daemon::plan::{Access, CachePlan, CacheUsage, Exposure, VolumePlan};
use kickcache_daemon::serve::config::{
    self, CacheConfig, CacheService, Limits, Replacement, ServerConfig, StatePlace, TcpPolicy, VolumeConfig,
};
use kickcache_daemon::serve::origin::source::OriginSource;
use kickcache_daemon::words::IoEngineWord;
use kickcache_engine::config::{EngineSettings, VolumeSettings};
use kickcache_engine::units::VolumeId;

/// The logical block that a virtual machine is told, in bytes.
pub(super) fn guest_block(plan: &VolumePlan) -> u32 {
    u32::try_from(plan.guest_block.bytes()).expect("checked to be 512 or 4096")
}

/// A cache device of a plan with its volumes, as a server takes them.
///
/// # Errors
/// If the host of an address cannot be found.
pub(super) fn server_config(
    cache: &CachePlan,
    io_engine: IoEngineWord,
    exposure: Exposure,
    state: &StatePlace,
) -> anyhow::Result<ServerConfig> {
    Ok(ServerConfig {
        cache: CacheConfig {
            path: cache.device.clone(),
            size: cache.size.map(|size| size.bytes()),
            service: match cache.usage {
                CacheUsage::Used => CacheService::InService,
                CacheUsage::LeftOut => CacheService::LeftOut,
            },
            replacement: if cache.replaces { Replacement::Accept } else { Replacement::Refuse },
        },
        volumes: cache.volumes.iter().map(volume_config).collect::<Result<_, _>>()?,
        io_engine: match io_engine {
            IoEngineWord::Auto => IoEngine::Auto,
            IoEngineWord::IoUring => IoEngine::IoUring,
            IoEngineWord::Threads => IoEngine::Threads,
        },
        engine: EngineSettings::default(),
        state: state.clone(),
        control: None,
        limits: Limits::default(),
        tcp: match exposure {
            Exposure::LocalOnly => TcpPolicy::LoopbackOnly,
            Exposure::InsecureTcp => TcpPolicy::Insecure,
        },
    })
}

pub(super) fn volume_config(volume: &VolumePlan) -> anyhow::Result<VolumeConfig> {
    Ok(VolumeConfig {
        name: volume.name.clone(),
        origin: OriginSource::Path(volume.origin.clone()),
        settings: VolumeSettings {
            mode: volume.mode.into(),
            admission: volume.admission.into(),
            sequential_cutoff: volume.sequential_cutoff.bytes(),
            fill_window_max: volume.fill_window_max.bytes(),
            dirty_low: volume.dirty_limit.low(),
            dirty_high: volume.dirty_limit.high(),
            dirty_limit: volume.dirty_limit.limit(),
            ..VolumeSettings::new(VolumeId::new(0))
        },
        exports: volume.nbd.iter().map(address).collect::<Result<_, _>>()?,
        vhost_user: volume.vhost_user.as_ref().map(|path| config::VhostUserPort {
            address: config::NbdAddress::Unix(path.clone()),
            block_size: guest_block(volume),
        }),
        write_access: match volume.access {
            Access::ReadWrite => config::WriteAccess::ReadWrite,
            Access::ReadOnly => config::WriteAccess::ReadOnly,
        },
        origin_move: match volume.origin_state.moved {
            true => config::OriginMove::Accept,
            false => config::OriginMove::Refuse,
        },
        origin_growth: match volume.origin_state.grown {
            true => config::OriginGrowth::Accept,
            false => config::OriginGrowth::Refuse,
        },
        origin_content: match volume.origin_state.changed {
            true => config::OriginContent::Changed,
            false => config::OriginContent::Kept,
        },
        origin_flush: match volume.origin_state.flushless {
            true => config::OriginFlush::Assumed,
            false => config::OriginFlush::Needed,
        },
        origin_cache: match volume.origin_state.forced {
            true => config::OriginCache::Accept,
            false => config::OriginCache::Refuse,
        },
    })
}

/// An address as the server takes it; of a host name its first IPv4 address, or else its first.
fn address(address: &NbdAddress) -> anyhow::Result<config::NbdAddress> {
    let (host, port) = match address {
        NbdAddress::Unix(path) => return Ok(config::NbdAddress::Unix(path.clone())),
        NbdAddress::Tcp { host, port } => (host, *port),
    };
    let found = (host.as_str(), port).to_socket_addrs();
    let found: Vec<_> = found.with_context(|| format!("cannot find the host of {address}"))?.collect();
    let chosen = found.iter().find(|found| found.is_ipv4()).or_else(|| found.first());
    let chosen = chosen.ok_or_else(|| anyhow!("the host of {address} has no address"))?;
    Ok(config::NbdAddress::Tcp(*chosen))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_by_name_becomes_one_by_number() {
        let localhost = NbdAddress::Tcp { host: "localhost".into(), port: 10809 };
        let config::NbdAddress::Tcp(found) = address(&localhost).unwrap() else { panic!("not TCP") };
        assert!(found.ip().is_loopback() && found.port() == 10809);
    }
}
