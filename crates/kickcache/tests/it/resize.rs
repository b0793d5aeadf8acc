//! Origins that are extended.

use std::fs::{self, File};

use crate::daemon::{Daemon, KICKCACHE, Spec, VOLUME};
use crate::guest::{Guest, READ, WRITE};
use crate::scratch::{MIB, Scratch};
use crate::{need_kickcache, tools};

fn spec(scratch: &Scratch) -> Spec {
    let mut spec = Spec::new(scratch, &scratch.sparse("origin", 8 * MIB), "write-back", "8M");
    spec.extra.extend(["--vhost-user".into(), scratch.path("guest.sock").into()]);
    spec
}

fn set_size(spec: &Spec, size: u64) {
    File::options().write(true).open(&spec.origin).unwrap().set_len(size).unwrap();
}

fn sectors(guest: &mut Guest) -> u64 {
    u64::from_le_bytes(guest.config()[..8].try_into().unwrap())
}

/// Returns the standard error.
fn refusal(daemon: &Daemon) -> String {
    let control = daemon.spec.control();
    let output = tools::output(KICKCACHE, ["resize", VOLUME, "--control", control.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn guests_and_clients_are_notified_of_an_extended_origin() {
    need_kickcache!();
    let scratch = Scratch::new();
    let daemon = spec(&scratch).start();
    let mut guest = Guest::connect(&scratch.path("guest.sock"), 1, 0);
    let mut early = daemon.connect();
    let last = 12 * MIB - 4096;
    assert_eq!(guest.run(0, WRITE, last / 512, &[7; 4096]).0, 1, "it is behind the end");
    set_size(&daemon.spec, 12 * MIB);
    assert!(!guest.is_told_of_change(), "nothing was said yet");
    let said = daemon.control(&["resize", VOLUME]);
    assert!(said.contains("12582912 bytes"), "{said}");
    assert!(guest.is_told_of_change());
    assert_eq!(sectors(&mut guest), 12 * MIB / 512);
    assert_eq!(guest.run(0, WRITE, last / 512, &[7; 4096]).0, 0);
    assert_eq!(early.size, 8 * MIB);
    early.write(0, &[1; 4096]);
    let mut late = daemon.connect();
    assert_eq!((late.size, late.read(last, 4096)), (12 * MIB, vec![7; 4096]));
    let daemon = daemon.kill().start();
    guest.reconnect();
    assert_eq!(sectors(&mut guest), 12 * MIB / 512);
    assert_eq!(guest.run(0, READ, last / 512, &[0; 4096]), (0, vec![7; 4096]));
    daemon.drain();
    let spec = daemon.stop();
    assert_eq!(fs::read(&spec.origin).unwrap()[usize::try_from(last).unwrap()..], [7; 4096]);
}

#[test]
fn an_impossible_size_is_refused_and_the_volume_unchanged() {
    need_kickcache!();
    let scratch = Scratch::new();
    let daemon = spec(&scratch).start();
    let mut guest = Guest::connect(&scratch.path("guest.sock"), 1, 0);
    set_size(&daemon.spec, 4 * MIB);
    let said = refusal(&daemon);
    assert!(said.contains("4194304") && said.contains("cannot shrink"), "{said}");
    // The next start would refuse a part of a block at the end.
    set_size(&daemon.spec, 9 * MIB + 512);
    let said = refusal(&daemon);
    assert!(said.contains("9437696") && said.contains("multiple of 4096"), "{said}");
    assert!(!guest.is_told_of_change());
    assert_eq!(sectors(&mut guest), 8 * MIB / 512);
    set_size(&daemon.spec, 8 * MIB);
    daemon.control(&["resize", VOLUME]);
    daemon.stop();
}

#[test]
fn an_origin_extended_offline_is_served_by_explicit_flag() {
    need_kickcache!();
    let scratch = Scratch::new();
    let mut spec = spec(&scratch).start().stop();
    set_size(&spec, 16 * MIB);
    assert!(spec.try_start().is_none(), "an origin of another size");
    let said = fs::read_to_string(scratch.path("daemon.log")).unwrap();
    assert!(
        said.contains("--origin-grown") && said.contains("had 8388608 when it was last served"),
        "{said}"
    );
    spec.extra.push("--origin-grown".into());
    spec.start().stop();
    spec.extra.pop();
    assert_eq!(spec.start().connect().size, 16 * MIB);
    set_size(&spec, 24 * MIB);
    let drain = ["drain", "--cache", spec.cache.to_str().unwrap()];
    assert!(!tools::output(KICKCACHE, drain).status.success());
    tools::run(KICKCACHE, [&drain[..], &["--origin-grown"]].concat());
    assert_eq!(spec.start().connect().size, 24 * MIB);
    set_size(&spec, 8 * MIB);
    spec.extra.push("--origin-grown".into());
    assert!(spec.try_start().is_none(), "an origin that shrank");
}
