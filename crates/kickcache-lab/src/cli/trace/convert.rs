//! `kickcache trace convert`: a trace in another format.

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};

use indicatif::{ProgressBar, ProgressStyle};
use kickcache_command::exit::{Exit, Failure};
use kickcache_command::notice::notice;
use kickcache_command::output;
use kickcache_command::whole_file::WholeFile;
use kickcache_model::trace_file::conversion::{ConversionError, Lacks, Target, Title, TraceWriter};
use kickcache_model::trace_file::{Format, RecordingHeader, TimeRepairs, TraceError, TraceFile};
use kickcache_units::show_count;

use crate::cli::trace::format_name::parse_format;

const EXAMPLES: &str = "\
Examples:
  kickcache trace convert vm1.kct -o vm1.log --to iolog --file /dev/sdx
  fio --name=replay --read_iolog=vm1.log --ioengine=libaio --direct=1 --iodepth=32
  kickcache trace convert dev.csv.xz -o dev.kct --to kickcache
  blkparse -i sdb | kickcache trace convert - -o - --to csv | xz > sdb.csv.xz

Input: kickcache, csv, blkparse, blktrace, iolog, msr, spc, alibaba, tencent, detected from the
first lines; plain, packed by xz, gzip or zstd, or in a tar archive. Output: the same except blktrace; `iolog` is fio's
version 3, with times, and `iolog-v2` version 2, without. Properties that a format cannot express are
counted and reported: only kickcache has zeroes, and only kickcache and blkparse have FUA.

Exit codes: 0 all of the trace was converted; 1 parts of it are invalid (the rest is written);
2 it cannot be read, or is not a trace.";

/// The most invalid parts that are quoted.
const QUOTED_MAX: u64 = 5;

/// Convert a trace to another format
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ConvertArgs {
    /// Input trace; `-` is standard input
    #[arg(value_name = "IN")]
    input: PathBuf,
    /// Output file; `-` is standard output. An existing file is replaced after the whole input is read
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
    /// The format to write
    #[arg(long, value_name = "FORMAT", value_parser = parse_target)]
    to: Target,
    /// The format of the input [default: detected]
    #[arg(long, value_name = "FORMAT", value_parser = parse_format)]
    from: Option<Format>,
    /// For fio's logs: the file or device of the accesses [default: the volume's name]
    #[arg(long, value_name = "NAME", value_parser = parse_file)]
    file: Option<String>,
}

fn parse_target(text: &str) -> Result<Target, String> {
    let names = || Target::ALL.map(Target::name).join(", ");
    let found = Target::ALL.into_iter().find(|target| target.name() == text);
    found.ok_or_else(|| format!("`{text}` is not a format that can be written; use one of {}", names()))
}

/// fio's logs separate names by spaces.
fn parse_file(text: &str) -> Result<String, String> {
    let is_word = !text.is_empty() && text.len() <= 255 && !text.contains(char::is_whitespace);
    if is_word {
        Ok(text.into())
    } else {
        Err(format!("`{text}` is not a name that fio can read: it has a space, or more than 255 bytes"))
    }
}

struct Converted {
    count: u64,
    lacks: Lacks,
    bad: u64,
    repairs: TimeRepairs,
}

impl ConvertArgs {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<(), Failure> {
        output::check_apart(&self.output, &[&self.input])?;
        let bar = bar(&self.input);
        let mut trace = self.open(&bar)?;
        let converted = self.write_out(&mut trace, out)?;
        bar.finish_and_clear();
        self.tell(&converted, trace.format());
        self.check_whole(converted.bad)
    }

    /// The written part is correct but incomplete; the exit code makes this known to scripts.
    fn check_whole(&self, bad: u64) -> Result<(), Failure> {
        if bad == 0 {
            return Ok(());
        }
        let parts = if bad == 1 { "one part is".into() } else { format!("{} parts are", show_count(bad)) };
        let input = if self.is_stdin() { "standard input".into() } else { self.input.display().to_string() };
        let sentence = format!("{input}: {parts} invalid, and missing in the output");
        Err(Failure { exit: Exit::Failed, error: anyhow::Error::msg(sentence) })
    }

    fn open(&self, bar: &ProgressBar) -> Result<TraceFile, Failure> {
        let reader: Box<dyn Read> = if self.is_stdin() {
            Box::new(io::stdin())
        } else {
            Box::new(File::open(&self.input).map_err(|error| self.unreadable(&error))?)
        };
        TraceFile::from_reader(Box::new(bar.wrap_read(reader)), self.from)
            .map_err(|error| self.unreadable(&error))
    }

    fn is_stdin(&self) -> bool {
        self.input.as_os_str() == "-"
    }

    fn unreadable(&self, error: &dyn std::error::Error) -> Failure {
        Failure::usage(format!("the trace {} cannot be read: {error}", self.input.display()))
    }

    /// Writes to standard output, to a pipe or device, or to a file.
    fn write_out(&self, trace: &mut TraceFile, out: &mut dyn Write) -> Result<Converted, Failure> {
        if self.output.as_os_str() == "-" {
            // A file holds the bytes of its format; a terminal shows text.
            let raw = &mut io::stdout();
            let out: &mut dyn Write = if raw.is_terminal() { out } else { raw };
            return self.convert(trace, BufWriter::new(out)).map(|(_, converted)| converted);
        }
        let path = &self.output;
        if path.metadata().is_ok_and(|found| !found.is_file()) {
            let file = File::options().write(true).open(path).map_err(|error| self.unwritable(error))?;
            return self.convert(trace, BufWriter::new(file)).map(|(_, converted)| converted);
        }
        let file = WholeFile::for_path(path).map_err(|error| self.unwritable(error))?;
        let (file, converted) = self.convert(trace, BufWriter::new(file))?;
        let file = file.into_inner().map_err(|error| self.unwritable(error.into_error()))?;
        file.finish(path).map_err(|error| self.unwritable(error))?;
        Ok(converted)
    }

    fn unwritable(&self, error: io::Error) -> Failure {
        if self.output.as_os_str() == "-" {
            return error.into();
        }
        let what = format!("{} cannot be written", self.output.display());
        anyhow::Error::from(error).context(what).into()
    }

    fn convert<W: Write>(&self, trace: &mut TraceFile, out: W) -> Result<(W, Converted), Failure> {
        let mut bad = 0;
        let mut next = self.next(trace, &mut bad)?;
        let (mut writer, mut lost) = (self.begin(trace, out)?, 0);
        while let Some(record) = next {
            let lost_here = trace.lost() - lost;
            lost += lost_here;
            let written = if lost_here > 0 { writer.lose(lost_here) } else { Ok(()) };
            written.map_err(|error| self.unwritable(error))?;
            writer.write(&record).map_err(|error| match error {
                ConversionError::Io(error) => self.unwritable(error),
                error => Failure::usage(error.to_string()),
            })?;
            next = self.next(trace, &mut bad)?;
        }
        writer.lose(trace.lost() - lost).map_err(|error| self.unwritable(error))?;
        let count = writer.count();
        // In other formats the reader reports such a trace as an error.
        if count == 0 && bad > 0 && trace.format() == Format::Kickcache {
            let what = "no block of the recording is whole; name another one";
            return Err(Failure::usage(format!("the trace {} cannot be read: {what}", self.input.display())));
        }
        let (out, lacks) = writer.finish().map_err(|error| self.unwritable(error))?;
        Ok((out, Converted { count, lacks, bad, repairs: trace.repairs() }))
    }

    /// The next record; invalid parts are counted, and the first few are quoted.
    fn next(
        &self,
        trace: &mut TraceFile,
        bad: &mut u64,
    ) -> Result<Option<kickcache_model::trace_file::Record>, Failure> {
        loop {
            match trace.next().transpose() {
                Ok(record) => return Ok(record),
                Err(error) if TraceError::is_local(&error) => {
                    *bad += 1;
                    if *bad <= QUOTED_MAX {
                        notice(&format!("{}: {error}", self.input.display()));
                    }
                }
                Err(error) => return Err(self.unreadable(&error)),
            }
        }
    }

    fn begin<W: Write>(&self, trace: &TraceFile, out: W) -> Result<TraceWriter<W>, Failure> {
        let name = self
            .input
            .file_stem()
            .map(|name| name.to_string_lossy().into_owned())
            .filter(|_| !self.is_stdin());
        let named = || RecordingHeader {
            volume: name.unwrap_or_else(|| "trace".into()),
            ..RecordingHeader::default()
        };
        let header = trace.header().cloned().unwrap_or_else(named);
        let file = self.file.clone().unwrap_or_else(|| header.volume.replace(char::is_whitespace, "-"));
        TraceWriter::new(out, self.to, Title { header, file }).map_err(|error| self.unwritable(error))
    }

    fn tell(&self, converted: &Converted, from: Format) {
        let (from, to) = (from.name(), self.to.name());
        let (count, plural) = (show_count(converted.count), if converted.count == 1 { "" } else { "s" });
        notice(&format!("{}: {count} record{plural} of {from} as {to}", self.output.display()));
        converted.repairs.sentences().iter().for_each(|sentence| notice(&format!("  {sentence}")));
        converted.lacks.sentences(to).iter().for_each(|sentence| notice(&format!("  {sentence}")));
    }
}

fn bar(input: &Path) -> ProgressBar {
    let length = input.metadata().ok().filter(std::fs::Metadata::is_file).map(|found| found.len());
    let (bar, style) = match length {
        Some(length) => (ProgressBar::new(length), "{bar:40} {percent:>3} %, {eta} to go"),
        None => (ProgressBar::new_spinner(), "{spinner} {binary_bytes} read"),
    };
    if let Ok(style) = ProgressStyle::with_template(style) {
        bar.set_style(style);
    }
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_and_names_are_checked() {
        assert!(
            parse_target("blktrace")
                .unwrap_err()
                .contains("use one of kickcache, csv, blkparse, iolog, iolog-v2")
        );
        assert_eq!(parse_target("iolog-v2"), Ok(Target::IologV2));
        assert!(parse_file("a b").is_err() && parse_file("/dev/sdx").is_ok());
    }
}
