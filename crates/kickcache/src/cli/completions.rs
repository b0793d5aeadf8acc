//! `kickcache completions`: the completion script of a shell.

use std::io::Write;

use clap_complete::Shell;
use kickcache_command::exit::Failure;

const EXAMPLES: &str = "\
Examples:
  kickcache completions bash > /etc/bash_completion.d/kickcache
  kickcache completions zsh  > ~/.zfunc/_kickcache
  kickcache completions fish > ~/.config/fish/completions/kickcache.fish";

/// Print completions for a shell
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

impl CompletionsArgs {
    pub(crate) fn run(&self, mut command: clap::Command, out: &mut dyn Write) -> Result<(), Failure> {
        // The generator panics if its output is closed.
        let mut text = Vec::new();
        clap_complete::generate(self.shell, &mut command, "kickcache", &mut text);
        Ok(out.write_all(&text)?)
    }
}
