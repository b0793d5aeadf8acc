//! A device without data, for replays, benches and tests.
//!
//! Every block has the checksum zero, and the cache device reads as zeroes.

use crate::cache_engine::CacheEngine;
use crate::device::{Checksums, Completion, Data, DeviceOperation};
use crate::time::Instant;
use crate::units::{BLOCK_SIZE, Checksum};

/// The checksums of the longest request, 32 MiB.
static CHECKSUMS: [Checksum; 8192] = [Checksum::new(0); 8192];
/// The bytes of a segment, the longest read of metadata.
static ZEROES: [u8; 4 << 20] = [0; 4 << 20];

/// The checksums of this many blocks, at most 8192.
pub fn checksums(count: usize) -> &'static [Checksum] {
    &CHECKSUMS[..count]
}

/// The data of a successful completion; `None` if there is no completion.
pub fn data_of(operation: &DeviceOperation) -> Option<Data<'static>> {
    let (count, bytes): (usize, &[u8]) = match operation {
        DeviceOperation::Copy { checksums, .. } | DeviceOperation::Zero { checksums, .. } => {
            match checksums {
                Checksums::Compute => (1, &[]),
                Checksums::Skip => return None,
            }
        }
        DeviceOperation::Read { pieces, checksums: Checksums::Compute, .. } => {
            (usize::try_from(pieces.length() / BLOCK_SIZE).expect("at most 32 MiB"), &[])
        }
        DeviceOperation::ReadMetadata { extent } => {
            (0, &ZEROES[..usize::try_from(extent.length).expect("at most a segment")])
        }
        DeviceOperation::Read { .. }
        | DeviceOperation::Write { .. }
        | DeviceOperation::WriteMetadata { .. }
        | DeviceOperation::Flush { .. }
        | DeviceOperation::Discard { .. }
        | DeviceOperation::WriteZeroes { .. }
        | DeviceOperation::NoteOutOfService { .. } => (0, &[]),
    };
    Some(Data { checksums: checksums(count), bytes })
}

/// Completes all submissions of an engine with success.
pub fn run(engine: &mut impl CacheEngine, now: Instant) {
    while let Some(submission) = engine.poll_submission() {
        if let Some(data) = data_of(&submission.operation) {
            engine.handle_completion(now, Completion { id: submission.id, result: Ok(data) });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{EngineSettings, VolumeSettings};
    use crate::engine::{Engine, Phase};
    use crate::format::superblock::Superblock;
    use crate::request::{Operation, Request, RequestId};
    use crate::units::ByteExtent;

    #[test]
    fn an_engine_recovers_on_it_and_answers_a_read_twice() {
        let mut superblock = Superblock::new([1; 16], 64 << 20).unwrap();
        let volume = superblock.add_volume("v", 1 << 30, "v").unwrap();
        let settings = [VolumeSettings::new(volume)];
        let mut engine =
            Engine::open(Instant::ZERO, &superblock, EngineSettings::default(), &settings).unwrap();
        run(&mut engine, Instant::ZERO);
        assert_eq!(engine.phase(), Phase::Running);
        for _ in 0..2 {
            let extent = ByteExtent { start: 1000, length: 9000 };
            let (id, operation) = (RequestId::new(1), Operation::Read);
            engine.handle_request(Instant::ZERO, Request { id, volume, operation, extent, checksums: &[] });
            run(&mut engine, Instant::ZERO);
            assert_eq!(engine.poll_reply().map(|reply| (reply.id, reply.result)), Some((id, Ok(()))));
        }
        assert!(engine.status().volumes[0].counters.hit_blocks > 0, "the second one is a hit");
    }
}
