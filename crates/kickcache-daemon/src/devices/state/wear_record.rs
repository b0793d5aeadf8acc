//! Recent writes to a cache device, for its next start.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use kickcache_engine::stats::{WearHistory, WearSlot};
use kickcache_engine::time::Duration as EngineDuration;
use serde::{Deserialize, Serialize};

use super::record::VERSION;

/// Seconds of a slot.
const SLOT_SECONDS: u64 = 900;
const DAY_SECONDS: u64 = 86_400;

/// The writes to a cache device in the last day before the record.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct WearRecord {
    pub version: u32,
    pub uuid: String,
    /// The time of the record, in seconds since 1970.
    pub at: u64,
    /// Bytes that the write budget permitted at once; less than 0 if it was exceeded.
    pub credit: i64,
    /// Seconds for which writes were counted, at most a day; `None` in records of versions without this field.
    #[serde(default)]
    pub seconds: Option<u64>,
    /// Slots of 15 minutes, the oldest first: bytes that were written, and, if there was a budget, blocks that would
    /// have been admitted without it.
    pub slots: Vec<(u64, u64)>,
}

impl WearRecord {
    pub fn new(uuid: &str, history: &WearHistory) -> WearRecord {
        let at = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs());
        let slots = history.slots.iter().map(|slot| (slot.written, slot.wanted)).collect();
        let seconds = Some(history.counted.as_nanos() / 1_000_000_000);
        WearRecord { version: VERSION, uuid: uuid.into(), at, credit: history.credit, seconds, slots }
    }

    pub fn history(&self) -> WearHistory {
        let slot = |&(written, wanted): &(u64, u64)| WearSlot { written, wanted };
        let seconds = self.seconds.unwrap_or(self.slots.len() as u64 * SLOT_SECONDS).min(DAY_SECONDS);
        WearHistory {
            slots: self.slots.iter().map(slot).collect(),
            credit: self.credit,
            counted: EngineDuration::from_millis(seconds * 1_000),
        }
    }

    /// The age of the record; 0 if the clock was set back behind the record's time.
    pub fn age(&self) -> Duration {
        let at = UNIX_EPOCH.checked_add(Duration::from_secs(self.at)).unwrap_or(UNIX_EPOCH);
        SystemTime::now().duration_since(at).unwrap_or_default()
    }
}
