//! Some or all of the log of a cache device is lost.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;

use crate::bad_input::refused;
use crate::bad_spot::go_on_with_what_is_left;
use crate::daemon::{KICKCACHE, Spec};
use crate::scratch::{MIB, Scratch};
use crate::{need_kickcache, tools};

const BLOCK: u64 = 4096;
/// Of the journal.
const MIB_BYTES: usize = 1 << 20;
/// The layout of a cache device of 8 MiB, from docs/reference/format.md.
const JOURNAL_BLOCKS: u64 = 64;
const SEGMENT_BLOCKS: u64 = 16;
const FIRST_SEGMENT: u64 = MIB / BLOCK + JOURNAL_BLOCKS;

/// A cache device with dirty blocks in many segments that was served and stopped.
fn stopped(scratch: &Scratch) -> Spec {
    let spec = Spec {
        extra: ["--admission", "always", "--sequential-cutoff", "off"].map(Into::into).to_vec(),
        ..Spec::new(scratch, &scratch.sparse("origin", 16 * MIB), "write-back", "8M")
    };
    let daemon = spec.start();
    let mut client = daemon.connect();
    (0..32).for_each(|part| client.write(part * 64 * 1024, &[1; 64 * 1024]));
    drop(client);
    daemon.stop()
}

/// Segments with data begin with a batch header.
fn in_use(bytes: &[u8]) -> Vec<u64> {
    let first = |segment: u64| usize::try_from((FIRST_SEGMENT + segment * SEGMENT_BLOCKS) * BLOCK).unwrap();
    let has_batch = |segment: &u64| bytes[first(*segment)..].starts_with(b"KICKBTCH");
    (0..108).filter(has_batch).collect()
}

#[test]
fn a_zeroed_segment_is_refused_until_a_tool_repairs_it() {
    need_kickcache!();
    let scratch = Scratch::new();
    let spec = stopped(&scratch);
    let whole = fs::read(&spec.cache).unwrap();
    let segments = in_use(&whole);
    assert!(segments.len() > 20, "{segments:?}");
    let file = File::options().write(true).open(&spec.cache).unwrap();
    for segment in [segments[3], segments[20]] {
        // The comparison excludes the superblocks: they count starts, also refused ones.
        file.write_all_at(&whole[MIB_BYTES..], MIB).unwrap();
        let at = (FIRST_SEGMENT + segment * SEGMENT_BLOCKS) * BLOCK;
        file.write_all_at(&[0; 65_536], at).unwrap();
        let log = || fs::read(&spec.cache).unwrap().split_off(MIB_BYTES);
        let before = log();
        let said = refused("a lost segment", &spec.arguments());
        assert!(log() == before, "the log was changed");
        assert!(said.contains(&format!("a part of segment {segment} was whole once")), "{said}");
        assert!(said.contains("--repair --accept-older --state"), "{said}");
        let drained = tools::output(KICKCACHE, ["drain", "--cache", spec.cache.to_str().unwrap()]);
        assert!(!drained.status.success(), "{drained:?}");
        assert!(String::from_utf8_lossy(&drained.stderr).contains("was whole once"), "{drained:?}");
        go_on_with_what_is_left(&spec.cache);
    }
    // The older blocks are the origin's zeroes.
    let daemon = spec.start();
    let found = daemon.connect().read(0, 32 * 64 * 1024);
    let older = found.chunks(4096).filter(|block| **block == [0; 4096]).count();
    assert!(older <= 15, "{older}");
    assert_eq!(found.chunks(4096).filter(|block| **block == [1; 4096]).count(), 512 - older);
    daemon.stop();
}

/// The end of a file that was truncated and extended reads as zeroes.
#[test]
fn a_file_that_was_cut_short_and_extended_is_refused() {
    need_kickcache!();
    let scratch = Scratch::new();
    let spec = stopped(&scratch);
    let whole = fs::read(&spec.cache).unwrap();
    let file = File::options().write(true).open(&spec.cache).unwrap();
    let size = file.metadata().unwrap().len();
    // Between two batches: behind a header, blocks would be lost whose existence is known.
    let second_batch = |segment: u64| {
        let blocks =
            (1..SEGMENT_BLOCKS).map(|block| (FIRST_SEGMENT + segment * SEGMENT_BLOCKS + block) * BLOCK);
        blocks.into_iter().find(|at| whole[usize::try_from(*at).unwrap()..].starts_with(b"KICKBTCH"))
    };
    file.set_len(in_use(&whole)[2..].iter().copied().find_map(second_batch).unwrap()).unwrap();
    let said = refused("cut short", &spec.arguments());
    assert!(said.contains("restore the device's size"), "{said}");
    file.set_len(size).unwrap();
    let said = refused("cut short and extended", &spec.arguments());
    assert!(said.contains("was whole once and is not any more"), "{said}");
    go_on_with_what_is_left(&spec.cache);
}

fn wipe_all(spec: &Spec) {
    let mut bytes = fs::read(&spec.cache).unwrap();
    bytes[MIB_BYTES..].fill(0);
    fs::write(&spec.cache, bytes).unwrap();
}

/// The superblocks record that a journal existed.
#[test]
fn a_device_with_only_its_superblocks_is_refused() {
    need_kickcache!();
    let scratch = Scratch::new();
    let spec = stopped(&scratch);
    wipe_all(&spec);
    let cache = spec.cache.to_str().unwrap();
    let said = refused("a lost log", &spec.arguments());
    assert!(said.contains("its journal, of which nothing is left, was whole once"), "{said}");
    for words in [&["drain", "--cache", cache][..], &["inspect", cache], &["detach", cache, "v"]] {
        let output = tools::output(KICKCACHE, words);
        assert!(!output.status.success(), "{output:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("was whole once"), "{output:?}");
    }
    go_on_with_what_is_left(&spec.cache);
    spec.start().kill();
    let daemon = spec.start();
    daemon.connect().write(0, &[2; 65_536]);
    daemon.stop();
    spec.start().kill();
    wipe_all(&spec);
    refused("a lost log after a kill", &spec.arguments());
}
