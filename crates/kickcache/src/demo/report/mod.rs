//! The result on the screen: a table, a picture, three sentences.

pub(crate) mod chart;
mod conclusions;
mod numbers;
mod table;

use std::io::{self, Write};

use kickcache_daemon::shell_command::ShellCommand;

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
    writeln!(
        out,
        "\nNext: `{}` puts a cache in front of a disk of yours.",
        ShellCommand::new("serve").word("--help")
    )
}

#[cfg(test)]
mod tests;
