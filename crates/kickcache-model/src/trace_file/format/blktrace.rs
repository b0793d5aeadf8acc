//! The binary records of `blktrace`, little-endian, 48 bytes and what belongs to them.

use std::io::{self, BufReader, Read};

use kickcache_engine::request::Durability;
use kickcache_engine::time::Duration;
use kickcache_engine::units::ByteExtent;

use crate::trace_file::error::TraceError;
use crate::trace_file::format::action::Action;
use crate::trace_file::format::devices::Devices;
use crate::trace_file::record::Record;
use crate::workload::Kind;

/// Bytes of a record.
const LENGTH: usize = 48;
/// The upper 24 bits of the first word; the lower 8 are the version.
const MAGIC: u32 = 0x0065_6174;
const WRITE: u32 = 1 << 17;
const FLUSH: u32 = 1 << 18;
const NOTIFY: u32 = 1 << 26;
const DISCARD: u32 = 1 << 29;
const FUA: u32 = 1 << 31;

/// Reads records.
pub(crate) struct Blktrace {
    reader: BufReader<Box<dyn Read>>,
    number: u64,
    devices: Devices,
    action: Action,
}

/// Whether a file begins as such a trace does.
pub(crate) fn is_blktrace(head: &[u8]) -> bool {
    word(head, 0).is_some_and(|magic| magic >> 8 == MAGIC)
}

/// The events of the beginning of a file.
pub(crate) fn has_action(head: &[u8], action: Action) -> bool {
    let mut rest = head;
    while let Some(found) = word(rest, 28) {
        if found & NOTIFY == 0 && found & 0xffff == code(action) {
            return true;
        }
        let next = LENGTH + usize::from(half(rest, 46).unwrap_or(0));
        rest = rest.get(next..).unwrap_or(&[]);
    }
    false
}

const fn code(action: Action) -> u32 {
    match action {
        Action::Queued => 1,
        Action::Issued => 7,
        Action::Completed => 8,
    }
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn long(bytes: &[u8; LENGTH], at: usize) -> u64 {
    bytes[at..at + 8].iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte))
}

impl Blktrace {
    pub(crate) fn new(reader: Box<dyn Read>, action: Action) -> Blktrace {
        Blktrace { reader: BufReader::new(reader), number: 0, devices: Devices::default(), action }
    }

    pub(crate) fn next(&mut self) -> Option<Result<Record, TraceError>> {
        loop {
            let mut bytes = [0; LENGTH];
            match read_whole(&mut self.reader, &mut bytes) {
                Ok(true) => self.number += 1,
                Ok(false) => return None,
                Err(error) => return Some(Err(error.into())),
            }
            match self.parse(&bytes) {
                Ok(None) => {}
                Ok(Some(record)) => {
                    let number = self.number;
                    return Some(record.checked().map_err(|what| TraceError::Line { number, what }));
                }
                Err(error) => return Some(Err(error.into())),
            }
        }
    }

    /// An error ends the trace: without its length, the next record cannot be found.
    fn parse(&mut self, bytes: &[u8; LENGTH]) -> io::Result<Option<Record>> {
        let field = |at| word(bytes, at).unwrap_or_default();
        if field(0) >> 8 != MAGIC {
            let what = format!("record {} has no blktrace mark; the file is damaged there", self.number);
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
        let extra = u64::from(half(bytes, 46).unwrap_or_default());
        io::copy(&mut self.reader.by_ref().take(extra), &mut io::sink())?;
        let action = field(28);
        let (start, length) = (long(bytes, 16).saturating_mul(512), u64::from(field(24)));
        if action & NOTIFY != 0 || action & 0xffff != code(self.action) {
            return Ok(None);
        }
        let kind = match (length, action) {
            (0, action) if action & FLUSH != 0 => Kind::Flush,
            (0, _) => return Ok(None),
            (_, action) if action & DISCARD != 0 => Kind::Discard,
            (_, action) if action & WRITE != 0 => Kind::Write,
            _ => Kind::Read,
        };
        let durability = if action & FUA == 0 { Durability::Volatile } else { Durability::Durable };
        let extent =
            if length == 0 { ByteExtent { start: 0, length: 0 } } else { ByteExtent { start, length } };
        let device = self.devices.number(&field(36).to_string()).map_err(io::Error::other)?;
        Ok(Some(Record { at: Some(Duration::from_nanos(long(bytes, 8))), device, kind, durability, extent }))
    }
}

/// Fills the bytes; `false` at the end of the file, which may cut the last record short.
fn read_whole(reader: &mut impl Read, bytes: &mut [u8]) -> io::Result<bool> {
    match reader.read_exact(bytes) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}
