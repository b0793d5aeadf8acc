//! Which files a daemon or a drain may write to.

use std::fs::{self, OpenOptions, Permissions};
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Output;

use kickcache_engine::format::superblock::{SUPERBLOCK_OFFSETS, Superblock};

use crate::daemon::{KICKCACHE, Spec, VOLUME};
use crate::remedies::{follow, remedy};
use crate::scratch::{MIB, Scratch, state_dir};
use crate::{need_kickcache, tools};

const SIZE: u64 = 16 * MIB;
const DATA: [u8; 4096] = [7; 4096];

/// A cache device with a dirty block; every user can write to the directory of the origin.
struct Place {
    scratch: Scratch,
    spec: Spec,
    data: PathBuf,
    victim: PathBuf,
}

impl Place {
    fn new() -> Place {
        let scratch = Scratch::new();
        let data = scratch.path("data");
        fs::create_dir(&data).unwrap();
        fs::set_permissions(&data, Permissions::from_mode(0o777)).unwrap();
        let origin = scratch.sparse("data/origin", SIZE);
        let victim = scratch.random("victim", SIZE, 3);
        let daemon = Spec::new(&scratch, &origin, "write-back", "16M").start();
        daemon.connect().write(0, &DATA);
        let spec = daemon.kill();
        Place { scratch, spec, data, victim }
    }

    fn drain(&self, more: &[&str]) -> Output {
        let cache = self.spec.cache.to_str().unwrap();
        tools::output(KICKCACHE, [&["drain", VOLUME, "--cache", cache], more].concat())
    }

    fn refused(&self, reason: &str, more: &[&str]) -> String {
        let before = fs::read(&self.victim).unwrap();
        let output = self.drain(more);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && said.contains(reason), "{said}");
        assert!(fs::read(&self.victim).unwrap() == before, "the file was written to: {said}");
        said
    }

    fn is_drained(&self) -> bool {
        fs::read(&self.spec.origin).unwrap()[..DATA.len()] == DATA
    }

    /// Makes the cache device name another origin.
    fn rename(&self, identity: &str) {
        let bytes = fs::read(&self.spec.cache).unwrap();
        let copies = SUPERBLOCK_OFFSETS.map(|at| &bytes[usize::try_from(at).unwrap()..][..16384]);
        let mut superblock = Superblock::decode(copies, SIZE).unwrap();
        superblock.volumes[0].origin_identity = identity.into();
        let file = OpenOptions::new().write(true).open(&self.spec.cache).unwrap();
        SUPERBLOCK_OFFSETS.iter().for_each(|at| file.write_all_at(&superblock.encode(), *at).unwrap());
    }
}

#[test]
fn a_recorded_origin_is_drained_without_its_name() {
    need_kickcache!();
    let place = Place::new();
    let output = place.drain(&[]);
    assert!(output.status.success(), "{output:?}");
    assert!(place.is_drained());
}

#[test]
fn a_file_at_the_path_of_an_origin_stays_unwritten() {
    need_kickcache!();
    let swaps: [fn(&Place); 5] = [
        |place| symlink(&place.victim, &place.spec.origin).unwrap(),
        |place| fs::hard_link(&place.victim, &place.spec.origin).unwrap(),
        |place| _ = fs::copy(&place.victim, &place.spec.origin).unwrap(),
        |place| {
            fs::rename(&place.data, place.scratch.path("moved")).unwrap();
            fs::create_dir(&place.data).unwrap();
            fs::hard_link(&place.victim, &place.spec.origin).unwrap();
        },
        |place| {
            fs::rename(&place.data, place.scratch.path("moved")).unwrap();
            let other = place.scratch.path("other");
            fs::create_dir(&other).unwrap();
            fs::hard_link(&place.victim, other.join("origin")).unwrap();
            symlink(&other, &place.data).unwrap();
        },
    ];
    for (index, swap) in swaps.iter().enumerate() {
        let place = Place::new();
        fs::rename(&place.spec.origin, place.scratch.path("away")).unwrap();
        if index > 2 {
            fs::write(place.data.join("left"), "").unwrap();
        }
        swap(&place);
        for more in
            [&[] as &[&str], &["--accept-older"], &["--origin-moved"], &["--origin-moved", "--accept-older"]]
        {
            // In a directory of root, the flag states that root exchanged the file.
            if index > 2 && more.contains(&"--origin-moved") {
                continue;
            }
            place.refused("", more);
        }
    }
}

#[test]
fn a_cache_device_that_names_another_file_is_not_believed() {
    need_kickcache!();
    let place = Place::new();
    place.rename(&format!("file:{}", place.victim.display()));
    for more in [&[] as &[&str], &["--accept-older"], &["--origin-moved"]] {
        let said = place.refused("names", more);
        assert!(said.contains("no record in") && said.contains("--origin"), "{said}");
    }
}

#[test]
fn a_server_named_by_a_cache_device_is_not_contacted() {
    need_kickcache!();
    let place = Place::new();
    let socket = place.scratch.path("evil.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    listener.set_nonblocking(true).unwrap();
    place.rename(&format!("nbd+unix:///v?socket={}", socket.display()));
    for more in [&[] as &[&str], &["--accept-older"], &["--origin-moved"]] {
        place.refused("no record in", more);
    }
    assert!(listener.accept().is_err(), "it was connected to");
}

#[test]
fn records_that_others_can_write_are_ignored() {
    need_kickcache!();
    let changes: [fn(&Path); 3] = [
        |state| fs::set_permissions(state, Permissions::from_mode(0o777)).unwrap(),
        |state| {
            for entry in fs::read_dir(state).unwrap().flatten() {
                fs::set_permissions(entry.path(), Permissions::from_mode(0o666)).unwrap();
            }
        },
        |state| {
            let is_note = |name: &str| name.starts_with("origin-") && name.ends_with(".json");
            let entries = fs::read_dir(state).unwrap().flatten();
            let notes = entries.filter(|entry| is_note(entry.file_name().to_str().unwrap()));
            notes.for_each(|entry| fs::remove_file(entry.path()).unwrap());
        },
    ];
    for change in changes {
        let place = Place::new();
        change(&state_dir());
        let said = place.refused("as the origin of", &[]);
        assert!(!place.is_drained());
        let output = follow(&remedy(&said));
        assert!(output.status.success(), "{output:?}");
        assert!(place.is_drained());
    }
}

#[test]
fn a_start_warns_of_a_state_directory_of_others() {
    need_kickcache!();
    let place = Place::new();
    let warning = "writable for its user alone";
    let daemon = place.spec.start();
    assert!(!daemon.log().contains(warning), "{}", daemon.log());
    daemon.stop();
    fs::set_permissions(state_dir(), Permissions::from_mode(0o770)).unwrap();
    for count in 1..3 {
        let daemon = place.spec.start();
        let spec = daemon.stop();
        let log = fs::read_to_string(spec.dir.join("daemon.log")).unwrap();
        assert_eq!(log.matches(warning).count(), count, "{log}");
    }
}

#[test]
fn a_dangling_link_is_not_followed_to_create_a_cache() {
    need_kickcache!();
    let scratch = Scratch::new();
    let (link, target) = (scratch.path("link"), scratch.path("target"));
    symlink(&target, &link).unwrap();
    let path = link.to_str().unwrap();
    let origin = scratch.sparse("o", MIB);
    let serve = ["serve", "--cache", path, "--size", "8M", "--origin", origin.to_str().unwrap()];
    for arguments in
        [&["format", path, "--size", "8M"] as &[&str], &["format", path, "--size", "8M", "--force"], &serve]
    {
        let output = tools::output(KICKCACHE, arguments);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && said.contains("is a link to"), "{said}");
        assert!(!target.exists(), "{said}");
    }
    fs::write(&target, "").unwrap();
    tools::run(KICKCACHE, ["format", path, "--size", "8M"]);
    assert_eq!(fs::metadata(&target).unwrap().len(), 8 * MIB);
}
