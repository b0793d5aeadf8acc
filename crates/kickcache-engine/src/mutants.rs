//! Planted flaws, which test the simulator.

/// Whether a flaw is planted.
#[cfg(feature = "mutants")]
macro_rules! mutant {
    ($name:ident) => {
        crate::mutants::is_on(crate::mutants::Mutant::$name)
    };
}

/// Always `false`: no flaw can be planted.
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
        /// A cut lacks the blocks that die before their segment is examined.
        CutLacksDead,
        /// A cut has blocks of open segments that were written after its instant.
        CutHasLater,
        /// A cut examines its segments at two instants.
        CutAtTwoInstants,
        /// A group is committed although its blocks are not durable on the cache device.
        CutNotDurable,
        /// A group is committed before its data is durable on the journal.
        CommitBeforeData,
        /// A commit is not durable when it ends.
        CommitVolatile,
        /// A group reaches the origins before its commit.
        ApplyBeforeCommit,
        /// The blocks of a group are clean before the origins are flushed.
        ReleaseBeforeFlush,
        /// A group is released when one of its origins was flushed.
        ReleaseAfterOneFlush,
        /// A failed write of a group to an origin counts as done.
        ApplyErrorIgnored,
        /// The blocks of a group are clean although a later group has newer versions.
        ReleaseOfNewer,
        /// The slots of a group are free before the new tail is durable.
        TailNotAwaited,
        /// A volatile writeback makes its blocks clean at once.
        CleanBeforeOriginFlush,
        /// A writeback that makes blocks clean without a flush is volatile.
        DurableWritebackVolatile,
        /// A flush of the origin covers writes that ended after its submission.
        WrittenDuringFlushIsClean,
        /// The blocks of a failed flush of the origin become clean.
        OriginFlushErrorIgnored,
        /// A segment counts as empty although an operation refers to it.
        ReuseUnderReader,
        /// A segment is written before the record of its opening is durable.
        ReuseBeforeOpenedIsDurable,
        /// The opening of a segment is recorded before the copies that replace its blocks are durable.
        OpenedBeforeCopiesAreDurable,
        /// Blocks of a fill in flight do not become stale.
        FillOverwritesNewerWrite,
        /// A read joins a fill of blocks that are stale.
        StaleFillJoined,
        /// Drops of single blocks are not recorded.
        GoneNotRecorded,
        /// A write around the log does not wait for the *gone* records.
        GoneNotAwaited,
        /// A write that supersedes dirty blocks may be volatile at the origin.
        SupersededByVolatile,
        /// Blocks are written back while a write at the origin supersedes them.
        SupersededWrittenBack,
        /// A segment may be opened again while blocks in it are read for writeback.
        WritebackReadUnpinned,
        /// A failed read for several writebacks fails only the first one.
        StretchErrorToldOnce,
        /// A write does not wait until its batches have landed.
        AcknowledgedBeforeLanding,
        /// A flush request does not reach the cache device.
        FlushSkipsCacheDevice,
        /// FUA is a plain write for the log.
        FuaIgnored,
        /// The checksum of a hit of whole blocks is ignored.
        ChecksumIgnored,
        /// A damaged dirty block is read from the origin.
        DamagedDirtyFromOrigin,
        /// A summary of an earlier generation of its segment is accepted.
        OldSummaryBelieved,
        /// A summary is written before its batches are durable.
        SummaryBeforeFlush,
        /// Records apply to copies that are younger.
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
        /// The rest of a partial block is not read from the origin.
        MergeForgetsRest,
        /// A write at the origin that replaces others ignores their durability.
        OvertakenVolatile,
        /// A write at the origin replaces an earlier one although it must wait for other accesses too.
        OvertakenAcrossRead,
        /// New space does not wake the writes that wait for it.
        SpaceWaitersForgotten,
        /// A client's write is read before its batch landed.
        ReadBeforeLanding,
        /// Blocks are read although the origin may still refuse their write.
        RefusedRead,
        /// Reclaim drops dirty blocks.
        DirtyDemoted,
        /// A write replaces a block in a batch that is being written.
        AbsorbedTooLate,
        /// Writeback keeps its pages.
        PagesLeaked,
        /// A search misses blocks that were moved meanwhile.
        MovedBlockNotFound,
        /// A dropped block still counts.
        MetadataDrift,
        /// The copy that a lost write superseded is dropped with it.
        OlderCopyForgotten,
        /// Batches are declared durable before they are.
        DurableTooEarly,
        /// Recovery treats rot of durable data as a torn write.
        RotTakenForTorn,
        /// The limit of dirty and unflushed blocks of a volume has no effect.
        NeighboursRoomTaken,
        /// A volume above its space limit gives back blocks that are not clean.
        DirtyGivenBack,
        /// Clients may use the reserved segments.
        ReclaimsRoomTaken,
        /// An older copy of a dropped block may return over a newer one.
        GoneResurfaces,
        /// A failed flush of the origin fails only the requests that waited for it.
        FailedOriginFlushNotTold,
        /// A write may end with success although the origin dropped a part.
        LetGoTakenBack,
        /// A flush request does not reach the origin.
        FlushSkipsOrigin,
        /// A block that waits for the origin's flush is clean once reclaim has moved it.
        CarriedUnflushedIsClean,
        /// Writes bypass a cache device without a record that it is out of service.
        OutOfServiceUnmarked,
        /// An unreadable block is tried again at once.
        UnreadableTriedAtOnce,
        /// Recovery treats unreadable blocks as torn writes.
        UnreadableTakenForTorn,
        /// Recovery treats an unreadable place as one without a batch header.
        UnreadableHeaderIgnored,
        /// Recovery treats an unreadable block of the journal as not needed.
        UnreadableRecordsIgnored,
        /// Recovery treats a durable block of the journal that is missing as never written.
        LostRecordsIgnored,
        /// Recovery ignores the durable journal blocks in the superblock.
        LostJournalIgnored,
        /// Recovery trusts blocks in a checkpoint that their segment lacks.
        OverwrittenIgnored,
        /// Recovery ignores the absence of *opened* records.
        LostOpeningsIgnored,
        /// Recovery treats an unreadable first block of a segment as never written.
        UnreadableFirstIgnored,
        /// Unflushed blocks of a restarted origin still wait for its flush.
        RestartForgotten,
        /// A flush that was in flight when the origin restarted still makes blocks clean.
        FlushOutlivesRestart,
        /// A write without a copy in the log may be volatile at a remote origin.
        WriteWithoutCopyVolatile,
        /// Unflushed blocks are not stale in a fill from a remote origin.
        FillOutlivesRestart,
        /// A block that is unreadable on the cache device is read from a remote origin that has not flushed it.
        HealOutlivesRestart,
        /// The new part of a cache device is used before its superblock is durable.
        GrowthNotAwaited,
        /// In the new part of a cache device, segments begin with generations that old structures there may have.
        OldGenerationsUsedAgain,
        /// A write to a copied part is not mirrored.
        CopiedPartNotMirrored,
        /// A part is copied while writes to it are in flight.
        CopiedUnderWrites,
        /// A flush does not reach the successor.
        FlushSkipsSuccessor,
        /// Operations wait for an abandoned successor for ever.
        SilentSuccessorAwaited,
        /// A cache device is left out without a record.
        LeftOutUnmarked,
        /// The blocks of a removed volume are not recorded as dropped.
        PartingNotRecorded,
        /// A new engine assumes that the origins have no unflushed writes.
        OriginsTakenForFlushed,
        /// An error of a successor during the copy is ignored.
        SuccessorErrorForgiven,
        /// The engine receives an error of a successor during the copy.
        SuccessorErrorTold,
        /// The engine does not receive an error of the new device after sealing.
        SealedSuccessorErrorForgiven,
        /// The engine does not receive an error of the old device after sealing.
        SealedOldErrorForgiven,
        /// A part is copied while older writes are in flight.
        WritesBeforeMirrorIgnored,
        /// The engine still uses the old device during the takeover.
        PartingNotHeld,
        /// The device of a different replacement counts as the successor.
        SuccessorOfAnother,
        /// A device without a higher start number counts as the successor.
        OlderSuccessor,
        /// An origin flush that started with dirty blocks in the log completes a volume.
        CompleteTooEarly,
        /// The out-of-service mark omits volumes with unflushed and no dirty blocks.
        UnflushedCalledComplete,
        /// A failed flush completes a volume.
        CompleteAfterFailedFlush,
        /// Out of service, a client's flush may omit an unflushed origin.
        FlushWithoutOrigin,
        /// A superseding write ends before its journal records are durable.
        SupersedingNotAwaited,
        /// A superseding write does not drop clean blocks before the origin has it.
        CleanNotForgotten,
        /// A refused write past the log leaves unflushed blocks unflushed.
        RefusedStaysUnflushed,
        /// Blocks become clean while a write at the origin supersedes them.
        ReplacedBecomesClean,
        /// A write around the log overwrites unflushed blocks.
        UnflushedPassedBy,
        /// A failed discard or write does not restore the blocks that it removed.
        DiscardedNotBroughtBack,
        /// A checkpoint keeps chunks that are older than a failed batch.
        OutdatedCheckpoint,
        /// Recovery accepts a checkpoint without one of its chunks.
        PartialCheckpoint,
        /// A checkpoint ends after its first group of chunks.
        CheckpointEndsEarly,
        /// A checkpoint ends before its flush.
        CheckpointNotFlushed,
        /// A checkpoint ignores the write error of a chunk.
        FailedChunkIgnored,
        /// Reclaim reuses emptied segments despite a failed batch.
        EmptiedDespiteFailure,
        /// A refused write drops a block that must stay unflushed.
        KeptForgotten,
        /// A failed write removes a block that replaced a dirty one.
        OlderDirtyForgotten,
        /// A block of a failed write counts as present at the origin.
        RefusedIsAtOrigin,
        /// A failed write removes newer blocks of other writes.
        UndoneForOthers,
        /// Writeback skips the blocks of a completed write.
        KeptStaysInSweep,
        /// A failed batch releases the older copy of a block too early.
        PassedOnForgotten,
        /// A write ends before its blocks are rewritten after a failed batch.
        LostBatchNotAwaited,
        /// A durable write ends although its failed batch was replaced by a volatile one.
        LostDurableIgnored,
        /// Reclaim reuses a segment while recovery writes its summary.
        SealUnpinned,
        /// A fill in flight survives a discard of its blocks.
        DiscardJoinsFill,
        /// Merged writes that the origin refused are not repeated one by one.
        RefusedTogether,
        /// Writes that bypass the log do not wait for *gone* records.
        GoneNotCounted,
        /// In a batch, a write replaces the block of an unfinished write through the log.
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

    /// Plants a flaw in the engines of this process, or none.
    pub fn plant(mutant: Option<Mutant>) {
        PLANTED.store(mutant.map_or(usize::MAX, |mutant| mutant as usize), Ordering::SeqCst);
    }

    pub(crate) fn is_on(mutant: Mutant) -> bool {
        PLANTED.load(Ordering::Relaxed) == mutant as usize
    }
}
