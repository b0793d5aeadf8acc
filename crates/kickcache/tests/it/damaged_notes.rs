//! Damaged records in the state directory.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;

use crate::bad_input::{refused, unchanged};
use crate::daemon::{KICKCACHE, Spec, VOLUME};
use crate::need_kickcache;
use crate::scratch::{MIB, Scratch, state_dir};
use crate::tools;

const SIZE: u64 = 16 * MIB;

fn spec(scratch: &Scratch, mode: &'static str) -> Spec {
    Spec::new(scratch, &scratch.sparse("origin", SIZE), mode, "8M")
}

fn with_ones(scratch: &Scratch, mode: &'static str) -> Spec {
    let one = spec(scratch, mode);
    let daemon = one.start();
    daemon.connect().write(0, &[1; 65536]);
    daemon.stop();
    one
}

/// The only record with a name that begins with `kind`.
pub(crate) fn note(kind: &str) -> PathBuf {
    let found = fs::read_dir(state_dir()).unwrap().map(|entry| entry.unwrap().path());
    let mut found = found
        .filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with(kind))
        .collect::<Vec<_>>();
    assert_eq!(found.len(), 1, "{found:?}");
    found.remove(0)
}

/// Possible contents of a record after a crash of a file system, or of a later version.
fn bad_contents(good: &str) -> [(String, &'static str); 3] {
    let newer = good.replace("\"version\": 1", "\"version\": 2");
    [(good[..20].into(), "damaged"), (String::new(), "damaged"), (newer, "newer kickcache")]
}

fn and(spec: &Spec, more: &str) -> Spec {
    let mut spec = spec.clone();
    spec.extra.push(more.into());
    spec
}

#[test]
fn a_damaged_origin_record_counts_as_the_worst_case() {
    need_kickcache!();
    for mode in ["write-back", "write-through"] {
        let scratch = Scratch::new();
        let one = with_ones(&scratch, mode);
        let path = note("origin-origin");
        let good = fs::read_to_string(&path).unwrap();
        for (content, wanted) in bad_contents(&good) {
            fs::write(&path, &content).unwrap();
            let drain: Vec<OsString> =
                ["drain", VOLUME, "--cache", one.cache.to_str().unwrap()].map(Into::into).to_vec();
            for arguments in [one.arguments(), and(&one, "--without-cache").arguments(), drain] {
                let said = unchanged("a damaged note", &[&path, &one.origin], || {
                    refused("a damaged note", &arguments)
                });
                assert!(said.contains(wanted) && said.contains(path.to_str().unwrap()), "{said}");
                assert!(said.contains("remove"), "no way on: {said}");
            }
            let neighbour = Spec {
                origin: scratch.sparse("neighbour", SIZE),
                cache: scratch.path("its cache"),
                mode: "write-back",
                ..one.clone()
            };
            let daemon = neighbour.start();
            daemon.connect().write(0, &[3; 4096]);
            daemon.stop();
            fs::remove_file(&neighbour.cache).unwrap();
            assert!(refused("a cache that is missing", &neighbour.arguments()).contains("--new-cache"));
            let mut through = neighbour.clone();
            through.mode = "write-through";
            assert!(refused("a cache that is missing", &through.arguments()).contains("--new-cache"));
            and(&neighbour, "--new-cache").start().stop();
            fs::remove_file(&neighbour.cache).unwrap();
            fs::remove_file(note("origin-neighbour")).unwrap();
        }
        fs::remove_file(&path).unwrap();
        let daemon = one.start();
        assert_eq!(daemon.connect().read(0, 65536), [1; 65536]);
        daemon.stop();
    }
}

/// The disk is blank, but a record names it as an origin.
#[test]
fn an_origin_with_a_damaged_record_becomes_no_cache_device() {
    need_kickcache!();
    let scratch = Scratch::new();
    let one = spec(&scratch, "write-through");
    one.start().stop();
    let path = note("origin-origin");
    let good = fs::read_to_string(&path).unwrap();
    let swapped = Spec { cache: one.origin.clone(), origin: scratch.sparse("another", SIZE), ..one.clone() };
    let format = ["format", one.origin.to_str().unwrap()].map(OsString::from).to_vec();
    for (content, wanted) in bad_contents(&good) {
        fs::write(&path, &content).unwrap();
        for arguments in [swapped.arguments(), format.clone()] {
            let said =
                unchanged("a damaged note", &[&path, &one.origin], || refused("a damaged note", &arguments));
            assert!(said.contains(wanted) && said.contains(path.to_str().unwrap()), "{said}");
            assert!(said.contains("format --force"), "no way on: {said}");
        }
    }
    fs::write(&path, good).unwrap();
    one.start().stop();
}

#[test]
fn a_new_cache_with_damaged_records_trusts_no_old_block() {
    need_kickcache!();
    let scratch = Scratch::new();
    let one = with_ones(&scratch, "write-back");
    fs::write(note("origin-origin"), "").unwrap();
    let said = refused("a damaged note", &and(&one, "--new-cache").arguments());
    assert!(said.contains("16 dirty blocks") && said.contains("--lose-dirty"), "{said}");
    let daemon = and(&and(&one, "--new-cache"), "--lose-dirty").start();
    assert_eq!(daemon.connect().read(0, 65536), [0; 65536]);
    daemon.stop();
    one.start().stop();
}

#[test]
fn a_damaged_cache_device_record_counts_as_the_worst_case() {
    need_kickcache!();
    let scratch = Scratch::new();
    let one = with_ones(&scratch, "write-back");
    let path = note("cache-");
    let good = fs::read_to_string(&path).unwrap();
    let cache = one.cache.to_str().unwrap();
    for (content, wanted) in bad_contents(&good) {
        fs::write(&path, &content).unwrap();
        let drain = ["drain", VOLUME, "--cache", cache].map(OsString::from).to_vec();
        let detach = ["detach", cache, VOLUME, "--lose-dirty"].map(OsString::from).to_vec();
        let format = ["format", cache].map(OsString::from).to_vec();
        for arguments in [one.arguments(), and(&one, "--without-cache").arguments(), drain, detach, format] {
            let said = unchanged("a damaged note", &[&path, &one.origin, &one.cache], || {
                refused("a damaged note", &arguments)
            });
            if arguments == one.arguments() {
                assert!(said.contains(wanted) && said.contains(path.to_str().unwrap()), "{said}");
                assert!(said.contains("remove"), "no way on: {said}");
            }
        }
    }
    fs::write(&path, &good).unwrap();
    let daemon = one.start();
    assert_eq!(daemon.connect().read(0, 65536), [1; 65536]);
    daemon.stop();
    fs::write(&path, "").unwrap();
    tools::run(KICKCACHE, ["drain", VOLUME, "--cache", cache, "--accept-older"]);
    assert_eq!(fs::read(&one.origin).unwrap()[..65536], [1; 65536]);
}
