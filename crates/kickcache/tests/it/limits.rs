//! Limits of a volume.

use std::ffi::OsString;

use std::time::{Duration, Instant};

use crate::bad_input;
use crate::client::{Client, FLUSH, READ, Request};
use crate::daemon::{Daemon, Spec, VOLUME};
use crate::damaged_notes::note;
use crate::need_kickcache;
use crate::scratch::{MIB, Scratch};

const ORIGIN_BYTES: u64 = 64 * MIB;

fn limited(scratch: &Scratch, mode: &'static str, flags: &str) -> Spec {
    let origin = scratch.sparse("origin", ORIGIN_BYTES);
    let extra = flags.split_whitespace().map(OsString::from).collect();
    Spec { extra, ..Spec::new(scratch, &origin, mode, "32M") }
}

#[test]
fn blocks_below_the_low_mark_stay_dirty_until_idle() {
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
fn client_caps_hold_and_flushes_do_not_wait() {
    need_kickcache!();
    let scratch = Scratch::new();
    let daemon = limited(&scratch, "write-back", "--client-iops 10 --client-burst 500ms").start();
    let mut client = Client::connect(&daemon.spec.socket(), VOLUME).unwrap();
    let read = |number: u64| Request { command: READ, flags: 0, offset: number * 4096, length: 4096 };
    let mut reads: Vec<u64> = (0..30).map(|number| client.send(read(number), &[]).unwrap()).collect();
    let flush = client.send(Request { command: FLUSH, flags: 0, offset: 0, length: 0 }, &[]).unwrap();
    let mut ended = Vec::new();
    for _ in 0..=reads.len() {
        let reply = client.receive().unwrap();
        assert_eq!(reply.errno, 0);
        ended.push(reply.handle);
    }
    assert_ne!(ended.last(), Some(&flush));
    assert!(ended.pop().is_some());
    ended.sort_unstable();
    reads.push(flush);
    reads.retain(|handle| ended.binary_search(handle).is_err());
    assert_eq!(reads.len(), 1, "each is answered once");
    assert!(daemon.volume_count("held_requests") >= 10);
}

#[test]
fn requests_of_disconnected_clients_do_not_block_others() {
    need_kickcache!();
    let scratch = Scratch::new();
    let daemon = limited(&scratch, "write-through", "--client-bandwidth 256K/s --client-burst 10ms").start();
    let read = |number: u64| Request { command: READ, flags: 0, offset: number << 20, length: 1 << 20 };
    for _ in 0..2 {
        let mut client = Client::connect(&daemon.spec.socket(), VOLUME).unwrap();
        // More reads than a client may have in flight, so that the daemon stops reading from its socket.
        (0..60).for_each(|number| _ = client.send(read(number), &[]).unwrap());
        while daemon.volume_count("held_requests") < 31 {}
    }
    let is_alone = || daemon.status()["caches"][0]["volumes"][0]["sessions"]["nbd"] == 0;
    let begun = Instant::now();
    while !is_alone() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{}", daemon.status());
    }
    // At 256 KiB a second each sixty would take four minutes.
    let mut client = Client::connect(&daemon.spec.socket(), VOLUME).unwrap();
    client.read(0, 4096);
    daemon.stop();
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

#[test]
fn a_volume_keeps_within_its_limit_and_its_reservation() {
    need_kickcache!();
    let scratch = Scratch::new();
    let refused = limited(&scratch, "write-through", "--room-min 30M");
    let said = bad_input::refused("more than the cache device has", &refused.arguments());
    assert!(said.contains("the room-min of its volumes are 30 MiB in total, but at most"), "{said}");
    assert!(!refused.cache.exists(), "nothing was made");
    let daemon = limited(&scratch, "write-through", "--room-min 4M --room-max 25%").start();
    let mut client = Client::connect(&daemon.spec.socket(), VOLUME).unwrap();
    for number in 0..192 {
        let read = Request {
            command: READ,
            flags: 0,
            offset: number * 7 % 192 * (MIB / 3 / 4096 * 4096),
            length: 128 << 10,
        };
        client.send(read, &[]).unwrap();
        assert_eq!(client.receive().unwrap().errno, 0);
    }
    let cached = || {
        let status = daemon.status();
        let volume = &status["caches"][0]["volumes"][0];
        let max = volume["limits"]["room_max_bytes"].as_u64().unwrap();
        assert_eq!(volume["limits"]["room_min_bytes"], 4 * MIB);
        assert!((6 * MIB..=8 * MIB).contains(&max), "{max}");
        volume["cached_bytes"].as_u64().unwrap().saturating_sub(max)
    };
    let deadline = Instant::now() + Duration::from_secs(60);
    while cached() > MIB / 4 {
        assert!(Instant::now() < deadline, "{} too much", cached());
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn daily_writes_count_after_a_restart_if_validly_recorded() {
    need_kickcache!();
    let scratch = Scratch::new();
    let spec = limited(&scratch, "write-back", "--write-budget 64M/day");
    let wear = |daemon: &Daemon| daemon.status()["caches"][0]["wear"].clone();
    let daemon = spec.start();
    let mut client = daemon.connect();
    (0..24).for_each(|number| client.write(number * MIB, &[7; 1 << 20]));
    client.flush();
    let before = wear(&daemon);
    assert_eq!(before["given_up"], "everything", "{before}");
    drop(client);
    daemon.stop();
    let daemon = spec.start();
    let after = wear(&daemon);
    assert!(after["day_bytes"].as_u64() >= before["day_bytes"].as_u64(), "{before}, then {after}");
    assert_eq!(after["given_up"], "everything", "{after}");
    daemon.stop();
    std::fs::write(note("wear-"), "{").unwrap();
    let daemon = spec.start();
    assert!(daemon.log().contains("the bytes written to the cache device in the last day are not counted"));
    assert_eq!(wear(&daemon)["given_up"], "nothing");
}
