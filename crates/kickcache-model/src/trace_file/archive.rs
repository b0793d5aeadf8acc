//! The files of a tar archive that may be traces, one after the other, decompressed.

use std::cell::RefCell;
use std::io::{self, Read};
use std::rc::Rc;

use tar::{EntryType, Header, PaxExtensions};

use crate::trace_file::folder;

const BLOCK: usize = 512;
/// The most bytes that are read of an extended header.
const EXTENSION_BYTES_MAX: u64 = 1 << 20;

/// Whether a file begins as an archive does: the first header has a name and the right checksum.
pub(crate) fn is_archive(head: &[u8]) -> bool {
    head.get(..BLOCK).is_some_and(|block| {
        let has_name = block[0] != 0;
        has_name && Header::from_byte_slice(block).cksum().is_ok_and(|sum| sum == checksum(block))
    })
}

/// The sum of the bytes of a header, its own field (148 to 156) counted as spaces.
fn checksum(block: &[u8]) -> u32 {
    let counted = |(at, byte): (usize, &u8)| if (148..156).contains(&at) { 32 } else { u32::from(*byte) };
    block.iter().enumerate().map(counted).sum()
}

pub(crate) type Opener = fn(Box<dyn Read>, u32) -> io::Result<Box<dyn Read>>;

pub(crate) struct Archive {
    members: Rc<RefCell<Members>>,
    open: Opener,
    layers: u32,
    current: Option<Box<dyn Read>>,
    /// Whether the first bytes of the first file are text, without a zero byte.
    is_text: Option<bool>,
    last: u8,
}

impl Archive {
    pub(crate) fn new(reader: Box<dyn Read>, open: Opener, layers: u32) -> Archive {
        let members = Rc::new(RefCell::new(Members { reader, left: 0, padding: 0 }));
        Archive { members, open, layers, current: None, is_text: None, last: b'\n' }
    }
}

impl Read for Archive {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        loop {
            if let Some(file) = &mut self.current {
                let count = file.read(buffer)?;
                if count > 0 {
                    self.is_text.get_or_insert_with(|| !buffer[..count].contains(&0));
                    self.last = buffer[count - 1];
                    return Ok(count);
                }
                self.current = None;
                if self.is_text == Some(true) && self.last != b'\n' {
                    (buffer[0], self.last) = (b'\n', b'\n');
                    return Ok(1);
                }
            }
            if !self.members.borrow_mut().advance()? {
                return Ok(0);
            }
            let member = Box::new(Member(Rc::clone(&self.members)));
            self.current = Some((self.open)(member, self.layers)?);
        }
    }
}

struct Members {
    reader: Box<dyn Read>,
    left: u64,
    padding: u64,
}

impl Members {
    /// Finds the next file that may be a trace; `false` at the end.
    fn advance(&mut self) -> io::Result<bool> {
        let mut extended_size = None;
        loop {
            self.skip()?;
            let mut block = Vec::new();
            self.reader.by_ref().take(BLOCK as u64).read_to_end(&mut block)?;
            // The end is two empty blocks, which some archives lack.
            if block.first().is_none_or(|first| *first == 0) {
                return Ok(false);
            }
            if !is_archive(&block) {
                return Err(damaged());
            }
            let header = Header::from_byte_slice(&block);
            let kind = header.entry_type();
            self.left = header.entry_size().map_err(|_| damaged())?;
            if kind == EntryType::XHeader {
                self.set_padding();
                extended_size = self.extended_size()?;
                continue;
            }
            let is_file = matches!(kind, EntryType::Regular | EntryType::Continuous);
            self.left = extended_size.take().filter(|_| is_file).unwrap_or(self.left);
            self.set_padding();
            if is_file && folder::is_trace_name(&header.path_bytes()) {
                return Ok(true);
            }
        }
    }

    fn set_padding(&mut self) {
        self.padding = self.left.next_multiple_of(BLOCK as u64) - self.left;
    }

    /// The size in an extended header, for files above 8 GiB.
    fn extended_size(&mut self) -> io::Result<Option<u64>> {
        let mut text = Vec::new();
        self.reader.by_ref().take(self.left.min(EXTENSION_BYTES_MAX)).read_to_end(&mut text)?;
        self.left -= text.len() as u64;
        let sizes =
            PaxExtensions::new(&text).filter_map(Result::ok).filter(|entry| entry.key() == Ok("size"));
        Ok(sizes.last().and_then(|entry| entry.value().ok()?.parse().ok()))
    }

    fn skip(&mut self) -> io::Result<()> {
        let rest = self.left.saturating_add(self.padding);
        let skipped = io::copy(&mut self.reader.by_ref().take(rest), &mut io::sink())?;
        (self.left, self.padding) = (0, 0);
        if skipped < rest { Err(damaged()) } else { Ok(()) }
    }
}

struct Member(Rc<RefCell<Members>>);

impl Read for Member {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut members = self.0.borrow_mut();
        let left = members.left;
        let count = members.reader.by_ref().take(left).read(buffer)?;
        if count == 0 && left > 0 && !buffer.is_empty() {
            return Err(damaged());
        }
        members.left -= count as u64;
        Ok(count)
    }
}

fn damaged() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the tar archive is damaged or cut off")
}
