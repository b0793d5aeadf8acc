//! Accepted losses of one volume or cache device of two.

use std::fs;
use std::path::PathBuf;

use crate::bad_input::refused;
use crate::daemon::{KICKCACHE, Spec};
use crate::pair::{NAMES, Pair};
use crate::scratch::{MIB, Scratch};
use crate::{need_kickcache, tools};

/// Two volumes, each with dirty blocks on a cache device of its own.
fn both_dirty(scratch: &Scratch) -> (Pair, [PathBuf; 2]) {
    let pair = Pair::new(scratch, "write-back");
    let devices = NAMES.map(|name| scratch.path(&format!("cache {name}")));
    let caches = [0, 1].map(|index| {
        let device = devices[index].display();
        format!("[[cache]]\ndevice = \"{device}\"\nsize = \"8M\"\n{}", pair.volume(NAMES[index]))
    });
    pair.configure(&caches.concat());
    let daemon = pair.start(&[], &NAMES);
    for name in NAMES {
        pair.client(name).write(MIB, &[7; 65536]);
    }
    daemon.stop();
    (pair, devices)
}

fn flag(name: &str, device: &std::path::Path) -> String {
    format!("{name}={}", device.display())
}

#[test]
fn a_new_cache_replaces_the_named_device_only() {
    need_kickcache!();
    let scratch = Scratch::new();
    let (pair, devices) = both_dirty(&scratch);
    let away = NAMES.map(|name| scratch.path(&format!("away {name}")));
    (0..2).for_each(|index| fs::rename(&devices[index], &away[index]).unwrap());
    let said = refused("both are missing", &pair.arguments(&[]));
    assert!(said.contains("--new-cache='"), "{said}");
    let said = refused("nobody knows which", &pair.arguments(&["--new-cache"]));
    for device in &devices {
        assert!(said.contains(&format!("--new-cache='{}'", device.display())), "{said}");
        assert!(!device.exists(), "a cache was made");
    }
    let said = refused("no such device", &pair.arguments(&["--new-cache=/nowhere"]));
    assert!(said.contains("/nowhere") && said.contains(devices[0].to_str().unwrap()), "{said}");
    let daemon = pair.start(&[&flag("--new-cache", &devices[1])], &["two"]);
    let log = daemon.log();
    assert!(!devices[0].exists(), "a cache was made");
    assert!(log.contains("volume two: --new-cache=") && !log.contains("volume one: --new-cache="), "{log}");
    assert!(log.contains("gives up") && log.contains("may include dirty"), "{log}");
    daemon.stop();
    fs::rename(&away[0], &devices[0]).unwrap();
    let daemon = pair.start(&[], &NAMES);
    assert_eq!(pair.client("one").read(MIB, 65536), [7; 65536]);
    assert_eq!(pair.client("two").read(MIB, 65536), [0; 65536]);
    daemon.stop();
}

#[test]
fn dirty_blocks_are_lost_of_the_volume_that_is_named() {
    need_kickcache!();
    let scratch = Scratch::new();
    let (pair, devices) = both_dirty(&scratch);
    // The blocks on the cache device of `one` may be older than its origin.
    let daemon = Spec { mode: "write-through", ..pair.one_with(&scratch.path("other")) }.start();
    daemon.stop();
    fs::rename(&devices[1], scratch.path("gone")).unwrap();
    let without = flag("--without-cache", &devices[1]);
    let said = refused("nobody knows whose", &pair.arguments(&[&without, "--lose-dirty"]));
    for name in NAMES {
        assert!(said.contains(&format!("--lose-dirty={name}")), "{said}");
    }
    let daemon = pair.start(&[&without, "--lose-dirty=two"], &["two"]);
    let log = daemon.log();
    assert!(log.contains("volume two: --lose-dirty=two gives up"), "{log}");
    assert!(log.contains("volume one is not served") && log.contains("--lose-dirty=one"), "{log}");
    daemon.stop();
    // The dirty blocks are still available.
    tools::run(KICKCACHE, ["drain", "one", "--cache", devices[0].to_str().unwrap(), "--accept-older"]);
    assert!(fs::read(pair.origin("one")).unwrap()[1 << 20..][..65536] == [7; 65536]);
}
