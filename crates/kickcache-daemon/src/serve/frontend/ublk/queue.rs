//! One queue of a device.

use std::fs::File;
use std::io;

use super::abi::{DeviceInfo, IoCommand, IoDescription};
use super::request_table::RequestTable;
use crate::driver::memory::{Allocator, Chunk};

pub(super) struct Queue {
    number: u16,
    descriptions: RequestTable,
    /// By tag: the kernel puts the data of writes there, and takes that of reads. `None` while the memory is
    /// lent.
    memory: Vec<Option<Chunk>>,
    addresses: Vec<u64>,
}

impl Queue {
    pub(super) fn open(
        number: u16,
        info: &DeviceInfo,
        device: &File,
        allocator: &mut Allocator,
    ) -> io::Result<Queue> {
        let descriptions = RequestTable::map(device, number, info.queue_depth)?;
        let length = usize::try_from(info.request_bytes_max).expect("usize has at least 32 bits");
        let chunks = (0..info.queue_depth).map(|_| allocator.allocate(length));
        let memory: Vec<Chunk> = chunks.collect::<Result<_, _>>()?;
        let addresses = memory.iter().map(|chunk| chunk.base().expose_provenance() as u64).collect();
        Ok(Queue { number, descriptions, memory: memory.into_iter().map(Some).collect(), addresses })
    }

    pub(super) fn depth(&self) -> u16 {
        u16::try_from(self.memory.len()).expect("the kernel's depths have 16 bits")
    }

    pub(super) fn description(&self, tag: u16) -> IoDescription {
        self.descriptions.get(tag)
    }

    /// Lends the memory of a tag, while this process has the tag's request.
    pub(super) fn lend(&mut self, tag: u16) -> Chunk {
        self.memory[usize::from(tag)].take().expect("a tag has one request at a time")
    }

    pub(super) fn give_back(&mut self, tag: u16, chunk: Chunk) {
        self.memory[usize::from(tag)] = Some(chunk);
    }

    /// The first `length` bytes of a tag's memory, which must not be lent.
    pub(super) fn bytes(&mut self, tag: u16, length: usize) -> &mut [u8] {
        self.memory[usize::from(tag)].as_mut().expect("it is not lent").bytes_mut(length)
    }

    pub(super) fn command(&self, tag: u16, result: i32) -> IoCommand {
        IoCommand { queue_id: self.number, tag, result, address: self.addresses[usize::from(tag)] }
    }
}
