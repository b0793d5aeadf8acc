//! The comparison of a server before its use: it must have samples of the blocks that the cache recorded as
//! flushed at the origin.
//!
//! Invariants:
//! * The comparison writes no data, and does not pass on read data.
//! * A block that the server cannot read is ignored.

use std::collections::BTreeMap;
use std::io;
use std::time::{Duration, Instant};

use kickcache_engine::samples::Sample;
use kickcache_engine::units::{BLOCK_BYTES, BLOCK_SIZE, ByteExtent};
use kickcache_nbd::client::{ClientError, NbdErrno, too_late};
use kickcache_units::are;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::links::{Link, Links};
use crate::driver::checksum::checksum;
use crate::driver::clock::{WatchedTime, missed};

pub(super) struct Comparison {
    links: Links,
    /// Requested samples without a reply, by cookie.
    waiting: BTreeMap<u64, Sample>,
    compared: usize,
    /// Byte addresses of blocks that differ.
    different: Vec<u64>,
    /// The limit of [`Comparison::finish`].
    patience: Duration,
    end: Instant,
}

fn block_extent(sample: &Sample) -> ByteExtent {
    ByteExtent { start: sample.block.byte_offset(), length: BLOCK_SIZE }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Progress {
    Waiting,
    Ended,
}

impl Comparison {
    pub(super) fn begin(
        mut links: Links,
        samples: &[Sample],
        patience: Duration,
    ) -> Result<Comparison, ClientError> {
        let size = links.export.size;
        let is_inside = |sample: &&Sample| sample.block.byte_offset() + BLOCK_SIZE <= size;
        let mut waiting = BTreeMap::new();
        for (cookie, sample) in (1..).zip(samples.iter().filter(is_inside)) {
            let read = links.minimum_block().widened(block_extent(sample));
            links.links[0].sender.queue_read(cookie, read.start, read.length)?;
            waiting.insert(cookie, *sample);
        }
        let end = Instant::now() + patience;
        Ok(Comparison { links, waiting, compared: 0, different: Vec::new(), patience, end })
    }

    pub(super) fn advance(&mut self) -> Result<Progress, ClientError> {
        let minimum_block = self.links.minimum_block();
        let Link { sender, receiver } = &mut self.links.links[0];
        sender.try_send()?;
        while let Some(reply) = receiver.try_receive()? {
            if reply.result == Err(NbdErrno::Shutdown) {
                return Err(ClientError::Request(NbdErrno::Shutdown));
            }
            // The cookie is known, since the receiver refuses cookies that are not in flight.
            let Some(sample) = self.waiting.remove(&reply.cookie) else { continue };
            if reply.result.is_ok() {
                self.compared += 1;
                let block = block_extent(&sample);
                let start = block.start - minimum_block.widened(block).start;
                let start = usize::try_from(start).expect("blocks are small");
                let is_other = checksum(&reply.data[start..start + BLOCK_BYTES]) != sample.checksum;
                self.different.extend(is_other.then_some(sample.block.byte_offset()));
            }
        }
        Ok(if self.waiting.is_empty() { Progress::Ended } else { Progress::Waiting })
    }

    /// Sends and receives until all samples have a reply; an idle connection after the patience is an error.
    pub(super) fn finish(mut self) -> Result<Comparison, ClientError> {
        while self.advance()? == Progress::Waiting {
            let begun = Instant::now();
            let wait = self.end.saturating_duration_since(begun).min(WatchedTime::LOOK_MAX);
            let timeout = Timespec::try_from(wait).ok();
            let ready = poll(&mut [self.poll_fd()], timeout.as_ref()).map_err(io::Error::from)?;
            self.end += missed(Some(wait), begun.elapsed());
            if ready == 0 && Instant::now() >= self.end {
                return Err(too_late(self.patience).into());
            }
        }
        Ok(self)
    }

    pub(super) fn poll_fd(&self) -> PollFd<'_> {
        let Link { sender, receiver } = &self.links.links[0];
        let out = if sender.queued() > 0 { PollFlags::OUT } else { PollFlags::empty() };
        PollFd::new(receiver, PollFlags::IN | out)
    }

    /// The connections, if the server has the expected contents; otherwise the difference, and the remedy.
    pub(super) fn verdict(self) -> Result<Links, String> {
        let Some(first) = self.different.iter().min() else { return Ok(self.links) };
        let (different, compared) = (self.different.len(), self.compared);
        self.links.leave();
        Err(format!(
            "{different} of {compared} compared blocks {} not the contents recorded at the last flush, \
             the first at byte {first}, so that it is another disk, or has lost durable data; export the \
             right disk, or, if another program wrote to it, stop, and use --origin-changed, which drops \
             its cached blocks",
            are(u64::try_from(different).unwrap_or(u64::MAX))
        ))
    }
}
