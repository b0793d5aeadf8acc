//! Makes a cache device that is full of 4 KiB blocks, for measurements of recovery: the metadata is written
//! by the real engine; the data, all zeroes, stays a hole in the file.
//!
//! `cargo run --release -p kickcache --example full_cache -- FILE GIBIBYTES ORIGIN_GIBIBYTES [stop]`: as `kill -9` leaves
//! it, or with `stop` as a daemon does that was stopped.

use std::fs::File;
use std::os::unix::fs::FileExt;

use anyhow::{Context, bail};
use kickcache_engine::config::{Admission, EngineSettings, SequentialCutoff, VolumeSettings};
use kickcache_engine::device::{Completion, Data, DeviceOperation, Submission};
use kickcache_engine::engine::{Engine, Phase};
use kickcache_engine::format::bytes::crc32c;
use kickcache_engine::format::mark::{MARK_OFFSETS, ServiceMark};
use kickcache_engine::format::superblock::{SUPERBLOCK_OFFSETS, Superblock};
use kickcache_engine::request::{Durability, Operation, Request, RequestId};
use kickcache_engine::time::{Duration, Instant};
use kickcache_engine::units::{ByteExtent, Checksum, VolumeId};
use rustix::fs::{FallocateFlags, fallocate};

/// Of a request.
const REQUEST_BYTES: u64 = 64 << 10;
const BLOCKS_MAX: usize = 256;

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [path, size, origin, end @ ..] = arguments.as_slice() else {
        bail!("usage: full_cache FILE GIBIBYTES ORIGIN_GIBIBYTES [stop]");
    };
    let (size, origin): (u64, u64) = (size.parse::<u64>()? << 30, origin.parse::<u64>()? << 30);
    let file = File::options().read(true).write(true).create(true).truncate(true).open(path)?;
    file.set_len(size)?;
    let mut superblock = Superblock::new([7; 16], size)?;
    let volume = superblock.add_volume("v", origin, "full_cache")?;
    for offset in SUPERBLOCK_OFFSETS {
        file.write_all_at(&superblock.encode(), offset)?;
    }
    for offset in MARK_OFFSETS {
        file.write_all_at(&ServiceMark::InService.encode(superblock.uuid), offset)?;
    }
    let settings = VolumeSettings {
        admission: Admission::Always,
        sequential_cutoff: SequentialCutoff::Off,
        fill_window_max: REQUEST_BYTES,
        ..VolumeSettings::new(volume)
    };
    let engine = Engine::open(Instant::ZERO, &superblock, EngineSettings::default(), &[settings])?;
    let mut filler =
        Filler { engine, file, now: Instant::ZERO, checksums: vec![crc32c(&[0; 4096]); BLOCKS_MAX] };
    filler.drive()?;
    filler.fill(volume, origin)?;
    if end.first().is_some_and(|end| end == "stop") {
        filler.engine.stop(filler.now);
        while filler.engine.phase() != Phase::Stopped {
            filler.drive()?;
        }
    }
    let status = filler.engine.status();
    let cached: u64 = status.volumes.iter().map(|volume| volume.cached_blocks).sum();
    eprintln!(
        "{path}: {} of {} blocks hold data, {} of {} segments are free, {} checkpoints, {} records",
        cached,
        status.capacity_blocks,
        status.free_segments,
        status.segments,
        status.counters.checkpoints,
        status.counters.journal_records
    );
    filler.file.sync_all().context("the file cannot be written")
}

struct Filler {
    engine: Engine,
    file: File,
    now: Instant,
    checksums: Vec<Checksum>,
}

impl Filler {
    /// Extents of the origin, in an order without sequences; one in four is written.
    fn fill(&mut self, volume: VolumeId, origin: u64) -> anyhow::Result<()> {
        let count = origin / REQUEST_BYTES;
        let step = (count * 618 / 1000) | 1;
        for number in 0..count {
            let extent = ByteExtent { start: number * step % count * REQUEST_BYTES, length: REQUEST_BYTES };
            let is_write = number % 4 == 0;
            let blocks = usize::try_from(REQUEST_BYTES / 4096)?;
            let sums = self.checksums.get(..blocks).filter(|_| is_write).unwrap_or_default().to_vec();
            let operation = if is_write { Operation::Write(Durability::Volatile) } else { Operation::Read };
            let request = Request { id: RequestId::new(1), volume, operation, extent, checksums: &sums };
            self.engine.handle_request(self.now, request);
            self.drive()?;
        }
        Ok(())
    }

    fn drive(&mut self) -> anyhow::Result<()> {
        while let Some(submission) = self.engine.poll_submission() {
            self.perform(&submission)?;
        }
        while self.engine.poll_reply().is_some() {}
        self.now = self.now.plus(Duration::from_millis(1));
        if self.engine.poll_timeout().is_some_and(|due| due <= self.now) {
            self.engine.handle_timeout(self.now);
        }
        Ok(())
    }

    fn perform(&mut self, submission: &Submission) -> anyhow::Result<()> {
        let mut bytes = Vec::new();
        match &submission.operation {
            DeviceOperation::ReadMetadata { extent } => {
                bytes.resize(usize::try_from(extent.length)?, 0);
                self.file.read_exact_at(&mut bytes, extent.start)?;
            }
            DeviceOperation::WriteMetadata { offset, bytes, pieces, .. } => {
                self.file.write_all_at(bytes, *offset)?;
                // The previous data is overwritten with zeroes.
                let length: u64 = pieces.iter().map(|piece| u64::from(piece.length)).sum();
                if length > 0 {
                    let mode = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                    fallocate(&self.file, mode, offset + bytes.len() as u64, length)?;
                }
            }
            // The engine expects no completion of a copy or of zeroes unless it requests a checksum.
            DeviceOperation::Copy { .. } | DeviceOperation::Zero { .. } => return Ok(()),
            DeviceOperation::Read { .. }
            | DeviceOperation::Write { .. }
            | DeviceOperation::NoteOutOfService { .. }
            | DeviceOperation::Flush { .. }
            | DeviceOperation::Discard { .. }
            | DeviceOperation::WriteZeroes { .. } => {}
        }
        let data = Data { checksums: &self.checksums, bytes: &bytes };
        self.engine.handle_completion(self.now, Completion { id: submission.id, result: Ok(data) });
        Ok(())
    }
}
