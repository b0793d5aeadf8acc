//! A volume, as people describe it: flags and configuration files make one, the daemon takes it.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::time::Duration;

use kickcache_engine::config::{FILL_WINDOW_MAX, VolumeSettings};
use kickcache_engine::units::{SECTOR_SIZE, VolumeId};
use kickcache_units::Size;
use serde::Deserialize;
use serde::de::{Deserializer, Error as _};

use crate::driver::device::AccessMode;
use crate::plan::address::NbdAddress;
use crate::plan::cutoff::Cutoff;
use crate::plan::default_paths::default_nbd;
use crate::plan::dirty_limit::DirtyLimit;
use crate::plan::origin_claims::OriginClaims;
use crate::plan::origin_source::OriginSource;
use crate::plan::origin_timeout::OriginTimeout;
use crate::plan::ublk_id::{self, UblkId};
use crate::plan::ublk_queues;
use crate::words::{AdmissionWord, ModeWord};

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
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct VolumeSpec {
    /// Its name on the cache device, unique in the daemon; NBD clients ask for it.
    pub name: String,
    /// The slow device.
    #[serde(deserialize_with = "origin")]
    pub origin: OriginSource,
    /// How long requests wait for a remote origin that is away.
    #[serde(default, deserialize_with = "origin_timeout")]
    pub origin_timeout: OriginTimeout,
    /// Write mode.
    #[serde(default)]
    pub mode: ModeWord,
    /// Which misses are promoted.
    #[serde(default)]
    pub admission: AdmissionWord,
    /// Sequential streams longer than this are bypassed.
    #[serde(default, deserialize_with = "cutoff")]
    pub sequential_cutoff: Cutoff,
    /// Upper bound of the fill window.
    #[serde(default = "fill_window_max")]
    pub fill_window_max: Size,
    /// How much of the log its dirty blocks may fill.
    #[serde(default)]
    pub dirty_limit: DirtyLimit,
    /// Without requests of clients for this long, dirty blocks are written back at full speed.
    #[serde(skip, default = "idle_after")]
    pub idle_after: Duration,
    /// Whether clients may write; if not, the origin is opened read-only.
    #[serde(default, rename = "read-only", deserialize_with = "access")]
    pub access: AccessMode,
    /// What the user says about the origin.
    #[serde(default, rename = "origin-no-flush", deserialize_with = "claims")]
    pub claims: OriginClaims,
    /// Whether dirty blocks may be lost.
    #[serde(skip)]
    pub dirty_loss: DirtyLoss,
    /// Where NBD clients find it; an address may serve several volumes of a cache device.
    #[serde(default, deserialize_with = "addresses")]
    pub nbd: Option<Vec<NbdAddress>>,
    /// The socket where a virtual machine finds it.
    #[serde(default)]
    pub vhost_user: Option<PathBuf>,
    /// Which block device of the host it is.
    #[serde(default, deserialize_with = "ublk_id::deserialize")]
    pub ublk: Option<UblkId>,
    /// How many queues that has.
    #[serde(default = "ublk_queues::queues_default", deserialize_with = "ublk_queues::deserialize_queues")]
    pub ublk_queues: u16,
    /// How many requests each of them holds.
    #[serde(default = "ublk_queues::depth_default", deserialize_with = "ublk_queues::deserialize_depth")]
    pub ublk_depth: u16,
    /// The logical block that the virtual machine, or the host, is told.
    #[serde(default = "guest_block")]
    pub guest_block: Size,
}

impl VolumeSpec {
    /// A volume with the defaults.
    pub fn new(name: &str, origin: OriginSource) -> VolumeSpec {
        VolumeSpec {
            name: name.into(),
            origin,
            origin_timeout: OriginTimeout::default(),
            mode: ModeWord::default(),
            admission: AdmissionWord::default(),
            sequential_cutoff: Cutoff::default(),
            fill_window_max: fill_window_max(),
            dirty_limit: DirtyLimit::default(),
            idle_after: idle_after(),
            access: AccessMode::default(),
            claims: OriginClaims::default(),
            dirty_loss: DirtyLoss::default(),
            nbd: None,
            vhost_user: None,
            ublk: None,
            ublk_queues: ublk_queues::QUEUES_DEFAULT,
            ublk_depth: ublk_queues::DEPTH_DEFAULT,
            guest_block: guest_block(),
        }
    }

    /// Where NBD is served: where it was said, or else below the runtime directory, unless the volume is a virtual machine's or a block device.
    pub fn nbd_addresses(&self) -> Vec<NbdAddress> {
        match (&self.nbd, &self.vhost_user, self.ublk) {
            (Some(addresses), _, _) => addresses.clone(),
            (None, None, None) => vec![default_nbd(&self.name)],
            (None, _, _) => Vec::new(),
        }
    }

    /// Mode and policies, as the engine takes them; the id in it is overwritten.
    pub fn settings(&self) -> VolumeSettings {
        let idle_nanos = u64::try_from(self.idle_after.as_nanos()).unwrap_or(u64::MAX);
        VolumeSettings {
            mode: self.mode.into(),
            origin: self.origin.kind(),
            admission: self.admission.into(),
            sequential_cutoff: self.sequential_cutoff.bytes(),
            fill_window_max: self.fill_window_max.bytes(),
            dirty_low: self.dirty_limit.low(),
            dirty_high: self.dirty_limit.high(),
            dirty_limit: self.dirty_limit.limit(),
            idle_after: kickcache_engine::time::Duration::from_nanos(idle_nanos),
            ..VolumeSettings::new(VolumeId::new(0))
        }
    }

    /// Bytes of the logical block that a virtual machine is told.
    ///
    /// # Panics
    /// If the plan was not checked.
    pub fn guest_block_bytes(&self) -> u32 {
        u32::try_from(self.guest_block.bytes()).expect("checked to be 512 or 4096")
    }
}

fn fill_window_max() -> Size {
    Size::from_bytes(FILL_WINDOW_MAX)
}

fn guest_block() -> Size {
    Size::from_bytes(SECTOR_SIZE)
}

fn idle_after() -> Duration {
    Duration::from_nanos(VolumeSettings::new(VolumeId::new(0)).idle_after.as_nanos())
}

fn origin<'de, D: Deserializer<'de>>(deserializer: D) -> Result<OriginSource, D::Error> {
    let text = PathBuf::deserialize(deserializer)?;
    OriginSource::parse(text.as_os_str()).map_err(D::Error::custom)
}

fn cutoff<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Cutoff, D::Error> {
    String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
}

fn origin_timeout<'de, D: Deserializer<'de>>(deserializer: D) -> Result<OriginTimeout, D::Error> {
    String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
}

fn access<'de, D: Deserializer<'de>>(deserializer: D) -> Result<AccessMode, D::Error> {
    let is_read_only = bool::deserialize(deserializer)?;
    Ok(if is_read_only { AccessMode::ReadOnly } else { AccessMode::ReadWrite })
}

fn claims<'de, D: Deserializer<'de>>(deserializer: D) -> Result<OriginClaims, D::Error> {
    Ok(OriginClaims { flushless: bool::deserialize(deserializer)?, ..OriginClaims::default() })
}

fn addresses<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<NbdAddress>>, D::Error> {
    let texts = Vec::<String>::deserialize(deserializer)?;
    let parse = |text: &String| NbdAddress::parse(OsStr::new(text)).map_err(D::Error::custom);
    texts.iter().map(parse).collect::<Result<_, _>>().map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_those_of_the_engine() {
        let spec = VolumeSpec::new("v", OriginSource::Path("/dev/sdb".into()));
        assert_eq!(spec.settings(), VolumeSettings::new(VolumeId::new(0)));
    }

    #[test]
    fn a_virtual_machine_s_volume_has_no_nbd_unless_it_is_named() {
        let mut spec = VolumeSpec::new("v", OriginSource::Path("/dev/sdb".into()));
        assert_eq!(spec.nbd_addresses(), [default_nbd("v")]);
        spec.vhost_user = Some("/run/v.vhost".into());
        assert_eq!(spec.nbd_addresses(), []);
        spec.nbd = Some(vec![NbdAddress::Unix("/run/v.sock".into())]);
        assert_eq!(spec.nbd_addresses(), [NbdAddress::Unix("/run/v.sock".into())]);
    }
}
