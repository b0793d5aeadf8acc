//! One record in a block: a control byte, and the differences to the previous record.

use kickcache_engine::request::Durability;
use kickcache_engine::time::Duration;
use kickcache_engine::units::ByteExtent;

use crate::trace_file::format::recording::varint::{
    put, put_bytes, put_step, put_way, take, take_bytes, take_step, take_way,
};
use crate::trace_file::record::Record;
use crate::workload::Kind;

/// The control byte: the kind, and the fields that follow.
const KIND: u8 = 0b111;
const DURABLE: u8 = 1 << 3;
const NO_TIME: u8 = 1 << 4;
const CONTINUES: u8 = 1 << 5;
const SAME_LENGTH: u8 = 1 << 6;
const OTHER_DEVICE: u8 = 1 << 7;

/// The record that the next record of a block is encoded against.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Previous {
    pub(crate) at: u64,
    end: u64,
    length: u64,
    device: u32,
}

impl Previous {
    pub(crate) fn new(at: u64) -> Previous {
        Previous { at, ..Previous::default() }
    }

    pub(crate) fn put(&mut self, out: &mut Vec<u8>, record: &Record) {
        let has_extent = record.kind != Kind::Flush;
        let continues = has_extent && record.extent.start == self.end;
        let same_length = has_extent && record.extent.length == self.length;
        let mut control = code(record.kind);
        let mut set = |flag: u8, is_set: bool| control |= if is_set { flag } else { 0 };
        set(DURABLE, record.durability == Durability::Durable);
        set(NO_TIME, record.at.is_none());
        set(CONTINUES, continues);
        set(SAME_LENGTH, same_length);
        set(OTHER_DEVICE, record.device != self.device);
        out.push(control);
        if record.device != self.device {
            self.device = record.device;
            put(out, record.device.into());
        }
        if let Some(at) = record.at {
            put_step(out, self.at, at.as_nanos());
            self.at = at.as_nanos();
        }
        if !has_extent {
            return;
        }
        if !continues {
            put_way(out, self.end, record.extent.start);
        }
        if !same_length {
            put_bytes(out, record.extent.length);
        }
        self.move_to(record.extent);
    }

    /// Takes a record off the front; `None` if it is cut off or invalid.
    pub(crate) fn take(&mut self, bytes: &mut &[u8]) -> Option<Record> {
        let (&control, rest) = bytes.split_first()?;
        *bytes = rest;
        let kind = kind(control & KIND)?;
        if control & OTHER_DEVICE != 0 {
            self.device = u32::try_from(take(bytes)?).ok()?;
        }
        let at = if control & NO_TIME == 0 {
            self.at = take_step(bytes, self.at)?;
            Some(Duration::from_nanos(self.at))
        } else {
            None
        };
        let durability = if control & DURABLE == 0 { Durability::Volatile } else { Durability::Durable };
        let mut extent = ByteExtent { start: 0, length: 0 };
        if kind != Kind::Flush {
            extent.start = if control & CONTINUES == 0 { take_way(bytes, self.end)? } else { self.end };
            extent.length = if control & SAME_LENGTH == 0 { take_bytes(bytes)? } else { self.length };
            self.move_to(extent);
        }
        Some(Record { at, device: self.device, kind, durability, extent })
    }

    fn move_to(&mut self, extent: ByteExtent) {
        // The receiver of the record refuses a damaged extent.
        self.end = extent.start.wrapping_add(extent.length);
        self.length = extent.length;
    }
}

const fn code(kind: Kind) -> u8 {
    match kind {
        Kind::Read => 0,
        Kind::Write => 1,
        Kind::Flush => 2,
        Kind::Discard => 3,
        Kind::WriteZeroes => 4,
    }
}

fn kind(code: u8) -> Option<Kind> {
    Some(match code {
        0 => Kind::Read,
        1 => Kind::Write,
        2 => Kind::Flush,
        3 => Kind::Discard,
        4 => Kind::WriteZeroes,
        _ => return None,
    })
}
