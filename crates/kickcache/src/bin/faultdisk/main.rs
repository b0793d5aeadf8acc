//! `faultdisk`: disks over NBD for tests that fail on demand, and log every write that they carry out.
//!
//! All disks of one process share one log: a number of records is one moment for all of these disks.

mod fault;
mod record;
mod replay;
mod server;
mod state;

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, ensure};
use clap::Parser;

use crate::record::Records;
use crate::replay::{PowerCut, Unflushed};
use crate::state::{DiskFile, State};

const EXAMPLES: &str = "\
Examples:
  faultdisk serve --socket fd.sock --control fd.control --log fd.log cache=cache.img origin=origin.img
  nbdfuse cache.file 'nbd+unix:///cache?socket=fd.sock'
  faultdisk tell fd.control position             the number of records in the log
  faultdisk tell fd.control met                  the number of operations that met a fault
  faultdisk tell fd.control fault origin write eio
  faultdisk tell fd.control fault cache read eio 1048576+4096
  faultdisk tell fd.control fault cache flush lie times 1
  faultdisk tell fd.control clear
  faultdisk replay --log fd.log --until 1234 --seed 7 cache=cache.cut origin=origin.cut

A fault is DISK OPERATION EFFECT [OFFSET+LENGTH] [after N] [times N]:
  OPERATION  read, write, flush or any
  EFFECT     eio, enospc, lie (acknowledge without effect), rot (flip a bit of read data), hang (until clear), gone
             (drop all connections until clear), delay=MILLISECONDS

replay writes files as they could be after a power cut behind the first N records: flushed writes are kept, unflushed
ones are kept or lost by the seed, some torn into sectors. The files must hold the data that the disks had when the log
began.";

/// Serve files as disks that fail on demand and log every write; play back power cuts
#[derive(Debug, Parser)]
#[command(name = "faultdisk", after_help = EXAMPLES)]
enum Faultdisk {
    /// Serve files over NBD
    Serve {
        /// Unix socket for NBD
        #[arg(long)]
        socket: PathBuf,
        /// Unix socket for `tell`
        #[arg(long)]
        control: PathBuf,
        /// File for the log; begins empty
        #[arg(long)]
        log: PathBuf,
        /// The disks: NAME=FILE
        #[arg(required = true)]
        disks: Vec<DiskFile>,
    },
    /// Send a command to a server and print its answer
    Tell {
        /// Its control socket
        control: PathBuf,
        /// position, met, clear, or fault ...
        #[arg(required = true)]
        words: Vec<String>,
    },
    /// Make files as a power cut would leave them
    Replay {
        /// The log
        #[arg(long)]
        log: PathBuf,
        /// Records before the power cut
        #[arg(long)]
        until: u64,
        /// Decides which unflushed writes survive
        #[arg(long)]
        seed: u64,
        /// Whole requests survive or not, none is torn
        #[arg(long, conflicts_with = "lose_unflushed")]
        no_tearing: bool,
        /// Lose all unflushed writes, with every seed
        #[arg(long)]
        lose_unflushed: bool,
        /// The disks, in the order in which they were served: NAME=FILE
        #[arg(required = true)]
        disks: Vec<DiskFile>,
    },
    /// Print one line a record of a log
    Show {
        /// The log
        log: PathBuf,
    },
}

fn main() -> ExitCode {
    match run(Faultdisk::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("faultdisk: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Faultdisk) -> anyhow::Result<()> {
    match command {
        Faultdisk::Serve { socket, control, log, disks } => {
            server::serve(&socket, &control, State::open(&log, &disks)?)
        }
        Faultdisk::Tell { control, words } => tell(&control, &words.join(" ")),
        Faultdisk::Replay { log, until, seed, no_tearing, lose_unflushed, disks } => {
            let unflushed = match (lose_unflushed, no_tearing) {
                (true, _) => Unflushed::Lost,
                (false, true) => Unflushed::Whole,
                (false, false) => Unflushed::Torn,
            };
            replay::replay(open_log(&log)?, &disks, PowerCut { until, seed, unflushed })
        }
        Faultdisk::Show { log } => show(open_log(&log)?),
    }
}

fn open_log(path: &Path) -> anyhow::Result<Records> {
    let file = File::open(path).with_context(|| format!("cannot open the log {}", path.display()))?;
    Ok(Records::new(file))
}

fn tell(control: &Path, words: &str) -> anyhow::Result<()> {
    let mut stream = UnixStream::connect(control)
        .with_context(|| format!("no process listens on {}", control.display()))?;
    writeln!(stream, "{words}")?;
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer)?;
    let answer = answer.trim_end();
    ensure!(!answer.starts_with("error"), "{answer}");
    println!("{answer}");
    Ok(())
}

fn show(records: Records) -> anyhow::Result<()> {
    for (number, record) in (0u64..).zip(records) {
        let record = record?;
        println!("{number} disk {} {:?} {}+{}", record.disk, record.kind, record.offset, record.length);
    }
    Ok(())
}
