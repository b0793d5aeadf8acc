//! `kickcache simulate`: caches on virtual devices; `--calibrate` measures a real device.

pub(crate) mod cache_size;
mod calibrate;
mod case_result;
pub(crate) mod compare;
mod compare_page;
mod compare_rows;
mod compare_table;
mod compare_verdict;
mod compared_runs;
mod finding;
mod grid;
mod grid_table;
pub(crate) mod input;
pub(crate) mod load;
mod pace;
mod parquet_file;
pub(crate) mod planned_run;
pub(crate) mod pool;
mod published;
mod published_json;
mod published_page;
mod published_table;
mod setup_names;
mod shard;
mod trace;
mod trace_page;
mod trace_rows;
mod trace_sample;
mod trace_table;

use anyhow::Context;
use clap::Subcommand;
use kickcache_command::closed_output::OutputWatch;
use kickcache_command::exit::{Exit, Failure};
use kickcache_command::user_text::Printer;
use kickcache_daemon::shell_command::ShellCommand;

use crate::bench::Data;

const EXAMPLES: &str = "\
Examples:
  kickcache simulate compare --job mail.fio             a fio job file on several caches
  kickcache simulate compare --trace vm.csv.xz          a recorded trace, with its timing
  kickcache simulate trace vm.csv.xz                    hit ratios of caches of several sizes
  kickcache simulate grid --only network-disk           mixed loads, against the best other cache
  kickcache simulate published -o report.html           published figures, modelled and kickcache's
  kickcache simulate published --only bcache            only rows with a word in their names
  kickcache simulate --calibrate /dev/sdb > disk.toml   measure and describe a disk";

/// Simulate caches on virtual devices, in virtual time
///
/// Runs the real engine of kickcache and models of other caches, on models of devices. The same seed gives
/// the same result.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, arg_required_else_help = true, args_conflicts_with_subcommands = true)]
pub struct SimulateArgs {
    /// Measure a device, a file or an NBD export with 45 s of reads by fio, and print a device file
    #[arg(long, value_name = "DEVICE|FILE|URI")]
    calibrate: Option<String>,
    /// Measure writes, too, for 30 s more; all data on the device is lost
    #[arg(long, requires = "calibrate")]
    destroy_data: bool,
    #[command(subcommand)]
    what: Option<SimulateCommand>,
}

#[derive(Debug, Subcommand)]
enum SimulateCommand {
    Run(compare::RunArgs),
    Compare(compare::CompareArgs),
    Grid(grid::GridArgs),
    Published(published::PublishedArgs),
    Trace(trace::TraceArgs),
}

impl SimulateArgs {
    pub fn run(self, out: &mut dyn Printer) -> Result<(), Failure> {
        if let Some(target) = self.calibrate {
            let data = if self.destroy_data { Data::Destroy } else { Data::Keep };
            return Ok(write!(out, "{}", calibrate::calibrate(&target, data)?)?);
        }
        let watch = OutputWatch::start(|| Exit::Interrupted.end_process());
        let _output = watch.context("cannot start a thread")?;
        match self.what {
            Some(SimulateCommand::Run(args)) => args.run(out),
            Some(SimulateCommand::Compare(args)) => args.run(out),
            Some(SimulateCommand::Grid(args)) => args.run(out),
            Some(SimulateCommand::Published(args)) => args.run(out),
            Some(SimulateCommand::Trace(args)) => args.run(out),
            None => {
                let help = ShellCommand::new("simulate").word("--help");
                Err(Failure::usage(format!("no simulation is given; see {help}")))
            }
        }
    }
}
