//! Commands as they were typed.

use std::ffi::OsString;
use std::fmt;
use std::process::Command;

/// Both kinds start in the same way, by the shell, so that neither has a head start.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CommandLine {
    /// A line for the shell: `sh -c LINE`.
    Line(String),
    /// A program and its arguments, which the shell hands on as they are.
    Words(Vec<OsString>),
}

/// Hands its arguments on: the shell becomes the command.
const HAND_ON: &str = "exec \"$@\"";

impl CommandLine {
    pub(crate) fn process(&self) -> Command {
        let mut command = Command::new("/bin/sh");
        match self {
            CommandLine::Line(line) => command.arg("-c").arg(line),
            CommandLine::Words(words) => command.args(["-c", HAND_ON, "sh"]).args(words),
        };
        command
    }
}

impl fmt::Display for CommandLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CommandLine::Line(line) => f.write_str(line),
            CommandLine::Words(words) => {
                let quoted: Vec<String> = words.iter().map(|word| quoted(&word.to_string_lossy())).collect();
                f.write_str(&quoted.join(" "))
            }
        }
    }
}

fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_shown_as_a_shell_reads_them() {
        let words = ["fio", "my job.fio", "--name=a", "it's", ""].map(OsString::from).to_vec();
        assert_eq!(CommandLine::Words(words).to_string(), r"fio 'my job.fio' --name=a 'it'\''s' ''");
    }
}
