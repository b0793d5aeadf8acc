//! Decides which values a read of a volume may return: within a life, after a kill and after a power cut.

pub mod book;
pub mod cells;
pub mod instants;
pub mod register;
pub mod write_content;

use std::collections::BTreeSet;

use kickcache_engine::request::Durability;
use kickcache_engine::units::{BLOCK_SIZE, ByteExtent, VolumeId};

use crate::content::{Block, Version};
use crate::oracle::book::{Book, Tick};
use crate::oracle::cells::Shadow;
use crate::oracle::register::{CompletedRead, Register};
use crate::oracle::write_content::WriteContent;
use crate::payload::Payload;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Crash {
    /// The process dies; the machine and its devices continue.
    Kill,
    PowerCut,
}

#[derive(Clone, Debug)]
pub struct Oracle {
    book: Book,
    shadows: Vec<Shadow>,
    /// Volumes that may have lost data because a device lied, or because a damaged log was abandoned.
    distrusted: BTreeSet<VolumeId>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FirstContent {
    pub size: u64,
    /// For each 64 KiB of the volume, whether it holds data.
    pub filled: Vec<bool>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StartedWrite {
    pub version: Version,
    pub issued: Tick,
}

impl Oracle {
    pub fn new(volumes: Vec<FirstContent>) -> Oracle {
        let book = Book::new(volumes.len());
        let shadow = |(number, FirstContent { size, filled }): (usize, FirstContent)| {
            Shadow::new(VolumeId::new(u8::try_from(number).expect("few volumes")), size, filled)
        };
        let shadows = volumes.into_iter().enumerate().map(shadow).collect();
        Oracle { book, shadows, distrusted: BTreeSet::new() }
    }

    pub fn be_lenient(&mut self) {
        self.book.be_lenient();
    }

    pub fn book(&self) -> &Book {
        &self.book
    }

    /// The version of a block before the run.
    pub fn first(&self, volume: VolumeId, block: u64) -> Version {
        self.shadows[usize::from(volume.get())].first(block)
    }

    fn shadow(&mut self, volume: VolumeId) -> &mut Shadow {
        &mut self.shadows[usize::from(volume.get())]
    }

    /// A read, flush or other request without effect starts.
    pub fn start(&mut self) -> Tick {
        self.book.start()
    }

    /// A read, flush or other request without effect ended without a result that the oracle can use.
    pub fn end(&mut self, started: Tick) {
        self.book.end(started);
    }

    pub fn start_write(
        &mut self,
        volume: VolumeId,
        extent: ByteExtent,
        content: WriteContent,
    ) -> StartedWrite {
        let issued = self.book.start();
        let version = self.book.add(volume, issued);
        let Oracle { book, shadows, .. } = self;
        shadows[usize::from(volume.get())]
            .visit(extent, |register, _| register.start_write(version, content, book));
        StartedWrite { version, issued }
    }

    pub fn end_write(&mut self, version: Version, extent: ByteExtent, durability: Durability) {
        let record = *self.book.get(version).expect("a version of ours");
        let at = self.book.end(record.issued);
        self.book.acknowledge(version, at, durability);
        self.shadow(record.volume).visit(extent, |register, _| register.end_write(version, at));
    }

    pub fn fail_write(&mut self, version: Version, extent: ByteExtent) {
        let record = *self.book.get(version).expect("a version of ours");
        let at = self.book.end(record.issued);
        self.shadow(record.volume).visit(extent, |register, _| register.fail_write(version, at));
    }

    pub fn start_discard(&mut self, volume: VolumeId, extent: ByteExtent) -> Tick {
        let Oracle { book, shadows, .. } = self;
        let tick = book.start();
        shadows[usize::from(volume.get())].visit(extent, |register, _| register.start_discard(book));
        tick
    }

    /// A discard ended, well or not.
    pub fn end_discard(&mut self, volume: VolumeId, extent: ByteExtent, started: Tick) {
        let at = self.book.end(started);
        self.shadow(volume).visit(extent, |register, _| register.end_discard(at));
    }

    pub fn end_flush(&mut self, volume: VolumeId, started: Tick) {
        self.book.end(started);
        self.book.flushed(volume, started);
    }

    /// The engine of a volume stopped cleanly: all acknowledged writes are durable, except writes that a failed flush
    /// may have lost.
    pub fn stopped(&mut self, volume: VolumeId) {
        let now = self.book.next_tick();
        self.book.flushed(volume, now);
        self.book.next_tick();
    }

    /// # Errors
    /// A sentence, if the data may not be seen.
    pub fn end_read(
        &mut self,
        volume: VolumeId,
        extent: ByteExtent,
        start: Tick,
        data: &Payload,
    ) -> Result<(), String> {
        let end = self.book.end(start);
        let mut at = extent.start;
        for found in &data.blocks {
            let next = ((at / BLOCK_SIZE + 1) * BLOCK_SIZE).min(extent.end());
            self.judge(volume, ByteExtent { start: at, length: next - at }, (start, end), found)?;
            at = next;
        }
        Ok(())
    }

    fn judge(
        &mut self,
        volume: VolumeId,
        part: ByteExtent,
        (start, end): (Tick, Tick),
        found: &Block,
    ) -> Result<(), String> {
        let Oracle { book, shadows, distrusted } = self;
        let is_judged = !distrusted.contains(&volume);
        let judge = |register: &mut Register, version| match is_judged {
            true => register.read(CompletedRead { version, start, end }, book),
            false => Ok(()),
        };
        shadows[usize::from(volume.get())].compare(part, found, judge)
    }

    /// Judges the content of an origin after the end of the run.
    ///
    /// # Errors
    /// A sentence, if the data may not be seen.
    pub fn judge_origin(&mut self, volume: VolumeId, origin: &[Block]) -> Result<(), String> {
        for (number, found) in (0..).zip(origin) {
            if !self.shadow(volume).is_touched(number) {
                self.judge_untouched(volume, number, found)?;
                continue;
            }
            let tick = self.book.next_tick();
            let part = ByteExtent { start: number * BLOCK_SIZE, length: BLOCK_SIZE };
            self.judge(volume, part, (tick, tick), found)?;
        }
        Ok(())
    }

    fn judge_untouched(&mut self, volume: VolumeId, number: u64, found: &Block) -> Result<(), String> {
        let first = self.shadow(volume).first(number);
        match found.version(volume, number) {
            Some(version) if version == first => Ok(()),
            found => Err(format!("volume {} block {number:#x} was never written: {found:?}", volume.get())),
        }
    }

    pub fn crash(&mut self, crash: Crash) {
        self.book.drop_in_flight();
        let now = self.book.next_tick();
        let Oracle { book, shadows, .. } = self;
        for shadow in shadows {
            let volume = shadow.volume;
            shadow.visit_all(|register| match crash {
                Crash::Kill => register.kill(now, volume, book),
                Crash::PowerCut => register.cut_power(now, volume, book),
            });
        }
    }

    /// After an unavoidable loss, each place of an extent may hold any value that it ever held, or zeroes, and the
    /// first read determines the value.
    pub fn loosen(&mut self, volume: VolumeId, extent: ByteExtent) {
        let now = self.book.next_tick();
        let Oracle { book, shadows, .. } = self;
        shadows[usize::from(volume.get())].visit(extent, |register, _| {
            register.start_discard(book);
            register.end_discard(now);
        });
        self.book.next_tick();
    }

    /// From here on, the volume must only return data of its own places, or zeroes.
    pub fn distrust(&mut self, volume: VolumeId) {
        self.distrusted.insert(volume);
    }

    pub fn is_distrusted(&self, volume: VolumeId) -> bool {
        self.distrusted.contains(&volume)
    }

    pub fn fail_flush(&mut self, volume: VolumeId, started: Tick) {
        self.book.end(started);
        self.doom(volume);
    }

    /// A device failed to flush: later flushes do not prove that the writes covered by the failed one are durable.
    pub fn doom(&mut self, volume: VolumeId) {
        let now = self.book.next_tick();
        self.book.doom(volume, now);
    }

    /// Blocks that were ever touched, as extents of at most `length_max` bytes, a multiple of the block size.
    pub fn touched(&self, volume: VolumeId, length_max: u64) -> Vec<ByteExtent> {
        let shadow = &self.shadows[usize::from(volume.get())];
        let mut extents: Vec<ByteExtent> = Vec::new();
        for start in (0..shadow.block_count())
            .filter(|block| shadow.is_touched(*block))
            .map(|block| block * BLOCK_SIZE)
        {
            match extents.last_mut() {
                Some(last) if last.end() == start && last.length < length_max => last.length += BLOCK_SIZE,
                Some(_) | None => extents.push(ByteExtent { start, length: BLOCK_SIZE }),
            }
        }
        extents
    }
}

#[cfg(test)]
mod tests;
