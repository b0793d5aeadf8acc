//! What the simulator must show.

mod git_row;
mod late_processor;
