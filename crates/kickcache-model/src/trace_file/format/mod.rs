//! The formats, a file each.

pub(crate) mod blkparse;
pub(crate) mod blktrace;
mod clouds;
pub(crate) mod csv;
mod iolog;
mod msr;
mod spc;

use kickcache_engine::time::Duration;

use crate::trace_file::{Format, Record};

/// What a line said.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Parsed {
    /// An access.
    Record(Record),
    /// A header, a comment, an event that is no access.
    Nothing,
    /// The records end here.
    End,
}

/// Turns lines into records; a text that says what is wrong with a line is its error.
pub(crate) trait LineParser {
    fn parse(&mut self, line: &str) -> Result<Parsed, String>;
}

/// The parser of a text format; `None` for binary ones.
pub(crate) fn parser(format: Format, action: Action) -> Option<Box<dyn LineParser>> {
    Some(match format {
        Format::Csv => Box::new(csv::Csv),
        Format::Blkparse => Box::new(blkparse::Blkparse::new(action)),
        Format::Iolog => Box::new(iolog::Iolog::default()),
        Format::Msr => Box::new(msr::Msr::default()),
        Format::Spc => Box::new(spc::Spc::default()),
        Format::Alibaba => Box::new(clouds::Alibaba::default()),
        Format::Tencent => Box::new(clouds::Tencent::default()),
        Format::Blktrace => return None,
    })
}

/// Which event of an access counts, in traces that note several.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Action {
    /// It came to the block layer.
    Queued,
    /// It was given to the device.
    Issued,
    /// It ended.
    Completed,
}

impl Action {
    pub(crate) const ALL: [Action; 3] = [Action::Queued, Action::Issued, Action::Completed];

    pub(crate) const fn letter(self) -> &'static str {
        match self {
            Action::Queued => "Q",
            Action::Issued => "D",
            Action::Completed => "C",
        }
    }
}

/// Devices by name, numbered as they come.
#[derive(Debug, Default)]
pub(crate) struct Devices {
    names: Vec<String>,
    last: usize,
}

/// More devices than any known trace has.
const DEVICE_COUNT_MAX: usize = 4_096;

impl Devices {
    pub(crate) fn number(&mut self, name: &str) -> Result<u32, String> {
        if self.names.get(self.last).is_none_or(|last| last != name) {
            self.last = match self.names.iter().position(|known| known == name) {
                Some(found) => found,
                None if self.names.len() == DEVICE_COUNT_MAX => {
                    return Err(format!("device {name:?} is one more than the {DEVICE_COUNT_MAX} allowed"));
                }
                None => {
                    self.names.push(name.to_owned());
                    self.names.len() - 1
                }
            };
        }
        Ok(u32::try_from(self.last).expect("at most 4096"))
    }
}

/// The fields of a line with commas; an error if there are fewer than `count`.
pub(crate) fn fields(line: &str, count: usize) -> Result<Vec<&str>, String> {
    let fields: Vec<&str> = line.split(',').map(str::trim).collect();
    if fields.len() < count {
        return Err(format!("{} fields were found; {count} were expected", fields.len()));
    }
    Ok(fields)
}

/// A whole number.
pub(crate) fn number(text: &str, what: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("{what} {text:?} was found; a whole number was expected"))
}

/// Sectors of 512 bytes as bytes.
pub(crate) fn sectors(text: &str, what: &str) -> Result<u64, String> {
    let count = number(text, what)?;
    count.checked_mul(512).ok_or_else(|| format!("{what} {count} was found; it is out of range"))
}

/// A point in time in a unit of so many nanoseconds, with or without decimals.
pub(crate) fn time(text: &str, unit: u64) -> Result<Duration, String> {
    let wrong = || format!("time {text:?} was found; a number was expected");
    let too_late = || format!("time {text:?} was found; it is out of range");
    let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
    let whole: u64 = whole.parse().map_err(|_| wrong())?;
    let (mut rest, mut step) = (0, unit);
    for digit in decimals.chars() {
        step /= 10;
        rest += u64::from(digit.to_digit(10).ok_or_else(wrong)?) * step;
    }
    let nanos = whole.checked_mul(unit).and_then(|nanos| nanos.checked_add(rest));
    nanos.map(Duration::from_nanos).ok_or_else(too_late)
}
