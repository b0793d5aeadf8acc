//! The result on the screen.
