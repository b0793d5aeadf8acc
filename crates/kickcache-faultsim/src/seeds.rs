//! Where a series of seeds begins.

use std::process::Command;

/// The first seed of a series: the value of `KICKCACHE_SEED`, else a number made from the commit that is
/// checked out, else 0.
pub fn first_seed() -> u64 {
    of_environment().or_else(of_commit).unwrap_or(0)
}

pub fn first_seed_or(first: u64) -> u64 {
    of_environment().unwrap_or(first)
}

fn of_environment() -> Option<u64> {
    std::env::var("KICKCACHE_SEED").ok().and_then(|seed| seed.parse().ok())
}

/// The first twelve hexadecimal digits of the commit.
fn of_commit() -> Option<u64> {
    let output = Command::new("git").args(["rev-parse", "HEAD"]).output().ok()?;
    let name = String::from_utf8(output.stdout).ok()?;
    u64::from_str_radix(name.get(..12)?, 16).ok()
}
