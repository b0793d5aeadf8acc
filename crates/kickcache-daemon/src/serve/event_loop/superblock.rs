//! Gives the superblock to the operations that write it, one at a time.

use kickcache_engine::cache_engine::CacheEngine;
use kickcache_engine::device::Device;

use super::EventLoop;
use crate::serve::core::LoopPhase;
use crate::serve::error::ServeError;
use crate::serve::verbs::superblock_lease::{
    LeaseAnswer, LeaseNumber, SuperblockLease, SuperblockWriter, WaitingWriter,
};

impl<E: CacheEngine> EventLoop<E> {
    pub(super) fn wait_for_superblock(
        &mut self,
        writer: SuperblockWriter,
        answer: LeaseAnswer,
    ) -> LeaseNumber {
        let number = self.superblock_queue.number();
        match self.check_writer(writer) {
            Ok(()) => self.superblock_queue.add(WaitingWriter { number, writer, answer }),
            // The caller may have stopped waiting.
            Err(error) => drop(answer.send(Err(error))),
        }
        self.lend_to_next();
        number
    }

    fn check_writer(&self, writer: SuperblockWriter) -> Result<(), ServeError> {
        match writer {
            SuperblockWriter::Resize(_) if self.core.stage != LoopPhase::Serving => Err(ServeError::Stopped),
            SuperblockWriter::Resize(resize) if !self.resizes.running.contains(&resize) => {
                let what =
                    "the resize ended, because its volume was to be removed; repeat it if the volume stays";
                Err(ServeError::Cache { path: self.cache.clone(), what: what.into() })
            }
            SuperblockWriter::Resize(_) | SuperblockWriter::Growth => Ok(()),
            SuperblockWriter::Membership => self.cache_to_change().map(drop),
            SuperblockWriter::Exchange => self.check_exchange(),
        }
    }

    /// Gives the superblock to the next writer that waits for it, unless another one has it.
    pub(super) fn lend_to_next(&mut self) {
        while !self.is_storing_superblock() {
            let Some(WaitingWriter { number, writer, answer }) = self.superblock_queue.pop() else { return };
            match self.check_writer(writer) {
                Ok(()) => self.lend_superblock(number, writer, &answer),
                Err(error) => drop(answer.send(Err(error))),
            }
        }
    }

    /// Gives the superblock to a writer; it stays with the loop if the writer does not wait any more.
    pub(super) fn lend_superblock(
        &mut self,
        number: LeaseNumber,
        writer: SuperblockWriter,
        answer: &LeaseAnswer,
    ) {
        let cache = self.core.driver.shared_file(Device::Cache);
        let lease = SuperblockLease { superblock: self.superblock.clone(), cache };
        if answer.send(Ok(lease)).is_ok() {
            self.superblock_queue.lend(number, writer);
        }
    }

    pub(super) fn end_lease(&mut self, number: LeaseNumber) {
        let ended = self.superblock_queue.end(number);
        if ended == Some(SuperblockWriter::Exchange) {
            self.release_requests();
        }
        self.lend_to_next();
    }

    /// Whether an operation writes the superblock or keeps it from others.
    pub(super) fn is_storing_superblock(&self) -> bool {
        self.takeover.is_storing() || self.is_storing_for_others()
    }

    /// Whether another operation than a takeover writes a superblock or has its lease.
    pub(super) fn is_storing_for_others(&self) -> bool {
        self.journal_note.is_storing() || self.superblock_queue.writer().is_some()
    }

    /// Whether the engine is being replaced, or another one prepared.
    pub(super) fn is_exchanging(&self) -> bool {
        self.superblock_queue.writer() == Some(SuperblockWriter::Exchange)
    }
}
