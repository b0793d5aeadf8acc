//! The tools on real cache devices: a server in this process fills them, and the tests damage them.

mod flips;
mod image;

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

use image::{Ending, Image};
use kickcache_engine::format::bytes::Writer;
use kickcache_engine::format::journal::{JOURNAL_MAGIC, JournalBlock};
use kickcache_engine::units::BLOCK_BYTES;

use super::change::repair;
use super::check::{Findings, Verdict, check};
use super::*;
use crate::devices::offline::metadata::Metadata;
use crate::devices::offline::offline_device::OfflineDevice;
use crate::serve::config::StatePlace;

fn flip(path: &Path, at: u64, bit: u32) {
    let file = File::options().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ (1 << bit)], at).unwrap();
}

#[test]
fn a_truncated_cache_device_is_refused() {
    let image = Image::make(Ending::Clean);
    let path = image.cache();
    let length = fs::metadata(&path).unwrap().len();
    for end in (0..length / 4096).rev().map(|block| block * 4096) {
        File::options().write(true).open(&path).unwrap().set_len(end).unwrap();
        let refused = Metadata::read(open(&path)).map(|_| ()).unwrap_err().to_string();
        assert!(refused.contains("restore the device's size") || end < 1 << 15, "{end}: {refused}");
    }
}

#[test]
fn a_damaged_journal_makes_a_repair_drop_clean_blocks() {
    let image = Image::make(Ending::Cut);
    let path = image.cache();
    assert_eq!(look(&path).verdict, Verdict::Good);
    let metadata = Metadata::read(open(&path)).unwrap();
    let number = metadata.engine().journal_span().end - 2;
    drop(metadata);
    flip(&path, (1 << 20) + number % 64 * 4096 + 70, 3);
    let found = look(&path);
    assert_eq!((found.verdict, found.journal.damaged_needed.as_slice()), (Verdict::Suspect, &[number][..]));
    let dirty = found.volumes[0].dirty_blocks;
    when_free(|| repair(&path, &found.damaged_clean, &StatePlace::NotKept)).unwrap();
    let after = look(&path);
    assert_eq!(after.verdict, Verdict::Good);
    assert_eq!((after.volumes[0].clean_blocks, after.volumes[0].dirty_blocks), (0, dirty));
}

/// A block of another cache, which a device of this layout cannot decode, in the journal.
#[test]
fn remains_of_another_layout_are_no_damage() {
    let image = Image::make(Ending::Cut);
    let path = image.cache();
    let metadata = Metadata::read(open(&path)).unwrap();
    let number = metadata.engine().journal_span().end - 1;
    let geometry = metadata.superblock().geometry;
    drop(metadata);
    let before = look(&path);
    let mut block = Writer::new(JOURNAL_MAGIC, BLOCK_BYTES);
    block.put_u32(1);
    block.put(&[7; 16]);
    let block = block.finish();
    assert_eq!(JournalBlock::decode(&block, &geometry), None);
    let file = File::options().write(true).open(&path).unwrap();
    file.write_all_at(&block, (1 << 20) + number % 64 * 4096).unwrap();
    let after = look(&path);
    assert_eq!(after.verdict, Verdict::Good);
    assert_eq!(
        (after.journal.damaged_needed.len(), after.journal.damaged_unneeded),
        (0, before.journal.damaged_unneeded)
    );
}

#[test]
fn a_damaged_batch_header_is_refused_until_a_repair() {
    let image = (0..5).map(|_| Image::make(Ending::Cut)).find(|image| rot_needed_header(&image.cache()));
    let image = image.expect("in one of five some segment without a summary has several batches");
    let path = image.cache();
    assert!(sentence(&path).contains("was whole once and is not any more"), "{}", sentence(&path));
    let found = look(&path);
    assert_eq!(found.verdict, Verdict::Suspect);
    assert!(found.rotted.unwrap().starts_with("a batch header in segment "));
    when_free(|| repair(&path, &found.damaged_clean, &StatePlace::NotKept)).unwrap();
    assert_eq!((look(&path).verdict, look(&path).rotted), (Verdict::Good, None));
    assert!(when_free(|| read(&path)).is_ok());
}

/// Damages a header that recovery needs; `false` if there is none: segments with a summary do without.
fn rot_needed_header(path: &Path) -> bool {
    let headers = flips::durable(&fs::read(path).unwrap()).headers;
    headers.into_iter().any(|place| {
        flip(path, place * 4096 + 30, 1);
        let is_refused = when_free(|| read(path)).is_err();
        if !is_refused {
            flip(path, place * 4096 + 30, 1);
        }
        is_refused
    })
}

#[test]
fn a_missing_journal_is_refused_until_a_repair() {
    // The cut image was stopped in earlier lives, which its superblock records.
    for ending in [Ending::Clean, Ending::Cut] {
        let image = Image::make(ending);
        let path = image.cache();
        let file = File::options().write(true).open(&path).unwrap();
        // The journal of a device of 8 MiB, behind the superblocks.
        file.write_all_at(&[0; 256 << 10], 1 << 20).unwrap();
        let found = sentence(&path);
        assert!(found.contains("its journal, of which nothing is left, was whole once"), "{found}");
        let found = look(&path);
        assert_eq!(found.verdict, Verdict::Suspect);
        when_free(|| repair(&path, &found.damaged_clean, &StatePlace::NotKept)).unwrap();
        assert_eq!((look(&path).verdict, look(&path).rotted), (Verdict::Good, None));
        assert!(when_free(|| read(&path)).is_ok());
    }
}

/// While another test starts a process, a copy of this process holds its locks for a moment.
fn when_free<T>(mut attempt: impl FnMut() -> Result<T, OfflineError>) -> Result<T, OfflineError> {
    for _ in 0..200 {
        match attempt() {
            Err(OfflineError::Busy { .. }) => std::thread::sleep(std::time::Duration::from_millis(5)),
            ended => return ended,
        }
    }
    attempt()
}

fn look(path: &Path) -> Findings {
    when_free(|| check(path, &mut |_, _| {})).unwrap()
}

fn open(path: &Path) -> OfflineDevice {
    when_free(|| OfflineDevice::open(path)).unwrap()
}

fn sentence_of(error: OfflineError, path: &Path) -> String {
    format!("{:#}", anyhow::Error::from(error)).replace(&path.display().to_string(), "PATH")
}

fn sentence(path: &Path) -> String {
    sentence_of(when_free(|| read(path)).unwrap_err(), path)
}

#[test]
fn a_foreign_device_is_refused_with_a_sentence() {
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
            sentence(&path).starts_with("PATH is not a kickcache cache device: it has "),
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
    let refused = sentence_of(read(&path).unwrap_err(), &path);
    assert_eq!(refused, "PATH is in use; if a daemon serves it, use: kickcache status");
}
