//! fio as a child process, and what it leaves behind: its report and its logs.

pub(crate) mod child;
mod log;
pub(crate) mod report;
