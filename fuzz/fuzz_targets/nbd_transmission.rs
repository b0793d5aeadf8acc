//! Throws bytes at the transmission phase of an NBD session.

#![no_main]

use kickcache_nbd as nbd;

#[path = "../harness/nbd.rs"]
#[allow(dead_code, reason = "the other target uses the rest")]
mod harness;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| harness::transmission(bytes));
