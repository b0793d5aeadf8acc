//! The driver's clock: nanoseconds since the process opened its devices, never going back.

use kickcache_engine::time::Instant;

/// A clock whose zero is when it was made.
#[derive(Clone, Copy, Debug)]
pub struct Clock(std::time::Instant);

impl Clock {
    /// A clock that starts at zero.
    pub fn start() -> Clock {
        Clock(std::time::Instant::now())
    }

    /// The present.
    pub fn now(&self) -> Instant {
        let nanos = self.0.elapsed().as_nanos();
        Instant::from_nanos(u64::try_from(nanos).expect("584 years fit into 64 bits of nanoseconds"))
    }
}

/// The span from one point to a later one, for the system's calls.
pub fn span(from: Instant, to: Instant) -> std::time::Duration {
    std::time::Duration::from_nanos(to.since(from).as_nanos())
}
