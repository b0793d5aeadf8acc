//! Throws guest memory at a queue of a vhost-user device.

#![no_main]

use kickcache_vhost_user as vhost_user;

#[path = "../harness/vhost_user.rs"]
#[allow(dead_code, reason = "the other target and the tests use the rest")]
mod harness;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| harness::ring(bytes));
