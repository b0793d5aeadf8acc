//! `kickcache mode`: changes the mode of a volume that is served.

use std::io::Write;

use crate::cli::exit::Failure;
use crate::cli::options::ControlOption;
use crate::words::ModeWord;

const EXAMPLES: &str = "\
Examples:
  kickcache mode vm1 write-back
  kickcache mode vm1 write-through      new writes at once; what is dirty is written back as well";

/// Change the mode of a volume while it is served
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ModeArgs {
    /// Name of the volume
    volume: String,
    /// Its new mode
    #[arg(value_enum)]
    mode: ModeWord,
    #[command(flatten)]
    control: ControlOption,
}

impl ModeArgs {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<(), Failure> {
        self.control.client().set_mode(&self.volume, self.mode)?;
        Ok(writeln!(out, "{}: {} from here on", self.volume, self.mode.as_str())?)
    }
}
