//! fio writes checksummed data through its NBD engine and reads it back.

use std::fs;
use std::time::Instant;

use crate::daemon::{Daemon, Spec};
use crate::scratch::{MIB, Scratch, flip_byte};
use crate::tools;
use crate::{need_kickcache, need_tools};

const JOBS: u64 = 4;

/// Four connections, each with a region of its own.
pub(crate) fn fio(daemon: &Daemon, megabytes_per_job: u64, extra: &[&str]) -> std::process::Output {
    let mut arguments: Vec<String> = [
        "--name=verify",
        "--ioengine=nbd",
        "--rw=randwrite",
        "--bssplit=512/10:1k/5:4k/40:8k/10:12k/5:64k/15:68k/5:256k/5:1m/5",
        "--iodepth=16",
        "--fsync=48",
        "--verify=crc32c",
        "--verify_interval=512",
        "--verify_fatal=1",
        "--verify_state_save=0",
        "--serialize_overlap=1",
        "--randrepeat=1",
        "--group_reporting",
    ]
    .map(String::from)
    .to_vec();
    arguments.push(format!("--uri={}", daemon.uri()));
    arguments.push(format!("--numjobs={JOBS}"));
    arguments.push(format!("--size={megabytes_per_job}M"));
    arguments.push(format!("--offset_increment={megabytes_per_job}M"));
    arguments.extend(extra.iter().copied().map(String::from));
    tools::output("fio", arguments)
}

pub(crate) fn check_fio(output: &std::process::Output) {
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("err= 0"), "{}\n{text}\n{errors}", output.status);
}

fn verify(mode: &'static str, cache_size: &'static str, megabytes_per_job: u64) {
    need_tools!("fio");
    let scratch = Scratch::new();
    let origin = scratch.sparse("origin", JOBS * megabytes_per_job * MIB);
    let daemon = Spec::new(&scratch, &origin, mode, cache_size).start();
    let start = Instant::now();
    check_fio(&fio(&daemon, megabytes_per_job, &[]));
    eprintln!("{mode} {cache_size}: {:?}", start.elapsed());
    let daemon = daemon.stop().start();
    check_fio(&fio(&daemon, megabytes_per_job, &["--verify_only"]));
    daemon.stop();
}

#[test]
fn fio_verifies_write_back() {
    verify("write-back", "32M", 24);
}

#[test]
fn fio_verifies_write_through() {
    verify("write-through", "32M", 24);
}

#[test]
fn fio_verifies_write_around() {
    verify("write-around", "32M", 24);
}

#[test]
fn fio_verifies_write_back_with_a_tiny_cache() {
    verify("write-back", "8M", 16);
}

#[test]
fn fio_verifies_write_through_with_a_tiny_cache() {
    verify("write-through", "8M", 16);
}

#[test]
fn fio_verifies_write_around_with_a_tiny_cache() {
    verify("write-around", "8M", 16);
}

#[test]
fn fio_verifies_write_back_with_discarded_segments() {
    need_tools!("fio");
    need_kickcache!();
    let scratch = Scratch::new();
    let origin = scratch.sparse("origin", JOBS * 16 * MIB);
    let mut spec = Spec::new(&scratch, &origin, "write-back", "8M");
    spec.extra = vec!["--discard".into()];
    let daemon = spec.start();
    check_fio(&fio(&daemon, 16, &[]));
    let discarded = daemon.status()["caches"][0]["counters"]["discarded_bytes"].as_u64().unwrap();
    assert!(discarded > 32 * MIB, "{discarded} bytes");
    let daemon = daemon.kill().start();
    check_fio(&fio(&daemon, 16, &["--verify_only"]));
    daemon.stop();
}

#[test]
fn fio_would_notice_a_damaged_block() {
    need_tools!("fio");
    let scratch = Scratch::new();
    let origin = scratch.sparse("origin", JOBS * 4 * MIB);
    let mut spec = Spec::new(&scratch, &origin, "write-around", "16M");
    let daemon = spec.start();
    check_fio(&fio(&daemon, 4, &[]));
    daemon.stop();
    for block in 0..64 {
        flip_byte(&origin, block * 16 * 4096 + 1000).unwrap();
    }
    let _ = fs::remove_file(&spec.cache);
    spec.mode = "bypass";
    let output = fio(&spec.start(), 4, &["--verify_only"]);
    assert!(!output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}
