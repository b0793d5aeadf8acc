//! `kickcache man`: the man pages.

mod configuration_page;
mod sections;

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap_mangen::Man;
use clap_mangen::roff::Roff;
use kickcache_command::exit::Failure;

const EXAMPLES: &str = "\
Examples:
  kickcache man | man -l -
  kickcache man --dir /usr/local/share/man/man1";

/// Print the man page, or write one for each command into a directory
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ManArgs {
    /// Directory for kickcache.1, kickcache-serve.1 and so on, and for kickcache.toml.5
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

impl ManArgs {
    pub(crate) fn run(&self, command: clap::Command, out: &mut dyn Write) -> Result<(), Failure> {
        match &self.dir {
            None => Ok(render(command, out)?),
            Some(dir) => Ok(write_all(command, dir)?),
        }
    }
}

fn render(command: clap::Command, out: &mut dyn Write) -> io::Result<()> {
    let mut rest = Roff::default();
    sections::render(&command, &mut rest);
    let has_options = command.get_arguments().any(|argument| !argument.is_hide_set());
    let has_commands = command.has_subcommands();
    let has_version = command.get_version().is_some();
    let page = Man::new(command);
    page.render_title(out)?;
    page.render_name_section(out)?;
    page.render_synopsis_section(out)?;
    page.render_description_section(out)?;
    if has_options {
        page.render_options_section(out)?;
    }
    if has_commands {
        page.render_subcommands_section(out)?;
    }
    rest.to_writer(out)?;
    if has_version {
        page.render_version_section(out)?;
    }
    Ok(())
}

fn write_all(mut command: clap::Command, dir: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(dir).with_context(|| format!("cannot make the folder {}", dir.display()))?;
    command = command.disable_help_subcommand(true);
    command.build();
    let written = write_tree(&command, dir).and_then(|()| configuration_page::write(dir));
    written.with_context(|| format!("cannot write the man pages to {}", dir.display()))
}

/// The pages of hidden commands are left out.
fn write_tree(command: &clap::Command, dir: &Path) -> io::Result<()> {
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        write_tree(below, dir)?;
    }
    let mut page = Vec::new();
    render(command.clone(), &mut page)?;
    fs::write(dir.join(format!("{}.1", sections::page_name(command))), page)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::CommandFactory;

    use super::*;
    use crate::cli::Cli;

    fn pages() -> Vec<(String, String)> {
        let folder = tempfile::tempdir().unwrap();
        write_all(Cli::command(), folder.path()).unwrap();
        let entries = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path());
        let name = |path: &Path| path.file_name().unwrap().to_string_lossy().into_owned();
        entries.map(|path| (name(&path), fs::read_to_string(&path).unwrap())).collect()
    }

    fn page(name: &str) -> String {
        pages().into_iter().find(|(found, _)| found == name).unwrap().1
    }

    #[test]
    fn every_page_has_the_standard_sections() {
        let pages = pages();
        assert!(pages.len() > 30, "{}", pages.len());
        for (name, text) in &pages {
            let sections = match name.as_str() {
                "kickcache.toml.5" => &["NAME", "DESCRIPTION", "SEE ALSO"][..],
                _ => &["NAME", "SYNOPSIS", "DESCRIPTION", "EXIT STATUS", "FILES", "SEE ALSO"],
            };
            for section in sections {
                let heading = [format!(".SH {section}\n"), format!(".SH \"{section}\"\n")];
                let count: usize = heading.iter().map(|heading| text.matches(heading).count()).sum();
                assert_eq!(count, 1, "{name}: {section}");
            }
        }
    }

    #[test]
    fn exit_codes_of_a_command_are_in_its_section() {
        let text = page("kickcache-check.1");
        let section = text.split("EXIT STATUS").nth(1).unwrap().split("\n.SH").next().unwrap();
        assert!(section.contains("5  dirty blocks are damaged"), "{section}");
        let text = page("kickcache-drain.1");
        let section = text.split("EXIT STATUS").nth(1).unwrap().split("\n.SH").next().unwrap();
        assert!(section.contains("3  no daemon answers"), "{section}");
    }

    #[test]
    fn the_configuration_page_has_every_key() {
        let text = page("kickcache.toml.5");
        for key in ["memory\\-limit", "write\\-budget", "origin\\-timeout", "ublk\\-depth"] {
            assert!(text.contains(&format!(".TP\n\\fB{key}\\fR\n")), "{key}\n{text}");
        }
        assert!(!text.contains("](") && !text.contains('`') && !text.contains('|'), "{text}");
    }

    #[test]
    fn the_page_of_commands_has_every_command() {
        let page = include_str!("../../../../../docs/reference/commands.md");
        let rows = page.lines().filter_map(|line| line.strip_prefix("| `kickcache "));
        let documented: BTreeSet<&str> = rows.filter_map(|row| row.split([' ', '`']).next()).collect();
        let mut command = Cli::command();
        command.build();
        let names: BTreeSet<&str> = command.get_subcommands().map(|below| below.get_name()).collect();
        assert_eq!(documented, names);
    }
}
