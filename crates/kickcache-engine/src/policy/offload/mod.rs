//! Which device answers what both could: the cache device, unless it is at its own limit and the origin serves more.
//!
//! Time of the cache device is what passed while the thread slept with nothing to take: time in which the daemon waits
//! for a processor makes no device slow. Where the cache device still has a backlog, short trials of a few requests
//! tell whether the two devices serve more than one, and what serves more is kept. An origin of few requests a second beside
//! the cache device's, like a rotating disk, is left to misses once it was seen with many of them.

use crate::config::OriginOffload;
use crate::policy::latencies::Latencies;
use crate::policy::load::Load;
use crate::policy::origin_load::OriginLoad;
use crate::policy::pacing::CacheWork;
use crate::policy::trials::{Served, TrialRule, Trials};
use crate::time::Instant;
use crate::units::ByteExtent;

/// A request that the cache device answers within this many nanoseconds stays there.
const SLOW: u64 = 1_000_000;
/// What it is asked for takes it this many nanoseconds: it is behind.
const BEHIND: u64 = 2_000_000;
/// An origin that takes this many nanoseconds for each small read at its limit, and this many times as long as the
/// cache device, is not asked for hits: all that it can do is little beside what that one does, and misses need it.
const SCARCE: u64 = 1_000_000;
const SCARCE_TIMES: u64 = 2;
/// Bytes of a small read.
const SMALL: u64 = 4096;
/// A cache device that is slow takes nothing new while one would wait for the origin at most this many times as long: when
/// both have enough to do, what is brought in costs the cache device a write and is not served sooner.
const BUSY_SHARE: u64 = 2;

/// For the fault simulation, fewer reads than this.
const FORCED_READS: u32 = 16;

/// One in this many of the latencies that are not slow is taken down, for all of them.
const SAMPLED: u32 = 16;

/// Where something is served.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum ServedBy {
    Cache,
    Origin,
}

/// What is to be served.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Read,
    Write,
}

/// A request that the cache device has begun.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Began {
    pub(crate) kind: Kind,
    /// When, by the device's time.
    pub(crate) at: Instant,
}

/// The time, and the cache device's own.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Clock {
    pub(crate) now: Instant,
    pub(crate) device: Instant,
}

/// The policy's memory for one volume.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Offload {
    setting: OriginOffload,
    /// What clients have the cache device do, and what writeback has it read.
    cache: Load,
    writeback_reads: Load,
    pub(crate) origin: OriginLoad,
    trials: Trials,
    reads: Latencies,
    writes: Latencies,
    /// Whether the origin is soon enough for reads, and for long writes; looked at with every span.
    suits_reads: bool,
    suits_writes: bool,
    /// Requests that began, for those who are forced.
    begun: u32,
}

impl Offload {
    /// What clients have the cache device do.
    pub(crate) fn cache_work(&self) -> CacheWork {
        CacheWork { is_behind: self.cache.backlog() >= BEHIND, done: self.cache.total() }
    }

    /// Whether each small read keeps the cache device busy for so long that those that can be left out are.
    pub(crate) fn is_cache_slow(&self) -> bool {
        match self.setting {
            OriginOffload::Forced => self.begun.is_multiple_of(2),
            OriginOffload::Never | OriginOffload::Proven => {
                self.cache.each(SMALL) >= SLOW && self.writeback_read() >= SLOW
            }
        }
    }

    /// How many small reads the cache device does while the origin is busy with what it was given.
    pub(crate) fn reads_meanwhile(&self) -> u64 {
        match self.setting {
            OriginOffload::Forced => u64::from(self.begun % FORCED_READS),
            OriginOffload::Never | OriginOffload::Proven => {
                self.origin.backlog() / self.writeback_read().max(1)
            }
        }
    }

    /// Nanoseconds that a small read keeps the cache device busy when writeback asks for many: with few in flight, as clients may
    /// have, it says how long one takes.
    fn writeback_read(&self) -> u64 {
        let known = if self.writeback_reads.is_unknown() { &self.cache } else { &self.writeback_reads };
        known.each(SMALL)
    }

    pub(crate) fn new(setting: OriginOffload) -> Offload {
        Offload {
            setting,
            cache: Load::default(),
            writeback_reads: Load::default(),
            origin: OriginLoad::default(),
            trials: Trials::default(),
            reads: Latencies::new(),
            writes: Latencies::new(),
            suits_reads: false,
            suits_writes: false,
            begun: 0,
        }
    }

    /// Where this many bytes are to be served that both devices have, or may get.
    pub(crate) fn choose(&self, now: Instant, kind: Kind, bytes: u64) -> ServedBy {
        match self.setting {
            OriginOffload::Never => ServedBy::Cache,
            OriginOffload::Forced if self.begun.is_multiple_of(2) => ServedBy::Origin,
            OriginOffload::Forced => ServedBy::Cache,
            OriginOffload::Proven => self.choose_proven(now, kind, bytes),
        }
    }

    fn choose_proven(&self, now: Instant, kind: Kind, bytes: u64) -> ServedBy {
        let cache = self.cache.expected(bytes);
        if cache < SLOW || !self.is_on(now, kind) {
            return ServedBy::Cache;
        }
        let is_sooner = match self.origin.expected(bytes) {
            Some(origin) => origin < cache,
            None => self.origin.is_idle(),
        };
        if is_sooner { ServedBy::Origin } else { ServedBy::Cache }
    }

    fn is_on(&self, now: Instant, kind: Kind) -> bool {
        let suits = match kind {
            Kind::Read => self.suits_reads,
            Kind::Write => self.suits_writes,
        };
        suits && self.trials.is_on(now) && !self.origin.is_avoided(now)
    }

    /// Whether the cache device has so much to do with what it holds that it is to take no more.
    pub(crate) fn is_cache_behind(&self, now: Instant, bytes: u64) -> bool {
        match self.setting {
            OriginOffload::Never => false,
            OriginOffload::Forced => self.begun.is_multiple_of(8),
            OriginOffload::Proven => {
                let waits = self.cache.backlog();
                waits >= SLOW
                    && self.is_on(now, Kind::Read)
                    && self.trials.is_proven()
                    && self.origin.expected(bytes).is_none_or(|origin| waits * BUSY_SHARE >= origin)
            }
        }
    }

    /// The cache device begins to read this many bytes, or the log to take them.
    #[inline]
    pub(crate) fn begin(&mut self, clock: Clock, bytes: u64) {
        self.begun = self.begun.wrapping_add(1);
        self.cache.begin(clock.device, bytes);
    }

    /// It has what began at some time of the device; gives whether [`Offload::look`] is due.
    #[inline]
    pub(crate) fn end(&mut self, clock: Clock, Began { kind, at }: Began, bytes: u64) -> bool {
        let nanos = clock.device.since(at).as_nanos();
        if nanos >= SLOW || self.cache.ended().is_multiple_of(SAMPLED) {
            let latencies = match kind {
                Kind::Read => &mut self.reads,
                Kind::Write => &mut self.writes,
            };
            latencies.add(clock.now, nanos, if nanos >= SLOW { 1 } else { SAMPLED });
        }
        self.cache.end(clock.device, bytes);
        self.cache.backlog() >= SLOW
    }

    /// The cache device begins to read this many bytes for writeback.
    pub(crate) fn begin_writeback_read(&mut self, clock: Clock, bytes: u64) {
        self.writeback_reads.begin(clock.device, bytes);
    }

    /// It has.
    pub(crate) fn end_writeback_read(&mut self, clock: Clock, bytes: u64) {
        self.writeback_reads.end(clock.device, bytes);
        self.cache.end_other(bytes);
    }

    /// The origin begins to read.
    pub(crate) fn begin_origin_read(&mut self, now: Instant, extent: ByteExtent) {
        self.begun = self.begun.wrapping_add(1);
        self.origin.begin_read(now, extent);
    }

    /// The origin begins to take a long write.
    pub(crate) fn begin_origin_write(&mut self, now: Instant, bytes: u64) {
        self.begun = self.begun.wrapping_add(1);
        self.origin.begin_write(now, bytes);
    }

    /// The cache device has a backlog: what the clients were served so far moves the trials on.
    #[cold]
    pub(crate) fn look(&mut self, now: Instant, mut served: Served) {
        served.by_cache = self.cache.total();
        let Some(span) = self.trials.end_span(now, served) else { return };
        let backlog = self.cache.backlog().max(self.origin.backlog());
        let random_read = self.origin.random_read(now);
        let suits = |latencies: &Latencies| {
            let p99 = latencies.p99(now);
            p99.is_some_and(|p99| random_read.is_none_or(|nanos| nanos <= p99))
        };
        let scarce = SCARCE.max(SCARCE_TIMES * self.cache.each(SMALL));
        let is_scarce = self.origin.small_read(now).is_some_and(|nanos| nanos >= scarce);
        (self.suits_reads, self.suits_writes) = (suits(&self.reads) && !is_scarce, suits(&self.writes));
        let suits = self.suits_reads || self.suits_writes;
        let may_try = suits && self.cache.is_at_its_limit();
        let trial = if may_try { TrialRule::Allowed } else { TrialRule::Forbidden };
        self.trials.begin_span(span, backlog, trial);
    }
}

#[cfg(test)]
mod tests;
