//! The changes of a configuration.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A difference between the present configuration and the changed one.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "change", rename_all = "kebab-case")]
pub enum PlanChange {
    VolumeAdded { volume: String, origin: String, cache: String },
    VolumeRemoved { volume: String, cache: String },
    CacheSetting { cache: String, key: String, before: String, after: String },
    Setting { volume: String, key: String, before: String, after: String },
    PlaceAdded { volume: String, place: String },
    PlaceRemoved { volume: String, place: String },
}

impl PlanChange {
    /// `None` for a setting of a cache device.
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
