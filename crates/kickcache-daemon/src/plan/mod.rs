//! What a daemon shall serve: the one form that flags and configuration files turn into, and its checks.

pub mod address;
mod check;
pub mod dirty_limit;

use std::path::{Path, PathBuf};

use kickcache_engine::config::{FILL_WINDOW_MAX, FILL_WINDOW_MIN};
use kickcache_engine::units::{BLOCK_SIZE, SECTOR_SIZE};
use kickcache_units::Size;

use crate::plan::address::NbdAddress;
use crate::plan::dirty_limit::DirtyLimit;
use crate::words::{AdmissionWord, IoEngineWord, ModeWord};

pub use crate::plan::check::{PlanError, check_cache_size};

/// Everything that `kickcache serve` was told.
#[derive(Clone, PartialEq, Eq, Debug)]
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
#[derive(Clone, PartialEq, Eq, Debug)]
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
    pub volumes: Vec<VolumePlan>,
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

/// Whether dirty blocks of a volume may be lost that cannot be had, or not without writing over newer data.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum DirtyLoss {
    /// The volume is refused.
    #[default]
    Refused,
    /// The user goes on without them.
    Accepted,
}

/// A volume.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VolumePlan {
    /// Its name, unique in the daemon; NBD clients ask for it.
    pub name: String,
    /// The origin: file or block device.
    pub origin: PathBuf,
    /// Write mode.
    pub mode: ModeWord,
    /// Which misses are promoted.
    pub admission: AdmissionWord,
    /// Sequential streams longer than this are bypassed.
    pub sequential_cutoff: Cutoff,
    /// Upper bound of the fill window.
    pub fill_window_max: Size,
    /// How much of the log its dirty blocks may fill.
    pub dirty_limit: DirtyLimit,
    /// Whether clients may write.
    pub access: Access,
    /// What the user says about the origin.
    pub origin_state: OriginState,
    /// Whether dirty blocks may be lost.
    pub dirty_loss: DirtyLoss,
    /// Where NBD clients find it.
    pub nbd: Vec<NbdAddress>,
    /// The socket where a virtual machine finds it.
    pub vhost_user: Option<PathBuf>,
    /// The logical block that the virtual machine is told.
    pub guest_block: Size,
}

impl VolumePlan {
    /// A volume with the defaults.
    pub fn new(name: &str, origin: &Path) -> VolumePlan {
        VolumePlan {
            name: name.into(),
            origin: origin.into(),
            mode: ModeWord::default(),
            admission: AdmissionWord::default(),
            sequential_cutoff: Cutoff::default(),
            fill_window_max: Size::from_bytes(FILL_WINDOW_MAX),
            dirty_limit: DirtyLimit::default(),
            access: Access::default(),
            origin_state: OriginState::default(),
            dirty_loss: DirtyLoss::default(),
            nbd: Vec::new(),
            vhost_user: None,
            guest_block: Size::from_bytes(SECTOR_SIZE),
        }
    }
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

/// Whether clients may write.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Access {
    /// They may.
    #[default]
    ReadWrite,
    /// They may not.
    ReadOnly,
}

/// What the user says about an origin that the cache device knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OriginState {
    /// The same data under another path or on another device.
    pub moved: bool,
    /// Somebody wrote to it while it was detached: clean blocks are worthless.
    pub changed: bool,
    /// It was extended while nobody served it.
    pub grown: bool,
    /// It may be a cache device itself.
    pub forced: bool,
    /// It cannot be flushed, and need not be.
    pub flushless: bool,
}

/// Above which length a sequential stream is bypassed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cutoff {
    /// Streams are cached like everything else.
    Off,
    /// Above this many bytes.
    Above(Size),
}

impl Default for Cutoff {
    fn default() -> Cutoff {
        Cutoff::Above(Size::from_bytes(4 << 20))
    }
}

impl Cutoff {
    /// The length, or nothing if streams are cached too.
    pub fn bytes(self) -> Option<u64> {
        match self {
            Cutoff::Off => None,
            Cutoff::Above(size) => Some(size.bytes()),
        }
    }
}

impl std::str::FromStr for Cutoff {
    type Err = String;

    fn from_str(text: &str) -> Result<Cutoff, String> {
        if text == "off" {
            return Ok(Cutoff::Off);
        }
        match text.parse::<Size>() {
            Ok(size) if size.bytes() == 0 => {
                Err("a cut-off of 0 would bypass every read; write `off` to cache streams too".into())
            }
            Ok(size) => Ok(Cutoff::Above(size)),
            Err(error) => Err(format!("{error}, or `off`")),
        }
    }
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

/// The control socket of a daemon that the system started.
pub const SYSTEM_CONTROL: &str = "/run/kickcache/control.sock";

/// Where sockets go when nobody names a place: `$XDG_RUNTIME_DIR/kickcache`, or `/run/kickcache`.
pub fn runtime_dir() -> PathBuf {
    match std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from) {
        Some(dir) if dir.is_absolute() => dir.join("kickcache"),
        _ => PathBuf::from("/run/kickcache"),
    }
}

/// The control socket when nobody names one.
pub fn default_control() -> PathBuf {
    runtime_dir().join("control.sock")
}

/// The NBD socket of a volume when nobody names one.
pub fn default_nbd(name: &str) -> NbdAddress {
    NbdAddress::Unix(runtime_dir().join(format!("{name}.nbd.sock")))
}

/// The NBD addresses of a volume when nobody names one: none for a volume that is a virtual machine's.
pub fn nbd_unless(vhost_user: Option<&Path>, name: &str) -> Vec<NbdAddress> {
    if vhost_user.is_some() { Vec::new() } else { vec![default_nbd(name)] }
}
