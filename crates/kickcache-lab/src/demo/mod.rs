//! The demo: the effect of a cache, shown on a simulated slow disk.
//!
//! It runs the load of the articles through a real server and real sockets against a slow disk, a fast file,
//! and the slow disk with another file as its cache: with an empty cache, with a cache full of stale data,
//! and after a restart.

mod content;
mod devices;
mod job_result;
mod load;
mod load_maker;
mod phases;
mod progress;
mod report;
pub mod result;
mod run_display;
mod slow_disk;
mod workload;

use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use anyhow::Context as _;
use kickcache_command::interrupt::{Interrupt, LOOK_EVERY};
use kickcache_command::notice::notice;
use kickcache_command::user_text::Printer;
use kickcache_command::whole_file;
use kickcache_daemon::serve::server::ServerHandle;
use kickcache_engine::units::BLOCK_SIZE;
use kickcache_report::Report;
use kickcache_units::show_bytes;

pub use crate::demo::load_maker::LoadMaker;
pub use crate::demo::report::chart::Colours;
pub use crate::demo::run_display::RunDisplay;

use crate::demo::devices::DemoDevices;
use crate::demo::phases::{Context, PhaseFigures};
use crate::demo::progress::Progress;
use crate::demo::result::{DemoResult, Phase, RESULT_VERSION, Settings};
use crate::demo::workload::{DEPTH, JOB_COUNT, Scale, THETA};
use crate::fio::child;

/// Default length of a run with a cache.
pub const RUNTIME: &str = "14s";

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    pub load: LoadMaker,
    pub output: Output,
    /// Length of a run with a cache, in seconds, at least 1; a run without one takes two thirds of this time.
    pub seconds: u64,
    /// The directory of the temporary files; by default `$TMPDIR` or /var/tmp.
    pub directory: Option<PathBuf>,
    pub seed: u64,
    pub report: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Output {
    /// A table, a picture and sentences.
    Text(Colours),
    Json,
}

/// Runs the demo and prints its result to `out`.
///
/// # Errors
/// If a file or a socket cannot be made, `out` cannot be written, a server or the load fails, fio lacks its NBD engine,
/// or the demo is interrupted before its end.
pub fn run(options: &Options, display: Option<&dyn RunDisplay>, out: &mut dyn Printer) -> anyhow::Result<()> {
    if options.load == LoadMaker::Fio {
        child::check_engine("nbd").context("--fio needs it; leave --fio out")?;
    }
    let interrupt = Interrupt::listen("the demo was interrupted; its files are removed")?;
    let mut demo = Demo {
        options,
        scale: Scale::full(options.seconds.max(1)),
        display,
        interrupt: &interrupt,
        last: None,
    };
    demo.run(out)?;
    demo.leave_open()
}

struct Demo<'a> {
    options: &'a Options,
    scale: Scale,
    display: Option<&'a dyn RunDisplay>,
    interrupt: &'a Interrupt,
    /// The last run's server and its devices, for the display; `None` without one, and before the last run
    /// has ended.
    last: Option<(ServerHandle, DemoDevices)>,
}

impl Demo<'_> {
    fn run(&mut self, out: &mut dyn Printer) -> anyhow::Result<()> {
        let (options, scale) = (self.options, self.scale);
        if let Some(display) = self.display {
            notice(&format!("The live page of the runs: {}", display.address()));
        }
        let Output::Text(colours) = options.output else {
            let result = self.measure()?;
            write_report(options, &scale, &result)?;
            return Ok(writeln!(out, "{}", serde_json::to_string_pretty(&result)?)?);
        };
        introduce(options, &scale, out)?;
        let result = self.measure()?;
        report::print(&result, colours, out)?;
        write_report(options, &scale, &result)?;
        if let Some(path) = &options.report {
            writeln!(out, "The report is in {}.", path.display())?;
        }
        Ok(out.flush()?)
    }

    fn measure(&mut self) -> anyhow::Result<DemoResult> {
        let (options, scale, interrupt) = (self.options, self.scale, self.interrupt);
        let mut progress = Progress::new(whole(&scale));
        progress.say("writing the fast file");
        let devices = DemoDevices::set_up(options.directory.as_deref(), scale, options.seed, interrupt)?;
        let context = Context {
            devices: &devices,
            scale,
            seed: options.seed,
            load: options.load,
            display: self.display,
            interrupt,
        };
        let (mut phases, mut runs, mut last) = (Vec::new(), Vec::new(), None);
        for phase in Phase::ALL {
            let PhaseFigures { result, run, server } = phases::run(&context, phase, &mut progress)?;
            phases.push(result);
            runs.push(run);
            if self.display.is_some() && phases.len() == Phase::ALL.len() {
                last = Some(server);
            } else {
                devices.stop(phase, &server)?;
            }
        }
        drop(progress);
        self.last = last.map(|server| (server, devices));
        Ok(DemoResult { version: RESULT_VERSION, settings: settings(options, &scale), phases, runs })
    }

    /// Waits for a signal while the display shows the last run, and stops its server; returns at once without
    /// a display.
    fn leave_open(self) -> anyhow::Result<()> {
        let (Some((server, _devices)), Some(display)) = (self.last, self.display) else { return Ok(()) };
        notice(&format!("The page stays open until Ctrl-C: {}", display.address()));
        while self.interrupt.signal().is_none() {
            thread::sleep(LOOK_EVERY);
        }
        server.stop();
        server.join()?;
        Ok(())
    }
}

fn write_report(options: &Options, scale: &Scale, result: &DemoResult) -> anyhow::Result<()> {
    let Some(path) = &options.report else { return Ok(()) };
    whole_file::write(path, page(scale, result))
        .with_context(|| format!("the report {} cannot be written", path.display()))
}

/// Caveats for the comparison: each sentence with a space before it.
pub(crate) fn warnings(result: &DemoResult) -> String {
    let spread = "Each was run once, so ratios have no spread: the chart of a run shows the differences between its seconds.";
    let warnings = report::conclusions::warnings(result);
    std::iter::once(spread.to_owned()).chain(warnings).map(|sentence| format!(" {sentence}")).collect()
}

fn page(scale: &Scale, result: &DemoResult) -> String {
    let [data, cache] = [scale.job_bytes * JOB_COUNT, scale.cache_bytes].map(show_bytes);
    let introduction = format!(
        "{JOB_COUNT} jobs with {DEPTH} reads of 4 KiB in flight each, zipf {THETA} over {data}, through NBD. The slow \
         disk is simulated in real time: {}. The cache is a file of {cache}.{}",
        slow_disk::DESCRIPTION,
        warnings(result)
    );
    Report { title: "kickcache demo", introduction: &introduction, runs: &result.runs }.html()
}

fn introduce(options: &Options, scale: &Scale, out: &mut dyn Printer) -> anyhow::Result<()> {
    let mebibytes = |bytes: u64| bytes >> 20;
    let (job, cache) = (mebibytes(scale.job_bytes), mebibytes(scale.cache_bytes));
    let seconds = whole(scale).as_secs();
    let load = match options.load {
        LoadMaker::BuiltIn => "",
        LoadMaker::Fio => ", made by fio",
    };
    writeln!(
        out,
        "Load: {JOB_COUNT} jobs x {DEPTH} reads of 4 KiB in flight, zipf {THETA}, over NBD{load}."
    )?;
    writeln!(out, "Slow disk: SIMULATED in real time, {}.", slow_disk::DESCRIPTION)?;
    writeln!(out, "Data: {JOB_COUNT} x {job} MiB. Cache: {cache} MiB in a file. Fast: the data in a file.")?;
    writeln!(out, "Five runs take about {seconds} s; Ctrl-C ends them, and no file is left behind.\n")?;
    Ok(out.flush()?)
}

fn whole(scale: &Scale) -> Duration {
    Phase::ALL.iter().map(|phase| phase.duration(scale)).sum()
}

fn settings(options: &Options, scale: &Scale) -> Settings {
    Settings {
        kickcache: env!("CARGO_PKG_VERSION").into(),
        load: options.load,
        seed: options.seed,
        jobs: JOB_COUNT,
        depth: u64::try_from(DEPTH).expect("small"),
        block_bytes: BLOCK_SIZE,
        zipf_theta: THETA,
        job_bytes: scale.job_bytes,
        cache_bytes: scale.cache_bytes,
        slow_disk: slow_disk::DESCRIPTION.into(),
    }
}

#[cfg(test)]
mod tests;
