//! The serial number of a disk in a virtual machine.

use std::fmt;
use std::str::FromStr;

use serde::de::{Deserializer, Error as _};
use serde::{Deserialize, Serialize};

use crate::driver::checksum::checksum;

/// The most bytes of a serial number in virtio-blk.
const LENGTH_MAX: usize = 20;
/// Of `-` and a hash.
const SUFFIX_LENGTH: usize = 9;

/// A serial number of 1 to 20 bytes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
pub struct SerialNumber(String);

impl SerialNumber {
    /// The name; the beginning and a hash of a name that is too long.
    pub(crate) fn of_name(name: &str) -> SerialNumber {
        if name.len() <= LENGTH_MAX {
            return SerialNumber(name.into());
        }
        let start = &name[..name.floor_char_boundary(LENGTH_MAX - SUFFIX_LENGTH)];
        SerialNumber(format!("{start}-{:08x}", checksum(name.as_bytes()).get()))
    }

    /// The answer to GET_ID of virtio-blk: 20 bytes, filled up with zeroes.
    pub(crate) fn padded(&self) -> [u8; LENGTH_MAX] {
        let mut padded = [0; LENGTH_MAX];
        padded[..self.0.len()].copy_from_slice(self.0.as_bytes());
        padded
    }
}

impl FromStr for SerialNumber {
    type Err = String;

    fn from_str(text: &str) -> Result<SerialNumber, String> {
        let length = text.len();
        if !(1..=LENGTH_MAX).contains(&length) {
            return Err(format!(
                "the serial number {text:?} has {length} bytes; write 1 to {LENGTH_MAX}, such as vm1-data"
            ));
        }
        match text.chars().find(|c| !(c.is_ascii_alphanumeric() || "-_.+@:".contains(*c))) {
            Some(bad) => Err(format!(
                "the serial number {text:?} contains {bad:?}; ASCII letters, digits and - _ . + @ : are possible"
            )),
            None => Ok(SerialNumber(text.into())),
        }
    }
}

impl<'de> Deserialize<'de> for SerialNumber {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<SerialNumber, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

impl fmt::Display for SerialNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_name_ends_with_a_hash() {
        let shown = |name: &str| SerialNumber::of_name(name).to_string();
        assert_eq!(shown("a-name-of-20-bytes.."), "a-name-of-20-bytes..");
        let [first, second] = ["customer-database-prod-1", "customer-database-prod-2"].map(shown);
        assert!(first.starts_with("customer-da-") && second.starts_with("customer-da-"), "{first} {second}");
        assert!(first != second && first.len() == LENGTH_MAX);
    }

    #[test]
    fn a_name_is_cut_between_characters() {
        let name = "a".repeat(10) + "é-disk-of-a-customer";
        let serial = SerialNumber::of_name(&name);
        assert!(serial.to_string().starts_with("aaaaaaaaaa-"), "{serial}");
        assert_eq!(serial.padded()[19], 0);
    }

    #[test]
    fn serial_numbers_have_1_to_20_ascii_characters() {
        for good in ["a", "vm1-data", "12345678901234567890"] {
            assert_eq!(good.parse::<SerialNumber>().unwrap().to_string(), good);
        }
        for (bad, what) in [
            ("", "0 bytes"),
            ("123456789012345678901", "21 bytes"),
            ("a b", "' '"),
            ("é", "'é'"),
            ("a/b", "'/'"),
        ] {
            let error = bad.parse::<SerialNumber>().unwrap_err();
            assert!(error.contains(what), "{error}");
        }
    }
}
