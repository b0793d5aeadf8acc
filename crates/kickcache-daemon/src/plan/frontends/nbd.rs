//! The settings of NBD.

use std::path::Path;

use clap::builder::{OsStringValueParser, TypedValueParser as _};
use kickcache_tls::names::{AllowedClient, NoName};
use serde::de::{Error as _, MapAccess};

use crate::plan::address::NbdAddress;
use crate::plan::default_paths::default_nbd;
use crate::plan::frontends::spec::FrontendSpec;

pub(super) const KEYS: &[&str] = &["nbd", ALLOW_CLIENT];

const ALLOW_CLIENT: &str = "allow-client";

/// Where NBD clients find a volume, and which clients.
#[derive(Clone, PartialEq, Eq, Debug, Default, clap::Args)]
#[group(skip)]
pub struct NbdSpec {
    /// NBD address: unix:PATH or tcp:HOST:PORT; may be given several times
    ///
    /// Default: unix:$XDG_RUNTIME_DIR/kickcache/NAME.nbd.sock, or /run/kickcache/NAME.nbd.sock if that
    /// variable is not set.
    #[arg(long, value_name = "ADDRESS", requires = "cache", value_parser = OsStringValueParser::new().try_map(|text| NbdAddress::parse(&text)))]
    pub nbd: Option<Vec<NbdAddress>>,
    /// Serve only NBD clients with this name in their certificate: NAME, CN=NAME or DNS=NAME; may be given several times
    ///
    /// Needs --tls=require. Without it, every client with a certificate of an authority in ca-cert.pem is served.
    #[arg(long, value_name = "NAME", requires = "cache")]
    pub allow_client: Option<Vec<AllowedClient>>,
}

impl NbdSpec {
    pub const fn at(addresses: Vec<NbdAddress>) -> NbdSpec {
        NbdSpec { nbd: Some(addresses), allow_client: None }
    }

    /// The default address of a volume.
    pub(super) fn of_runtime_dir(volume: &str) -> NbdSpec {
        NbdSpec::at(vec![default_nbd(volume)])
    }

    /// Empty if none are set.
    pub fn addresses(&self) -> &[NbdAddress] {
        self.nbd.as_deref().unwrap_or_default()
    }

    /// The names that certificates of clients must have; empty if any name will do.
    pub fn allowed_clients(&self) -> &[AllowedClient] {
        self.allow_client.as_deref().unwrap_or_default()
    }

    pub(super) fn read<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        if key != ALLOW_CLIENT {
            self.nbd = Some(map.next_value()?);
            return Ok(());
        }
        let names: Vec<String> = map.next_value()?;
        let names: Result<Vec<AllowedClient>, NoName> = names.iter().map(|name| name.parse()).collect();
        let names = names.map_err(A::Error::custom)?;
        if names.is_empty() {
            return Err(A::Error::custom("allow-client is empty; name a client, or omit it to allow all"));
        }
        self.allow_client = Some(names);
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
