//! The gate: many seeds of the fault simulation, scenarios, and a proof that the simulation detects planted flaws.

mod gate;
mod lost_journal;
mod lost_segment;
mod moved_blocks;
mod mutants;
mod out_of_service;
mod refused;
mod scenarios;
mod stage;
mod torn_journal;
mod unreadable;
mod unreadable_log;
