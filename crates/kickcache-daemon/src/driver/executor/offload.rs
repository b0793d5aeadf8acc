//! Zeroes and discards, which devices execute in whole blocks.

use std::io;

use kickcache_engine::device::Device;
use kickcache_engine::time::Instant;
use kickcache_engine::units::ByteExtent;

use super::{Driver, EndedOperation};
use crate::driver::device::{BlockFile, Kind};
use crate::driver::fault::Cause;
use crate::driver::memory::Mapping;
use crate::driver::minimum_block::{BlockParts, MinimumBlock};
use crate::driver::operation::{DiscardKind, Operation};

/// Bytes of the zeroes in memory that are written where a device does not store zeroes by itself.
const ZEROES_BYTES: usize = 1 << 20;

impl Driver {
    pub(super) fn start_discard(&mut self, now: Instant, token: u32) {
        let BlockParts { middle, .. } = self.parts(token);
        let operation = self.operation(token);
        (operation.offset, operation.length) = (middle.start, middle.length);
        match middle.length {
            0 => self.ended.push_back(EndedOperation::Operation(token, Ok(()))),
            _ => self.start(now, token),
        }
    }

    /// Has the device store zeroes in the whole blocks of the operation's extent, and writes the zeroes of
    /// partial blocks.
    pub(super) fn start_zeroes(&mut self, now: Instant, token: u32) {
        let BlockParts { head, middle, tail } = self.parts(token);
        let operation = self.operation(token);
        (operation.offset, operation.length) = (middle.start, middle.length);
        operation.unwritten.extend([head, tail].into_iter().filter(|part| part.length > 0));
        match middle.length {
            0 => self.write_zeroes(now, token),
            _ => self.start(now, token),
        }
    }

    pub(super) fn write_zeroes(&mut self, now: Instant, token: u32) {
        let Ok(address) = self.zeroes() else {
            return self.fail(token, Cause::Errno(libc::ENOMEM));
        };
        self.operation(token).begin_written_zeroes(address, ZEROES_BYTES);
        self.start(now, token);
    }

    fn zeroes(&mut self) -> io::Result<*mut u8> {
        let zeroes = match self.zeroes.take() {
            Some(zeroes) => zeroes,
            None => Mapping::new(ZEROES_BYTES)?,
        };
        Ok(self.zeroes.insert(zeroes).base())
    }

    /// A queued device takes any sectors.
    fn parts(&mut self, token: u32) -> BlockParts {
        let &mut Operation { device, offset, length, .. } = self.operation(token);
        let block = self.file(device).map_or(MinimumBlock::SECTOR, BlockFile::minimum_block);
        block.parts(ByteExtent { start: offset, length })
    }

    pub(super) fn discard_kind(&self, device: Device) -> DiscardKind {
        match self.file(device).map(BlockFile::kind) {
            Some(Kind::Block) => DiscardKind::Block,
            Some(Kind::File) | None => DiscardKind::Punch,
        }
    }
}
