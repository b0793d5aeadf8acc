//! How much of a cache device a volume has at least, and at most.

use std::fmt;
use std::str::FromStr;

use kickcache_engine::config::{ROOM_PERCENT_MAX, Room as EngineRoom};
use kickcache_engine::units::BLOCK_SIZE;
use kickcache_units::Size;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Room {
    /// Percent of the capacity, 1 to 100.
    Percent(u16),
    /// At least [`Room::LEAST`].
    Size(Size),
}

impl Room {
    pub const LEAST: u64 = 1 << 20;

    /// Converts to the engine's type; sizes are rounded up to whole blocks, percentages down to 1/1024.
    pub fn of_engine(self) -> EngineRoom {
        match self {
            Room::Percent(percent) => {
                EngineRoom::Share(u16::try_from(u32::from(percent) * 1024 / 100).expect("at most 1024"))
            }
            Room::Size(size) => EngineRoom::Blocks(size.bytes().div_ceil(BLOCK_SIZE)),
        }
    }

    /// Exact to the byte.
    pub fn key(self) -> String {
        match self {
            Room::Percent(percent) => format!("{percent}%"),
            Room::Size(size) => size.bytes().to_string(),
        }
    }

    /// `false` for a percentage and a size.
    fn is_always_above(self, other: Room) -> bool {
        match (self, other) {
            (Room::Percent(own), Room::Percent(other)) => own > other,
            (Room::Size(own), Room::Size(other)) => own.bytes() > other.bytes(),
            (Room::Percent(_), Room::Size(_)) | (Room::Size(_), Room::Percent(_)) => false,
        }
    }
}

impl fmt::Display for Room {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Room::Percent(percent) => write!(f, "{percent}%"),
            Room::Size(size) => size.fmt(f),
        }
    }
}

impl FromStr for Room {
    type Err = String;

    fn from_str(text: &str) -> Result<Room, String> {
        if let Some(number) = text.strip_suffix('%') {
            let percent = number.parse().ok().filter(|percent| (1..=100).contains(percent));
            return percent.map(Room::Percent).ok_or_else(|| {
                format!("`{text}` is no part of a cache device; write 1% to 100%, or a size such as 20G")
            });
        }
        let size: Size =
            text.parse().map_err(|error| format!("{error}; or a part of the cache device, such as 20%"))?;
        if size.bytes() < Room::LEAST {
            return Err(format!(
                "`{text}` is too little of a cache device; write 1M or more, or a part such as 20%"
            ));
        }
        Ok(Room::Size(size))
    }
}

impl<'de> Deserialize<'de> for Room {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Room, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RoomBounds {
    pub min: Option<Room>,
    pub max: Option<Room>,
}

impl RoomBounds {
    /// Checks that the reservation is not above the limit; a percentage and a size are not compared.
    ///
    /// # Errors
    /// A sentence.
    pub fn check(self) -> Result<(), String> {
        match (self.min, self.max) {
            (Some(min), Some(max)) if min.is_always_above(max) => Err(min_above_max(&min, &max)),
            _ => Ok(()),
        }
    }
}

pub(crate) fn min_above_max(min: &dyn fmt::Display, max: &dyn fmt::Display) -> String {
    format!("room-min is {min} and room-max {max}; the minimum must be at most the maximum")
}

/// Checks the sum of the reservations in percent of one cache device.
///
/// # Errors
/// A sentence, if their sum is above [`ROOM_PERCENT_MAX`].
pub(super) fn check_sum(minimums: impl Iterator<Item = Option<Room>>) -> Result<(), String> {
    let percent = |room| match room {
        Some(Room::Percent(percent)) => u64::from(percent),
        Some(Room::Size(_)) | None => 0,
    };
    let sum: u64 = minimums.map(percent).sum();
    if sum <= ROOM_PERCENT_MAX {
        return Ok(());
    }
    Err(format!(
        "the room-min of its volumes are {sum}% in total, but at most {ROOM_PERCENT_MAX}% can be \
         reserved: fills and writes need free space; lower them"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn room(text: &str) -> Room {
        text.parse().unwrap()
    }

    #[test]
    fn parts_and_sizes_are_read_and_shown() {
        for text in ["1%", "20%", "100%", "1 MiB", "20 GiB"] {
            let written = text.replace(' ', "").replace("iB", "");
            assert_eq!(room(&written).to_string(), text);
            assert_eq!(room(&room(&written).key()), room(&written));
        }
        assert_eq!(room("20%").of_engine(), EngineRoom::Share(204));
        assert_eq!(room("20%").of_engine().blocks(1_000), 199);
        assert_eq!(room("1M").of_engine(), EngineRoom::Blocks(256));
    }

    #[test]
    fn an_invalid_room_is_refused_with_a_sentence() {
        for text in ["", "0%", "101%", "-1%", "2.5%", "%", "20", "4095", "many", "-1M"] {
            let error = text.parse::<Room>().unwrap_err();
            assert!(error.contains("; write ") || error.contains("20%"), "{text}: {error}");
        }
    }

    #[test]
    fn a_comparable_minimum_is_at_most_the_maximum() {
        let check = |min, max| RoomBounds { min: Some(room(min)), max: Some(room(max)) }.check();
        assert_eq!(check("20%", "20%"), Ok(()));
        assert_eq!(check("20%", "1M"), Ok(()));
        let sentence = "room-min is 30% and room-max 20%; the minimum must be at most the maximum";
        assert_eq!(check("30%", "20%"), Err(sentence.into()));
        assert!(check("2G", "1G").is_err());
    }

    #[test]
    fn minimums_leave_room_for_others() {
        let sum = |rooms: &[&str]| check_sum(rooms.iter().map(|text| Some(room(text))));
        assert_eq!(sum(&["40%", "40%", "900G"]), Ok(()));
        assert!(sum(&["40%", "41%"]).unwrap_err().contains("81% in total"));
    }
}
