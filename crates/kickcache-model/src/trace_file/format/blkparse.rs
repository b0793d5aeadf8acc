//! The text of `blkparse`: `major,minor cpu seq time pid action RWBS sector + count [process]`.

use kickcache_engine::request::Durability;
use kickcache_engine::units::ByteExtent;

use crate::quote::quote;
use crate::trace_file::format::action::Action;
use crate::trace_file::format::devices::Devices;
use crate::trace_file::format::fields::{sectors, time};
use crate::trace_file::format::line_parser::{LineParser, Parsed};
use crate::trace_file::record::Record;
use crate::workload::Kind;

pub(crate) struct Blkparse {
    devices: Devices,
    action: Action,
    /// Within the summary that follows the events of a recording.
    is_summary: bool,
}

impl Blkparse {
    pub(crate) fn new(action: Action) -> Blkparse {
        Blkparse { devices: Devices::default(), action, is_summary: false }
    }
}

/// Whether a word is a device, as `8,16`.
fn is_device(word: &str) -> bool {
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    word.split_once(',').is_some_and(|(major, minor)| is_number(major) && is_number(minor))
}

pub(crate) fn action_of(line: &str) -> Option<&str> {
    let mut words = line.split_whitespace();
    words.next().filter(|word| is_device(word))?;
    words.nth(4)
}

impl LineParser for Blkparse {
    fn parse(&mut self, line: &str) -> Result<Parsed, String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.first() {
            None => return Ok(Parsed::Nothing),
            // Events that follow a summary are of another recording.
            Some(first) if first.starts_with("CPU") || *first == "Total" => {
                self.is_summary = true;
                return Ok(Parsed::Header);
            }
            Some(first) if is_device(first) => self.is_summary = false,
            Some(_) if self.is_summary || line.starts_with("Input file ") => return Ok(Parsed::Nothing),
            Some(first) => return Err(format!("{} was found; a device as 8,0 was expected", quote(first))),
        }
        if words.len() < 7 {
            return Err(format!("{} words were found; at least 7 were expected", words.len()));
        }
        if words[5] != self.action.letter() {
            return Ok(Parsed::Nothing);
        }
        let letters = words[6];
        let (kind, extent) = match words.get(7..10) {
            Some([sector, "+", count]) => {
                let Some(kind) = kind_of(letters) else { return Ok(Parsed::Nothing) };
                let start = sectors(sector, "sector")?;
                (kind, ByteExtent { start, length: sectors(count, "count")? })
            }
            // An F without data is a flush.
            _ if letters.contains('F') => (Kind::Flush, ByteExtent { start: 0, length: 0 }),
            _ if kind_of(letters).is_none() => return Ok(Parsed::Nothing),
            _ => return Err("a sector, + and a count were expected".into()),
        };
        let at = Some(time(words[3], 1_000_000_000)?);
        Ok(Parsed::Record(Record {
            at,
            device: self.devices.number(words[0])?,
            kind,
            durability: durability_of(kind, letters),
            extent,
        }))
    }
}

/// The operation of an event with an extent, by its letters; an F in front, a flush before the operation, is ignored.
fn kind_of(letters: &str) -> Option<Kind> {
    match letters.strip_prefix('F').unwrap_or(letters).bytes().next() {
        Some(b'R') => Some(Kind::Read),
        Some(b'W') => Some(Kind::Write),
        Some(b'D') => Some(Kind::Discard),
        _ => None,
    }
}

/// Whether the letters mean FUA: an F behind the W of a write.
fn durability_of(kind: Kind, letters: &str) -> Durability {
    let is_durable = kind == Kind::Write && letters.trim_start_matches('F').contains('F');
    if is_durable { Durability::Durable } else { Durability::Volatile }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(rest: &str) -> Result<Parsed, String> {
        Blkparse::new(Action::Queued).parse(&format!("8,0 1 5 0.000004000 697 Q {rest}"))
    }

    #[test]
    fn an_event_without_a_place_is_a_flush_or_skipped() {
        for flush in ["FWS [fsync]", "FN [jbd2]"] {
            let Ok(Parsed::Record(record)) = parse(flush) else { panic!("{flush} is a flush") };
            assert_eq!((record.kind, record.extent), (Kind::Flush, ByteExtent { start: 0, length: 0 }));
        }
        assert!(matches!(parse("N [smartd]"), Ok(Parsed::Nothing)));
        assert!(matches!(parse("N 8 + 8 [smartd]"), Ok(Parsed::Nothing)));
        for wrong in ["WS [fsync]", "R 8 - 8 [cat]"] {
            assert!(parse(wrong).is_err_and(|error| error.contains("a sector")), "{wrong}");
        }
    }
}
