//! What a daemon shall serve: the one form that flags and configuration files turn into, and its checks.

pub mod address;
mod check;
pub mod cutoff;
pub mod default_paths;
pub mod dirty_limit;
pub mod origin_claims;
pub mod origin_source;
pub mod volume_spec;

use std::path::PathBuf;

use kickcache_engine::config::{FILL_WINDOW_MAX, FILL_WINDOW_MIN};
use kickcache_engine::units::{BLOCK_SIZE, SECTOR_SIZE};
use kickcache_units::Size;

use crate::plan::volume_spec::VolumeSpec;
use crate::words::IoEngineWord;

pub use crate::plan::check::{PlanError, check_cache_size};

/// Everything that `kickcache serve` was told.
#[derive(Clone, PartialEq, Debug)]
pub struct ServePlan {
    /// Path of the control socket.
    pub control: PathBuf,
    /// The state directory, if the user named one.
    pub state: Option<PathBuf>,
    /// How devices are read and written.
    pub io_engine: IoEngineWord,
    /// Whether NBD may be offered to other machines, without encryption and without a password.
    pub exposure: Exposure,
    /// The cache devices.
    pub caches: Vec<CachePlan>,
}

/// A cache device and its volumes.
#[derive(Clone, PartialEq, Debug)]
pub struct CachePlan {
    /// File or block device.
    pub device: PathBuf,
    /// Size of the file, if it must be made.
    pub size: Option<Size>,
    /// Whether it is used.
    pub usage: CacheUsage,
    /// Whether it may take the place of one that may hold dirty blocks.
    pub replaces: bool,
    /// The volumes.
    pub volumes: Vec<VolumeSpec>,
    /// Volumes that were taken from the plan, as they cannot be served.
    pub unserved: Vec<Unserved>,
}

/// A volume that was configured and is not served.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unserved {
    /// Its name.
    pub name: String,
    /// Why, and what to do.
    pub why: String,
}

/// Whether a cache device is used.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum CacheUsage {
    /// It is.
    #[default]
    Used,
    /// Its volumes are served from their origins alone; those of which it holds dirty blocks are refused.
    LeftOut,
}

/// Who may reach a TCP address.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Exposure {
    /// This machine.
    #[default]
    LocalOnly,
    /// Everybody who can reach the port.
    InsecureTcp,
}

/// Reads the upper bound of the fill window.
///
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

/// Reads the logical block size that a virtual machine is told.
///
/// # Errors
/// If it is neither 512 nor 4096.
pub fn parse_guest_block(text: &str) -> Result<Size, String> {
    let size: Size = text.parse().map_err(|error| format!("{error}"))?;
    check_guest_block(size)?;
    Ok(size)
}

fn check_guest_block(size: Size) -> Result<(), String> {
    match size.bytes() {
        SECTOR_SIZE | BLOCK_SIZE => Ok(()),
        bytes => Err(format!("a guest's block of {bytes} bytes is not possible; write 512 or 4096")),
    }
}
