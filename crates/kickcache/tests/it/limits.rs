//! Limits of a volume, as the built daemon keeps them.

use std::ffi::OsString;

use std::time::{Duration, Instant};

use crate::client::{Client, FLUSH, READ, Request};
use crate::daemon::{Spec, VOLUME};
use crate::need_kickcache;
use crate::scratch::{MIB, Scratch};

const ORIGIN_BYTES: u64 = 64 * MIB;

fn limited(scratch: &Scratch, mode: &'static str, flags: &str) -> Spec {
    let origin = scratch.sparse("origin", ORIGIN_BYTES);
    let extra = flags.split_whitespace().map(OsString::from).collect();
    Spec { extra, ..Spec::new(scratch, &origin, mode, "32M") }
}

#[test]
fn what_is_below_the_low_mark_stays_dirty_until_the_volume_is_idle() {
    need_kickcache!();
    let scratch = Scratch::new();
    let flags = "--dirty-low 50% --dirty-high 60% --dirty-limit 75% --idle-after 1h";
    let daemon = limited(&scratch, "write-back", flags).start();
    let mut client = Client::connect(&daemon.spec.socket(), VOLUME).unwrap();
    for number in 0..128 {
        client.write(number * 5 % 128 * (MIB / 2), &[7; 64 << 10]);
    }
    client.flush();
    let status = daemon.status();
    let volume = &status["caches"][0]["volumes"][0];
    assert_eq!(volume["dirty_bytes"], 8 * MIB);
    let limits = &volume["limits"];
    let marks = ["dirty_low", "dirty_high", "dirty_limit"].map(|key| limits[key].as_f64().unwrap());
    assert_eq!((marks, limits["idle_after_seconds"].as_f64()), ([0.5, 0.6, 0.75], Some(3600.0)));
}

#[test]
fn clients_get_no_more_than_their_cap_and_flushes_do_not_wait_for_it() {
    need_kickcache!();
    let scratch = Scratch::new();
    let daemon = limited(&scratch, "write-back", "--client-iops 10 --client-burst 500ms").start();
    let mut client = Client::connect(&daemon.spec.socket(), VOLUME).unwrap();
    let begun = Instant::now();
    let read = |number: u64| Request { command: READ, flags: 0, offset: number * 4096, length: 4096 };
    let mut reads: Vec<u64> = (0..30).map(|number| client.send(read(number), &[]).unwrap()).collect();
    let flush = client.send(Request { command: FLUSH, flags: 0, offset: 0, length: 0 }, &[]).unwrap();
    let mut ended = Vec::new();
    for _ in 0..=reads.len() {
        let reply = client.receive().unwrap();
        assert_eq!(reply.errno, 0);
        ended.push(reply.handle);
    }
    // The last of them had to wait for 24 others that are no part of the burst.
    assert!(begun.elapsed() >= Duration::from_secs(2), "{:?}", begun.elapsed());
    assert_ne!(ended.pop(), Some(flush));
    ended.sort_unstable();
    reads.push(flush);
    reads.retain(|handle| ended.binary_search(handle).is_err());
    assert_eq!(reads.len(), 1, "each is answered once");
    assert!(daemon.volume_count("held_requests") >= 10);
}

#[test]
fn a_stop_does_not_wait_for_a_cap() {
    need_kickcache!();
    let scratch = Scratch::new();
    let daemon = limited(&scratch, "write-through", "--client-bandwidth 64K/s --client-burst 10ms").start();
    let mut client = Client::connect(&daemon.spec.socket(), VOLUME).unwrap();
    let read = |number: u64| Request { command: READ, flags: 0, offset: number << 20, length: 1 << 20 };
    (0..20).for_each(|number| _ = client.send(read(number), &[]).unwrap());
    while daemon.volume_count("held_requests") < 19 {}
    // At 64 KiB a second the twenty would take five minutes, and a stop may take one.
    daemon.stop();
}
