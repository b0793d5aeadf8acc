//! fio's I/O logs. Times count from the first record.

use std::io::{self, Write};

use crate::trace_file::conversion::target::Target;
use crate::trace_file::format::iolog::HEADER;
use crate::trace_file::record::Record;
use crate::workload::Kind;

/// Microseconds that are added to each time: fio takes a first record at 0 for one without a time.
const FIRST_MICROS: u64 = 1;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Times {
    Stamps,
    Nowhere,
}

pub(crate) struct Iolog {
    times: Times,
    file: String,
    is_open: Vec<bool>,
    first: Option<u64>,
    now: u64,
}

impl Iolog {
    pub(crate) fn begin(out: &mut impl Write, target: Target, file: String) -> io::Result<Iolog> {
        let (times, version) =
            if target == Target::IologV2 { (Times::Nowhere, 2) } else { (Times::Stamps, 3) };
        writeln!(out, "{HEADER}{version} iolog")?;
        Ok(Iolog { times, file, is_open: Vec::new(), first: None, now: 0 })
    }

    pub(crate) fn write(&mut self, out: &mut impl Write, record: &Record) -> io::Result<()> {
        self.come_to(record);
        let name = self.name(record.device);
        self.open(out, record.device)?;
        let action = match record.kind {
            Kind::Read => "read",
            Kind::Write | Kind::WriteZeroes => "write",
            Kind::Discard => "trim",
            Kind::Flush => return self.line(out, &format!("{name} sync 0 0")),
        };
        self.line(out, &format!("{name} {action} {} {}", record.extent.start, record.extent.length))
    }

    pub(crate) fn end(&self, out: &mut impl Write) -> io::Result<()> {
        let open = (0..).zip(&self.is_open).filter(|(_, is_open)| **is_open);
        open.map(|(device, _)| format!("{} close", self.name(device)))
            .try_for_each(|text| self.line(out, &text))
    }

    /// Advances the log to the time of a record; a record out of order follows at once.
    fn come_to(&mut self, record: &Record) {
        if let Some(at) = record.at {
            let micros = at.as_nanos() / 1_000;
            self.now = self.now.max(micros.saturating_sub(*self.first.get_or_insert(micros)));
        }
    }

    fn open(&mut self, out: &mut impl Write, device: u32) -> io::Result<()> {
        let index = usize::try_from(device).expect("at most 2^20 devices");
        if self.is_open.len() <= index {
            self.is_open.resize(index + 1, false);
        }
        if std::mem::replace(&mut self.is_open[index], true) {
            return Ok(());
        }
        let name = self.name(device);
        self.line(out, &format!("{name} add"))?;
        self.line(out, &format!("{name} open"))
    }

    fn line(&self, out: &mut impl Write, text: &str) -> io::Result<()> {
        match self.times {
            Times::Stamps => writeln!(out, "{} {text}", self.now + FIRST_MICROS),
            Times::Nowhere => writeln!(out, "{text}"),
        }
    }

    fn name(&self, device: u32) -> String {
        if device == 0 { self.file.clone() } else { format!("{}.{device}", self.file) }
    }
}
