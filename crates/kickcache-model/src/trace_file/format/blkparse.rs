//! The text of `blkparse`: `major,minor cpu seq time pid action RWBS sector + count [process]`.

use kickcache_engine::units::ByteExtent;

use crate::trace_file::format::action::Action;
use crate::trace_file::format::devices::Devices;
use crate::trace_file::format::fields::{sectors, time};
use crate::trace_file::format::line_parser::{LineParser, Parsed};
use crate::trace_file::record::Record;
use crate::workload::Kind;

pub(crate) struct Blkparse {
    devices: Devices,
    action: Action,
}

impl Blkparse {
    pub(crate) fn new(action: Action) -> Blkparse {
        Blkparse { devices: Devices::default(), action }
    }
}

/// Whether a word is a device, as `8,16`.
fn is_device(word: &str) -> bool {
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    word.split_once(',').is_some_and(|(major, minor)| is_number(major) && is_number(minor))
}

/// The action of a line, if it is an event at all.
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
            // The summary at the end.
            Some(first) if first.starts_with("CPU") || *first == "Total" => return Ok(Parsed::End),
            Some(first) if !is_device(first) => {
                return Err(format!("{first:?} was found; a device as 8,0 was expected"));
            }
            Some(_) => {}
        }
        if words.len() < 7 {
            return Err(format!("{} words were found; at least 7 were expected", words.len()));
        }
        if words[5] != self.action.letter() {
            return Ok(Parsed::Nothing);
        }
        let place = match words.get(7..10) {
            Some([sector, "+", count]) => Some((*sector, *count)),
            _ => None,
        };
        let Some(kind) = kind_of(words[6], place.is_some()) else { return Ok(Parsed::Nothing) };
        let extent = match (kind, place) {
            (Kind::Flush, _) => ByteExtent { start: 0, length: 0 },
            (_, Some((sector, count))) => {
                ByteExtent { start: sectors(sector, "sector")?, length: sectors(count, "count")? }
            }
            (_, None) => return Err("a sector, + and a count were expected".into()),
        };
        let at = Some(time(words[3], 1_000_000_000)?);
        Ok(Parsed::Record(Record { at, device: self.devices.number(words[0])?, kind, extent }))
    }
}

/// What the letters say; an F in front is a flush before the write, or all there is.
fn kind_of(letters: &str, has_place: bool) -> Option<Kind> {
    let rest = letters.strip_prefix('F').unwrap_or(letters);
    match rest.bytes().next() {
        _ if !has_place && letters.contains('F') => Some(Kind::Flush),
        Some(b'R') => Some(Kind::Read),
        Some(b'W') => Some(Kind::Write),
        Some(b'D') => Some(Kind::Discard),
        _ => None,
    }
}
