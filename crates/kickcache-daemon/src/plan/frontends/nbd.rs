//! The settings of NBD.

use std::path::Path;

use clap::builder::{OsStringValueParser, TypedValueParser as _};
use serde::de::MapAccess;

use crate::plan::address::NbdAddress;
use crate::plan::default_paths::default_nbd;
use crate::plan::frontends::spec::FrontendSpec;

/// Keys in a configuration file.
pub(super) const KEYS: &[&str] = &["nbd"];

/// Where NBD clients find a volume.
#[derive(Clone, PartialEq, Eq, Debug, Default, clap::Args)]
#[group(skip)]
pub struct NbdSpec {
    /// NBD address: unix:PATH or tcp:HOST:PORT; may be given several times
    ///
    /// Default: unix:$XDG_RUNTIME_DIR/kickcache/NAME.nbd.sock, or /run/kickcache/NAME.nbd.sock if that variable is not set.
    #[arg(long, value_name = "ADDRESS", requires = "cache", value_parser = OsStringValueParser::new().try_map(|text| NbdAddress::parse(&text)))]
    pub nbd: Option<Vec<NbdAddress>>,
}

impl NbdSpec {
    /// These addresses; one may serve several volumes of a cache device.
    pub const fn at(addresses: Vec<NbdAddress>) -> NbdSpec {
        NbdSpec { nbd: Some(addresses) }
    }

    /// The place of a volume for which nobody named one.
    pub(super) fn of_runtime_dir(volume: &str) -> NbdSpec {
        NbdSpec::at(vec![default_nbd(volume)])
    }

    /// The addresses that were named.
    pub fn addresses(&self) -> &[NbdAddress] {
        self.nbd.as_deref().unwrap_or_default()
    }

    pub(super) fn read<'de, A: MapAccess<'de>>(&mut self, map: &mut A) -> Result<(), A::Error> {
        self.nbd = Some(map.next_value()?);
        Ok(())
    }
}

impl FrontendSpec for NbdSpec {
    fn is_reachable(&self) -> bool {
        !self.addresses().is_empty()
    }

    fn unix_sockets(&self) -> Vec<&Path> {
        self.addresses().iter().filter_map(NbdAddress::unix_path).collect()
    }

    fn announcements(&self, volume: &str) -> Vec<String> {
        self.addresses().iter().map(|address| address.uri(volume)).collect()
    }
}
