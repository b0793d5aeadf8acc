//! `kickcache man`: the man pages, from the same source as the help.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::cli::exit::Failure;

const EXAMPLES: &str = "\
Examples:
  kickcache man | man -l -
  kickcache man --dir /usr/local/share/man/man1";

/// Print the man page, or write one for each command into a directory
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ManArgs {
    /// Directory for kickcache.1, kickcache-serve.1 and so on
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

impl ManArgs {
    /// Prints or writes the pages of a command line.
    pub(crate) fn run(&self, command: clap::Command, out: &mut dyn Write) -> Result<(), Failure> {
        match &self.dir {
            None => Ok(clap_mangen::Man::new(command).render(out)?),
            Some(dir) => Ok(write_all(command, dir)?),
        }
    }
}

fn write_all(command: clap::Command, dir: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(dir).with_context(|| format!("cannot make the folder {}", dir.display()))?;
    clap_mangen::generate_to(command, dir)
        .with_context(|| format!("cannot write the man pages to {}", dir.display()))
}
