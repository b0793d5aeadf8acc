//! A display of the runs of the demo.

use kickcache_daemon::plan::cache_spec::CacheSpec;
use kickcache_daemon::serve::server::ServerHandle;

pub trait RunDisplay {
    fn address(&self) -> &str;

    /// Shows the server of the next run.
    fn show(&self, server: &ServerHandle, cache: CacheSpec);
}
