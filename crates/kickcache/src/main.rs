//! The `kickcache` command.

fn main() {}
