//! The tools on real cache devices: a server in this process fills them, and every sort of damage is done to copies.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use kickcache_engine::config::{EngineSettings, Mode, VolumeSettings};
use kickcache_engine::units::{BLOCK_BYTES, SegmentIndex, VolumeId};

use super::change::repair;
use super::check::{Findings, Verdict, check};
use super::*;
use crate::driver::checksum::checksum;
use crate::driver::executor::IoEngine;
use crate::export::nbd::client::{Client, ConnectOptions};
use crate::serve::config::{
    CacheConfig, CacheService, Limits, NbdAddress, OriginContent, OriginGrowth, OriginMove, OriginSource,
    ServerConfig, SignalPolicy, TcpPolicy, VolumeConfig, WriteAccess,
};
use crate::serve::server::Server;

const BLOCKS: u64 = 1024;
const BLOCK: usize = BLOCK_BYTES;

/// A cache device with clean and dirty blocks, and the origin below it.
struct Image {
    folder: tempfile::TempDir,
    /// What each block of the volume must read as.
    expected: Vec<u8>,
}

/// How the server that made an image ended.
#[derive(Clone, Copy, PartialEq)]
enum Ending {
    Clean,
    /// As the last write left it.
    Cut,
}

/// The content of a block: no two are alike.
fn content(block: u64, version: u64) -> [u8; BLOCK] {
    let mut bytes = [0; BLOCK];
    for (at, word) in bytes.chunks_exact_mut(8).enumerate() {
        let mixed = (block << 32 | version << 12 | at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        word.copy_from_slice(&mixed.to_le_bytes());
    }
    bytes
}

impl Image {
    fn cache(&self) -> PathBuf {
        self.folder.path().join("cache")
    }

    fn origin(&self) -> PathBuf {
        self.folder.path().join("origin")
    }

    /// Reads, writes over and over, discards: records of every kind, segments of both queues, several lives.
    fn make(ending: Ending) -> Image {
        let folder = tempfile::Builder::new().tempdir_in("/var/tmp").unwrap();
        let expected: Vec<u8> = (0..BLOCKS).flat_map(|block| content(block, 0)).collect();
        let mut image = Image { folder, expected };
        fs::write(image.origin(), &image.expected).unwrap();
        for life in 1..=3 {
            let server = Server::start(image.config()).unwrap();
            let mut client = image.client();
            image.work(&mut client, life);
            if ending == Ending::Cut && life == 3 {
                // The server goes on with writeback and stops in order; the copies are of this moment.
                fs::copy(image.cache(), image.folder.path().join("cut")).unwrap();
                fs::copy(image.origin(), image.folder.path().join("origin cut")).unwrap();
            }
            client.disconnect().unwrap();
            server.stop();
            server.join().unwrap();
        }
        if ending == Ending::Cut {
            fs::rename(image.folder.path().join("cut"), image.cache()).unwrap();
            fs::rename(image.folder.path().join("origin cut"), image.origin()).unwrap();
        }
        image
    }

    fn config(&self) -> ServerConfig {
        let settings = VolumeSettings {
            mode: Mode::WriteBack,
            sequential_cutoff: None,
            // Dirty blocks stay dirty.
            idle_after: kickcache_engine::time::Duration::from_millis(600_000),
            dirty_low: 1000,
            dirty_high: 1000,
            dirty_limit: 1000,
            ..VolumeSettings::new(VolumeId::new(0))
        };
        ServerConfig {
            cache: CacheConfig { path: self.cache(), size: Some(8 << 20), service: CacheService::InService },
            volumes: vec![VolumeConfig {
                name: "v".into(),
                origin: OriginSource::Path(self.origin()),
                settings,
                exports: vec![NbdAddress::Unix(self.folder.path().join("socket"))],
                vhost_user: None,
                write_access: WriteAccess::ReadWrite,
                origin_move: OriginMove::Refuse,
                origin_growth: OriginGrowth::Refuse,
                origin_content: OriginContent::Kept,
            }],
            io_engine: IoEngine::Auto,
            engine: EngineSettings::default(),
            limits: Limits::default(),
            tcp: TcpPolicy::LoopbackOnly,
            signals: SignalPolicy::Ignore,
        }
    }

    fn client(&self) -> Client {
        let options = ConnectOptions { export: "v".into(), ..ConnectOptions::default() };
        Client::connect_unix(self.folder.path().join("socket"), &options).unwrap()
    }

    fn work(&mut self, client: &mut Client, life: u64) {
        let mut piece = vec![0; 8 * BLOCK];
        for block in (0..BLOCKS / 2).step_by(8) {
            client.read_at(block * 4096, &mut piece).unwrap();
        }
        for round in 0..3 {
            for block in (life..300).step_by(7) {
                self.write(client, block, life * 10 + round);
            }
            client.flush().unwrap();
        }
        client.trim(200 * 4096, 20 * 4096).unwrap();
        client.read_at(200 * 4096, &mut piece).unwrap();
        let mut whole = vec![0; 20 * BLOCK];
        client.read_at(200 * 4096, &mut whole).unwrap();
        self.expected[200 * BLOCK..220 * BLOCK].copy_from_slice(&whole);
        for block in 600..620 {
            self.write(client, block, life);
        }
        client.flush().unwrap();
    }

    fn write(&mut self, client: &mut Client, block: u64, version: u64) {
        let bytes = content(block, version);
        client.write_at(block * 4096, &bytes).unwrap();
        let at = usize::try_from(block).unwrap() * BLOCK;
        self.expected[at..at + BLOCK].copy_from_slice(&bytes);
    }

    /// What a client would read of each block: its bytes, or `None` for an error.
    fn blocks(&self, books: &Books) -> Vec<Option<Vec<u8>>> {
        let origin = fs::read(self.origin()).unwrap();
        let mut blocks: Vec<_> = origin.chunks(BLOCK).map(|block| Some(block.to_vec())).collect();
        let geometry = books.superblock().geometry;
        for block in (0..geometry.segment_count)
            .map(SegmentIndex::new)
            .flat_map(|segment| books.engine().blocks_in(segment))
        {
            let start = geometry.byte_offset(block.location);
            let data = books.source().read(ByteExtent { start, length: BLOCK_SIZE }).ok();
            let found = data.filter(|data| checksum(data) == block.checksum);
            let at = usize::try_from(block.block.get()).unwrap();
            match (found, block.is_dirty) {
                (Some(data), _) => blocks[at] = Some(data),
                (None, true) => blocks[at] = None,
                (None, false) => {}
            }
        }
        blocks
    }

    /// Whether every block reads as it must, or fails; how many fail. `Err` names a block with wrong data.
    fn verify(&self, path: &Path) -> Result<usize, u64> {
        let Ok(books) = Books::read(Source::open(path).unwrap()) else {
            // Refused.
            return Ok(self.expected.len() / BLOCK);
        };
        let mut failed = 0;
        for (number, block) in (0..).zip(self.blocks(&books)) {
            let at = usize::try_from(number).unwrap() * BLOCK;
            match block {
                None => failed += 1,
                Some(bytes) if bytes == self.expected[at..at + BLOCK] => {}
                Some(_) => return Err(number),
            }
        }
        Ok(failed)
    }
}

/// Turns one bit over and gives the old byte.
fn flip(path: &Path, at: u64, bit: u32) {
    let file = File::options().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ (1 << bit)], at).unwrap();
}

/// Every how many-th byte is flipped; 1 is all of them, which takes hours.
fn step() -> usize {
    std::env::var("KICKCACHE_FLIP_STEP").ok().and_then(|step| step.parse().ok()).unwrap_or(6151)
}

/// Flips bytes, one at a time; gives those that led to wrong data, and the first wrong block of each.
fn flip_bytes(ending: Ending) -> Vec<(u64, u64)> {
    let image = Image::make(ending);
    let path = image.cache();
    assert_eq!(image.verify(&path), Ok(0), "without a flip");
    let (mut count, mut refused, mut failed) = (0, 0, 0);
    let mut wrong = Vec::new();
    for at in places(&path) {
        let bit = u32::try_from(at % 8).unwrap();
        flip(&path, at, bit);
        match image.verify(&path) {
            Ok(0) => {}
            Ok(blocks) if blocks == image.expected.len() / BLOCK => refused += 1,
            Ok(_) => failed += 1,
            Err(block) => wrong.push((at, block)),
        }
        flip(&path, at, bit);
        count += 1;
    }
    eprintln!(
        "{count} flips: {refused} refused, {failed} with a block that fails, {} with wrong data, the others made no \
         difference",
        wrong.len()
    );
    wrong
}

/// Bytes to flip: in everything that is not a hole.
fn places(path: &Path) -> Vec<u64> {
    let bytes = fs::read(path).unwrap();
    let blocks = (0u64..).zip(bytes.chunks(BLOCK));
    let full = blocks.filter(|(_, block)| block.iter().any(|byte| *byte != 0)).map(|(index, _)| index * 4096);
    let places: Vec<u64> = full.flat_map(|start| start..start + 4096).collect();
    places.into_iter().step_by(step()).collect()
}

#[test]
fn a_flipped_byte_after_a_clean_stop_is_never_wrong_data() {
    let wrong = flip_bytes(Ending::Clean);
    assert!(wrong.is_empty(), "{} flips gave wrong data, such as {:?}", wrong.len(), wrong.first());
}

/// What a killed process wrote last has no second witness: there a flip looks like a torn write.
#[test]
fn a_flipped_byte_after_a_crash_is_no_panic() {
    flip_bytes(Ending::Cut);
}

#[test]
fn a_truncated_cache_device_is_refused() {
    let image = Image::make(Ending::Clean);
    let path = image.cache();
    let length = fs::metadata(&path).unwrap().len();
    for end in (0..length / 4096).rev().map(|block| block * 4096) {
        File::options().write(true).open(&path).unwrap().set_len(end).unwrap();
        let refused = Books::read(Source::open(&path).unwrap()).map(|_| ()).unwrap_err().to_string();
        assert!(refused.contains("restore the device's size") || end < 1 << 15, "{end}: {refused}");
    }
}

#[test]
fn a_damaged_journal_makes_clean_blocks_suspect_and_a_repair_drops_them() {
    let image = Image::make(Ending::Cut);
    let path = image.cache();
    assert_eq!(look(&path).verdict, Verdict::Good);
    // Not the newest block, which could have been torn by a power cut.
    let books = Books::read(Source::open(&path).unwrap()).unwrap();
    let number = books.engine().journal_span().end - 2;
    drop(books);
    flip(&path, (1 << 20) + number % 64 * 4096 + 70, 3);
    let found = look(&path);
    assert_eq!((found.verdict, found.journal.damaged_needed.as_slice()), (Verdict::Suspect, &[number][..]));
    let dirty = found.volumes[0].dirty_blocks;
    repair(&path, &found.damaged_clean).unwrap();
    let after = look(&path);
    assert_eq!(after.verdict, Verdict::Good);
    assert_eq!((after.volumes[0].clean_blocks, after.volumes[0].dirty_blocks), (0, dirty));
}

fn look(path: &Path) -> Findings {
    check(path, &mut |_, _| {}).unwrap()
}

fn sentence(path: &Path) -> String {
    format!("{:#}", anyhow::Error::from(read(path).unwrap_err())).replace(&path.display().to_string(), "PATH")
}

#[test]
fn what_is_no_cache_device_is_refused_with_a_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("c");
    assert_eq!(sentence(&path), "cannot read PATH: No such file or directory (os error 2)");
    assert_eq!(
        sentence(folder.path()),
        "PATH is neither a regular file nor a block device; give a cache device"
    );
    for bytes in [&b""[..], b"x", &[0; 511], &[0xff; 4095], &[0; 2 << 20]] {
        fs::write(&path, bytes).unwrap();
        assert!(
            sentence(&path).starts_with("PATH: this is not a kickcache cache device"),
            "{}",
            sentence(&path)
        );
    }
}

#[test]
fn a_device_in_use_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("c");
    let file = File::create(&path).unwrap();
    file.lock().unwrap();
    assert_eq!(sentence(&path), "PATH is in use; if a daemon serves it, ask that one: kickcache status");
}
