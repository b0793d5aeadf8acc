//! The parts that the loop and its front ends share.

use std::collections::VecDeque;

use kickcache_engine::cache_engine::CacheEngine;
use kickcache_engine::mirror::Mirror;
use kickcache_engine::request::{Operation, Reply, Request, RequestId};
use kickcache_engine::time::{Duration, Instant};
use kickcache_engine::units::{BLOCK_BYTES, ByteExtent, Checksum, VolumeId};

use crate::driver::checksum::checksum;
use crate::driver::clock::{Clock, Wakening};
use crate::driver::executor::Driver;
use crate::serve::complaints::Complaints;
use crate::serve::config::Limits;
use crate::serve::curves::Curves;
use crate::serve::frontend::kinds::Pending;
use crate::serve::recorders::Recorders;
use crate::serve::requests::{InFlight, Requests};
use crate::serve::served_volumes::{ServedVolumes, Volume};
use crate::serve::throttle::{Throttles, Weight};
use crate::serve::times::{Class, Times};

/// The pause after a failed attempt to accept a connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

pub(crate) struct Core<E> {
    pub(crate) clock: Clock,
    /// The time of this turn of the loop.
    pub(crate) now: Instant,
    /// The sum of the gaps in which the loop did not run, since the last [`Core::take_missed`].
    missed: Duration,
    pub(crate) engine: E,
    pub(crate) driver: Driver,
    /// The mirror of writes to the cache device and to a device that is to take over.
    pub(crate) mirror: Option<Mirror>,
    pub(crate) volumes: ServedVolumes,
    pub(crate) limits: Limits,
    pub(crate) requests: Requests,
    pub(crate) stage: LoopPhase,
    pub(crate) complaints: Complaints,
    pub(crate) times: Times,
    pub(crate) recorders: Recorders,
    pub(crate) curves: Curves,
    /// Requests that wait because of the caps of their volumes.
    pub(crate) throttles: Throttles<PreparedRequest>,
    /// Requests that wait while the engine is being replaced.
    on_hold: Option<VecDeque<PreparedRequest>>,
    /// When unwatched listeners are watched again.
    pub(crate) accept_again: Option<Instant>,
    /// The checksums of a write's payload, while it is passed to the engine.
    checksums: Vec<Checksum>,
}

/// Whether the loop serves, or how far its stop is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LoopPhase {
    Serving,
    /// Only accepted requests complete.
    Finishing,
    Stopping,
    /// The last records are written, and NBD clients take their last replies; the clients have
    /// until this time.
    Goodbye(Instant),
}

/// A request before it reaches the engine, and the data that its reply needs.
pub(crate) struct PreparedRequest {
    asked: EngineRequest,
    pending: Pending,
}

/// A front end's request to the engine; the payload of a write is in the buffers already.
#[derive(Clone, Copy)]
pub(crate) struct EngineRequest {
    pub(crate) id: RequestId,
    pub(crate) volume: VolumeId,
    pub(crate) operation: Operation,
    pub(crate) extent: ByteExtent,
}

impl<E: CacheEngine> Core<E> {
    pub(crate) fn new(
        clock: Clock,
        engine: E,
        driver: Driver,
        volumes: Vec<Volume>,
        limits: Limits,
    ) -> Core<E> {
        Core {
            now: clock.now(),
            missed: Duration::from_nanos(0),
            clock,
            engine,
            driver,
            mirror: None,
            volumes: ServedVolumes::new(volumes),
            limits,
            requests: Requests::default(),
            stage: LoopPhase::Serving,
            complaints: Complaints::default(),
            times: Times::default(),
            recorders: Recorders::default(),
            curves: Curves::default(),
            throttles: Throttles::default(),
            on_hold: None,
            accept_again: None,
            checksums: Vec::new(),
        }
    }

    pub(crate) fn is_serving(&self) -> bool {
        self.stage == LoopPhase::Serving
    }

    /// Begins a turn without a check for a gap before it.
    pub(crate) fn begin_first_turn(&mut self) {
        self.now = self.clock.now();
    }

    /// If the turn before took half a second or longer, that time counts as a gap.
    pub(crate) fn begin_turn(&mut self) -> Instant {
        self.wake(self.now)
    }

    /// Begins a turn after a sleep that was to end at `until`: lateness of half a second or more counts as a gap. A
    /// sleep without an end has no gap.
    pub(crate) fn begin_turn_after(&mut self, until: Option<Instant>) -> Instant {
        match until {
            Some(until) => self.wake(until.max(self.now)),
            None => {
                self.begin_first_turn();
                self.now
            }
        }
    }

    fn wake(&mut self, expected: Instant) -> Instant {
        let Wakening { now, gap } = self.clock.wake(expected);
        self.now = now;
        self.missed = Duration::from_nanos(self.missed.as_nanos() + gap.as_nanos());
        now
    }

    pub(crate) fn take_missed(&mut self) -> Duration {
        std::mem::replace(&mut self.missed, Duration::from_nanos(0))
    }

    /// Passes a request to the engine, or delays it because of its volume's cap or a replacement of the
    /// engine. The front end gets `pending` back with the reply, unless [`Core::drop_held`] drops the
    /// request.
    pub(crate) fn begin(&mut self, asked: &EngineRequest, pending: Pending) {
        let begun = PreparedRequest { asked: *asked, pending };
        if !self.is_serving() {
            return self.hand_over(begun);
        }
        let weight = Weight { operation: asked.operation, bytes: asked.extent.length };
        if let Some(begun) = self.throttles.pass(self.now, asked.volume, weight, begun) {
            self.hand_over(begun);
        }
    }

    /// Passes on due requests that waited for a cap; during a stop, all requests that wait for a cap.
    pub(crate) fn begin_due(&mut self) {
        let is_serving = self.is_serving();
        while let Some(begun) =
            if is_serving { self.throttles.take_due(self.now) } else { self.throttles.take_any() }
        {
            self.hand_over(begun);
        }
    }

    /// Drops unwanted requests that wait for a cap or for another engine.
    pub(crate) fn drop_held(&mut self, is_unwanted: impl Fn(&Pending) -> bool) {
        let mut unwanted = self.throttles.take_out(|begun| is_unwanted(&begun.pending));
        if let Some(on_hold) = &mut self.on_hold {
            let (gone, kept): (VecDeque<_>, VecDeque<_>) =
                std::mem::take(on_hold).into_iter().partition(|begun| is_unwanted(&begun.pending));
            *on_hold = kept;
            unwanted.extend(gone);
        }
        for begun in unwanted {
            self.driver.buffers().release(begun.asked.id);
        }
    }

    /// Keeps all new requests from the engine, until [`Core::let_go`].
    pub(crate) fn hold(&mut self) {
        self.on_hold.get_or_insert_default();
    }

    /// Ends [`Core::hold`] and passes the requests to the engine.
    pub(crate) fn let_go(&mut self) {
        for begun in self.on_hold.take().into_iter().flatten() {
            self.hand_over(begun);
        }
    }

    fn hand_over(&mut self, begun: PreparedRequest) {
        if let Some(on_hold) = &mut self.on_hold {
            return on_hold.push_back(begun);
        }
        let PreparedRequest { asked: EngineRequest { id, volume, operation, extent }, pending } = begun;
        self.recorders.note(self.now, volume, operation, extent);
        self.curves.note(volume, operation, extent);
        self.requests
            .insert(id, InFlight { volume, operation, bytes: extent.length, begun: self.now, pending });
        self.checksums.clear();
        if matches!(operation, Operation::Write(_)) {
            let payload = self.driver.buffers().payload(id);
            let start =
                usize::try_from(extent.start.next_multiple_of(4096) - extent.start).expect("below 4096");
            let blocks = payload.get(start..).unwrap_or_default().chunks_exact(BLOCK_BYTES);
            self.checksums.extend(blocks.map(checksum));
        }
        self.engine
            .handle_request(self.now, Request { id, volume, operation, extent, checksums: &self.checksums });
    }

    /// Notes how long a read, write or flush took, if it succeeded.
    pub(crate) fn note_time(&mut self, entry: &InFlight, reply: &Reply) {
        let class = match entry.operation {
            Operation::Read => Class::of_read(reply.read_from),
            Operation::Write(_) => Class::Write,
            Operation::Flush => Class::Flush,
            Operation::Discard | Operation::WriteZeroes { .. } | Operation::Promote => {
                return;
            }
        };
        if let (Ok(()), Some(times)) = (reply.result, self.times.of(entry.volume)) {
            times.note(self.now, class, entry.bytes, self.now.since(entry.begun));
        }
    }

    pub(crate) fn pause_accepting(&mut self) {
        self.accept_again = Some(self.now.plus(ACCEPT_PAUSE));
    }
}

pub(crate) fn engine_span(span: std::time::Duration) -> Duration {
    Duration::from_nanos(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX))
}
