//! Limits of a volume, as the built daemon keeps them.

use std::ffi::OsString;

use crate::client::Client;
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
