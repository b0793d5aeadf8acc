//! Which of the host's ublk devices a volume is.

use std::str::FromStr;

use serde::de::{Deserializer, Unexpected, Visitor};

/// Devices that the kernel allows.
const DEVICES_MAX: u32 = 64;

/// Which of the host's ublk devices a volume is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UblkId {
    /// The one that it was before, if that still waits; else the kernel's choice.
    Any,
    /// `/dev/ublkbN`.
    Number(u32),
}

impl FromStr for UblkId {
    type Err = String;

    fn from_str(text: &str) -> Result<UblkId, String> {
        match text.parse() {
            _ if text.is_empty() => Ok(UblkId::Any),
            Ok(number) if number < DEVICES_MAX => Ok(UblkId::Number(number)),
            Ok(_) | Err(_) => {
                Err(format!("`{text}` is no number of a ublk device; write 0 to 63, or nothing"))
            }
        }
    }
}

/// Reads `true`, `false` or a number.
pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<UblkId>, D::Error> {
    struct Word;
    impl Visitor<'_> for Word {
        type Value = Option<UblkId>;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("true, false, or the number of a ublk device")
        }

        fn visit_bool<E: serde::de::Error>(self, is_wanted: bool) -> Result<Option<UblkId>, E> {
            Ok(is_wanted.then_some(UblkId::Any))
        }

        fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<Option<UblkId>, E> {
            number
                .to_string()
                .parse()
                .map(Some)
                .map_err(|_| E::invalid_value(Unexpected::Signed(number), &self))
        }
    }
    deserializer.deserialize_any(Word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_that_the_kernel_has() {
        let read = |text: &str| text.parse::<UblkId>();
        assert_eq!((read(""), read("63")), (Ok(UblkId::Any), Ok(UblkId::Number(63))));
        for text in ["64", "-1", "a", "/dev/ublkb0"] {
            assert!(read(text).unwrap_err().contains(text));
        }
    }
}
