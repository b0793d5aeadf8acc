//! The command line: a file or a folder for each command of this crate.

mod add;
mod check;
mod check_config;
mod completions;
mod daemon_wait;
mod detach;
mod device_state;
mod drain;
mod drain_all;
mod dump;
mod equals_hint;
mod format;
mod grow;
mod inspect;
mod leave_out;
mod limit_flags;
mod man;
mod mode;
mod pause_caching;
mod record;
mod reload;
mod remove;
mod replace;
mod resize;
mod serve;
mod status;
mod stop;
mod top;
mod ublk;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use kickcache_command::exit::{Exit, Failure};
use kickcache_command::notice::notice;
use kickcache_command::user_text::{self, Printer};
use kickcache_daemon::devices::state::STATE_VARIABLE;
use kickcache_daemon::path_text::path_text;
use kickcache_lab::cli::{advise, bench, demo, judge, report, simulate, trace};
use kickcache_units::printable::{is_escaped, printable_line};

use crate::cli::equals_hint::with_hint;

const USAGE: i32 = 2;

const EXAMPLES: &str = "\
Examples:
  kickcache demo                        show the effect of a cache on a simulated slow disk
  kickcache serve --cache /var/cache/vm1.img --size 20G --origin /dev/sdb --name vm1 \\
                  --nbd unix:/run/kickcache/vm1.sock
  kickcache status --watch              show all volumes, every 2 seconds
  kickcache drain vm1 --wait            write all dirty blocks back to the origin

Exit codes:
  0  success
  1  failure; see the message on standard error
  2  an argument or a key of the configuration file is wrong, or a file named by one: a trace,
     a result, prices
  3  no daemon answers at the control socket
  4, 5, 6  `check` found damage: see `kickcache check --help`
  7  `check` or `inspect` found a cache device that no daemon uses: out of service, an older copy,
     or bypassed with dirty blocks
  8  `serve` was stopped, and blocks are on a cache device out of service alone, or lost, or a
     second signal cut the stop short
  9  `status --check` found a problem
  10 the daemon has not answered, and may still be carrying out the operation
  130  the command was interrupted, by a signal or because its terminal or pipe was closed: `bench`
     prints its complete rounds; of `drain --wait`, `replace` and `leave-out` the daemon continues
     the operation";

/// A user-space block cache for Linux: a small fast device in front of a big slow one.
///
/// kickcache puts a fast file or block device (the cache device) in front of a slow one (the origin) and
/// serves the result, a volume, as a disk over NBD, over vhost-user or as a block device of this host. The
/// origin has the same layout as without a cache. A drained volume can be detached at any time.
#[derive(Debug, Parser)]
#[command(name = "kickcache", version, long_version = version::long(), max_term_width = 100, after_help = EXAMPLES, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Format(format::FormatArgs),
    Serve(Box<serve::ServeArgs>),
    Status(status::StatusArgs),
    CheckConfig(check_config::CheckConfigArgs),
    Top(top::TopArgs),
    Mode(mode::ModeArgs),
    PauseCaching(pause_caching::PauseCachingArgs),
    Drain(drain::DrainArgs),
    Reload(reload::ReloadArgs),
    Add(Box<add::AddArgs>),
    Remove(remove::RemoveArgs),
    Resize(resize::ResizeArgs),
    Grow(grow::GrowArgs),
    LeaveOut(leave_out::LeaveOutArgs),
    Replace(replace::ReplaceArgs),
    Record(record::RecordArgs),
    Stop(stop::StopArgs),
    Inspect(inspect::InspectArgs),
    Check(check::CheckArgs),
    Dump(dump::DumpArgs),
    Detach(detach::DetachArgs),
    Ublk(ublk::UblkArgs),
    Demo(demo::DemoArgs),
    Bench(bench::BenchArgs),
    Report(report::ReportArgs),
    Simulate(simulate::SimulateArgs),
    Advise(Box<advise::AdviseArgs>),
    Judge(Box<judge::JudgeArgs>),
    Trace(trace::TraceArgs),
    Completions(completions::CompletionsArgs),
    Man(man::ManArgs),
}

impl Command {
    fn run(self, out: &mut dyn Printer) -> Result<Exit, Failure> {
        let done = match self {
            Command::Format(args) => args.run(out),
            Command::Serve(args) => args.run(out),
            Command::Status(args) => args.run(out),
            Command::CheckConfig(args) => args.run(out),
            Command::Top(args) => args.run(out),
            Command::Mode(args) => args.run(out),
            Command::PauseCaching(args) => args.run(out),
            Command::Drain(args) => args.run(out),
            Command::Reload(args) => args.run(out),
            Command::Add(args) => args.run(out),
            Command::Remove(args) => args.run(out),
            Command::Resize(args) => args.run(out),
            Command::Grow(args) => args.run(out),
            Command::LeaveOut(args) => args.run(out),
            Command::Replace(args) => args.run(out),
            Command::Record(args) => args.run(out),
            Command::Stop(args) => args.run(out),
            Command::Inspect(args) => args.run(out),
            Command::Check(args) => args.run(out),
            Command::Dump(args) => args.run(out),
            Command::Detach(args) => args.run(out),
            Command::Ublk(args) => args.run(out),
            Command::Demo(args) => args.run(out),
            Command::Bench(args) => args.run(version::COMMIT, out),
            Command::Report(args) => args.run(out),
            Command::Simulate(args) => args.run(out),
            Command::Advise(args) => args.run(out),
            Command::Trace(args) => args.run(out),
            Command::Completions(args) => args.run(Cli::command(), out),
            Command::Man(args) => args.run(Cli::command(), out),
            Command::Judge(args) => return Ok(Exit::Judged(args.run(out))),
        };
        done.and_then(|()| Ok(out.flush()?)).map(|()| Exit::Success)
    }
}

fn words_of_user() -> impl Iterator<Item = OsString> {
    std::env::args_os().chain(std::env::var_os(STATE_VARIABLE))
}

/// The program: parses the arguments, runs the command, and prints an error on standard error.
pub fn main() -> ExitCode {
    if let Some(refused) = words_of_user().find_map(|word| path_text(&word).err()) {
        notice(&format!("kickcache: {refused}"));
        return ExitCode::from(judge::refusal_code(USAGE));
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let words: Vec<String> = std::env::args_os().map(|word| word.to_string_lossy().into()).collect();
            let error = with_hint(error, &words);
            refuse(&error, &words);
            return ExitCode::from(judge::refusal_code(error.exit_code()));
        }
    };
    match cli.command.run(&mut user_text::stdout()) {
        Ok(exit) => exit.into(),
        Err(failure) if failure.is_closed_pipe() => Exit::Success.into(),
        Err(failure) => {
            notice(&format!("kickcache: {}", printable_line(&failure.sentence())));
            failure.exit.into()
        }
    }
}

/// Prints the error of the arguments, or the help; without colours if an argument has control characters.
fn refuse(error: &clap::Error, words: &[String]) {
    if words.iter().any(|word| word.chars().any(is_escaped)) {
        return notice(&error.render().to_string());
    }
    // The pipe may be closed.
    let _ = error.print();
}

mod daemon_loss;
#[cfg(test)]
mod tests;
mod version;
