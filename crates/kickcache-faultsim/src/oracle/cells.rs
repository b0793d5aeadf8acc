//! The registers of a volume: one for each block; once a part of the block is accessed, or a read finds no single
//! version in it, one for each sector; one for each unit of a sector that is accessed in parts.

use kickcache_engine::units::{BLOCK_SIZE, ByteExtent, SECTOR_SIZE, VolumeId};

use crate::content::{Block, UNIT_SIZE, Version};
use crate::index::index;
use crate::oracle::book::INITIAL;
use crate::oracle::register::Register;

const SECTORS: usize = 8;
const PARTS: usize = 16;
const _: () = assert!(SECTORS as u64 * SECTOR_SIZE == BLOCK_SIZE && PARTS as u64 * UNIT_SIZE == SECTOR_SIZE);

/// Bytes of a chunk of the origin that is filled, or not, before the run.
pub const CHUNK: u64 = 64 << 10;

#[derive(Clone, Debug)]
enum Sector {
    Whole(Register),
    Parts(Box<[Register; PARTS]>),
}

#[derive(Clone, Debug)]
enum Cell {
    Whole(Register),
    Sectors(Box<[Sector; SECTORS]>),
}

#[derive(Clone, Debug)]
pub(super) struct Shadow {
    pub(super) volume: VolumeId,
    /// For each chunk, whether the origin held [`INITIAL`] in it before the run; otherwise it held zeroes.
    filled: Vec<bool>,
    cells: Vec<Option<Box<Cell>>>,
}

trait Visit: FnMut(&mut Register, ByteExtent) {}
impl<F: FnMut(&mut Register, ByteExtent)> Visit for F {}

impl Sector {
    fn visit(&mut self, part: ByteExtent, visit: &mut impl Visit) {
        if let (Sector::Whole(register), true) = (&mut *self, part.length < SECTOR_SIZE) {
            *self = Sector::Parts(Box::new(std::array::from_fn(|_| register.clone())));
        }
        match self {
            Sector::Whole(register) => visit(register, part),
            Sector::Parts(registers) => {
                let first = index(part.start % SECTOR_SIZE / UNIT_SIZE);
                let units = &mut registers[first..first + index(part.length / UNIT_SIZE)];
                for (register, unit) in units.iter_mut().zip(part.start / UNIT_SIZE..) {
                    visit(register, ByteExtent { start: unit * UNIT_SIZE, length: UNIT_SIZE });
                }
            }
        }
    }

    fn registers(&mut self) -> &mut [Register] {
        match self {
            Sector::Whole(register) => std::slice::from_mut(register),
            Sector::Parts(registers) => registers.as_mut_slice(),
        }
    }
}

impl Cell {
    fn split(&mut self) {
        if let Cell::Whole(register) = self {
            *self = Cell::Sectors(Box::new(std::array::from_fn(|_| Sector::Whole(register.clone()))));
        }
    }

    fn visit(&mut self, part: ByteExtent, visit: &mut impl Visit) {
        if part.length < BLOCK_SIZE {
            self.split();
        }
        match self {
            Cell::Whole(register) => visit(register, part),
            Cell::Sectors(sectors) => {
                let mut start = part.start;
                while start < part.end() {
                    let end = ((start / SECTOR_SIZE + 1) * SECTOR_SIZE).min(part.end());
                    let sector = &mut sectors[index(start % BLOCK_SIZE / SECTOR_SIZE)];
                    sector.visit(ByteExtent { start, length: end - start }, visit);
                    start = end;
                }
            }
        }
    }
}

impl Shadow {
    pub(super) fn new(volume: VolumeId, size: u64, filled: Vec<bool>) -> Shadow {
        Shadow { volume, filled, cells: vec![None; index(size.div_ceil(BLOCK_SIZE))] }
    }

    pub(super) fn first(&self, block: u64) -> Version {
        if self.filled[index(block * BLOCK_SIZE / CHUNK)] { INITIAL } else { 0 }
    }

    fn cell(&mut self, block: u64) -> &mut Cell {
        let first = self.first(block);
        self.cells[index(block)].get_or_insert_with(|| Box::new(Cell::Whole(Register::new(first))))
    }

    pub(super) fn visit(&mut self, extent: ByteExtent, mut visit: impl FnMut(&mut Register, ByteExtent)) {
        let mut start = extent.start;
        while start < extent.end() {
            let end = ((start / BLOCK_SIZE + 1) * BLOCK_SIZE).min(extent.end());
            self.cell(start / BLOCK_SIZE).visit(ByteExtent { start, length: end - start }, &mut visit);
            start = end;
        }
    }

    /// Visits the registers of a part of a block, each with the version that the block contains there.
    ///
    /// # Errors
    /// A sentence, if the bytes of a register do not have exactly one version, or the first error of the visitor.
    pub(super) fn compare(
        &mut self,
        part: ByteExtent,
        found: &Block,
        mut visit: impl FnMut(&mut Register, Version) -> Result<(), String>,
    ) -> Result<(), String> {
        let (volume, number) = (self.volume, part.start / BLOCK_SIZE);
        let whole = found.version(volume, number);
        let cell = self.cell(number);
        if whole.is_none() {
            cell.split();
        }
        let mut result = Ok(());
        cell.visit(part, &mut |register: &mut Register, part: ByteExtent| {
            if result.is_ok() {
                let units = part.start / UNIT_SIZE..part.end() / UNIT_SIZE;
                result = whole
                    .map_or_else(|| found.version_of_units(volume, units), Ok)
                    .and_then(|version| visit(register, version))
                    .map_err(|error| format!("volume {} byte {:#x}: {error}", volume.get(), part.start));
            }
        });
        result
    }

    pub(super) fn visit_all(&mut self, mut visit: impl FnMut(&mut Register)) {
        for cell in self.cells.iter_mut().flatten() {
            match cell.as_mut() {
                Cell::Whole(register) => visit(register),
                Cell::Sectors(sectors) => {
                    sectors.iter_mut().for_each(|sector| sector.registers().iter_mut().for_each(&mut visit));
                }
            }
        }
    }

    pub(super) fn is_touched(&self, block: u64) -> bool {
        self.cells[index(block)].is_some()
    }

    pub(super) fn block_count(&self) -> u64 {
        self.cells.len() as u64
    }
}
