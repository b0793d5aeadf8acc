//! The properties that the simulator must show.

mod duel;
mod git_row;
mod grid;
mod late_processor;
mod neighbour;
