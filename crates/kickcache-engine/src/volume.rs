//! A served volume.

use alloc::collections::VecDeque;

use crate::config::{OriginKind, VolumeSettings, WRITEBACK_BACKOFF};
use crate::ids::{RequestSlot, Ticket};
use crate::inflight::origin::{AccessRequest, OriginAccess, OriginQueue, Priority};
use crate::inflight::origin_flush::OriginFlush;
use crate::inflight::writebacks::Sweep;
use crate::policy::admission::Gate;
use crate::policy::drain_end::DrainEnd;
use crate::policy::hand::Hand;
use crate::policy::offload::Offload;
use crate::policy::pacing::Pacing;
use crate::policy::shift::RequestedBlocks;
use crate::policy::stream::Streams;
use crate::policy::throttle::Throttle;
use crate::policy::window::FillWindow;
use crate::request::Durability;
use crate::stats::VolumeCounters;
use crate::time::Instant;
use crate::units::{ByteExtent, Sequence, VolumeId};

#[derive(Debug)]
pub(crate) struct Volume {
    pub(crate) id: VolumeId,
    pub(crate) settings: VolumeSettings,
    pub(crate) size: u64,
    pub(crate) queue: OriginQueue,
    pub(crate) flush: OriginFlush,
    pub(crate) gate: Gate,
    pub(crate) window: FillWindow,
    pub(crate) read_streams: Streams,
    pub(crate) write_streams: Streams,
    pub(crate) sweep: Sweep,
    pub(crate) pacing: Pacing,
    pub(crate) throttle: Throttle,
    /// Delayed writes, with their starts.
    pub(crate) delayed: VecDeque<(Instant, RequestSlot)>,
    /// The position of the search for blocks above the volume's limit.
    pub(crate) hand: Hand,
    pub(crate) offload: Offload,
    pub(crate) counters: VolumeCounters,
    /// First hits of read-ahead blocks that directly follow a requested block.
    pub(crate) scanned_blocks: u64,
    pub(crate) last_request: Instant,
    pub(crate) dirty_since: Instant,
    /// Foreground accesses to the origin that were queued so far.
    pub(crate) foreground_total: u64,
    /// All dirty data must be written back now.
    pub(crate) draining: bool,
    pub(crate) drain_end: DrainEnd,
    /// The newest *clean* record of a block, or a newer number; 0 if there is none.
    pub(crate) newest_clean: Sequence,
    /// It is durable that the volume has no blocks, or the cache device is out of service: the volume may be removed.
    pub(crate) is_forgotten: bool,
    /// Reclaim waits for dirty data to be written back.
    pub(crate) writeback_wanted: bool,
    /// Writeback pauses until this time.
    pub(crate) backoff_until: Instant,
    /// Flushes of the origin without a waiting flush request pause until this time.
    pub(crate) flush_backoff_until: Instant,
    /// When blocks that the last check did not write back are checked again.
    pub(crate) look_again_at: Instant,
    pub(crate) paused_until: Instant,
    /// When the origin refused a write of a client last.
    pub(crate) refused_at: Option<Instant>,
}

impl Volume {
    pub(crate) fn idle_at(&self) -> Instant {
        self.last_request.plus(self.settings.idle_after)
    }

    /// The hits of reads, and the misses of reads and promotes, so far.
    pub(crate) const fn asked(&self) -> RequestedBlocks {
        RequestedBlocks { hits: self.counters.hit_blocks, misses: self.counters.miss_blocks }
    }

    /// [`Volume::asked`] without [`Volume::scanned_blocks`].
    pub(crate) const fn used(&self) -> RequestedBlocks {
        let RequestedBlocks { hits, misses } = self.asked();
        RequestedBlocks { hits: hits - self.scanned_blocks, misses }
    }

    pub(crate) fn rest_after_origin_error(&mut self, now: Instant) {
        self.backoff_until = now.plus(WRITEBACK_BACKOFF);
        self.flush_backoff_until = self.backoff_until;
    }

    pub(crate) fn enqueue(&mut self, extent: ByteExtent, access: OriginAccess) -> Ticket {
        self.foreground_total += 1;
        self.queue.enqueue(AccessRequest { extent, access, priority: Priority::Foreground })
    }

    /// The durability of a write to the origin without a copy in the log; at least `asked`. At a remote origin it is
    /// durable, because a write without a copy in the log could not be repeated.
    pub(crate) fn durability_without_copy(&self, asked: Durability) -> Durability {
        match self.settings.origin {
            OriginKind::Remote if !mutant!(WriteWithoutCopyVolatile) => Durability::Durable,
            OriginKind::Remote | OriginKind::Local => asked,
        }
    }

    /// Whether a restart of the origin may lose unflushed data.
    pub(crate) fn may_forget(&self) -> bool {
        let is_remote = self.settings.origin == OriginKind::Remote;
        is_remote && self.flush.is_unsettled() && !mutant!(HealOutlivesRestart)
    }

    pub(crate) fn new(settings: VolumeSettings, size: u64, offload: Offload, now: Instant) -> Volume {
        Volume {
            id: settings.volume,
            settings,
            size,
            queue: OriginQueue::new(),
            flush: OriginFlush::default(),
            gate: Gate::default(),
            window: FillWindow::new(settings.fill_window_max),
            read_streams: Streams::new(),
            write_streams: Streams::new(),
            sweep: Sweep::default(),
            pacing: Pacing::new(),
            throttle: Throttle::default(),
            delayed: VecDeque::new(),
            hand: Hand::new(),
            offload,
            counters: VolumeCounters::default(),
            scanned_blocks: 0,
            last_request: now,
            dirty_since: now,
            foreground_total: 0,
            draining: false,
            newest_clean: Sequence::new(0),
            drain_end: DrainEnd::default(),
            is_forgotten: false,
            writeback_wanted: false,
            backoff_until: now,
            flush_backoff_until: now,
            look_again_at: now,
            paused_until: now,
            refused_at: None,
        }
    }
}
