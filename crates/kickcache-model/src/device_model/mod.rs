//! How long devices take: event-driven models in virtual time, without data.

pub mod cloud;
pub mod device_file;
pub mod disk;
#[cfg(test)]
mod load;
pub mod mirror;
pub(crate) mod pauses;
pub mod remote;
pub mod ssd;

use kickcache_engine::time::{Duration, Instant};

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ModelOperation {
    Read,
    /// Write; may stay in the device's volatile cache.
    Write,
    /// Write that is on the medium when it ends.
    WriteDurable,
    /// Move all acknowledged data onto the medium; offset and length are ignored.
    Flush,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ModelRequest {
    pub operation: ModelOperation,
    pub offset: u64,
    pub length: u64,
    /// Returned by [`DeviceModel::poll`] when the operation has ended.
    pub token: u64,
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Range {
    Positive,
    NotNegative,
    /// From 0 to this limit.
    UpTo(f64),
    /// A whole number of parts, from 1 to this many.
    Count(u32),
}

pub(crate) type Figures = Vec<(&'static str, f64, Range)>;

impl Range {
    pub(crate) fn check(self, name: &str, value: f64) -> Result<(), String> {
        let (is_good, expected) = match self {
            Range::Positive => (value > 0.0, "a number above 0".to_owned()),
            Range::NotNegative => (value >= 0.0, "0 or more".to_owned()),
            Range::UpTo(most) => ((0.0..=most).contains(&value), format!("0 to {most}")),
            Range::Count(most) => ((1.0..=f64::from(most)).contains(&value), format!("1 to {most}")),
        };
        if is_good && value.is_finite() {
            return Ok(());
        }
        let expected = if is_good { "a number that is not infinite".to_owned() } else { expected };
        Err(format!("{name} = {value} was found; {expected} was expected"))
    }
}

/// A device in virtual time. Time must never run backwards from call to call.
pub trait DeviceModel {
    fn submit(&mut self, now: Instant, request: ModelRequest);

    /// The time of the next completion or internal change; `None` if none follows without another operation.
    fn next_event(&self) -> Option<Instant>;

    /// Call until `None`.
    fn poll(&mut self, now: Instant) -> Option<u64>;
}

#[derive(Clone, Debug, Default)]
struct Endings {
    heap: std::collections::BinaryHeap<std::cmp::Reverse<(Instant, u64, u64)>>,
    count: u64,
}

impl Endings {
    fn push(&mut self, at: Instant, token: u64) {
        self.count += 1;
        self.heap.push(std::cmp::Reverse((at, self.count, token)));
    }

    fn next(&self) -> Option<Instant> {
        self.heap.peek().map(|ending| ending.0.0)
    }

    fn pop(&mut self, now: Instant) -> Option<u64> {
        if self.next()? > now {
            return None;
        }
        self.heap.pop().map(|ending| ending.0.2)
    }
}

/// A span from microseconds; negative ones count as zero.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates, and spans are short")]
fn span(micros: f64) -> Duration {
    // Adds a half and truncates, because `round` would be a function call for every event.
    Duration::from_nanos((micros.max(0.0) * 1000.0 + 0.5) as u64)
}

#[expect(
    clippy::cast_precision_loss,
    reason = "2^53 ns are 104 days, and a microsecond of error is harmless"
)]
fn micros(at: Instant) -> f64 {
    at.as_nanos() as f64 / 1000.0
}

pub(crate) fn micros_of(time: Duration) -> f64 {
    micros(Instant::ZERO.plus(time))
}

#[expect(clippy::cast_precision_loss, reason = "devices are far below 2^53 bytes")]
fn bytes(count: u64) -> f64 {
    count as f64
}
