//! How many queues a ublk device has, and how many requests each of them holds.

use serde::de::{Deserialize as _, Deserializer, Error as _};

/// Queues of a device, if nobody says.
pub const QUEUES_DEFAULT: u16 = 1;
/// Requests of a queue, if nobody says.
pub const DEPTH_DEFAULT: u16 = 128;
/// All queues of a device are served by one thread.
const QUEUES_MAX: u16 = 16;
const DEPTH_MAX: u16 = 1024;
/// Requests of all queues of a device: each has memory for the largest request, 256 KiB.
const REQUESTS_MAX: u32 = 2048;

/// Reads how many queues.
///
/// # Errors
/// A sentence, if it is not 1 to 16.
pub fn parse_queues(text: &str) -> Result<u16, String> {
    within(text, QUEUES_MAX).ok_or_else(|| format!("{text} queues are not possible; write 1 to {QUEUES_MAX}"))
}

/// Reads how many requests a queue holds.
///
/// # Errors
/// A sentence, if it is not 1 to 1024.
pub fn parse_depth(text: &str) -> Result<u16, String> {
    within(text, DEPTH_MAX)
        .ok_or_else(|| format!("a depth of {text} is not possible; write 1 to {DEPTH_MAX}"))
}

/// Refuses more requests than there should be memory for.
pub(super) fn check(queues: u16, depth: u16) -> Result<(), String> {
    let requests = u32::from(queues) * u32::from(depth);
    if requests <= REQUESTS_MAX {
        return Ok(());
    }
    Err(format!(
        "{queues} ublk queues of {depth} requests are {requests} requests of up to 256 KiB, and {REQUESTS_MAX} are possible; write \
         fewer queues (ublk-queues), or a lower depth (ublk-depth)"
    ))
}

pub(super) fn deserialize_queues<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u16, D::Error> {
    parse_queues(&i64::deserialize(deserializer)?.to_string()).map_err(D::Error::custom)
}

pub(super) fn deserialize_depth<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u16, D::Error> {
    parse_depth(&i64::deserialize(deserializer)?.to_string()).map_err(D::Error::custom)
}

pub(super) const fn queues_default() -> u16 {
    QUEUES_DEFAULT
}

pub(super) const fn depth_default() -> u16 {
    DEPTH_DEFAULT
}

fn within(text: &str, most: u16) -> Option<u16> {
    text.parse().ok().filter(|number| (1..=most).contains(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_limits() {
        assert_eq!((parse_queues("1"), parse_queues("16")), (Ok(1), Ok(16)));
        assert_eq!((parse_depth("1"), parse_depth("1024")), (Ok(1), Ok(1024)));
        for text in ["0", "17", "-1", "70000", "many"] {
            let said = parse_queues(text).unwrap_err();
            assert!(said.contains(text) && said.contains("1 to 16"), "{said}");
        }
        assert!(parse_depth("1025").unwrap_err().contains("1 to 1024"));
    }

    #[test]
    fn all_queues_together_have_one_too() {
        assert_eq!(check(16, 128), Ok(()));
        let said = check(16, 129).unwrap_err();
        assert!(said.contains("2064 requests") && said.contains("2048 are possible"), "{said}");
    }
}
