//! The configuration file: TOML with the names of the flags, for daemons with several volumes.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use kickcache_units::Size;
use serde::Deserialize;
use serde::de::{Deserializer, Error as _};

use crate::plan::address::NbdAddress;
use crate::plan::dirty_limit::DirtyLimit;
use crate::plan::{
    Access, CachePlan, CacheUsage, Cutoff, Exposure, OriginState, PlanError, ServePlan, VolumePlan,
    default_control, nbd_unless,
};
use crate::words::{AdmissionWord, IoEngineWord, ModeWord};

/// Why a configuration file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// It cannot be read.
    #[error("cannot read the configuration file {}", .path.display())]
    Read {
        /// Its path.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It is not what is expected.
    #[error("{}, line {line}: {what}", .path.display())]
    Content {
        /// Its path.
        path: PathBuf,
        /// Where, counted from 1.
        line: usize,
        /// What is wrong.
        what: String,
    },
    /// It asks for something impossible.
    #[error("{}: {source}", .path.display())]
    Plan {
        /// Its path.
        path: PathBuf,
        /// What.
        source: PlanError,
    },
}

/// Reads a configuration file into a checked plan.
///
/// # Errors
/// Names the file, the line if there is one, and what was expected.
pub fn read(path: &Path) -> Result<ServePlan, ConfigError> {
    let text =
        std::fs::read_to_string(path).map_err(|source| ConfigError::Read { path: path.into(), source })?;
    parse(path, &text)
}

/// Turns the text of a configuration file into a checked plan.
///
/// # Errors
/// As [`read`].
pub fn parse(path: &Path, text: &str) -> Result<ServePlan, ConfigError> {
    let file: File = toml::from_str(text).map_err(|error| content_error(path, text, &error))?;
    let plan = file.into_plan();
    plan.check().map_err(|source| ConfigError::Plan { path: path.into(), source })?;
    Ok(plan)
}

fn content_error(path: &Path, text: &str, error: &toml::de::Error) -> ConfigError {
    let start = error.span().map_or(0, |span| span.start.min(text.len()));
    let line = text.as_bytes()[..start].iter().filter(|byte| **byte == b'\n').count() + 1;
    ConfigError::Content { path: path.into(), line, what: error.message().replace('\n', "; ") }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct File {
    control: Option<PathBuf>,
    state: Option<PathBuf>,
    #[serde(default)]
    io_engine: IoEngineWord,
    #[serde(default)]
    insecure_tcp: bool,
    #[serde(default)]
    cache: Vec<Cache>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Cache {
    device: PathBuf,
    size: Option<Size>,
    #[serde(default)]
    volume: Vec<Volume>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Volume {
    name: String,
    origin: PathBuf,
    #[serde(default)]
    mode: ModeWord,
    #[serde(default)]
    admission: AdmissionWord,
    #[serde(default, deserialize_with = "cutoff")]
    sequential_cutoff: Cutoff,
    fill_window_max: Option<Size>,
    #[serde(default)]
    dirty_limit: DirtyLimit,
    #[serde(default)]
    origin_no_flush: bool,
    #[serde(default)]
    read_only: bool,
    #[serde(default, deserialize_with = "addresses")]
    nbd: Option<Vec<NbdAddress>>,
    vhost_user: Option<PathBuf>,
    guest_block: Option<Size>,
}

impl File {
    fn into_plan(self) -> ServePlan {
        ServePlan {
            control: self.control.unwrap_or_else(default_control),
            state: self.state,
            io_engine: self.io_engine,
            exposure: if self.insecure_tcp { Exposure::InsecureTcp } else { Exposure::LocalOnly },
            caches: self.cache.into_iter().map(Cache::into_plan).collect(),
        }
    }
}

impl Cache {
    fn into_plan(self) -> CachePlan {
        let volumes = self.volume.into_iter().map(Volume::into_plan).collect();
        CachePlan {
            device: self.device,
            size: self.size,
            usage: CacheUsage::Used,
            replaces: false,
            volumes,
            unserved: Vec::new(),
        }
    }
}

impl Volume {
    fn into_plan(self) -> VolumePlan {
        let default = VolumePlan::new(&self.name, &self.origin);
        VolumePlan {
            mode: self.mode,
            admission: self.admission,
            sequential_cutoff: self.sequential_cutoff,
            fill_window_max: self.fill_window_max.unwrap_or(default.fill_window_max),
            dirty_limit: self.dirty_limit,
            access: if self.read_only { Access::ReadOnly } else { Access::ReadWrite },
            origin_state: OriginState { flushless: self.origin_no_flush, ..OriginState::default() },
            nbd: self.nbd.unwrap_or_else(|| nbd_unless(self.vhost_user.as_deref(), &self.name)),
            vhost_user: self.vhost_user,
            guest_block: self.guest_block.unwrap_or(default.guest_block),
            ..default
        }
    }
}

fn cutoff<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Cutoff, D::Error> {
    String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
}

fn addresses<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<NbdAddress>>, D::Error> {
    let texts = Vec::<String>::deserialize(deserializer)?;
    let parse = |text: &String| NbdAddress::parse(OsStr::new(text)).map_err(D::Error::custom);
    texts.iter().map(parse).collect::<Result<_, _>>().map(Some)
}

#[cfg(test)]
mod tests;
