//! A record of the log, little-endian: kind (1 byte), disk (1), offset (8), length (8), and the data of a
//! write.

use std::fs::File;
use std::io::{self, BufReader, ErrorKind, Read, Write};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Write,
    /// A write of zeroes, or a discard.
    Zeroes,
    Flush,
    /// A flush that was acknowledged and not done.
    Lie,
}

/// One operation of a disk.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Record {
    pub(crate) kind: Kind,
    pub(crate) disk: u8,
    pub(crate) offset: u64,
    pub(crate) length: u64,
    /// Empty for operations without data.
    pub(crate) data: Vec<u8>,
}

impl Record {
    pub(crate) fn put(&self, out: &mut dyn Write) -> io::Result<()> {
        let kind = match self.kind {
            Kind::Write => 1,
            Kind::Zeroes => 2,
            Kind::Flush => 3,
            Kind::Lie => 4,
        };
        let mut bytes = vec![kind, self.disk];
        bytes.extend(self.offset.to_le_bytes());
        bytes.extend(self.length.to_le_bytes());
        bytes.extend(&self.data);
        out.write_all(&bytes)
    }
}

pub(crate) struct Records(BufReader<File>);

impl Records {
    pub(crate) fn new(file: File) -> Records {
        Records(BufReader::new(file))
    }

    fn take(&mut self) -> io::Result<Option<Record>> {
        let mut head = [0; 18];
        match self.0.read_exact(&mut head) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(None),
            Err(error) => return Err(error),
        }
        let [kind, disk, rest @ ..] = head;
        let [a, b, c, d, e, f, g, h, length @ ..] = rest;
        let kind = match kind {
            1 => Kind::Write,
            2 => Kind::Zeroes,
            3 => Kind::Flush,
            4 => Kind::Lie,
            _ => return Err(io::Error::other(format!("the log has a record of the unknown kind {kind}"))),
        };
        let offset = u64::from_le_bytes([a, b, c, d, e, f, g, h]);
        let length = u64::from_le_bytes(length);
        let data = if kind == Kind::Write { length } else { 0 };
        let mut data = vec![0; usize::try_from(data).map_err(io::Error::other)?];
        self.0.read_exact(&mut data)?;
        Ok(Some(Record { kind, disk, offset, length, data }))
    }
}

impl Iterator for Records {
    type Item = io::Result<Record>;

    fn next(&mut self) -> Option<io::Result<Record>> {
        self.take().transpose()
    }
}
