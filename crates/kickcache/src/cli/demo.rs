//! `kickcache demo`: hands over to the demo.

use std::io::Write;

use crate::cli::exit::Failure;
use crate::demo::{Load, Options};

const EXAMPLES: &str = "\
Examples:
  kickcache demo
  kickcache demo --fio --json > demo.json";

/// Show what a cache is worth, on a simulated slow disk, in under 90 seconds
///
/// Needs nothing but this program: the slow disk is a model that answers in real time, the fast one a temporary file.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct DemoArgs {
    /// Let fio make the load instead of the built-in generator
    #[arg(long)]
    fio: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

impl DemoArgs {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<(), Failure> {
        let load = if self.fio { Load::Fio } else { Load::BuiltIn };
        Ok(crate::demo::run(&Options { load, json: self.json }, out)?)
    }
}
