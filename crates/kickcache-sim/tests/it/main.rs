//! The gate: many seeds of the fault world, and proof that it would find what it looks for.

mod gate;
mod mutants;
mod scenarios;
mod stage;
