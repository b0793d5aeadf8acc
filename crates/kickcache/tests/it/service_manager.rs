//! The daemon as a service of systemd.

use std::fs;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;

use crate::daemon::{Daemon, Spec};
use crate::scratch::{MIB, Scratch};
use crate::{need_kickcache, need_tools};

/// A substitute for systemd.
struct Listener(UnixDatagram);

impl Listener {
    fn hear(&self, wanted: impl Fn(&str) -> bool) -> String {
        let (mut heard, mut bytes) = (String::new(), [0; 4096]);
        while !heard.lines().any(&wanted) {
            let length = self.0.recv(&mut bytes).unwrap_or_else(|error| panic!("{error} after {heard}"));
            heard += std::str::from_utf8(&bytes[..length]).unwrap();
        }
        heard
    }
}

#[test]
fn systemd_hears_of_the_start_the_loops_and_the_stop() {
    need_kickcache!();
    let scratch = Scratch::new();
    let spec = Spec::new(&scratch, &scratch.sparse("origin", 16 * MIB), "write-back", "16M");
    let path = scratch.path("notify");
    let listener = Listener(UnixDatagram::bind(&path).unwrap());
    listener.0.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut command = spec.command();
    command.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "400000");
    let mut daemon = Daemon::start(command, spec.clone(), &[spec.socket()]);
    let start = listener.hear(|line| line == "READY=1");
    assert!(start.starts_with("STATUS=starting\n"), "{start}");
    assert!(!start.contains("WATCHDOG"), "{start}");
    listener.hear(|line| line == "WATCHDOG=1");
    daemon.connect().write(0, &[7; 4096]);
    listener.hear(|line| {
        line.starts_with("STATUS=1 volume, ") && line.ends_with(" dirty. The volume v is healthy.")
    });
    listener.hear(|line| line == "WATCHDOG=1");
    daemon.signal(Signal::TERM);
    let stop = listener.hear(|line| line == "STATUS=stopping");
    assert!(stop.contains("STOPPING=1\n"), "{stop}");
    let status = daemon.wait();
    daemon.check_end(status);
}

/// The exposure of a unit according to systemd: 0 is the least, 10 the most.
fn exposure(unit: &Path) -> f64 {
    let output = Command::new("systemd-analyze")
        .args(["security", "--offline=true", "--no-pager"])
        .arg(unit)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let level = text
        .lines()
        .find(|line| line.contains("Overall exposure level"))
        .and_then(|line| line.split(": ").nth(1));
    let level = level.and_then(|level| level.split(' ').next()?.parse().ok());
    level.unwrap_or_else(|| panic!("no level: {text} {}", String::from_utf8_lossy(&output.stderr)))
}

#[test]
fn the_units_permit_little_even_with_block_devices() {
    need_tools!("systemd-analyze");
    let scratch = Scratch::new();
    let contrib = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../contrib");
    let ublk = fs::read_to_string(contrib.join("debian/ublk.conf")).unwrap();
    for (name, as_file) in
        [("kickcache.service", "kickcache.service"), ("kickcache@.service", "kickcache@fast.service")]
    {
        let text = fs::read_to_string(contrib.join(name)).unwrap();
        // systemd merges a drop-in into the unit, as it merges a repeated section.
        let with_ublk = format!("{text}\n{ublk}");
        for text in [text, with_ublk] {
            let path = scratch.path(as_file);
            fs::write(&path, &text).unwrap();
            let found = exposure(&path);
            assert!(found <= 3.0, "{found}: {text}");
        }
    }
}
