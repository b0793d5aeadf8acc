//! `kickcache demo`: hands over to the demo.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::time::Duration;

use kickcache_command::exit::Failure;
use kickcache_command::options::parse_whole_seconds;
use kickcache_command::output;
use kickcache_command::user_text::Printer;

use crate::cli::demo_page::DemoPage;
use crate::demo::{Colours, LoadMaker, Options, Output, RUNTIME, RunDisplay};

const EXAMPLES: &str = "\
Examples:
  kickcache demo
  kickcache demo --dir /mnt/nvme --runtime 30
  kickcache demo --fio --json > demo.json
  kickcache demo -o demo.html
  kickcache demo --page                 watch the runs in a browser";

/// Demonstrate the effect of a cache on a simulated slow disk, in under 90 seconds
///
/// Needs no other program and no device. The slow disk is a model that answers in real time; the fast one is
/// a temporary file.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct DemoArgs {
    /// Load by fio instead of the built-in generator
    #[arg(long)]
    fio: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    /// Length of each run with a cache, 1s to 1h; runs without one take two thirds of this time
    #[arg(long, alias = "seconds", value_name = "TIME", default_value = RUNTIME, value_parser = parse_runtime)]
    runtime: Duration,
    /// Directory for temporary files, on a fast disk (about 600 MiB) [default: $TMPDIR or /var/tmp]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Seed of the load and of the simulated disk
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Write a report, too: one self-contained HTML page
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Serve the live page of the runs on a free port of 127.0.0.1, and leave it open after them until Ctrl-C
    #[arg(long)]
    page: bool,
}

fn parse_runtime(text: &str) -> Result<Duration, String> {
    parse_whole_seconds(text, 3_600, "1s to 1h")
}

impl DemoArgs {
    pub fn run(self, out: &mut dyn Printer) -> Result<(), Failure> {
        output::try_out(&[self.output.as_deref()], &[])?;
        let load = if self.fio { LoadMaker::Fio } else { LoadMaker::BuiltIn };
        let output = if self.json { Output::Json } else { Output::Text(colours()) };
        let DemoArgs { runtime, dir: directory, seed, output: report, page, .. } = self;
        let seconds = runtime.as_secs();
        let page = page.then(DemoPage::open).transpose()?;
        let display = page.as_ref().map(|page| page as &dyn RunDisplay);
        Ok(crate::demo::run(&Options { load, output, seconds, directory, seed, report }, display, out)?)
    }
}

/// Colours are for terminals, unless `NO_COLOR` has a value.
fn colours() -> Colours {
    let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    if refused || !std::io::stdout().is_terminal() { Colours::Plain } else { Colours::Ansi }
}
