//! fio as a child process, and its output: its report and its logs.

pub(crate) mod child;
mod log;
pub(crate) mod report;
