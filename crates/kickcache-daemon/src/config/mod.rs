//! The configuration file: the plan of a daemon in TOML.

pub mod plan_source;

use std::fmt::{self, Formatter};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::value::SeqAccessDeserializer;
use serde::de::{Deserializer, SeqAccess, Visitor};

use crate::config::sentence::sentence;
use crate::driver::io_engine::IoEngine;
use crate::driver::rights::access;
use crate::plan::cache_spec::CacheSpec;
use crate::plan::default_paths::default_control;
use crate::plan::log_plan::{LogFormat, LogLevel, LogPlan};
use crate::plan::memory_limit::MemoryLimit;
use crate::plan::metrics_address::MetricsAddress;
use crate::plan::tls_plan::{TlsPlan, TlsWord, VerifyPeerWord};
use crate::plan::user_spec::UserSpec;
use crate::plan::{Exposure, PlanError, ServePlan};

/// The most bytes of a configuration file.
const LENGTH_MAX: u64 = 1 << 20;

#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read, is no regular file, or is too long.
    #[error("the configuration file {} cannot be read", .path.display())]
    Read {
        /// The path of the file.
        path: PathBuf,
        source: io::Error,
    },
    /// A line has a syntax error, an unknown key or an invalid value, or lacks a key.
    #[error("{}, line {line}: {what}", .path.display())]
    Content {
        path: PathBuf,
        /// The number of the line, counted from 1.
        line: usize,
        what: String,
    },
    /// The plan in the file is impossible.
    #[error("{}: {source}", .path.display())]
    Plan {
        /// The path of the file.
        path: PathBuf,
        source: PlanError,
    },
}

/// Reads a configuration file into a checked plan.
///
/// # Errors
/// Names the file, the line if one is at fault, and the defect.
pub fn read(path: &Path) -> Result<ServePlan, ConfigError> {
    let text = text(path).map_err(|source| ConfigError::Read { path: path.into(), source })?;
    parse(path, &text)
}

fn text(path: &Path) -> io::Result<String> {
    // A pipe or device may block at open, or have no end.
    if !access::metadata(path)?.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    let mut text = String::new();
    let length = access::open_to_read(path, 0)?.take(LENGTH_MAX + 1).read_to_string(&mut text)?;
    if length as u64 > LENGTH_MAX {
        return Err(io::Error::other("it has more than 1 MiB, and no configuration is as long"));
    }
    Ok(text)
}

/// Turns the text of a configuration file into a checked plan.
///
/// # Errors
/// As [`read`], except that no file is read.
pub fn parse(path: &Path, text: &str) -> Result<ServePlan, ConfigError> {
    let file: File = toml::from_str(text).map_err(|error| content_error(path, text, &error))?;
    let plan = file.into_plan();
    plan.check().map_err(|source| ConfigError::Plan { path: path.into(), source })?;
    Ok(plan)
}

fn content_error(path: &Path, text: &str, error: &toml::de::Error) -> ConfigError {
    let start = error.span().map_or(0, |span| span.start.min(text.len()));
    let line = text.as_bytes()[..start].iter().filter(|byte| **byte == b'\n').count() + 1;
    let message = error.message().replace('\n', "; ");
    let what = sentence(&message, text.lines().nth(line - 1).unwrap_or_default());
    ConfigError::Content { path: path.into(), line, what }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct File {
    control: Option<PathBuf>,
    status_socket: Option<PathBuf>,
    metrics: Option<MetricsAddress>,
    state: Option<PathBuf>,
    user: Option<UserSpec>,
    #[serde(default)]
    may_open: Vec<PathBuf>,
    #[serde(default)]
    log_format: LogFormat,
    #[serde(default)]
    log_level: LogLevel,
    #[serde(default)]
    io_engine: IoEngine,
    #[serde(default)]
    memory_limit: MemoryLimit,
    #[serde(default)]
    insecure_tcp: bool,
    #[serde(default)]
    tls: TlsWord,
    tls_certificates: Option<PathBuf>,
    #[serde(default)]
    tls_verify_peer: VerifyPeerWord,
    #[serde(default, deserialize_with = "caches")]
    cache: Vec<CacheSpec>,
}

fn caches<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<CacheSpec>, D::Error> {
    struct List;
    impl<'de> Visitor<'de> for List {
        type Value = Vec<CacheSpec>;

        fn expecting(&self, f: &mut Formatter<'_>) -> fmt::Result {
            f.write_str("[[cache]] with the key `device` above it, for [[cache.volume]] or the keys of a cache device")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Vec<CacheSpec>, A::Error> {
            Vec::deserialize(SeqAccessDeserializer::new(list))
        }
    }
    deserializer.deserialize_seq(List)
}

impl File {
    fn into_plan(self) -> ServePlan {
        ServePlan {
            control: self.control.unwrap_or_else(default_control),
            status_socket: self.status_socket,
            metrics: self.metrics,
            log: LogPlan { format: self.log_format, level: self.log_level },
            state: self.state,
            user: self.user,
            may_open: self.may_open,
            io_engine: self.io_engine,
            memory_limit: self.memory_limit,
            exposure: if self.insecure_tcp { Exposure::InsecureTcp } else { Exposure::LocalOnly },
            tls: TlsPlan {
                tls: self.tls,
                certificates: self.tls_certificates,
                verify_peer: self.tls_verify_peer,
            },
            caches: self.cache,
        }
    }
}

#[cfg(test)]
mod documented_keys;
mod sentence;
#[cfg(test)]
mod tests;
