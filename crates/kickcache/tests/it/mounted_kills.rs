//! Repeated kill -9 of the daemon below a mounted file system. Another NBD client is in between: it repeats
//! requests without a reply (qemu-storage-daemon, reconnect-delay).
//!
//! `KICKCACHE_IT_KILLS` is the number of kills (4 without it).

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::daemon::{Daemon, Spec, VOLUME, guarded};
use crate::disk::attach_loop;
use crate::rng::Rng;
use crate::scratch::{MIB, Scratch};
use crate::{disk, need_kickcache, need_tools, skip, tools};

fn number_of_kills() -> u64 {
    std::env::var("KICKCACHE_IT_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(4)
}

/// A volume as a file system that outlives its daemon; taken apart when dropped.
struct Patient {
    child: Child,
    file: PathBuf,
    device: Option<String>,
    mounted: PathBuf,
}

impl Patient {
    fn attach(scratch: &Scratch, daemon: &Daemon) -> Result<Patient, String> {
        let file = scratch.sparse("export", 0);
        let socket = daemon.spec.socket();
        let node = format!(
            "driver=nbd,node-name=n,export={VOLUME},server.type=unix,server.path={},reconnect-delay=60",
            socket.display()
        );
        let export = format!("type=fuse,id=e,node-name=n,mountpoint={},writable=on", file.display());
        let arguments = ["--blockdev", &node, "--export", &export].map(Into::into).to_vec();
        let child = guarded("qemu-storage-daemon", arguments).spawn().unwrap();
        let mut patient = Patient { child, file, device: None, mounted: scratch.path("mounted") };
        let start = Instant::now();
        while !tools::output("mountpoint", [patient.file.as_os_str()]).status.success() {
            if patient.child.try_wait().unwrap().is_some() || start.elapsed() > Duration::from_secs(20) {
                return Err("qemu-storage-daemon cannot export by FUSE here".into());
            }
            thread::sleep(Duration::from_millis(50));
        }
        // The export of qemu-storage-daemon corrupts data if the loop device bypasses the page cache (QEMU
        // 7.2).
        patient.device = Some(attach_loop(&patient.file, "off")?);
        Ok(patient)
    }

    fn device(&self) -> &str {
        self.device.as_deref().expect("attached")
    }
}

impl Drop for Patient {
    fn drop(&mut self) {
        if tools::output("mountpoint", [&self.mounted]).status.success() {
            tools::output("umount", [&self.mounted]);
        }
        if let Some(device) = &self.device {
            tools::output("losetup", ["-d", device]);
        }
        tools::output("fusermount3", ["-u".as_ref(), self.file.as_os_str()]);
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn content(number: u64) -> Vec<u8> {
    let mut rng = Rng::new(number);
    let length = usize::try_from(rng.below(60_000)).unwrap();
    rng.bytes(length)
}

/// Writes and syncs files until `stop` is set; returns their number.
fn write_files(at: &Path, stop: &AtomicBool) -> u64 {
    let mut number = 0;
    while !stop.load(Ordering::Relaxed) {
        let mut file = File::create(at.join(number.to_string())).unwrap();
        file.write_all(&content(number)).unwrap();
        file.sync_all().unwrap();
        number += 1;
    }
    number
}

#[test]
fn a_mounted_file_system_survives_kills_of_its_daemon() {
    need_kickcache!();
    need_tools!("qemu-storage-daemon");
    if let Some(why) = disk::missing() {
        skip!("{why}");
    }
    let scratch = Scratch::new();
    let origin = scratch.sparse("origin", 256 * MIB);
    let mut daemon = Spec::new(&scratch, &origin, "write-back", "16M").start();
    let patient = match Patient::attach(&scratch, &daemon) {
        Ok(patient) => patient,
        Err(why) => skip!("{why}"),
    };
    let at = patient.mounted.clone();
    tools::run("mkfs.ext4", ["-q", "-F", patient.device()]);
    fs::create_dir_all(&at).unwrap();
    tools::run("mount", [patient.device(), at.to_str().unwrap()]);
    let stop = AtomicBool::new(false);
    let (daemon, count) = thread::scope(|scope| {
        let writer = scope.spawn(|| write_files(&at, &stop));
        let mut rng = Rng::new(3);
        for _ in 0..number_of_kills() {
            thread::sleep(Duration::from_millis(rng.between(200, 1200)));
            daemon = daemon.kill().start();
        }
        thread::sleep(Duration::from_millis(300));
        stop.store(true, Ordering::Relaxed);
        (daemon, writer.join().unwrap())
    });
    assert!(count > 5, "only {count} files were synced");
    for number in 0..count {
        assert!(fs::read(at.join(number.to_string())).unwrap() == content(number), "file {number}");
    }
    tools::run("umount", [&at]);
    tools::run("e2fsck", ["-f", "-n", patient.device()]);
    drop(patient);
    daemon.stop();
}
