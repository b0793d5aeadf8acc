//! Knows which values a read of a volume may return, now, after a kill and after a power cut.

pub mod book;
pub mod register;

use kickcache_engine::units::{ByteExtent, SECTOR_SIZE, VolumeId};

use crate::world::content::{UNIT, UNIT_SIZE, Version, version_of};
use crate::world::oracle::book::{Book, INITIAL, Tick};
use crate::world::oracle::register::{Register, Seen};

/// Units of a sector.
const PARTS: usize = 16;
const _: () = assert!(PARTS as u64 * UNIT_SIZE == SECTOR_SIZE);

/// A sector: one register as long as only whole sectors were written, then one for each unit.
#[derive(Clone, Debug)]
enum Cell {
    Whole(Register),
    Parts(Box<[Register; PARTS]>),
}

/// What is known of a volume.
#[derive(Clone, Debug)]
struct Shadow {
    volume: VolumeId,
    /// By 64 KiB: whether the origin held [`INITIAL`] there before the run, and zeroes else.
    filled: Vec<bool>,
    cells: Vec<Option<Box<Cell>>>,
}

/// Bytes of a chunk of the origin that is filled, or not, before the run.
pub const CHUNK: u64 = 64 << 10;

fn index(number: u64) -> usize {
    usize::try_from(number).expect("simulated volumes are small")
}

impl Shadow {
    fn first(&self, sector: u64) -> Version {
        if self.filled[index(sector * SECTOR_SIZE / CHUNK)] { INITIAL } else { 0 }
    }

    /// Visits the registers of an extent with the range of bytes that each stands for.
    fn visit(&mut self, extent: ByteExtent, mut visit: impl FnMut(&mut Register, ByteExtent)) {
        let mut start = extent.start;
        while start < extent.end() {
            let sector = start / SECTOR_SIZE;
            let end = ((sector + 1) * SECTOR_SIZE).min(extent.end());
            let part = ByteExtent { start, length: end - start };
            let first = self.first(sector);
            let cell =
                self.cells[index(sector)].get_or_insert_with(|| Box::new(Cell::Whole(Register::new(first))));
            visit_cell(cell, sector, part, &mut visit);
            start = end;
        }
    }
}

fn visit_cell(
    cell: &mut Cell,
    sector: u64,
    part: ByteExtent,
    visit: &mut impl FnMut(&mut Register, ByteExtent),
) {
    if part.length < SECTOR_SIZE
        && let Cell::Whole(register) = cell
    {
        *cell = Cell::Parts(Box::new(std::array::from_fn(|_| register.clone())));
    }
    match cell {
        Cell::Whole(register) => visit(register, part),
        Cell::Parts(registers) => {
            let first = index((part.start - sector * SECTOR_SIZE) / UNIT_SIZE);
            let count = index(part.length / UNIT_SIZE);
            let units = registers[first..first + count].iter_mut().zip(part.start / UNIT_SIZE..);
            for (register, unit) in units {
                visit(register, ByteExtent { start: unit * UNIT_SIZE, length: UNIT_SIZE });
            }
        }
    }
}

/// How a crash ends a life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Crash {
    /// The process dies; the machine and its devices go on.
    Kill,
    /// The power goes off.
    PowerCut,
}

/// The oracle of a run.
#[derive(Clone, Debug)]
pub struct Oracle {
    book: Book,
    shadows: Vec<Shadow>,
}

impl Oracle {
    /// The oracle of volumes of these sizes; `filled` says of each 64 KiB whether it holds data.
    pub fn new(volumes: Vec<(u64, Vec<bool>)>) -> Oracle {
        let book = Book::new(volumes.len());
        let shadow = |(number, (size, filled)): (usize, (u64, Vec<bool>))| Shadow {
            volume: VolumeId::new(u8::try_from(number).expect("few volumes")),
            filled,
            cells: vec![None; index(size.div_ceil(SECTOR_SIZE))],
        };
        Oracle { book, shadows: volumes.into_iter().enumerate().map(shadow).collect() }
    }

    fn shadow(&mut self, volume: VolumeId) -> &mut Shadow {
        &mut self.shadows[usize::from(volume.get())]
    }

    /// A read, flush or other request without effect starts.
    pub fn start(&mut self) -> Tick {
        self.book.start()
    }

    /// It ended in a way that says nothing.
    pub fn end(&mut self, started: Tick) {
        self.book.end(started);
    }

    /// A write starts; gives its version and start.
    pub fn start_write(&mut self, volume: VolumeId, extent: ByteExtent, zero: bool) -> (Version, Tick) {
        let issued = self.book.start();
        let version = self.book.add(volume, issued);
        let Oracle { book, shadows } = self;
        shadows[usize::from(volume.get())]
            .visit(extent, |register, _| register.start_write(version, zero, book));
        (version, issued)
    }

    /// A write was acknowledged.
    pub fn end_write(&mut self, version: Version, extent: ByteExtent, durable: bool) {
        let record = *self.book.get(version).expect("a version of ours");
        let at = self.book.end(record.issued);
        self.book.acknowledge(version, at, durable);
        self.shadow(record.volume).visit(extent, |register, _| register.end_write(version, at));
    }

    /// A discard starts.
    pub fn start_discard(&mut self, volume: VolumeId, extent: ByteExtent) -> Tick {
        let Oracle { book, shadows } = self;
        let tick = book.start();
        shadows[usize::from(volume.get())].visit(extent, |register, _| register.start_discard(book));
        tick
    }

    /// A discard ended, well or not.
    pub fn end_discard(&mut self, volume: VolumeId, extent: ByteExtent, started: Tick) {
        let at = self.book.end(started);
        self.shadow(volume).visit(extent, |register, _| register.end_discard(at));
    }

    /// A flush ended well.
    pub fn end_flush(&mut self, volume: VolumeId, started: Tick) {
        self.book.end(started);
        self.book.flushed(volume, started);
    }

    /// Everything acknowledged so far is durable: the engine stopped.
    pub fn stopped(&mut self) {
        let now = self.book.next_tick();
        for shadow in &self.shadows {
            self.book.flushed(shadow.volume, now);
        }
        self.book.next_tick();
    }

    /// A read ended with data.
    ///
    /// # Errors
    /// A sentence, if the data may not be seen.
    pub fn end_read(
        &mut self,
        volume: VolumeId,
        extent: ByteExtent,
        start: Tick,
        data: &[u8],
    ) -> Result<(), String> {
        let end = self.book.end(start);
        self.judge(volume, extent, (start, end), data)
    }

    fn judge(
        &mut self,
        volume: VolumeId,
        extent: ByteExtent,
        (start, end): (Tick, Tick),
        data: &[u8],
    ) -> Result<(), String> {
        let Oracle { book, shadows } = self;
        let mut result = Ok(());
        shadows[usize::from(volume.get())].visit(extent, |register, part| {
            if result.is_ok() {
                let from = index(part.start - extent.start);
                let bytes = &data[from..from + index(part.length)];
                result = value(volume, part, bytes)
                    .and_then(|version| register.read(Seen { version, start, end }, book))
                    .map_err(|error| format!("volume {} byte {:#x}: {error}", volume.get(), part.start));
            }
        });
        result
    }

    /// Judges what an origin holds after the end, where every place must hold what a read would return.
    ///
    /// # Errors
    /// A sentence, if the data may not be seen.
    pub fn judge_origin(&mut self, volume: VolumeId, origin: &[u8]) -> Result<(), String> {
        let sectors = self.shadow(volume).cells.len();
        for sector in 0..sectors {
            let start = sector as u64 * SECTOR_SIZE;
            let bytes = &origin[index(start)..index(start + SECTOR_SIZE)];
            let extent = ByteExtent { start, length: SECTOR_SIZE };
            if self.shadow(volume).cells[sector].is_none() {
                self.judge_untouched(volume, extent, bytes)?;
                continue;
            }
            let tick = self.book.next_tick();
            self.judge(volume, extent, (tick, tick), bytes)?;
        }
        Ok(())
    }

    fn judge_untouched(&mut self, volume: VolumeId, extent: ByteExtent, bytes: &[u8]) -> Result<(), String> {
        let first = self.shadow(volume).first(extent.start / SECTOR_SIZE);
        match value(volume, extent, bytes) {
            Ok(version) if version == first => Ok(()),
            found => {
                Err(format!("volume {} byte {:#x} was never written: {found:?}", volume.get(), extent.start))
            }
        }
    }

    /// A life ends with a crash.
    pub fn crash(&mut self, crash: Crash) {
        self.book.drop_in_flight();
        let now = self.book.next_tick();
        let Oracle { book, shadows } = self;
        for shadow in shadows {
            let volume = shadow.volume;
            let registers = shadow.cells.iter_mut().flatten().flat_map(|cell| match cell.as_mut() {
                Cell::Whole(register) => std::slice::from_mut(register),
                Cell::Parts(registers) => registers.as_mut_slice(),
            });
            registers.for_each(|register| match crash {
                Crash::Kill => register.kill(now, volume, book),
                Crash::PowerCut => register.cut_power(now, volume, book),
            });
        }
    }

    /// Sectors that were ever touched, as extents of at most `length_max` bytes.
    pub fn touched(&self, volume: VolumeId, length_max: u64) -> Vec<ByteExtent> {
        let mut extents: Vec<ByteExtent> = Vec::new();
        let cells = &self.shadows[usize::from(volume.get())].cells;
        for (sector, _) in (0..).zip(cells).filter(|(_, cell)| cell.is_some()) {
            let start = sector * SECTOR_SIZE;
            match extents.last_mut() {
                Some(last) if last.end() == start && last.length < length_max => last.length += SECTOR_SIZE,
                Some(_) | None => extents.push(ByteExtent { start, length: SECTOR_SIZE }),
            }
        }
        extents
    }
}

/// The one version that all units of a part carry.
fn value(volume: VolumeId, part: ByteExtent, bytes: &[u8]) -> Result<Version, String> {
    let mut units = (part.start / UNIT_SIZE..).zip(bytes.chunks_exact(UNIT));
    let (unit, chunk) = units.next().ok_or_else(|| "no bytes".to_owned())?;
    let first = version_of(volume, unit, chunk)?;
    for (unit, chunk) in units {
        let version = version_of(volume, unit, chunk)?;
        if version != first {
            return Err(format!("a sector of both version {first} and version {version}"));
        }
    }
    Ok(first)
}

#[cfg(test)]
mod tests;
