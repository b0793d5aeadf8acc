//! The size of the queues of a ublk device.

use std::str::FromStr;

use serde::de::{Deserialize, Deserializer, Error as _};

const QUEUES_MAX: u16 = 16;
const DEPTH_MAX: u16 = 1024;
/// Of all queues of a device together.
const REQUESTS_MAX: u32 = 2048;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueueCount(u16);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueueDepth(u16);

impl QueueCount {
    pub const fn get(self) -> u16 {
        self.0
    }
}

impl QueueDepth {
    pub const fn get(self) -> u16 {
        self.0
    }
}

impl Default for QueueCount {
    fn default() -> QueueCount {
        QueueCount(1)
    }
}

impl Default for QueueDepth {
    fn default() -> QueueDepth {
        QueueDepth(128)
    }
}

impl FromStr for QueueCount {
    type Err = String;

    fn from_str(text: &str) -> Result<QueueCount, String> {
        let said = || format!("{text} queues are not possible; write 1 to {QUEUES_MAX}");
        within(text, QUEUES_MAX).map(QueueCount).ok_or_else(said)
    }
}

impl FromStr for QueueDepth {
    type Err = String;

    fn from_str(text: &str) -> Result<QueueDepth, String> {
        let said = || format!("a depth of {text} is not possible; write 1 to {DEPTH_MAX}");
        within(text, DEPTH_MAX).map(QueueDepth).ok_or_else(said)
    }
}

impl<'de> Deserialize<'de> for QueueCount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<QueueCount, D::Error> {
        i64::deserialize(deserializer)?.to_string().parse().map_err(D::Error::custom)
    }
}

impl<'de> Deserialize<'de> for QueueDepth {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<QueueDepth, D::Error> {
        i64::deserialize(deserializer)?.to_string().parse().map_err(D::Error::custom)
    }
}

fn within(text: &str, most: u16) -> Option<u16> {
    text.parse().ok().filter(|number| (1..=most).contains(number))
}

pub(super) fn check(queues: QueueCount, depth: QueueDepth) -> Result<(), String> {
    let (queues, depth) = (queues.0, depth.0);
    let requests = u32::from(queues) * u32::from(depth);
    if requests <= REQUESTS_MAX {
        return Ok(());
    }
    Err(format!(
        "{queues} ublk queues of {depth} requests are {requests} requests of up to 256 KiB, and {REQUESTS_MAX} are possible; write \
         fewer queues (ublk-queues), or a lower depth (ublk-depth)"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_limits() {
        let (queues, depth) = (str::parse::<QueueCount>, str::parse::<QueueDepth>);
        assert_eq!((queues("1"), queues("16")), (Ok(QueueCount(1)), Ok(QueueCount(16))));
        assert_eq!((depth("1"), depth("1024")), (Ok(QueueDepth(1)), Ok(QueueDepth(1024))));
        for text in ["0", "17", "-1", "70000", "many"] {
            let said = queues(text).unwrap_err();
            assert!(said.contains(text) && said.contains("1 to 16"), "{said}");
        }
        assert!(depth("1025").unwrap_err().contains("1 to 1024"));
    }

    #[test]
    fn all_queues_together_have_one_too() {
        assert_eq!(check(QueueCount(16), QueueDepth(128)), Ok(()));
        let said = check(QueueCount(16), QueueDepth(129)).unwrap_err();
        assert!(said.contains("2064 requests") && said.contains("2048 are possible"), "{said}");
    }
}
