//! A plan in the words of the servers that carry it out.

use kickcache_daemon::driver::executor::IoEngine;
use kickcache_daemon::plan::{CachePlan, CacheUsage, Exposure};
use kickcache_daemon::serve::config::{
    CacheConfig, CacheService, InheritedSockets, Limits, Replacement, ServerConfig, StatePlace,
};
use kickcache_daemon::words::IoEngineWord;
use kickcache_engine::config::EngineSettings;

/// A cache device of a plan with its volumes, as a server takes them.
pub(super) fn server_config(
    cache: &CachePlan,
    io_engine: IoEngineWord,
    exposure: Exposure,
    state: &StatePlace,
) -> ServerConfig {
    ServerConfig {
        cache: CacheConfig {
            path: cache.device.clone(),
            size: cache.size.map(|size| size.bytes()),
            service: match cache.usage {
                CacheUsage::Used => CacheService::InService,
                CacheUsage::LeftOut => CacheService::LeftOut,
            },
            replacement: if cache.replaces { Replacement::Accept } else { Replacement::Refuse },
        },
        volumes: cache.volumes.clone(),
        io_engine: match io_engine {
            IoEngineWord::Auto => IoEngine::Auto,
            IoEngineWord::IoUring => IoEngine::IoUring,
            IoEngineWord::Threads => IoEngine::Threads,
        },
        engine: EngineSettings::default(),
        state: state.clone(),
        control: None,
        limits: Limits::default(),
        exposure,
        inherited: InheritedSockets::default(),
    }
}
