//! The configuration of a daemon: the common form of flags and configuration files, and its checks.

pub mod address;
pub mod cache_spec;
pub(crate) mod check;
pub mod client_cap;
pub mod conflicts;
pub mod cutoff;
pub mod default_paths;
pub mod difference;
pub mod dirty_marks;
pub mod endurance;
pub mod exposure;
pub mod frontends;
pub mod log_plan;
pub mod memory_limit;
pub mod metrics_address;
pub mod nbd_uri;
pub mod origin_claims;
pub mod origin_source;
pub mod origin_timeout;
mod percent;
pub mod plan_change;
pub mod rate;
pub mod removal;
pub mod room;
mod setting;
pub mod span;
pub mod tls_plan;
pub mod user_spec;
mod volume_keys;
pub mod volume_spec;
pub mod write_budget;

use crate::driver::io_engine::IoEngine;
use crate::plan::cache_spec::CacheSpec;
use crate::plan::log_plan::LogPlan;
use crate::plan::memory_limit::MemoryLimit;
use crate::plan::metrics_address::MetricsAddress;
use crate::plan::tls_plan::TlsPlan;
use crate::plan::user_spec::UserSpec;
use crate::whole_path::whole_path;
use std::path::{Path, PathBuf};

use kickcache_engine::config::{FILL_WINDOW_MAX, FILL_WINDOW_MIN};
use kickcache_units::Size;

pub use crate::plan::exposure::Exposure;

pub use crate::plan::check::{PlanError, check_cache_size};

/// The configuration of `kickcache serve`.
#[derive(Clone, PartialEq, Debug)]
pub struct ServePlan {
    pub control: PathBuf,
    /// Path of a socket that only reports the status, also to the group of the socket.
    pub status_socket: Option<PathBuf>,
    pub metrics: Option<MetricsAddress>,
    pub log: LogPlan,
    /// The state directory, if the user named one.
    pub state: Option<PathBuf>,
    /// The user account of a daemon that root started.
    pub user: Option<UserSpec>,
    /// Devices that `user` may not open, but that may be opened later.
    pub may_open: Vec<PathBuf>,
    pub io_engine: IoEngine,
    pub memory_limit: MemoryLimit,
    pub exposure: Exposure,
    pub tls: TlsPlan,
    pub caches: Vec<CacheSpec>,
}

impl ServePlan {
    pub fn cache(&self, device: &Path) -> Option<&CacheSpec> {
        self.caches.iter().find(|cache| whole_path(&cache.device) == whole_path(device))
    }
}

/// # Errors
/// If it is not a power of two from 4 KiB to 1 MiB.
pub fn parse_fill_window(text: &str) -> Result<Size, String> {
    let size: Size = text.parse().map_err(|error| format!("{error}"))?;
    check_fill_window(size)?;
    Ok(size)
}

fn check_fill_window(size: Size) -> Result<(), String> {
    let bytes = size.bytes();
    if bytes.is_power_of_two() && (FILL_WINDOW_MIN..=FILL_WINDOW_MAX).contains(&bytes) {
        return Ok(());
    }
    Err(format!(
        "a fill window of {bytes} bytes is not possible; write a power of two from 4K to 1M, such as 64K"
    ))
}
