//! A rotating disk: seek, rotation, a segmented read cache, a volatile write cache and command queueing.
//!
//! The angle of the platters is a function of absolute time. Among the first commands of the queue, the one
//! that can start soonest is served first (SPTF).

pub mod parameters;

use std::collections::{BTreeMap, VecDeque};

use kickcache_engine::time::{Instant, earlier};
use kickcache_random::Random;

use crate::device_model::disk::parameters::DiskParameters;
use crate::device_model::{DeviceModel, Endings, ModelOperation, ModelRequest, bytes, micros, span};

#[derive(Clone, Copy, Debug)]
struct MediumWork {
    until: Instant,
    offset: u64,
    length: u64,
    /// The command that ends with the work; a destage has none.
    command: Option<ModelRequest>,
}

/// A write that is only in the volatile cache.
#[derive(Clone, Copy, Debug)]
struct Dirty {
    length: u64,
    order: u64,
}

/// A flush that waits for the writes up to `order`.
#[derive(Clone, Copy, Debug)]
struct PendingFlush {
    token: u64,
    order: u64,
}

#[derive(Clone, Debug)]
pub struct Disk {
    parameters: DiskParameters,
    random: Random,
    head: u64,
    /// When the medium became idle, or when its read-ahead was last computed.
    idle_since: Instant,
    reads_ahead: bool,
    work: Option<MediumWork>,
    queue: VecDeque<ModelRequest>,
    /// Start and end of the extents in the read cache, the most recently used first.
    segments: VecDeque<(u64, u64)>,
    dirty: BTreeMap<u64, Dirty>,
    dirty_bytes: u64,
    stalled: VecDeque<ModelRequest>,
    flushes: VecDeque<PendingFlush>,
    write_count: u64,
    endings: Endings,
}

impl Disk {
    pub fn new(parameters: DiskParameters, seed: u64) -> Disk {
        Disk {
            parameters,
            random: Random::new(seed),
            head: 0,
            idle_since: Instant::ZERO,
            reads_ahead: false,
            work: None,
            queue: VecDeque::new(),
            segments: VecDeque::new(),
            dirty: BTreeMap::new(),
            dirty_bytes: 0,
            stalled: VecDeque::new(),
            flushes: VecDeque::new(),
            write_count: 0,
            endings: Endings::default(),
        }
    }

    /// Whether no command waits for the medium or uses it; destages do not count.
    pub fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.work.is_none_or(|work| work.command.is_none())
    }

    pub(crate) fn head(&self) -> u64 {
        self.head
    }

    fn advance(&mut self, now: Instant) {
        while let Some(work) = self.work.filter(|work| work.until <= now) {
            self.finish(work);
            self.start(work.until);
        }
    }

    fn finish(&mut self, work: MediumWork) {
        self.work = None;
        self.head = work.offset + work.length;
        self.idle_since = work.until;
        self.reads_ahead = false;
        if let Some(command) = work.command {
            self.endings.push(work.until, command.token);
            if command.operation == ModelOperation::Read {
                self.remember(command.offset, command.offset + command.length);
                self.reads_ahead = true;
            }
        }
        self.admit_stalled(work.until);
        self.finish_flushes(work.until);
    }

    fn finish_flushes(&mut self, now: Instant) {
        while let Some(flush) = self.flushes.front().copied() {
            let waits = self.dirty.values().any(|dirty| dirty.order <= flush.order)
                || self.work.is_some_and(|work| work.command.is_none());
            if waits {
                return;
            }
            self.flushes.pop_front();
            self.endings.push(now, flush.token);
        }
    }

    fn start(&mut self, now: Instant) {
        if self.work.is_some() {
            return;
        }
        let crowded = self.dirty_bytes > self.parameters.write_cache_bytes / 2;
        let command = self.soonest_command(now);
        let destage = (command.is_none() || crowded || !self.flushes.is_empty())
            .then(|| self.soonest_destage(now))
            .flatten();
        match (command, destage) {
            (None, None) => {}
            (Some((_, index)), None) => self.start_command(now, index),
            (None, Some((_, offset))) => self.start_destage(now, offset),
            (Some((command_at, index)), Some((destage_at, offset))) => {
                if command_at <= destage_at {
                    self.start_command(now, index);
                } else {
                    self.start_destage(now, offset);
                }
            }
        }
    }

    fn position(&self, now: Instant, offset: u64) -> f64 {
        let streaming = offset == self.head && now == self.idle_since;
        if streaming { 0.0 } else { self.parameters.position(micros(now), self.head, offset) }
    }

    fn soonest_command(&self, now: Instant) -> Option<(f64, usize)> {
        let candidates = self.queue.iter().take(self.parameters.queue_depth).enumerate();
        candidates
            .map(|(index, command)| (self.position(now, command.offset), index))
            .min_by(|one, two| one.0.total_cmp(&two.0))
    }

    /// While a flush waits, only the writes before the flush are considered: later writes would otherwise
    /// delay it without end.
    fn soonest_destage(&self, now: Instant) -> Option<(f64, u64)> {
        let (after, before) = (self.dirty.range(self.head..), self.dirty.range(..self.head).rev());
        let order_max = self.flushes.front().map_or(u64::MAX, |flush| flush.order);
        let is_due = |(_, dirty): &(&u64, &Dirty)| dirty.order <= order_max;
        after
            .filter(is_due)
            .take(32)
            .chain(before.filter(is_due).take(32))
            .map(|(offset, _)| (self.position(now, *offset), *offset))
            .min_by(|one, two| one.0.total_cmp(&two.0))
    }

    fn start_command(&mut self, now: Instant, index: usize) {
        let command = self.queue.remove(index).expect("the index was just found");
        self.begin(
            now,
            MediumWork { until: now, offset: command.offset, length: command.length, command: Some(command) },
        );
    }

    /// Writes a dirty extent and the extents that follow it without a gap, until they have 1 MiB.
    fn start_destage(&mut self, now: Instant, offset: u64) {
        let mut end = offset;
        while let Some(dirty) = self.dirty.remove(&end) {
            self.dirty_bytes -= dirty.length;
            end += dirty.length;
            if end - offset >= 1 << 20 {
                break;
            }
        }
        self.begin(now, MediumWork { until: now, offset, length: end - offset, command: None });
    }

    fn begin(&mut self, now: Instant, mut work: MediumWork) {
        let streaming = work.offset == self.head && now == self.idle_since;
        let overhead =
            if streaming { 0.0 } else { self.position(now, work.offset) + self.parameters.overhead };
        work.until = now.plus(span(overhead + self.parameters.transfer(work.length)));
        self.reads_ahead = false;
        self.work = Some(work);
    }

    fn remember(&mut self, start: u64, end: u64) {
        let start = start.max(end.saturating_sub(self.parameters.segment_bytes));
        let joined = self.segments.iter().position(|segment| segment.1 == start);
        let start = match joined.and_then(|index| self.segments.remove(index)) {
            Some(segment) if end - segment.0 <= self.parameters.segment_bytes => segment.0,
            Some(_) | None => start,
        };
        self.segments.push_front((start, end));
        self.segments.truncate(self.parameters.segments);
    }

    fn read_ahead(&mut self, now: Instant) {
        if !self.reads_ahead || self.work.is_some() {
            return;
        }
        let elapsed = micros(now) - micros(self.idle_since);
        let ahead = elapsed / self.parameters.revolution() * bytes(self.parameters.track_bytes);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "saturates and is clamped"
        )]
        let ahead = ahead as u64;
        let streams = ahead < self.parameters.segment_bytes;
        if let Some(segment) = self.segments.front_mut() {
            self.head = segment.1 + ahead.min(self.parameters.segment_bytes);
            segment.1 = self.head;
            segment.0 = segment.0.max(self.head.saturating_sub(self.parameters.segment_bytes));
        }
        if streams {
            self.idle_since = now;
        } else {
            self.reads_ahead = false;
        }
    }

    fn take_read(&mut self, now: Instant, request: ModelRequest) {
        self.read_ahead(now);
        let end = request.offset + request.length;
        let found = self.segments.iter().position(|segment| segment.0 <= request.offset && end <= segment.1);
        if let Some(segment) = found.and_then(|index| self.segments.remove(index)) {
            self.segments.push_front(segment);
            // Only the newest segment can grow: the hit moves another one before it.
            self.reads_ahead &= segment.1 == self.head;
        }
        if found.is_some() || self.is_dirty(request.offset, end) {
            let at = now.plus(span(self.answer_time()));
            self.endings.push(at, request.token);
        } else {
            self.queue.push_back(self.without_cached_head(request));
            self.start(now);
        }
    }

    /// Cuts off the part of a request that read-ahead has just read, if the request continues behind it.
    fn without_cached_head(&self, request: ModelRequest) -> ModelRequest {
        let end = request.offset + request.length;
        match self.segments.front() {
            Some(segment) if segment.0 <= request.offset && request.offset < segment.1 && segment.1 < end => {
                ModelRequest { offset: segment.1, length: end - segment.1, ..request }
            }
            Some(_) | None => request,
        }
    }

    fn is_dirty(&self, start: u64, end: u64) -> bool {
        let before = self.dirty.range(..=start).next_back();
        before.is_some_and(|(offset, dirty)| end <= offset + dirty.length)
    }

    fn answer_time(&mut self) -> f64 {
        let (low, high) = self.parameters.hit;
        let wait = self.random.uniform(low, high);
        if self.work.is_none() || !self.random.chance(self.parameters.blocked_permille) {
            return wait;
        }
        let (low, high) = self.parameters.blocked;
        wait + self.random.uniform(low, high)
    }

    fn take_write(&mut self, now: Instant, request: ModelRequest) {
        self.stalled.push_back(request);
        self.admit_stalled(now);
        self.start(now);
    }

    fn admit_stalled(&mut self, now: Instant) {
        while let Some(request) = self.stalled.front().copied() {
            if self.dirty_bytes + request.length > self.parameters.write_cache_bytes && self.dirty_bytes > 0 {
                return;
            }
            self.stalled.pop_front();
            self.forget_read(request.offset, request.offset + request.length);
            self.write_count += 1;
            let dirty = Dirty { length: request.length, order: self.write_count };
            let replaced = self.dirty.insert(request.offset, dirty);
            self.dirty_bytes = self.dirty_bytes + request.length - replaced.map_or(0, |old| old.length);
            let at = now.plus(span(self.answer_time()));
            self.endings.push(at, request.token);
        }
    }

    fn forget_read(&mut self, start: u64, end: u64) {
        self.segments.retain(|segment| segment.1 <= start || end <= segment.0);
    }

    fn take_flush(&mut self, now: Instant, token: u64) {
        self.flushes.push_back(PendingFlush { token, order: self.write_count });
        self.finish_flushes(now);
        self.start(now);
    }
}

impl DeviceModel for Disk {
    fn submit(&mut self, now: Instant, request: ModelRequest) {
        self.advance(now);
        match request.operation {
            ModelOperation::Read => self.take_read(now, request),
            ModelOperation::Write => self.take_write(now, request),
            ModelOperation::WriteDurable => {
                self.forget_read(request.offset, request.offset + request.length);
                self.queue.push_back(request);
                self.start(now);
            }
            ModelOperation::Flush => self.take_flush(now, request.token),
        }
    }

    fn next_event(&self) -> Option<Instant> {
        earlier(self.endings.next(), self.work.map(|work| work.until))
    }

    fn poll(&mut self, now: Instant) -> Option<u64> {
        self.advance(now);
        self.endings.pop(now)
    }
}

#[cfg(test)]
mod tests;
