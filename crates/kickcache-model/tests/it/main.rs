//! What the simulator must show.

mod late_processor;
