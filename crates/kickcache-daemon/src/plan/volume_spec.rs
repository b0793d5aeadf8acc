//! A volume in the user's notation.

use std::path::PathBuf;
use std::time::Duration;

use kickcache_engine::config::{FILL_WINDOW_MAX, VolumeSettings};
use kickcache_engine::rate::RateCap;
use kickcache_engine::units::VolumeId;
use kickcache_units::Size;
use serde::Deserialize;
use serde::de::{Deserializer, Error as _};

use crate::driver::device::AccessMode;
use crate::driver::rights::trusted_path::Identity as FileNumber;
use crate::plan::client_cap::ClientCap;
use crate::plan::cutoff::Cutoff;
use crate::plan::dirty_marks::{DirtyMark, DirtyMarks};
use crate::plan::frontends::FrontendSpecs;
use crate::plan::frontends::serial_number::SerialNumber;
use crate::plan::origin_claims::OriginClaims;
use crate::plan::origin_source::OriginSource;
use crate::plan::origin_timeout::OriginTimeout;
use crate::plan::rate::{ByteRate, RequestRate};
use crate::plan::room::{Room, RoomBounds};
use crate::plan::span::{parse_burst, parse_idle_time};
use crate::plan::volume_keys::VolumeTable;
use crate::words::{AdmissionWord, ModeWord};

/// Whether a volume may be served although dirty blocks on an unused cache device are then lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum DirtyLoss {
    /// The volume is refused while there may be dirty blocks.
    #[default]
    Refused,
    Accepted,
}

/// A volume.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(remote = "Self", rename_all = "kebab-case")]
pub struct VolumeSpec {
    /// Unique in the daemon; NBD clients request it.
    pub name: String,
    /// The slow device.
    #[serde(deserialize_with = "origin")]
    pub origin: OriginSource,
    /// How long requests wait for a lost server of a remote origin before they fail.
    #[serde(default, deserialize_with = "origin_timeout")]
    pub origin_timeout: OriginTimeout,
    #[serde(default)]
    pub mode: ModeWord,
    /// Which misses are filled.
    #[serde(default)]
    pub admission: AdmissionWord,
    /// Which sequential streams are bypassed.
    #[serde(default, deserialize_with = "cutoff")]
    pub sequential_cutoff: Cutoff,
    #[serde(default = "fill_window_max")]
    pub fill_window_max: Size,
    /// The percentage of the volume's share of the log above which dirty blocks are written back during
    /// requests of clients.
    #[serde(default)]
    pub dirty_low: Option<DirtyMark>,
    /// The percentage of the volume's share of the log above which client writes are delayed.
    #[serde(default)]
    pub dirty_high: Option<DirtyMark>,
    /// The percentage of the volume's share of the log that dirty blocks may fill.
    #[serde(default = "dirty_limit")]
    pub dirty_limit: DirtyMark,
    /// Time without client requests after which idle writeback begins.
    #[serde(default = "default_idle_time", deserialize_with = "idle_time")]
    pub idle_after: Duration,
    /// The cap of writeback in bytes a second.
    #[serde(default)]
    pub writeback_rate: Option<ByteRate>,
    /// The cap of writeback in requests a second.
    #[serde(default)]
    pub writeback_iops: Option<RequestRate>,
    /// Bytes a second that clients may read and write, together.
    #[serde(default)]
    pub client_bandwidth: Option<ByteRate>,
    /// Requests a second that clients may send, together.
    #[serde(default)]
    pub client_iops: Option<RequestRate>,
    /// How long unused quota of `client_bandwidth` and `client_iops` accumulates.
    #[serde(default = "default_burst", deserialize_with = "burst")]
    pub client_burst: Duration,
    /// The reserved space on the cache device.
    #[serde(default)]
    pub room_min: Option<Room>,
    /// The space limit in the cache; dirty and unflushed blocks are never dropped for it.
    #[serde(default)]
    pub room_max: Option<Room>,
    /// If clients may not write, the origin is opened read-only.
    #[serde(default, rename = "read-only", deserialize_with = "access")]
    pub access: AccessMode,
    #[serde(default, rename = "origin-no-flush", deserialize_with = "claims")]
    pub claims: OriginClaims,
    #[serde(skip)]
    pub dirty_loss: DirtyLoss,
    /// The file or device number that the opened origin must have; `None` if any will do.
    #[serde(skip)]
    pub origin_file: Option<FileNumber>,
    #[serde(skip)]
    pub frontends: FrontendSpecs,
}

impl<'de> Deserialize<'de> for VolumeSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<VolumeSpec, D::Error> {
        let mut frontends = FrontendSpecs::default();
        // The derived implementation, which `remote = "Self"` turns into a function of the type.
        let own = VolumeSpec::deserialize(VolumeTable::new(deserializer, &mut frontends))?;
        Ok(VolumeSpec { frontends, ..own })
    }
}

impl VolumeSpec {
    pub fn new(name: &str, origin: OriginSource) -> VolumeSpec {
        VolumeSpec {
            name: name.into(),
            origin,
            origin_timeout: OriginTimeout::default(),
            mode: ModeWord::default(),
            admission: AdmissionWord::default(),
            sequential_cutoff: Cutoff::default(),
            fill_window_max: fill_window_max(),
            dirty_low: None,
            dirty_high: None,
            dirty_limit: dirty_limit(),
            idle_after: default_idle_time(),
            writeback_rate: None,
            writeback_iops: None,
            client_bandwidth: None,
            client_iops: None,
            client_burst: default_burst(),
            room_min: None,
            room_max: None,
            access: AccessMode::default(),
            claims: OriginClaims::default(),
            dirty_loss: DirtyLoss::default(),
            origin_file: None,
            frontends: FrontendSpecs::default(),
        }
    }

    /// The addresses for clients: as configured, or else NBD in the runtime directory.
    pub fn served_by(&self) -> FrontendSpecs {
        self.frontends.or_default(&self.name)
    }

    /// The configured serial number, or one from the name.
    pub fn serial(&self) -> SerialNumber {
        self.frontends.serial.clone().unwrap_or_else(|| SerialNumber::of_name(&self.name))
    }

    /// Takes over the settings of `wanted` that may change while the volume is served, its addresses not
    /// included.
    pub fn take_settings(&mut self, wanted: &VolumeSpec) {
        self.mode = wanted.mode;
        self.admission = wanted.admission;
        self.sequential_cutoff = wanted.sequential_cutoff;
        self.fill_window_max = wanted.fill_window_max;
        self.dirty_low = wanted.dirty_low;
        self.dirty_high = wanted.dirty_high;
        self.dirty_limit = wanted.dirty_limit;
        self.idle_after = wanted.idle_after;
        self.writeback_rate = wanted.writeback_rate;
        self.writeback_iops = wanted.writeback_iops;
        self.client_bandwidth = wanted.client_bandwidth;
        self.client_iops = wanted.client_iops;
        self.client_burst = wanted.client_burst;
        self.room_min = wanted.room_min;
        self.room_max = wanted.room_max;
    }

    pub const fn dirty_marks(&self) -> DirtyMarks {
        DirtyMarks { low: self.dirty_low, high: self.dirty_high, limit: self.dirty_limit }
    }

    pub const fn room(&self) -> RoomBounds {
        RoomBounds { min: self.room_min, max: self.room_max }
    }

    pub fn client_cap(&self) -> ClientCap {
        let rate = RateCap {
            bytes: self.client_bandwidth.map(ByteRate::per_second),
            requests: self.client_iops.map(RequestRate::per_second),
        };
        ClientCap { rate, burst: engine_span(self.client_burst) }
    }

    /// Mode and policies for the engine; the volume's id is a placeholder.
    pub fn settings(&self) -> VolumeSettings {
        VolumeSettings {
            mode: self.mode.into(),
            origin: self.origin.kind(),
            admission: self.admission.into(),
            sequential_cutoff: self.sequential_cutoff.to_engine(),
            fill_window_max: self.fill_window_max.bytes(),
            dirty_low: self.dirty_marks().low(),
            dirty_high: self.dirty_marks().high(),
            dirty_limit: self.dirty_marks().limit(),
            idle_after: engine_span(self.idle_after),
            writeback_cap: RateCap {
                bytes: self.writeback_rate.map(ByteRate::per_second),
                requests: self.writeback_iops.map(RequestRate::per_second),
            },
            room_min: self.room_min.map(Room::of_engine),
            room_max: self.room_max.map(Room::of_engine),
            ..VolumeSettings::new(VolumeId::new(0))
        }
    }
}

fn engine_span(span: Duration) -> kickcache_engine::time::Duration {
    kickcache_engine::time::Duration::from_nanos(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX))
}

fn fill_window_max() -> Size {
    Size::from_bytes(FILL_WINDOW_MAX)
}

const fn dirty_limit() -> DirtyMark {
    DirtyMark::LIMIT
}

fn default_idle_time() -> Duration {
    Duration::from_nanos(VolumeSettings::new(VolumeId::new(0)).idle_after.as_nanos())
}

const fn default_burst() -> Duration {
    Duration::from_secs(1)
}

fn burst<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    parse_burst(&String::deserialize(deserializer)?).map_err(D::Error::custom)
}

fn idle_time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    parse_idle_time(&String::deserialize(deserializer)?).map_err(D::Error::custom)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::address::NbdAddress;
    use crate::plan::default_paths::default_nbd;
    use crate::plan::frontends::nbd::NbdSpec;

    #[test]
    fn the_defaults_are_those_of_the_engine() {
        let spec = VolumeSpec::new("v", OriginSource::Path("/dev/sdb".into()));
        assert_eq!(spec.settings(), VolumeSettings::new(VolumeId::new(0)));
    }

    #[test]
    fn a_vhost_user_volume_has_nbd_only_if_named() {
        let mut spec = VolumeSpec::new("v", OriginSource::Path("/dev/sdb".into()));
        let addresses = |spec: &VolumeSpec| spec.served_by().nbd.addresses().to_vec();
        assert_eq!(addresses(&spec), [default_nbd("v")]);
        spec.frontends.vhost_user.path = Some("/run/v.vhost".into());
        assert_eq!(addresses(&spec), []);
        spec.frontends.nbd = NbdSpec::at(vec![NbdAddress::Unix("/run/v.sock".into())]);
        assert_eq!(addresses(&spec), [NbdAddress::Unix("/run/v.sock".into())]);
    }
}
