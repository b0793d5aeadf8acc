//! Which of the host's ublk devices a volume is.

use std::fmt;
use std::str::FromStr;

use serde::de::{Deserialize, Deserializer, Unexpected, Visitor};

/// The default limit of the kernel.
const DEVICES_MAX: u32 = 64;

/// Which of the host's ublk devices a volume is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UblkId {
    /// The number of the volume's previous device, if that device still waits; otherwise the kernel chooses
    /// one.
    Any,
    /// `/dev/ublkbN`.
    Number(u32),
}

impl fmt::Display for UblkId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UblkId::Any => f.write_str(ANY),
            UblkId::Number(number) => write!(f, "{number}"),
        }
    }
}

pub(super) const ANY: &str = "any";

/// N of `/dev/ublkbN`.
///
/// # Errors
/// A sentence.
pub fn ublk_number(text: &str) -> Result<u32, String> {
    let number = text.parse().ok().filter(|number| *number < DEVICES_MAX);
    number.ok_or_else(|| format!("`{text}` is no number of a ublk device; write N of /dev/ublkbN, 0 to 63"))
}

impl FromStr for UblkId {
    type Err = String;

    fn from_str(text: &str) -> Result<UblkId, String> {
        match text {
            ANY => Ok(UblkId::Any),
            "" => Err(
                "no number of a ublk device follows the `=`; write 0 to 63, or omit the `=` for a free one"
                    .into(),
            ),
            _ => ublk_number(text).map(UblkId::Number),
        }
    }
}

/// `true`, `false` or a number.
pub(super) struct Choice(pub(super) Option<UblkId>);

impl<'de> Deserialize<'de> for Choice {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Choice, D::Error> {
        deserializer.deserialize_any(ChoiceVisitor)
    }
}

struct ChoiceVisitor;

impl Visitor<'_> for ChoiceVisitor {
    type Value = Choice;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("true, false, or the number of a ublk device, 0 to 63")
    }

    fn visit_bool<E: serde::de::Error>(self, is_wanted: bool) -> Result<Choice, E> {
        Ok(Choice(is_wanted.then_some(UblkId::Any)))
    }

    fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<Choice, E> {
        let id = number.to_string().parse();
        let refused = |_| E::invalid_value(Unexpected::Signed(number), &self);
        id.map(Some).map(Choice).map_err(refused)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_that_the_kernel_has() {
        let read = |text: &str| text.parse::<UblkId>();
        assert_eq!((read("any"), read("63")), (Ok(UblkId::Any), Ok(UblkId::Number(63))));
        assert!(read("").unwrap_err().contains("omit the `=`"));
        for text in ["64", "-1", "a", "/dev/ublkb0"] {
            assert!(read(text).unwrap_err().contains(text));
        }
    }
}
