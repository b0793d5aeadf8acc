//! The result on the screen: a table, a picture, three sentences.

pub(crate) mod chart;
mod conclusions;
mod numbers;
mod table;

use std::io::{self, Write};

use crate::demo::report::chart::Colours;
use crate::demo::result::DemoResult;

/// Prints the result for people.
///
/// # Errors
/// If `out` cannot be written.
pub(crate) fn print(result: &DemoResult, colours: Colours, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{}", table::table(result))?;
    writeln!(out, "IOPS over time, on a logarithmic scale:\n")?;
    writeln!(out, "{}", chart::chart(&result.phases, colours))?;
    for sentence in conclusions::conclusions(result) {
        writeln!(out, "* {sentence}")?;
    }
    writeln!(out, "\nNext: `kickcache serve --help` puts a cache in front of a disk of yours.")
}

#[cfg(test)]
mod tests;
