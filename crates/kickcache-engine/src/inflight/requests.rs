//! The requests in flight.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

use crate::ids::{RequestSlot, Ticket};
use crate::inflight::slab::Slab;
use crate::inflight::writing::Writing;
use crate::request::{Errno, Operation, ReadFrom, Reply, Request, RequestId};
use crate::units::{ByteExtent, Location, VolumeId};

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Stage {
    /// A read, a flush, or a request that was just added.
    Simple,
    /// A write or write-zeroes.
    Write(Box<Writing>),
    /// A long job (discard, promote).
    Cursor(Cursor),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Cursor {
    /// The next byte of the volume.
    pub(crate) next: u64,
    /// The origin access of the current part.
    pub(crate) ticket: Option<Ticket>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Pending {
    pub(crate) id: RequestId,
    pub(crate) volume: VolumeId,
    pub(crate) operation: Operation,
    pub(crate) extent: ByteExtent,
    /// Operations that must end before the request can continue.
    pub(crate) pending_count: u32,
    pub(crate) error: Option<Errno>,
    pub(crate) read_from: ReadFrom,
    pub(crate) origin_part: OriginPart,
    /// Dropped copies that were not clean, pinned.
    pub(crate) forgotten: Vec<Location>,
    pub(crate) stage: Stage,
}

/// The part of an unacknowledged write or discard that only the origin has, without a copy in the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum OriginPart {
    /// None, or a durable part.
    None,
    /// A part that the origin's next flush makes durable.
    Volatile,
    /// A part that the origin may have dropped, because a flush failed. The client must not receive a success after the
    /// error of the flush.
    LetGo,
}

impl Pending {
    /// Fails the request; the client receives the first error.
    pub(crate) fn fail(&mut self, errno: Errno) {
        self.error.get_or_insert(errno);
    }

    /// The origin completed a part of the request that its next flush makes durable.
    pub(crate) fn note_volatile(&mut self) {
        if self.origin_part == OriginPart::None || mutant!(LetGoTakenBack) {
            self.origin_part = OriginPart::Volatile;
        }
    }

    pub(crate) fn result(&self) -> Result<(), Errno> {
        match (self.error, self.origin_part) {
            (Some(errno), _) => Err(errno),
            (None, OriginPart::LetGo) => Err(Errno::Io),
            (None, OriginPart::None | OriginPart::Volatile) => Ok(()),
        }
    }

    /// # Panics
    /// If the request is not a write.
    pub(crate) fn writing(&mut self) -> &mut Writing {
        let Stage::Write(writing) = &mut self.stage else { panic!("not a write: {:?}", self.operation) };
        writing
    }
}

#[derive(Debug)]
pub(crate) struct Requests {
    table: Slab<Pending>,
    /// Writes for which [`Writing::is_through_log`] is true.
    pub(crate) through_count: u32,
    replies: VecDeque<Reply>,
}

impl Requests {
    pub(crate) const fn new() -> Requests {
        Requests { table: Slab::new(), through_count: 0, replies: VecDeque::new() }
    }

    pub(crate) fn insert(&mut self, request: &Request<'_>) -> RequestSlot {
        RequestSlot(self.table.insert(Pending {
            id: request.id,
            volume: request.volume,
            operation: request.operation,
            extent: request.extent,
            pending_count: 0,
            error: None,
            read_from: ReadFrom::Cache,
            origin_part: OriginPart::None,
            forgotten: Vec::new(),
            stage: Stage::Simple,
        }))
    }

    /// A flush of an origin failed: it may have dropped the unflushed parts of writes in flight.
    pub(crate) fn let_go(&mut self, volume: VolumeId) {
        let is_volatile =
            |pending: &&mut Pending| pending.volume == volume && pending.origin_part == OriginPart::Volatile;
        self.iter_mut().filter(is_volatile).for_each(|pending| pending.origin_part = OriginPart::LetGo);
    }

    pub(crate) fn remove(&mut self, slot: RequestSlot) -> Pending {
        self.table.remove(slot.0).expect("a request ends once")
    }

    pub(crate) fn get(&self, slot: RequestSlot) -> &Pending {
        self.table.get(slot.0).expect("a request in flight")
    }

    pub(crate) fn get_mut(&mut self, slot: RequestSlot) -> &mut Pending {
        self.table.get_mut(slot.0).expect("a request in flight")
    }

    pub(crate) fn add_pending(&mut self, slot: RequestSlot) {
        self.get_mut(slot).pending_count += 1;
    }

    pub(crate) fn reply(&mut self, reply: Reply) {
        self.replies.push_back(reply);
    }

    pub(crate) fn poll_reply(&mut self) -> Option<Reply> {
        self.replies.pop_front()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Pending> {
        self.table.iter().map(|(_, pending)| pending)
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Pending> {
        self.table.iter_mut().map(|(_, pending)| pending)
    }

    pub(crate) fn count_for(&self, volume: VolumeId) -> u64 {
        self.table.iter().filter(|(_, pending)| pending.volume == volume).count() as u64
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.table.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Durability;
    use crate::units::BLOCK_SIZE;

    #[test]
    fn a_write_fails_if_the_origin_released_an_unanswered_part() {
        let mut requests = Requests::new();
        let mut insert = |volume, part| {
            let extent = ByteExtent { start: 0, length: BLOCK_SIZE };
            let operation = Operation::Write(Durability::Volatile);
            let volume = VolumeId::new(volume);
            let slot = requests.insert(&Request {
                id: RequestId::new(1),
                volume,
                operation,
                extent,
                checksums: &[],
            });
            requests.get_mut(slot).origin_part = part;
            slot
        };
        let slots = [(1, OriginPart::Volatile), (1, OriginPart::None), (2, OriginPart::Volatile)]
            .map(|(volume, part)| insert(volume, part));
        requests.let_go(VolumeId::new(1));
        let results = slots.map(|slot| requests.get(slot).result());
        assert_eq!(results, [Err(Errno::Io), Ok(()), Ok(())]);
    }
}
