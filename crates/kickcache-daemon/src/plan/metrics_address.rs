//! Where metrics are served: `unix:PATH` or `tcp:HOST:PORT`, as NBD.

use std::ffi::OsStr;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error as _};

use crate::plan::address::{AddressError, NbdAddress};

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MetricsAddress(NbdAddress);

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum MetricsAddressError {
    #[error(
        "`{0}` is not an address for metrics; write tcp:127.0.0.1:PORT or unix:PATH, such as tcp:127.0.0.1:9469"
    )]
    Unknown(String),
    /// An address of a known kind, with a mistake.
    #[error(transparent)]
    Address(AddressError),
}

impl MetricsAddress {
    /// # Errors
    /// Names the text found and the expected form.
    pub fn parse(text: &OsStr) -> Result<MetricsAddress, MetricsAddressError> {
        NbdAddress::parse(text).map(MetricsAddress).map_err(|error| match error {
            AddressError::Unknown(found) => MetricsAddressError::Unknown(found),
            AddressError::NoPath
            | AddressError::EmptyPath
            | AddressError::PathTooLong { .. }
            | AddressError::Tcp(_) => MetricsAddressError::Address(error),
        })
    }

    pub fn socket(&self) -> &NbdAddress {
        &self.0
    }
}

impl<'de> Deserialize<'de> for MetricsAddress {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<MetricsAddress, D::Error> {
        let text = String::deserialize(deserializer)?;
        MetricsAddress::parse(OsStr::new(&text)).map_err(D::Error::custom)
    }
}

impl fmt::Display for MetricsAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invalid_address_is_refused_with_a_sentence() {
        let refused = |text: &str| MetricsAddress::parse(OsStr::new(text)).unwrap_err().to_string();
        let unknown = "`9469` is not an address for metrics; write tcp:127.0.0.1:PORT or unix:PATH, such as tcp:127.0.0.1:9469";
        assert_eq!(refused("9469"), unknown);
        assert!(refused("tcp:9469").starts_with("`tcp:9469` is not a TCP address"));
        assert_eq!(MetricsAddress::parse(OsStr::new("unix:/run/m")).unwrap().to_string(), "unix:/run/m");
    }
}
