//! The result on the screen: a picture, a table and sentences.

pub(crate) mod chart;
pub(crate) mod conclusions;
mod numbers;
mod table;

use std::io;

use kickcache_command::user_text::Printer;
use kickcache_daemon::shell_command::ShellCommand;

use crate::demo::report::chart::Colours;
use crate::demo::result::DemoResult;

const WIDTH: usize = 80;

/// Prints the result for people.
///
/// # Errors
/// If `out` cannot be written.
pub(crate) fn print(result: &DemoResult, colours: Colours, out: &mut dyn Printer) -> io::Result<()> {
    writeln!(out, "IOPS over time, on a logarithmic scale:\n")?;
    chart::print(&result.phases, colours, out)?;
    writeln!(out)?;
    // The main results are printed last: a terminal of 24 lines ends with them.
    writeln!(out, "{}{}\n", table::table(result), table::SPEED_UP)?;
    for sentence in conclusions::conclusions(result).iter().chain(&conclusions::warnings(result)) {
        writeln!(out, "{}", folded(sentence))?;
    }
    writeln!(
        out,
        "\nNext: `{}` puts a cache in front of a disk of yours.",
        ShellCommand::new("serve").word("--help")
    )
}

fn folded(sentence: &str) -> String {
    let mut lines = vec![String::from("*")];
    for word in sentence.split(' ') {
        let line = lines.last_mut().expect("there is one from the start");
        if line.chars().count() + 1 + word.chars().count() > WIDTH {
            lines.push(format!("  {word}"));
        } else {
            *line = format!("{line} {word}");
        }
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests;
