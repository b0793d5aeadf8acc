//! The latency of simulated devices.

use kickcache_engine::time::Duration;
use kickcache_random::Random;

use crate::plan::aim::Aim;

/// The latency of submissions to a device.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Latency {
    /// The shortest latency of a submission without data.
    pub base: Duration,
    /// Mean of the random part that is added to `base`.
    pub mean: Duration,
    /// Probability in 1/1000 of a stall: the random part then has 100 times the mean.
    pub stall_permille: u64,
}

/// Structures on the cache device whose writes take longer than other writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SlowPart {
    /// The structures.
    pub part: Aim,
    /// A write takes up to this much longer.
    pub span: Duration,
}

impl SlowPart {
    /// The additional time of one write.
    pub fn draw(&self, random: &mut Random) -> Duration {
        Duration::from_nanos(random.below(self.span.as_nanos() + 1))
    }
}

impl Latency {
    pub fn draw(&self, random: &mut Random, bytes: u64) -> Duration {
        let scale = if random.chance(self.stall_permille) { 100.0 } else { 1.0 };
        #[expect(clippy::cast_precision_loss, reason = "means are short")]
        let extra = random.exponential(self.mean.as_nanos() as f64 * scale);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive and short")]
        let extra = extra as u64;
        Duration::from_nanos(self.base.as_nanos() + extra + bytes / 2)
    }
}
