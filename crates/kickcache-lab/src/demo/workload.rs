//! The load of the articles: two jobs with eight 4 KiB reads in flight each, skewed as zipf 1.2.

use std::time::Duration;

use kickcache_engine::units::BLOCK_SIZE;
use kickcache_model::zipf::Zipf;
use kickcache_random::Random;

/// Jobs, each with a connection and a part of the device of its own.
pub(crate) const JOB_COUNT: u64 = 2;
/// Requests of a job in flight.
pub(crate) const DEPTH: usize = 8;
pub(crate) const THETA: f64 = 1.2;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Scale {
    /// Bytes of a job's part of the device, a power of two.
    pub(crate) job_bytes: u64,
    pub(crate) cache_bytes: u64,
    /// Time of a run with a cache.
    pub(crate) cached: Duration,
    /// Time of a run without a cache.
    pub(crate) plain: Duration,
}

impl Scale {
    /// The demo's scale; runs without a cache take two thirds of the time.
    pub(crate) fn full(seconds: u64) -> Scale {
        let cached = Duration::from_secs(seconds);
        Scale { job_bytes: 128 << 20, cache_bytes: 256 << 20, cached, plain: cached * 2 / 3 }
    }

    pub(crate) fn device_bytes(&self) -> u64 {
        self.job_bytes * JOB_COUNT
    }
}

/// The order of the requests; the popular blocks are the same in every order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Order {
    /// The order of every run, except after the restart.
    First,
    /// Another order, for the run after the restart.
    Second,
}

impl Order {
    fn number(self) -> u64 {
        match self {
            Order::First => 0,
            Order::Second => 1,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct JobLoad {
    /// First byte of the job's part.
    pub(crate) start: u64,
    pub(crate) length: u64,
    /// Around which place of its part the popular blocks are scattered, from 0 to 1.
    pub(crate) centre: f64,
    pub(crate) seed: u64,
}

impl JobLoad {
    /// The loads of all jobs; the same scale, seed and order give the same loads.
    pub(crate) fn all(scale: &Scale, seed: u64, order: Order) -> Vec<JobLoad> {
        let mut random = Random::new(seed);
        let job = |index| {
            let centre = random.unit();
            let seed = random.next_u64().wrapping_add(order.number());
            JobLoad { start: index * scale.job_bytes, length: scale.job_bytes, centre, seed }
        };
        (0..JOB_COUNT).map(job).collect()
    }

    /// The offsets of the job's reads on the device.
    pub(crate) fn offsets(&self) -> impl FnMut() -> u64 + use<> {
        let mut zipf = Zipf::new(self.length / BLOCK_SIZE, THETA, self.seed).with_centre(self.centre);
        let start = self.start;
        move || start + zipf.next() * BLOCK_SIZE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(loads: &[JobLoad]) -> Vec<u64> {
        loads.iter().flat_map(|load| std::iter::repeat_with(load.offsets()).take(20)).collect()
    }

    #[test]
    fn a_seed_decides_every_offset() {
        let scale = Scale::full(1);
        let one = JobLoad::all(&scale, 1, Order::First);
        assert_eq!(first(&one), first(&JobLoad::all(&scale, 1, Order::First)));
        assert_ne!(first(&one), first(&JobLoad::all(&scale, 2, Order::First)));
        let other = JobLoad::all(&scale, 1, Order::Second);
        assert_ne!(first(&one), first(&other));
        assert!(one.iter().zip(&other).all(|(one, other)| one.centre == other.centre));
        assert!(first(&one)[..20].iter().all(|offset| *offset < scale.job_bytes));
        assert!(first(&one)[20..].iter().all(|offset| *offset >= scale.job_bytes));
    }
}
