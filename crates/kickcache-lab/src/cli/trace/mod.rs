//! `kickcache trace`: recordings and traces of other programs, looked at and converted.

mod convert;
pub(crate) mod format_name;
mod info;
pub(crate) mod spool;

use clap::Subcommand;
use kickcache_command::exit::Failure;
use kickcache_command::user_text::Printer;

const EXAMPLES: &str = "\
Examples:
  kickcache trace info vm1.kct                                  its content
  kickcache trace convert vm1.kct -o vm1.log --to iolog         for fio --read_iolog
  blkparse -i sdb | kickcache trace convert - -o sdb.kct --to kickcache";

/// Show and convert traces: recordings of kickcache, blkparse, fio, CSV
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, arg_required_else_help = true)]
pub struct TraceArgs {
    #[command(subcommand)]
    what: TraceCommand,
}

#[derive(Debug, Subcommand)]
enum TraceCommand {
    Convert(convert::ConvertArgs),
    Info(info::InfoArgs),
}

impl TraceArgs {
    pub fn run(&self, out: &mut dyn Printer) -> Result<(), Failure> {
        match &self.what {
            TraceCommand::Convert(args) => args.run(out),
            TraceCommand::Info(args) => args.run(out),
        }
    }
}
