//! Throws bytes at the summary of a segment.

#![no_main]

#[path = "../harness/format.rs"]
#[allow(dead_code, reason = "the other targets use the rest")]
mod harness;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| harness::summary(bytes));
