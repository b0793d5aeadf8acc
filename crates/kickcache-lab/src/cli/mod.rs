//! The commands, a file or folder each.

pub mod advise;
pub mod bench;
mod bench_table;
pub mod demo;
mod demo_page;
pub mod judge;
mod prediction;
pub mod report;
pub mod simulate;
pub mod trace;
