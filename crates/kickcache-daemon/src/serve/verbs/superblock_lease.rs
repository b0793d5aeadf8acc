//! The lease of the superblock: only one operation at a time writes it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use kickcache_engine::format::superblock::Superblock;
use kickcache_engine::units::VolumeId;

use crate::driver::device::BlockFile;
use crate::serve::error::ServeError;

/// A resize: if its volume is removed meanwhile, another volume may get the same id.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ResizeId {
    pub(crate) volume: VolumeId,
    /// The number of resizes before this one.
    pub(crate) number: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SuperblockWriter {
    Resize(ResizeId),
    Growth,
    Membership,
    Exchange,
}

/// The number of a request for the superblock; used once, so that the end of a request cannot end a later
/// one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LeaseNumber(u64);

/// The superblock as on the cache device, and the exclusive right to write it.
pub(crate) struct SuperblockLease {
    pub(crate) superblock: Superblock,
    /// `None` while volumes are served without a cache device.
    pub(crate) cache: Option<Arc<BlockFile>>,
}

pub(crate) type LeaseAnswer = Sender<Result<SuperblockLease, ServeError>>;

pub(crate) struct WaitingWriter {
    pub(crate) number: LeaseNumber,
    pub(crate) writer: SuperblockWriter,
    pub(crate) answer: LeaseAnswer,
}

#[derive(Default)]
pub(crate) struct SuperblockQueue {
    waiting: VecDeque<WaitingWriter>,
    lent: Option<(LeaseNumber, SuperblockWriter)>,
    count: u64,
}

impl SuperblockQueue {
    pub(crate) fn number(&mut self) -> LeaseNumber {
        self.count += 1;
        LeaseNumber(self.count)
    }

    pub(crate) fn add(&mut self, waiting: WaitingWriter) {
        self.waiting.push_back(waiting);
    }

    pub(crate) fn pop(&mut self) -> Option<WaitingWriter> {
        self.waiting.pop_front()
    }

    pub(crate) fn lend(&mut self, number: LeaseNumber, writer: SuperblockWriter) {
        self.lent = Some((number, writer));
    }

    pub(crate) fn writer(&self) -> Option<SuperblockWriter> {
        self.lent.map(|(_, writer)| writer)
    }

    /// Ends the request of this number, if it waits or has the lease; returns the writer whose lease ended.
    pub(crate) fn end(&mut self, number: LeaseNumber) -> Option<SuperblockWriter> {
        self.waiting.retain(|waiting| waiting.number != number);
        self.lent.take_if(|(lent, _)| *lent == number).map(|(_, writer)| writer)
    }

    pub(crate) fn has_resize_of(&self, volume: VolumeId) -> bool {
        let mut writers = self.waiting.iter().map(|waiting| waiting.writer).chain(self.writer());
        writers.any(|writer| matches!(writer, SuperblockWriter::Resize(resize) if resize.volume == volume))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn an_ended_request_does_not_end_a_later_lease() {
        let mut queue = SuperblockQueue::default();
        let [first, second] = [queue.number(), queue.number()];
        for number in [first, second] {
            let (answer, _) = mpsc::channel();
            queue.add(WaitingWriter { number, writer: SuperblockWriter::Membership, answer });
        }
        assert_eq!(queue.end(first), None, "it waited");
        let next = queue.pop().unwrap();
        assert!(next.number == second && queue.pop().is_none());
        queue.lend(second, next.writer);
        assert_eq!(queue.end(first), None);
        assert_eq!(queue.writer(), Some(SuperblockWriter::Membership));
        assert_eq!((queue.end(second), queue.writer()), (Some(SuperblockWriter::Membership), None));
    }
}
