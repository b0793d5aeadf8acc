//! A difference between the present configuration and a changed one.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A difference between the present configuration and the changed one.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "change", rename_all = "kebab-case")]
pub enum PlanChange {
    /// A volume is added.
    VolumeAdded {
        /// Its name.
        volume: String,
        /// Its origin.
        origin: String,
        /// The cache device.
        cache: String,
    },
    /// A volume is removed.
    VolumeRemoved {
        /// Its name.
        volume: String,
        /// The cache device.
        cache: String,
    },
    /// A key of a cache device has another value.
    CacheSetting {
        /// The cache device.
        cache: String,
        /// The key.
        key: String,
        /// The present value.
        before: String,
        /// The new value.
        after: String,
    },
    /// A key of a volume has another value.
    Setting {
        /// The volume.
        volume: String,
        /// The key.
        key: String,
        /// The present value.
        before: String,
        /// The new value.
        after: String,
    },
    /// Clients find a volume at one more place.
    PlaceAdded {
        /// The volume.
        volume: String,
        /// The front end and its address.
        place: String,
    },
    /// Clients find a volume at one place less.
    PlaceRemoved {
        /// The volume.
        volume: String,
        /// The front end and its address.
        place: String,
    },
}

impl PlanChange {
    /// The changed volume; `None` for a setting of a cache device.
    pub fn volume(&self) -> Option<&str> {
        match self {
            PlanChange::CacheSetting { .. } => None,
            PlanChange::VolumeAdded { volume, .. }
            | PlanChange::VolumeRemoved { volume, .. }
            | PlanChange::Setting { volume, .. }
            | PlanChange::PlaceAdded { volume, .. }
            | PlanChange::PlaceRemoved { volume, .. } => Some(volume),
        }
    }
}

impl fmt::Display for PlanChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PlanChange::VolumeAdded { volume, origin, cache } => {
                write!(f, "{volume}: added, {origin} behind {cache}")
            }
            PlanChange::VolumeRemoved { volume, cache } => write!(f, "{volume}: removed from {cache}"),
            PlanChange::CacheSetting { cache: of, key, before, after }
            | PlanChange::Setting { volume: of, key, before, after } => {
                write!(f, "{of}: {key} {before} -> {after}")
            }
            PlanChange::PlaceAdded { volume, place } => write!(f, "{volume}: {place} added"),
            PlanChange::PlaceRemoved { volume, place } => write!(f, "{volume}: {place} removed"),
        }
    }
}
