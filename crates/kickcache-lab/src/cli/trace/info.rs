//! `kickcache trace info`: shows the content of a trace.

use std::path::PathBuf;

use kickcache_command::exit::{Exit, Failure};
use kickcache_command::notice::notice;
use kickcache_command::table::{Align, Cell, Colour, KEEP, Table};
use kickcache_command::user_text::Printer;
use kickcache_command::width::terminal_width;
use kickcache_engine::units::BLOCK_SIZE;
use kickcache_model::trace_file::Format;
use kickcache_model::trace_file::survey::{Survey, survey};
use kickcache_units::{show_bytes, show_count, show_duration};
use serde_json::{Value, json};

use crate::cli::trace::format_name::parse_format;
use crate::cli::trace::spool::spool_input;

const EXAMPLES: &str = "\
Examples:
  kickcache trace info vm1.kct
  kickcache trace info vm1.kct dev.csv.xz --json
  xzcat dev.csv.xz | kickcache trace info -

FOOTPRINT is the different blocks of 4 KiB that reads and writes touch, in bytes. OTHERS are
flushes, discards and zeroes. LOST are records that `kickcache record` could not write in time.

Exit codes: 0 all of each trace was read; 1 parts of one make no sense (the figures are of the
rest); 2 a file cannot be read, or is no trace.";

/// Show the content of traces: accesses, bytes, footprint, span
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct InfoArgs {
    /// Trace files; `-` is standard input
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Format of the traces [default: detected]
    #[arg(long, value_name = "NAME", value_parser = parse_format)]
    format: Option<Format>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

struct SurveyedFile {
    name: String,
    survey: Survey,
}

impl InfoArgs {
    pub(crate) fn run(&self, out: &mut dyn Printer) -> Result<(), Failure> {
        let surveys = self.surveys()?;
        for SurveyedFile { name, survey } in &surveys {
            survey.repairs.sentences().iter().for_each(|sentence| notice(&format!("{name}: {sentence}")));
        }
        for SurveyedFile { name, survey } in surveys.iter().filter(|surveyed| surveyed.survey.bad_lines > 0) {
            let verb = if survey.bad_lines == 1 { "part makes" } else { "parts make" };
            notice(&format!("{name}: {} {verb} no sense, such as:", survey.bad_lines));
            survey.first_bad_lines.iter().for_each(|line| notice(&format!("  {line}")));
        }
        if self.json {
            let all: Vec<Value> =
                surveys.iter().map(|surveyed| as_json(&surveyed.name, &surveyed.survey)).collect();
            writeln!(out, "{}", serde_json::to_string_pretty(&all)?)?;
        } else {
            table(&surveys).print_within(out, Colour::for_stdout(), terminal_width())?;
        }
        check_whole(&surveys)
    }

    fn surveys(&self) -> Result<Vec<SurveyedFile>, Failure> {
        let mut spool = Vec::new();
        let look = |file: &PathBuf| {
            let is_stdin = file.as_os_str() == "-";
            let name = if is_stdin { "standard input".into() } else { file.display().to_string() };
            let path = if is_stdin { spool_input(&mut spool)? } else { file.clone() };
            let found = survey(&path, self.format)
                .map_err(|error| Failure::usage(format!("the trace {name} cannot be read: {error}")))?;
            Ok(SurveyedFile { name, survey: found })
        };
        self.files.iter().map(look).collect()
    }
}

/// The shown figures are correct for the intact part only; the exit code makes this known to scripts.
fn check_whole(surveys: &[SurveyedFile]) -> Result<(), Failure> {
    let damaged = surveys.iter().filter(|surveyed| surveyed.survey.bad_lines > 0);
    let names: Vec<&str> = damaged.map(|surveyed| surveyed.name.as_str()).collect();
    if names.is_empty() {
        return Ok(());
    }
    let sentence = format!("{}: parts make no sense, and were left out of the figures", names.join(", "));
    Err(Failure { exit: Exit::Failed, error: anyhow::Error::msg(sentence) })
}

fn table(surveys: &[SurveyedFile]) -> Table {
    let mut table = Table::ranked(&[
        ("TRACE", Align::Left, KEEP),
        ("FORMAT", Align::Left, 2),
        ("SPAN", Align::Right, KEEP),
        ("READS", Align::Right, KEEP),
        ("BYTES READ", Align::Right, 1),
        ("WRITES", Align::Right, KEEP),
        ("BYTES WRITTEN", Align::Right, 1),
        ("OTHERS", Align::Right, 3),
        ("FOOTPRINT", Align::Right, KEEP),
        ("LOST", Align::Right, KEEP),
    ]);
    for SurveyedFile { name, survey } in surveys {
        let span = survey.span.map_or_else(
            || "-".into(),
            |span| show_duration(std::time::Duration::from_nanos(span.as_nanos())),
        );
        table.row(vec![
            Cell::new(name),
            Cell::new(survey.format.name()),
            Cell::new(span),
            Cell::new(show_count(survey.reads)),
            Cell::new(show_bytes(survey.read_bytes)),
            Cell::new(show_count(survey.writes)),
            Cell::new(show_bytes(survey.write_bytes)),
            Cell::new(show_count(survey.others)),
            Cell::new(show_bytes(survey.footprint * BLOCK_SIZE)),
            Cell::new(show_count(survey.lost)),
        ]);
    }
    table
}

fn as_json(name: &str, survey: &Survey) -> Value {
    let recording = survey.header.as_ref().map(|header| {
        json!({
            "volume": header.volume,
            "volume_bytes": header.volume_bytes,
            "started_nanos": header.started,
            "part": header.part,
            "lost_records": survey.lost,
        })
    });
    json!({
        "trace": name,
        "format": survey.format.name(),
        "span_nanos": survey.span.map(|span| span.as_nanos()),
        "reads": survey.reads,
        "read_bytes": survey.read_bytes,
        "writes": survey.writes,
        "write_bytes": survey.write_bytes,
        "others": survey.others,
        "touched_blocks": survey.touches,
        "footprint_blocks": survey.footprint,
        "extent_bytes": survey.placement.volume_bytes(),
        "times": {
            "sorted_records": survey.repairs.sorted,
            "joined_recordings": survey.repairs.joined,
            "cut_gaps": survey.repairs.gaps,
            "cut_nanos": survey.repairs.gap.as_nanos(),
        },
        "bad_parts": survey.bad_lines,
        "recording": recording,
    })
}
