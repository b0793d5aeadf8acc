//! State directories that cannot be written.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use crate::bad_input::{refused, unchanged};
use crate::daemon::{KICKCACHE, Spec, VOLUME};
use crate::pair::{NAMES, Pair};
use crate::scratch::{MIB, Scratch};
use crate::tmpfs::Tmpfs;
use crate::{need_kickcache, skip, tools};

const WITHOUT: &str = "--without-cache";

fn write(spec: &Spec, byte: u8) {
    let daemon = spec.start();
    daemon.connect().write(0, &[byte; 65536]);
    daemon.stop();
}

#[test]
fn an_unrecordable_start_is_refused_and_copies_are_detected() {
    need_kickcache!();
    for (mode, trouble) in
        [("write-through", "full"), ("write-through", "ro"), ("write-around", "full"), ("write-back", "full")]
    {
        let scratch = Scratch::new();
        let mount = match Tmpfs::new(&scratch, "64k") {
            Ok(mount) => mount,
            Err(why) => skip!("{why}"),
        };
        let state = mount.place.join("state");
        let mut spec = Spec::new(&scratch, &scratch.sparse("origin", 16 * MIB), mode, "8M");
        spec.extra = ["--state".into(), OsString::from(&state)].to_vec();
        write(&spec, 1);
        let copy = scratch.path("copy");
        fs::copy(&spec.cache, &copy).unwrap();
        let errno = match trouble {
            "full" => {
                mount.fill();
                "No space left on device"
            }
            _ => {
                mount.remount("ro");
                "Read-only file system"
            }
        };
        let said =
            unchanged("no notes", &[&spec.origin], || refused("a start without notes", &spec.arguments()));
        for part in [errno, state.to_str().unwrap(), "make room", "--state"] {
            assert!(said.contains(part), "{mode}, {trouble}: no `{part}`: {said}");
        }
        match trouble {
            "full" => mount.clear(),
            _ => mount.remount("rw"),
        }
        write(&spec, 2);
        fs::copy(&copy, &spec.cache).unwrap();
        let said = refused("an older copy", &spec.arguments());
        assert!(said.contains("older copy"), "{said}");
    }
}

#[test]
fn it_is_no_trouble_of_one_of_two_cache_devices() {
    need_kickcache!();
    for trouble in ["full", "ro"] {
        let scratch = Scratch::new();
        let mount = match Tmpfs::new(&scratch, "64k") {
            Ok(mount) => mount,
            Err(why) => skip!("{why}"),
        };
        let state = mount.place.join("state");
        let pair = Pair::new(&scratch, "write-through");
        let caches = NAMES.map(|name| {
            let device = scratch.path(&format!("cache of {name}"));
            format!("[[cache]]\ndevice = \"{}\"\nsize = \"8M\"\n{}", device.display(), pair.volume(name))
        });
        pair.configure(&caches.concat());
        for flags in
            [&["--state", state.to_str().unwrap()][..], &["--state", state.to_str().unwrap(), WITHOUT]]
        {
            let devices = NAMES.map(|name| scratch.path(&format!("cache of {name}")));
            let flag = format!("{WITHOUT}={}", devices[0].display());
            let flags: Vec<&str> =
                flags.iter().map(|word| if *word == WITHOUT { flag.as_str() } else { word }).collect();
            pair.start(&flags[..2], &NAMES).stop();
            match trouble {
                "full" => mount.fill(),
                _ => mount.remount("ro"),
            }
            let origins = NAMES.map(|name| pair.origin(name));
            let origins: Vec<&Path> = origins.iter().map(PathBuf::as_path).collect();
            let said = unchanged("no notes", &origins, || refused("no notes", &pair.arguments(&flags)));
            assert!(said.contains(state.to_str().unwrap()), "{said}");
            assert!(!said.contains("is not served") && !said.contains("cannot be used"), "{trouble}: {said}");
            match trouble {
                "full" => mount.clear(),
                _ => mount.remount("rw"),
            }
        }
    }
}

/// A detach with changed data would leave the origin recorded as dirty.
#[test]
fn an_unrecordable_detach_changes_no_data() {
    need_kickcache!();
    let scratch = Scratch::new();
    let mount = match Tmpfs::new(&scratch, "64k") {
        Ok(mount) => mount,
        Err(why) => skip!("{why}"),
    };
    let state = mount.place.join("state");
    let mut spec = Spec::new(&scratch, &scratch.sparse("origin", 16 * MIB), "write-back", "8M");
    spec.extra = ["--state".into(), OsString::from(&state)].to_vec();
    write(&spec, 1);
    let cache = spec.cache.to_str().unwrap();
    let detach = ["detach", cache, VOLUME, "--lose-dirty", "--state", state.to_str().unwrap()];
    let detach = detach.map(OsString::from);
    mount.remount("ro");
    let said = unchanged("no notes", &[&spec.cache], || refused("a detach without notes", &detach));
    assert!(said.contains("Read-only file system") && said.contains(state.to_str().unwrap()), "{said}");
    mount.remount("rw");
    assert!(tools::run(KICKCACHE, &detach).contains("LOST"));
}
