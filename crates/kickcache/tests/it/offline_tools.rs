//! The commands for cache devices that are not served.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::client::{READ, Request};
use crate::daemon::{Daemon, KICKCACHE, Spec, VOLUME};
use crate::rng::Rng;
use crate::scratch::{MIB, Scratch, flip_byte};
use crate::{faulty_disks, need_kickcache, tools};

const BLOCKS: u64 = 200;
const STRIDE: u64 = 64 << 10;
const ORIGIN_BYTES: u64 = 16 * MIB;

fn content(block: u64, version: u64) -> Vec<u8> {
    Rng::new(block << 32 | version).bytes(4096)
}

pub(crate) fn run(arguments: &[&str]) -> Output {
    tools::output(KICKCACHE, arguments)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn check(cache: &Path, more: &[&str]) -> (i32, Value) {
    let mut arguments = vec!["check", cache.to_str().unwrap(), "--json"];
    arguments.extend(more);
    let output = run(&arguments);
    let json = serde_json::from_slice(&output.stdout);
    let json = json.unwrap_or_else(|error| panic!("{error}: {}", text(&output.stderr)));
    (output.status.code().unwrap(), json)
}

/// Stopped with clean blocks 0 to 99, and dirty ones behind them.
fn filled(scratch: &Scratch) -> Spec {
    let origin = scratch.sparse("origin", ORIGIN_BYTES);
    let mut spec = Spec::new(scratch, &origin, "write-back", "8M");
    spec.extra = vec!["--fill-window-max".into(), "4K".into()];
    let daemon = spec.start();
    let mut client = daemon.connect();
    (0..BLOCKS / 2).for_each(|block| client.write(block * STRIDE, &content(block, 1)));
    client.flush();
    daemon.drain();
    (BLOCKS / 2..BLOCKS).for_each(|block| client.write(block * STRIDE, &content(block, 1)));
    drop(client);
    daemon.stop()
}

/// The byte offset on the cache device of the newest copy of a block.
fn place_of(cache: &Path, block: u64) -> u64 {
    let dump: Value =
        serde_json::from_str(&tools::run(KICKCACHE, ["dump", cache.to_str().unwrap()])).unwrap();
    let superblock = &dump["superblocks"][0];
    let number = |value: &Value| value.as_u64().unwrap();
    let mut newest = None;
    for segment in dump["segments"].as_array().unwrap() {
        for batch in segment["batches"].as_array().unwrap() {
            for (index, entry) in (1..).zip(batch["entries"].as_array().unwrap()) {
                if entry["block"].as_u64() == Some(block * STRIDE / 4096) {
                    let start = MIB + number(&superblock["journal_bytes"]);
                    let segment = number(&segment["segment"]) * number(&superblock["segment_bytes"]);
                    let place = start + segment + (number(&batch["place"]) + index) * 4096;
                    newest = newest.max(Some((number(&batch["sequence"]), place)));
                }
            }
        }
    }
    newest.expect("the block is cached").1
}

fn read(daemon: &Daemon, block: u64) -> Result<Vec<u8>, u32> {
    let request = Request { command: READ, flags: 0, offset: block * STRIDE, length: 4096 };
    let reply = daemon.connect().call(request, &[]).unwrap();
    if reply.errno == 0 { Ok(reply.data) } else { Err(reply.errno) }
}

#[test]
fn a_cache_device_without_damage_is_good() {
    need_kickcache!();
    let scratch = Scratch::new();
    let spec = filled(&scratch);
    let before = fs::read(&spec.cache).unwrap();
    let (code, found) = check(&spec.cache, &[]);
    assert_eq!((code, &found["findings"]["verdict"]), (0, &"good".into()), "{found}");
    assert_eq!(found["findings"]["volumes"][0]["name"], VOLUME);
    assert!(found["findings"]["volumes"][0]["dirty_blocks"].as_u64() >= Some(1), "{found}");
    let (code, _) = check(&spec.cache, &["--repair"]);
    assert_eq!(code, 0);
    let shown = run(&["check", spec.cache.to_str().unwrap()]);
    assert!(text(&shown.stdout).contains("first copy good; second copy good"), "{}", text(&shown.stdout));
    assert!(fs::read(&spec.cache).unwrap() == before, "check wrote to a good cache device");
    let shown = run(&["inspect", spec.cache.to_str().unwrap(), "--json"]);
    let shown: Value = serde_json::from_slice(&shown.stdout).unwrap();
    let number = |value: &Value| value.as_u64().unwrap();
    let used = number(&found["findings"]["segments"]["in_use"]);
    assert_eq!(used + number(&shown["free_segments"]), number(&shown["segments"]), "{found} {shown}");
}

#[test]
fn damage_in_clean_blocks_is_named_and_repaired() {
    need_kickcache!();
    let scratch = Scratch::new();
    let spec = filled(&scratch);
    flip_byte(&spec.cache, place_of(&spec.cache, 7) + 100).unwrap();
    let (code, found) = check(&spec.cache, &[]);
    let extent = serde_json::json!([{ "start": 7 * STRIDE, "length": 4096 }]);
    assert_eq!((code, &found["findings"]["volumes"][0]["damaged"]), (4, &extent), "{found}");
    let (code, found) = check(&spec.cache, &["--repair"]);
    assert_eq!((code, &found["repaired_blocks"]), (0, &1.into()), "{found}");
    assert_eq!(check(&spec.cache, &[]).0, 0);
    let daemon = spec.start();
    for block in 0..BLOCKS {
        assert!(read(&daemon, block) == Ok(content(block, 1)), "block {block}");
    }
    assert_eq!(daemon.volume_count("healed_blocks"), 0, "the damaged block was still there");
}

#[test]
fn damage_has_its_exit_code_for_every_user() {
    need_kickcache!();
    let scratch = Scratch::new();
    let spec = filled(&scratch);
    flip_byte(&spec.cache, place_of(&spec.cache, 7) + 100).unwrap();
    let (reader, closed) = std::io::pipe().unwrap();
    drop(reader);
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    for (what, output) in [("closed", Stdio::from(closed)), ("full", full.into())] {
        let mut command = Command::new(KICKCACHE);
        let ended = command.arg("check").arg(&spec.cache).stdout(output).stderr(Stdio::null()).status();
        assert_eq!(ended.unwrap().code(), Some(4), "{what}");
    }
}

#[test]
fn damage_in_dirty_blocks_is_named_and_never_dropped() {
    need_kickcache!();
    let scratch = Scratch::new();
    let spec = filled(&scratch);
    flip_byte(&spec.cache, place_of(&spec.cache, 150)).unwrap();
    let extent = serde_json::json!([{ "start": 150 * STRIDE, "length": 4096 }]);
    for more in [&[][..], &["--repair"]] {
        let (code, found) = check(&spec.cache, more);
        assert_eq!((code, &found["findings"]["volumes"][0]["lost"]), (5, &extent), "{found}");
    }
    let drained = run(&["drain", "--cache", spec.cache.to_str().unwrap()]);
    assert_eq!(drained.status.code(), Some(1));
    let sentence = text(&drained.stderr);
    assert!(sentence.contains("1 block of v cannot be written back"), "{sentence}");
    let detach = format!("(kickcache detach --lose-dirty {} v", spec.cache.display());
    assert!(
        sentence.contains(&detach) && sentence.contains("overwrite the whole of each block"),
        "{sentence}"
    );
    assert!(sentence.contains(&format!("{} + 4096", 150 * STRIDE)), "{sentence}");
    let origin = fs::read(&spec.origin).unwrap();
    for block in (0..BLOCKS).filter(|block| *block != 150) {
        let at = usize::try_from(block * STRIDE).unwrap();
        assert!(origin[at..at + 4096] == content(block, 1), "block {block} is not on the origin");
    }
    let daemon = spec.start();
    assert_eq!(read(&daemon, 150), Err(5));
}

#[test]
fn a_damaged_superblock_is_written_again() {
    need_kickcache!();
    for at in [20, (512 << 10) + 20] {
        let scratch = Scratch::new();
        let spec = filled(&scratch);
        flip_byte(&spec.cache, at).unwrap();
        assert_eq!(check(&spec.cache, &[]).0, 4);
        assert_eq!(check(&spec.cache, &["--repair"]).0, 0);
        assert!(read(&spec.start(), 150) == Ok(content(150, 1)));
    }
}

#[test]
fn a_volume_is_drained_and_detached_without_a_daemon() {
    need_kickcache!();
    let scratch = Scratch::new();
    let spec = filled(&scratch);
    let cache = spec.cache.to_str().unwrap();
    let refused = run(&["detach", cache, VOLUME]);
    assert_eq!(refused.status.code(), Some(1));
    let sentence = text(&refused.stderr);
    assert!(sentence.contains("blocks of v are dirty") && sentence.contains("--lose-dirty"), "{sentence}");
    let drained = tools::run(KICKCACHE, ["drain", VOLUME, "--cache", cache]);
    assert!(drained.contains("v: drained"), "{drained}");
    let origin = fs::read(&spec.origin).unwrap();
    for block in 0..BLOCKS {
        let at = usize::try_from(block * STRIDE).unwrap();
        assert!(origin[at..at + 4096] == content(block, 1), "block {block} is not on the origin");
    }
    let detached = tools::run(KICKCACHE, ["detach", cache, VOLUME]);
    assert!(detached.contains("detached"), "{detached}");
    let again = run(&["detach", cache, VOLUME]);
    assert!(text(&again.stderr).contains("has no volume `v`; it has none"), "{}", text(&again.stderr));
    assert_eq!(check(&spec.cache, &[]).0, 0);
}

#[test]
fn the_blocks_of_a_detached_volume_never_come_back() {
    need_kickcache!();
    let scratch = Scratch::new();
    let spec = filled(&scratch);
    let cache = spec.cache.to_str().unwrap();
    let lost = tools::run(KICKCACHE, ["detach", cache, VOLUME, "--lose-dirty"]);
    assert!(lost.contains("dirty blocks LOST"), "{lost}");
    // Another volume under the same id: an origin of zeroes.
    let other = Spec { origin: scratch.sparse("other", ORIGIN_BYTES), ..spec };
    for _ in 0..2 {
        let daemon = other.start();
        for block in 0..BLOCKS {
            assert!(read(&daemon, block) == Ok(vec![0; 4096]), "block {block} of the old volume came back");
        }
        daemon.kill();
    }
}

#[test]
fn a_cache_device_that_is_served_is_refused() {
    need_kickcache!();
    let scratch = Scratch::new();
    let spec = filled(&scratch);
    let daemon = spec.start();
    let cache = spec.cache.to_str().unwrap();
    let commands: [&[&str]; 5] = [
        &["check", cache],
        &["check", cache, "--repair"],
        &["dump", cache],
        &["drain", "--cache", cache],
        &["detach", cache, VOLUME, "--lose-dirty"],
    ];
    for command in commands {
        let output = run(command);
        assert_eq!(output.status.code(), Some(1), "{command:?}");
        assert!(text(&output.stderr).contains("in use"), "{command:?}: {}", text(&output.stderr));
    }
    assert!(read(&daemon, 150) == Ok(content(150, 1)));
}

#[test]
fn a_changed_origin_is_refused_or_read_again() {
    need_kickcache!();
    let scratch = Scratch::new();
    let mut spec = filled(&scratch);
    spec.extra.push("--origin-changed".into());
    assert!(spec.try_start().is_none(), "there are dirty blocks");
    let log = fs::read_to_string(scratch.path("daemon.log")).unwrap();
    assert!(log.contains("dirty blocks for it"), "{log}");
    tools::run(KICKCACHE, ["drain", "--cache", spec.cache.to_str().unwrap()]);
    fs::write(&spec.origin, vec![7; usize::try_from(ORIGIN_BYTES).unwrap()]).unwrap();
    let mut daemon = spec.start();
    // Dropped blocks must stay dropped.
    spec.extra.pop();
    for _ in 0..2 {
        for block in 0..BLOCKS {
            assert!(read(&daemon, block) == Ok(vec![7; 4096]), "block {block} is older than the origin");
        }
        daemon.kill();
        daemon = spec.start();
    }
}

#[test]
fn a_blank_file_is_called_blank() {
    need_kickcache!();
    let scratch = Scratch::new();
    let blank = scratch.sparse("blank", 64 * MIB);
    let path = blank.to_str().unwrap();
    let refused = |command: &[&str]| {
        let output = run(command);
        assert_eq!(output.status.code(), Some(1), "{command:?}");
        text(&output.stderr)
    };
    let wanted = format!("{path} is blank, and no cache device: give another path, or format it first");
    for command in [&["inspect", path][..], &["check", path], &["drain", "--cache", path]] {
        let said = refused(command);
        assert!(said.contains(&wanted), "{command:?}: {said}");
    }
    fs::File::options().write(true).open(&blank).unwrap().write_all_at(&[1], 64 * MIB - 1).unwrap();
    let said = refused(&["inspect", path]);
    assert!(said.contains("zeroes in the beginning and other data behind"), "{said}");
}

#[test]
fn a_drain_of_a_moved_origin_names_the_flag() {
    need_kickcache!();
    let scratch = Scratch::new();
    let spec = filled(&scratch);
    let (cache, moved) = (spec.cache.to_str().unwrap(), scratch.path("moved"));
    fs::rename(&spec.origin, &moved).unwrap();
    let output = run(&["drain", "--cache", cache]);
    let said = text(&output.stderr);
    let named = format!("kickcache drain v --cache {cache} --origin NEW --origin-moved");
    assert!(output.status.code() == Some(1) && said.contains(&named), "{said}");
    assert!(said.contains("No such file"), "{said}");
    let command = named.replace("NEW", moved.to_str().unwrap());
    tools::run(KICKCACHE, command.split(' ').skip(1));
    let found = fs::read(&moved).unwrap();
    let last = usize::try_from((BLOCKS - 1) * STRIDE).unwrap();
    assert!(found[last..last + 4096] == content(BLOCKS - 1, 1));
}

#[test]
fn a_drain_without_a_daemon_writes_neighbours_together() {
    const COUNT: u64 = 1024;
    need_kickcache!();
    let scratch = Scratch::new();
    let disks = faulty_disks!(&scratch, 16 * MIB, 16 * MIB);
    let daemon = disks.spec(&scratch, "write-back").start();
    disks.tell("fault origin write eio");
    let mut client = daemon.connect();
    // Adjacent on the volume, and apart in the log.
    for block in (0..COUNT).map(|number| number * 389 % COUNT) {
        client.write(block * 4096, &content(block, 1));
    }
    client.flush();
    drop(client);
    let spec = daemon.stop();
    disks.tell("clear");
    let before = disks.position();
    let said = tools::run(KICKCACHE, ["drain", "--cache", spec.cache.to_str().unwrap()]);
    assert!(said.contains("4 MiB written back"), "{said}");
    // Flushes and records of the cache device are included.
    let records = disks.position() - before;
    eprintln!("{COUNT} blocks: {records} writes and flushes of both devices");
    assert!(records < COUNT / 8, "{records} for {COUNT} blocks");
    let found = fs::read(&spec.origin).unwrap();
    assert!(
        (0..COUNT).all(|block| found[usize::try_from(block * 4096).unwrap()..][..4096] == content(block, 1))
    );
}
