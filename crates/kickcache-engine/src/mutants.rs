//! Flaws that a test plants to prove that the simulator detects them; compiled in with the feature `mutants` only.

/// Whether a planted flaw is on; `false` without the feature `mutants`.
#[cfg(feature = "mutants")]
macro_rules! mutant {
    ($name:ident) => {
        crate::mutants::is_on(crate::mutants::Mutant::$name)
    };
}

/// Whether a planted flaw is on; `false` without the feature `mutants`.
#[cfg(not(feature = "mutants"))]
macro_rules! mutant {
    ($name:ident) => {
        false
    };
}

#[cfg(feature = "mutants")]
pub use planted::{Mutant, plant};

#[cfg(feature = "mutants")]
pub(crate) use planted::is_on;

#[cfg(feature = "mutants")]
mod planted {
    use core::sync::atomic::{AtomicUsize, Ordering};

    macro_rules! mutants {
        ($($(#[$doc:meta])* $name:ident,)*) => {
            /// A flaw.
            #[derive(Clone, Copy, PartialEq, Eq, Debug)]
            pub enum Mutant {
                $($(#[$doc])* $name,)*
            }

            impl Mutant {
                /// All flaws.
                pub const ALL: &[Mutant] = &[$(Mutant::$name),*];
            }
        };
    }

    mutants! {
        /// A block is clean once it was written to the origin.
        CleanBeforeOriginFlush,
        /// A writeback that makes blocks clean without a flush is volatile.
        DurableWritebackVolatile,
        /// A flush of the origin covers writes that ended after its submission.
        WrittenDuringFlushIsClean,
        /// The blocks of a failed flush of the origin become clean.
        OriginFlushErrorIgnored,
        /// A segment is opened again while a read of it is in flight.
        ReuseUnderReader,
        /// A segment is written before the record of its opening is durable.
        ReuseBeforeOpenedIsDurable,
        /// The opening of a segment is recorded before the copies that replace its blocks are durable.
        OpenedBeforeCopiesAreDurable,
        /// A fill in flight ignores writes to its blocks.
        FillOverwritesNewerWrite,
        /// A read joins a fill in flight that is older than a write.
        StaleFillJoined,
        /// Drops are not recorded.
        GoneNotRecorded,
        /// A write around the log does not wait for the record.
        GoneNotAwaited,
        /// A write that supersedes dirty blocks of the log is only as durable at the origin as without them.
        SupersededByVolatile,
        /// Blocks that a write at the origin is about to supersede are written back meanwhile.
        SupersededWrittenBack,
        /// A segment may be opened again while blocks in it are read for writeback.
        WritebackReadUnpinned,
        /// A failed read for several writebacks fails only the first one.
        StretchErrorToldOnce,
        /// A write is acknowledged when it joins a batch.
        AcknowledgedBeforeLanding,
        /// A flush does not reach the cache device.
        FlushSkipsCacheDevice,
        /// FUA is a plain write for the log.
        FuaIgnored,
        /// A hit of whole blocks is returned although its checksum is wrong.
        ChecksumIgnored,
        /// A damaged dirty block is read from the origin.
        DamagedDirtyFromOrigin,
        /// A summary of an earlier generation of its segment is accepted.
        OldSummaryBelieved,
        /// A summary is written before its batches are durable.
        SummaryBeforeFlush,
        /// Records apply to copies that are younger than the records.
        RecordsIgnoreOrder,
        /// The copy that recovery reads last wins.
        LastReadCopyWins,
        /// Recovery treats dirty blocks as clean.
        RecoveredAsClean,
        /// A discard of a local origin counts as durable.
        LocalDiscardDurable,
        /// Recovery trusts data of a dead process in volatile memory.
        RecoveryWithoutFlush,
        /// Copies that are not durable in the log are written back to the origin.
        WritebackOfVolatileCopy,
        /// Overlapping accesses to the origin run in parallel.
        OverlapsUnordered,
        /// A checkpoint is written before the changes in it are durable.
        CheckpointBeforeDurable,
        /// A partial block that is not cached is completed without its other bytes.
        MergeForgetsRest,
        /// A write at the origin that replaces others is only as durable as it must be itself.
        OvertakenVolatile,
        /// A write at the origin replaces an earlier one although a read waits between them.
        OvertakenAcrossRead,
        /// Writes that wait for space are not woken.
        SpaceWaitersForgotten,
        /// A client's write is read before its batch landed.
        ReadBeforeLanding,
        /// Blocks are read although the origin may still refuse their write, which drops them.
        RefusedRead,
        /// Reclaim drops dirty blocks.
        DirtyDemoted,
        /// A write replaces a block in a batch that is being written.
        AbsorbedTooLate,
        /// Writeback keeps its pages.
        PagesLeaked,
        /// A search over segments misses blocks that are moved to segments that it has examined.
        MovedBlockNotFound,
        /// A dropped block still counts.
        MetadataDrift,
        /// The copy that a lost write superseded is dropped with it.
        OlderCopyForgotten,
        /// Headers declare batches durable before they are.
        DurableTooEarly,
        /// Recovery treats rot of durable data as a torn write.
        RotTakenForTorn,
        /// A volume may fill the whole log with blocks that its origin refuses.
        NeighboursRoomTaken,
        /// A volume above its space limit gives back blocks that are not clean.
        DirtyGivenBack,
        /// Clients may use the segments that reclaim needs to continue.
        ReclaimsRoomTaken,
        /// An older copy of a dropped block may return over a newer one.
        GoneResurfaces,
        /// A failed flush of the origin without a waiting client is not reported to any client.
        FailedOriginFlushNotTold,
        /// A write ends with success although the origin dropped a part, if it stored a later part.
        LetGoTakenBack,
        /// A flush does not reach the origin.
        FlushSkipsOrigin,
        /// A block that waits for the origin's flush is clean once reclaim has moved it.
        CarriedUnflushedIsClean,
        /// Writes bypass a cache device before the record that it is out of service exists.
        OutOfServiceUnmarked,
        /// An unreadable block is tried again at once, and without a limit.
        UnreadableTriedAtOnce,
        /// Recovery treats an unreadable block as part of a torn write.
        UnreadableTakenForTorn,
        /// Recovery treats an unreadable place as one without a batch header.
        UnreadableHeaderIgnored,
        /// Recovery treats an unreadable block of the journal as not needed.
        UnreadableRecordsIgnored,
        /// Recovery treats a durable block of the journal that is missing as never written.
        LostRecordsIgnored,
        /// Recovery treats a journal that was lost as a whole as never written.
        LostJournalIgnored,
        /// Recovery does not check that the blocks in a checkpoint have entries in their segment.
        OverwrittenIgnored,
        /// Recovery does not check for opened segments without a record in the journal.
        LostOpeningsIgnored,
        /// Recovery treats an unreadable first block of a segment as never written.
        UnreadableFirstIgnored,
        /// Unflushed blocks of a restarted origin still wait for its flush.
        RestartForgotten,
        /// A flush that was in flight when the origin restarted still makes blocks clean.
        FlushOutlivesRestart,
        /// A remote origin may lose a write without a copy in the log after it ended.
        WriteWithoutCopyVolatile,
        /// A read uses unflushed data of a restarted origin from a fill that was in flight.
        FillOutlivesRestart,
        /// A block that is unreadable on the cache device is read from a remote origin that has not flushed it.
        HealOutlivesRestart,
        /// The new part of a cache device is used before its superblock is durable.
        GrowthNotAwaited,
        /// In the new part of a cache device, segments begin with generations that old structures there may have.
        OldGenerationsUsedAgain,
        /// A write to a part that was copied to the successor is executed on the old device only.
        CopiedPartNotMirrored,
        /// A part is copied while writes to it are in flight.
        CopiedUnderWrites,
        /// A flush does not reach the successor.
        FlushSkipsSuccessor,
        /// An operation that has ended on the old device, and waited for an abandoned successor, never ends.
        SilentSuccessorAwaited,
        /// No record is made of a cache device that is left out by order.
        LeftOutUnmarked,
        /// The blocks that a removed volume has in the log are not recorded as dropped.
        PartingNotRecorded,
        /// A new engine assumes that the origins have no unflushed writes.
        OriginsTakenForFlushed,
        /// An error of a successor during the copy is ignored.
        SuccessorErrorForgiven,
        /// An error of a successor during the copy is passed on to the engine.
        SuccessorErrorTold,
        /// An error of the new device after sealing is hidden from the engine.
        SealedSuccessorErrorForgiven,
        /// An error of the old device after sealing is hidden from the engine.
        SealedOldErrorForgiven,
        /// The copy of a part starts together with a write that is older than the replacement.
        WritesBeforeMirrorIgnored,
        /// The engine still writes to the old device after the last superblock.
        PartingNotHeld,
        /// A device of another replacement counts as the successor.
        SuccessorOfAnother,
        /// A device with an older start count than the old one counts as the successor.
        OlderSuccessor,
        /// Any origin flush completes a volume, even a flush that started with dirty blocks in the log.
        CompleteTooEarly,
        /// The out-of-service mark omits volumes with unflushed blocks.
        UnflushedCalledComplete,
        /// A failed flush completes a volume.
        CompleteAfterFailedFlush,
        /// Out of service, a client flush does not include the origin.
        FlushWithoutOrigin,
        /// A superseding write ends before its journal records are durable.
        SupersedingNotAwaited,
        /// A superseding write keeps clean copies of its blocks.
        CleanNotForgotten,
        /// A failed superseding write leaves unflushed blocks unflushed.
        RefusedStaysUnflushed,
        /// An origin flush makes blocks clean during a superseding write of the same blocks.
        ReplacedBecomesClean,
        /// A write around the log overwrites unflushed blocks.
        UnflushedPassedBy,
        /// A failed discard or write does not restore the blocks that it removed.
        DiscardedNotBroughtBack,
        /// A checkpoint keeps chunks that are older than a failed batch.
        OutdatedCheckpoint,
        /// Recovery accepts a checkpoint with a missing chunk.
        PartialCheckpoint,
        /// A checkpoint ends after its first group of chunks.
        CheckpointEndsEarly,
        /// A checkpoint ends before its flush.
        CheckpointNotFlushed,
        /// A checkpoint ignores the write error of a chunk.
        FailedChunkIgnored,
        /// Reclaim reuses segments although a batch failed after they were emptied.
        EmptiedDespiteFailure,
        /// A failed write removes a block that a client has read.
        KeptForgotten,
        /// A failed write removes a block that replaced a dirty one.
        OlderDirtyForgotten,
        /// A block of a failed write counts as present at the origin.
        RefusedIsAtOrigin,
        /// A failed write removes newer blocks of other writes.
        UndoneForOthers,
        /// Writeback skips the blocks of a completed write.
        KeptStaysInSweep,
        /// A failed batch releases the older copy of a block while its newer copy is in flight.
        PassedOnForgotten,
        /// A write ends before its blocks are rewritten after a failed batch.
        LostBatchNotAwaited,
        /// A durable write ends although its failed batch was replaced only by a volatile one.
        LostDurableIgnored,
        /// Reclaim reuses a segment while recovery writes its summary.
        SealUnpinned,
        /// A fill in flight survives a discard of its blocks.
        DiscardJoinsFill,
        /// Merged writes that the origin refused are not repeated one by one.
        RefusedTogether,
        /// Writes that bypass the log do not wait for the newest *gone* record.
        GoneNotCounted,
        /// A write replaces a block in memory while writeback reads it.
        SweptAbsorbed,
        /// The record that a block is clean precedes the batch of the block.
        CleanBeforeItsBatch,
        /// Blocks that become clean while the journal is full are not recorded as clean later.
        FullJournalCleanForgotten,
        /// The number of a removed volume is free before its removal is durable.
        PartingNotAwaited,
        /// An error of the old device is forgiven if its successor, which does not respond, is abandoned.
        DesertedErrorForgiven,
        /// Reclaim drops unflushed blocks that it cannot move.
        UnreadableUnflushedDropped,
        /// A write that the log has taken only partly passes older dirty copies of its blocks.
        OlderDirtyPassedBy,
        /// After a failed flush, the next flush makes blocks clean that were written during the failed one.
        GatheredOutliveFailedFlush,
        /// A flush of the cache device counts while it is in flight.
        FlushInFlightCounts,
        /// The record of a removed volume drops younger blocks.
        DroppedIgnoresOrder,
        /// A service mark counts although its write failed.
        FailedMarkCounts,
        /// A drain ends before the checkpoint that lists its blocks as clean.
        DrainBeforeCheckpoint,
        /// After a failed durable writeback, earlier unflushed blocks are not written again.
        FailedDurableWritebackAlone,
    }

    static PLANTED: AtomicUsize = AtomicUsize::new(usize::MAX);

    /// Plants a flaw in every engine of this process, or none.
    pub fn plant(mutant: Option<Mutant>) {
        PLANTED.store(mutant.map_or(usize::MAX, |mutant| mutant as usize), Ordering::SeqCst);
    }

    pub(crate) fn is_on(mutant: Mutant) -> bool {
        PLANTED.load(Ordering::Relaxed) == mutant as usize
    }
}
