//! The binary records of `blktrace`, little-endian: a head of 48 bytes (version 7) or 64 (version 8, since Linux 6.19), then a
//! payload, such as a control group and a message.

use std::io::{self, BufReader, Read};

use kickcache_engine::request::Durability;
use kickcache_engine::time::Duration;
use kickcache_engine::units::ByteExtent;

use crate::trace_file::error::TraceError;
use crate::trace_file::format::action::Action;
use crate::trace_file::format::devices::Devices;
use crate::trace_file::record::Record;
use crate::workload::Kind;

/// The upper 24 bits of the first word; the lower 8 are the version.
const MAGIC: u32 = 0x0065_6174;
/// An action is an event (8 bits), whether a control group is in the payload, and from bit 16 on the categories.
const EVENT: u64 = 0xff;
const CONTROL_GROUP: u64 = 1 << 8;
const UNKNOWN: u64 = 0xffff & !EVENT & !CONTROL_GROUP;
const WRITE: u64 = 1 << 17;
const FLUSH: u64 = 1 << 18;
const NOTIFY: u64 = 1 << 26;
const DISCARD: u64 = 1 << 29;
const FUA: u64 = 1 << 31;
/// Categories that only version 8 has.
const ZONE_APPEND: u64 = 1 << 32;
const ZONE_MANAGEMENT: u64 = 0x1f << 33;
const WRITE_ZEROES: u64 = 1 << 38;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Version {
    Seven,
    Eight,
}

impl Version {
    fn of(first: u32) -> Result<Version, String> {
        match (first >> 8, first & 0xff) {
            (MAGIC, 7) => Ok(Version::Seven),
            (MAGIC, 8) => Ok(Version::Eight),
            (MAGIC, other) => Err(format!(
                "has blktrace's version {other}, and 7 and 8 can be read; convert it with blkparse, as text"
            )),
            _ if first.swap_bytes() >> 8 == MAGIC => {
                Err("is big-endian, and little-endian was expected; convert it with blkparse, as text".into())
            }
            _ => Err("has no blktrace mark; the file is damaged there".into()),
        }
    }

    const fn head_bytes(self) -> usize {
        match self {
            Version::Seven => 48,
            Version::Eight => 64,
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Head {
    nanos: u64,
    sector: u64,
    bytes: u32,
    action: u64,
    device: u32,
    cpu: u32,
    /// Bytes of the payload.
    extra: u16,
}

impl Head {
    /// The head in the bytes of its version; `None` if they end early.
    fn of(version: Version, bytes: &[u8]) -> Option<Head> {
        let (action, device, extra) = match version {
            Version::Seven => (u64::from(word(bytes, 28)?), 36, 46),
            Version::Eight => (long(bytes, 32)?, 40, 50),
        };
        Some(Head {
            nanos: long(bytes, 8)?,
            sector: long(bytes, 16)?,
            bytes: word(bytes, 24)?,
            action,
            device: word(bytes, device)?,
            cpu: word(bytes, device + 4)?,
            extra: u16::from_le_bytes(bytes.get(extra..extra + 2)?.try_into().ok()?),
        })
    }

    fn is_event(&self, action: Action) -> bool {
        self.action & NOTIFY == 0 && self.action & EVENT == code(action)
    }

    /// The kind of access; `None` for other events.
    fn kind(&self) -> Option<Kind> {
        let has = |category: u64| self.action & category != 0;
        match self.bytes {
            0 => has(FLUSH).then_some(Kind::Flush),
            _ if has(ZONE_MANAGEMENT) => None,
            _ if has(DISCARD) => Some(Kind::Discard),
            _ if has(WRITE_ZEROES) => Some(Kind::WriteZeroes),
            _ if has(WRITE | ZONE_APPEND) => Some(Kind::Write),
            _ => Some(Kind::Read),
        }
    }
}

pub(crate) struct Blktrace {
    reader: BufReader<Box<dyn Read>>,
    number: u64,
    devices: Devices,
    action: Action,
}

/// An access and its processor: the records of each processor are in the order of their times.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProcessorRecord {
    pub(crate) record: Record,
    pub(crate) cpu: u32,
}

pub(crate) fn is_blktrace(head: &[u8]) -> bool {
    word(head, 0).is_some_and(|first| first >> 8 == MAGIC || first.swap_bytes() >> 8 == MAGIC)
}

pub(crate) fn has_action(head: &[u8], action: Action) -> bool {
    let mut rest = head;
    while let Some(version) = word(rest, 0).and_then(|first| Version::of(first).ok()) {
        let Some(found) = Head::of(version, rest) else { return false };
        if found.is_event(action) {
            return true;
        }
        rest = rest.get(version.head_bytes() + usize::from(found.extra)..).unwrap_or(&[]);
    }
    false
}

const fn code(action: Action) -> u64 {
    match action {
        Action::Queued => 1,
        Action::Issued => 7,
        Action::Completed => 8,
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn long(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

impl Blktrace {
    pub(crate) fn new(reader: Box<dyn Read>, action: Action) -> Blktrace {
        Blktrace { reader: BufReader::new(reader), number: 0, devices: Devices::default(), action }
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    pub(crate) fn next(&mut self) -> Option<Result<ProcessorRecord, TraceError>> {
        loop {
            let head = match self.head() {
                Ok(head) => head?,
                Err(error) => return Some(Err(error.into())),
            };
            let number = self.number;
            match self.parse(&head) {
                Ok(None) => {}
                Ok(Some(record)) => return Some(Ok(ProcessorRecord { record, cpu: head.cpu })),
                Err(what) => return Some(Err(TraceError::Line { number, what })),
            }
        }
    }

    /// The next head; `None` at the end of the file, which may cut the last record short. An error ends the trace: without its
    /// length, the next record cannot be found.
    fn head(&mut self) -> io::Result<Option<Head>> {
        let mut bytes = [0; 64];
        if !read_whole(&mut self.reader, &mut bytes[..4])? {
            return Ok(None);
        }
        self.number += 1;
        let first = word(&bytes, 0).unwrap_or_default();
        let version = Version::of(first).map_err(|what| {
            let what = format!("record {} {what}", self.number);
            io::Error::new(io::ErrorKind::InvalidData, what)
        })?;
        let bytes = &mut bytes[..version.head_bytes()];
        if !read_whole(&mut self.reader, &mut bytes[4..])? {
            return Ok(None);
        }
        let head = Head::of(version, bytes);
        let extra = head.map_or(0, |head| u64::from(head.extra));
        io::copy(&mut self.reader.by_ref().take(extra), &mut io::sink())?;
        Ok(head)
    }

    fn parse(&mut self, head: &Head) -> Result<Option<Record>, String> {
        if head.action & UNKNOWN != 0 && head.action & NOTIFY == 0 {
            return Err(format!("action {:#x} was found; it has bits without a meaning", head.action));
        }
        if !head.is_event(self.action) {
            return Ok(None);
        }
        let Some(kind) = head.kind() else { return Ok(None) };
        let durability = if head.action & FUA == 0 { Durability::Volatile } else { Durability::Durable };
        let start = if kind == Kind::Flush { 0 } else { head.sector.saturating_mul(512) };
        let extent = ByteExtent { start, length: u64::from(head.bytes) };
        let device = self.devices.number(&head.device.to_string())?;
        let at = Some(Duration::from_nanos(head.nanos));
        Record { at, device, kind, durability, extent }.checked().map(Some)
    }
}

/// Fills the bytes; `false` if the file ends before or within them.
fn read_whole(reader: &mut impl Read, bytes: &mut [u8]) -> io::Result<bool> {
    match reader.read_exact(bytes) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}
