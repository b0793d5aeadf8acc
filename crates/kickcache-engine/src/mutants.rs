//! Flaws that a test plants to prove that the simulator would find them; compiled in with the feature `mutants` only.

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
                /// All of them.
                pub const ALL: &[Mutant] = &[$(Mutant::$name),*];
            }
        };
    }

    mutants! {
        /// A block is clean once it was written to the origin.
        CleanBeforeOriginFlush,
        /// A failed flush of the origin counts as one that went well.
        OriginFlushErrorIgnored,
        /// A segment is opened again while a read of it is in flight.
        ReuseUnderReader,
        /// A segment is written before it is on record that it was opened.
        ReuseBeforeOpenedIsDurable,
        /// It is put on record that a segment was opened before what took the place of its blocks is durable.
        OpenedBeforeCopiesAreDurable,
        /// A fill does not hear of writes while it is in flight.
        FillOverwritesNewerWrite,
        /// A read joins a fill in flight that is older than a write.
        StaleFillJoined,
        /// What is forgotten is not put on record.
        GoneNotRecorded,
        /// A write around the log does not wait for the record.
        GoneNotAwaited,
        /// A write that supersedes what only the log has is volatile at the origin.
        SupersededByVolatile,
        /// What the origin is about to supersede is written back meanwhile.
        SupersededWrittenBack,
        /// A segment may be opened again while blocks of it are read for writeback.
        WritebackReadUnpinned,
        /// What could not be read for several writebacks fails the first of them alone.
        StretchErrorToldOnce,
        /// A write is acknowledged when it joins a batch.
        AcknowledgedBeforeLanding,
        /// A flush does not reach the cache device.
        FlushSkipsCacheDevice,
        /// FUA is a plain write for the log.
        FuaIgnored,
        /// A hit is handed out whatever its checksum.
        ChecksumIgnored,
        /// A damaged dirty block is read from the origin.
        DamagedDirtyFromOrigin,
        /// A summary of an earlier generation of its segment is believed.
        OldSummaryBelieved,
        /// A summary is written before its batches are durable.
        SummaryBeforeFlush,
        /// Records apply to copies that are younger than they.
        RecordsIgnoreOrder,
        /// The copy that recovery reads last wins.
        LastReadCopyWins,
        /// Recovery takes dirty blocks for clean.
        RecoveredAsClean,
        /// A discard of a local origin counts as durable.
        LocalDiscardDurable,
        /// Recovery trusts what a dead process left in volatile memory.
        RecoveryWithoutFlush,
        /// Copies go to the origin that are not durable in the log.
        WritebackOfVolatileCopy,
        /// Overlapping accesses to the origin go side by side.
        OverlapsUnordered,
        /// A checkpoint is written before what it says is durable.
        CheckpointBeforeDurable,
        /// A partial block is completed without what stands around it.
        MergeForgetsRest,
        /// A write at the origin is no more durable than it must be itself, though it stands for others.
        OvertakenVolatile,
        /// A write at the origin stands for an earlier one though a read waits between them.
        OvertakenAcrossRead,
        /// Writes that wait for room are not told of it.
        SpaceWaitersForgotten,
        /// What a client writes is read before its batch landed.
        ReadBeforeLanding,
        /// What the origin may still refuse, and is forgotten then, is read.
        RefusedRead,
        /// Reclaim forgets dirty blocks.
        DirtyDemoted,
        /// A write replaces a block whose batch is on its way to the device.
        AbsorbedTooLate,
        /// Writeback keeps its pages.
        PagesLeaked,
        /// A search misses blocks that reclaim moves to segments behind it.
        MovedBlockNotFound,
        /// A block that is forgotten still counts.
        MetadataDrift,
        /// What a lost write superseded is forgotten with it.
        OlderCopyForgotten,
        /// Headers say of batches that they are durable before they are.
        DurableTooEarly,
        /// Recovery takes rot of what was durable for a torn write.
        RotTakenForTorn,
        /// A volume may fill the whole log with what its origin refuses.
        NeighboursRoomTaken,
        /// A volume that has more of the cache than its room gives back what its origin lacks.
        DirtyGivenBack,
        /// Clients may take the segments without which reclaim cannot go on.
        ReclaimsRoomTaken,
        /// An older copy that was forgotten may come back over a newer one.
        GoneResurfaces,
        /// A failed flush of the origin that no client waited for is told to none.
        FailedOriginFlushNotTold,
        /// A write of which the origin let go of a part ends well if it took a later part.
        LetGoTakenBack,
        /// A flush does not reach the origin.
        FlushSkipsOrigin,
        /// A block that waits for the origin's flush is clean once reclaim has carried it on.
        CarriedUnflushedIsClean,
        /// Writes go past a cache device out of service before that is on record.
        OutOfServiceUnmarked,
        /// A block that cannot be read is tried again at once, and as long as it takes.
        UnreadableTriedAtOnce,
        /// Recovery takes a block that it cannot read for one of a torn write.
        UnreadableTakenForTorn,
        /// Recovery takes a place that it cannot read for one where no batch header stands.
        UnreadableHeaderIgnored,
        /// Recovery takes a block of the journal that it cannot read for one that it does not need.
        UnreadableRecordsIgnored,
        /// Recovery takes a block of the journal that was durable, and is not there, for one that was never written.
        LostRecordsIgnored,
        /// Recovery takes a journal of which nothing is left for one that nobody has written to.
        LostJournalIgnored,
        /// Recovery does not look whether what a checkpoint says of a segment is there.
        OverwrittenIgnored,
        /// Recovery does not look whether segments were opened of which the journal says nothing.
        LostOpeningsIgnored,
        /// Recovery takes the first block of a segment that it cannot read for one that nobody has written to.
        UnreadableFirstIgnored,
        /// What a restarted origin had not flushed still waits for its flush.
        RestartForgotten,
        /// A flush that was in flight when the origin restarted still makes blocks clean.
        FlushOutlivesRestart,
        /// What has no copy in the log may be lost by a remote origin after it ended.
        WriteWithoutCopyVolatile,
        /// A read takes what a restarted origin had not flushed from a fill that was under way.
        FillOutlivesRestart,
        /// What cannot be read from the cache device is read from a remote origin that has not flushed it.
        HealOutlivesRestart,
        /// What a cache device has grown by is used before the superblock that says so is durable.
        GrowthNotAwaited,
        /// Where a cache device grows into, segments begin with generations that old structures there may have.
        OldGenerationsUsedAgain,
        /// What was copied to a device that takes over is written on the old device alone.
        CopiedPartNotMirrored,
        /// A part is copied while writes to it are in flight.
        CopiedUnderWrites,
        /// A flush does not reach the device that takes over.
        FlushSkipsSuccessor,
        /// What has ended on the old device, and waited for a new one that is given up, never ends.
        SilentSuccessorAwaited,
        /// A cache device that is left out by order is not put on record.
        LeftOutUnmarked,
        /// What a volume that goes leaves in the log is not on record as forgotten.
        PartingNotRecorded,
        /// An engine that takes the place of another one does not know that origins were given something before.
        OriginsTakenForFlushed,
        /// An error of a successor during the copy is ignored.
        SuccessorErrorForgiven,
        /// An error of a successor during the copy is passed on to the engine.
        SuccessorErrorTold,
        /// An error of the new device after sealing is hidden from the engine.
        SealedSuccessorErrorForgiven,
        /// An error of the old device after sealing is hidden from the engine.
        SealedOldErrorForgiven,
        /// The copy of a part starts beside a write that is older than the replacement.
        WritesBeforeMirrorIgnored,
        /// The engine still writes to the old device after the last superblock.
        PartingNotHeld,
        /// A device of another replacement counts as the successor.
        SuccessorOfAnother,
        /// A device with an older start count than the old one counts as the successor.
        OlderSuccessor,
        /// Any origin flush completes a volume, even one that started with dirty blocks in the log.
        CompleteTooEarly,
        /// The out-of-service mark omits volumes with unflushed blocks.
        UnflushedCalledComplete,
        /// A failed flush completes a volume.
        CompleteAfterFailedFlush,
        /// A durable write past a cache device out of service needs no origin flush.
        PastCacheNotFlushed,
        /// Out of service, a client flush does not include the origin.
        FlushWithoutOrigin,
        /// A superseding write ends before its journal records are durable.
        SupersedingNotAwaited,
        /// A superseding write keeps clean copies of its blocks.
        CleanNotForgotten,
        /// A failed superseding write leaves unflushed blocks unflushed.
        RefusedStaysUnflushed,
        /// An origin flush makes blocks clean beside a superseding write of the same blocks.
        ReplacedBecomesClean,
        /// A write goes around the log over unflushed blocks.
        UnflushedPassedBy,
        /// A failed discard does not restore the blocks that it removed.
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
        /// A failed batch releases the older copy of a block whose newer copy is in flight.
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
        /// Writes past the log do not wait for the newest removal record.
        GoneNotCounted,
        /// A write replaces a block in memory while writeback reads it.
        SweptAbsorbed,
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
