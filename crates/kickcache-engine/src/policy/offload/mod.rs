//! Origin offload: which device serves a hit, or stores a long write, if the origin could do so as well.
//!
//! Short trials show whether the two devices together serve more than one.

use crate::config::OriginOffload;
use crate::policy::latencies::Latencies;
use crate::policy::load::Load;
use crate::policy::origin_load::OriginLoad;
use crate::policy::pacing::CacheWork;
use crate::policy::trials::{ServedLoad, TrialRule, Trials};
use crate::time::Instant;
use crate::units::ByteExtent;

/// From this many nanoseconds on, a request or the backlog of the cache device counts as slow.
const SLOW: u64 = 1_000_000;
/// [`CacheWork::is_behind`] from this many nanoseconds of work in flight on.
const BEHIND: u64 = 2_000_000;
/// An origin that takes this many nanoseconds for each small read at its limit, and this many times as long as the
/// cache device, does not suit reads.
const SCARCE: u64 = 1_000_000;
const SCARCE_TIMES: u64 = 2;
/// Bytes of a small read.
const SMALL: u64 = 4096;
/// Misses can bypass a busy cache device if the origin's wait is at most this many times its backlog.
const BUSY_SHARE: u64 = 2;

/// With a forced choice, [`Offload::reads_meanwhile`] stays below this.
const FORCED_READS: u32 = 16;

/// A recorded latency that is not slow counts this many times.
const SAMPLED: u32 = 16;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum ServedBy {
    Cache,
    Origin,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Read,
    Write,
}

/// A request that the cache device has begun.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Began {
    pub(crate) kind: Kind,
    /// On the device's clock.
    pub(crate) at: Instant,
}

/// The time, and the time of the cache device's own clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Clock {
    pub(crate) now: Instant,
    pub(crate) device: Instant,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Offload {
    setting: OriginOffload,
    /// Work of the cache device for clients, and for writeback.
    cache: Load,
    writeback_reads: Load,
    pub(crate) origin: OriginLoad,
    trials: Trials,
    reads: Latencies,
    writes: Latencies,
    /// Whether the origin is fast enough for reads, and for long writes.
    suits_reads: bool,
    suits_writes: bool,
    /// Requests that began, for a forced choice.
    begun: u32,
}

impl Offload {
    pub(crate) fn cache_work(&self) -> CacheWork {
        CacheWork { is_behind: self.cache.backlog() >= BEHIND, done: self.cache.total() }
    }

    /// Whether writeback should spare reads of the cache device.
    pub(crate) fn is_cache_slow(&self) -> bool {
        match self.setting {
            OriginOffload::Forced => self.begun.is_multiple_of(2),
            OriginOffload::Never | OriginOffload::Proven => {
                self.cache.each(SMALL) >= SLOW && self.writeback_read() >= SLOW
            }
        }
    }

    /// The number of small reads of the cache device during the present work of the origin.
    pub(crate) fn reads_meanwhile(&self) -> u64 {
        match self.setting {
            OriginOffload::Forced => u64::from(self.begun % FORCED_READS),
            OriginOffload::Never | OriginOffload::Proven => {
                self.origin.backlog() / self.writeback_read().max(1)
            }
        }
    }

    /// Nanoseconds that a small read occupies the cache device: measured with the reads of writeback, and before these
    /// are measured, with the requests of clients.
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

    /// The device that serves this many bytes, which both devices have or may get.
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

    /// Whether the cache device is so busy with requests of clients that it is to take no new blocks.
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

    /// A request that began at this device time has ended. Returns whether [`Offload::look`] is due.
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

    pub(crate) fn begin_writeback_read(&mut self, clock: Clock, bytes: u64) {
        self.writeback_reads.begin(clock.device, bytes);
    }

    pub(crate) fn end_writeback_read(&mut self, clock: Clock, bytes: u64) {
        self.writeback_reads.end(clock.device, bytes);
        self.cache.end_other(bytes);
    }

    pub(crate) fn begin_origin_read(&mut self, now: Instant, extent: ByteExtent) {
        self.begun = self.begun.wrapping_add(1);
        self.origin.begin_read(now, extent);
    }

    pub(crate) fn begin_origin_write(&mut self, now: Instant, bytes: u64) {
        self.begun = self.begun.wrapping_add(1);
        self.origin.begin_write(now, bytes);
    }

    /// The cache device has a backlog: the trials advance with the requests so far.
    #[cold]
    pub(crate) fn look(&mut self, now: Instant, mut served: ServedLoad) {
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
