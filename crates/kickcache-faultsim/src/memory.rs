//! The driver's memory: payloads of requests and the engine's pool, with a guard against overlapping use.

use std::collections::BTreeMap;

use kickcache_engine::device::{Memory, Piece};
use kickcache_engine::request::RequestId;
use kickcache_engine::units::{BLOCK_BYTES, BLOCK_SIZE, Checksum};

use crate::content::Block;
use crate::index::index;
use crate::payload::{Payload, copy};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MemoryAccess {
    /// The device reads the memory.
    Source,
    /// The device fills the memory.
    Target,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum PageUse {
    Free,
    /// This many submissions read the page.
    Source(u32),
    Target,
}

/// A stretch of memory: the pool is owner `None`. Bytes of a request count from the start of its first block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Stretch {
    owner: Option<RequestId>,
    start: usize,
    end: usize,
}

/// A part of a request's memory that a submission in flight uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Use {
    submission: u64,
    start: usize,
    end: usize,
    access: MemoryAccess,
}

#[derive(Clone, Debug)]
struct Owned {
    payload: Payload,
    uses: Vec<Use>,
}

#[derive(Clone, Debug)]
pub struct DriverMemory {
    requests: BTreeMap<RequestId, Owned>,
    pool: Vec<Block>,
    pages: Vec<PageUse>,
}

fn size(length: u32) -> usize {
    usize::try_from(length).expect("32 bits fit a usize")
}

impl DriverMemory {
    pub fn new(pool_pages: u32) -> DriverMemory {
        let (pool, pages) = (vec![Block::Zeroes; size(pool_pages)], vec![PageUse::Free; size(pool_pages)]);
        DriverMemory { requests: BTreeMap::new(), pool, pages }
    }

    pub fn insert(&mut self, id: RequestId, payload: Payload) {
        self.requests.insert(id, Owned { payload, uses: Vec::new() });
    }

    /// Gives the payload of a request that ended back; no bytes if the request is unknown.
    ///
    /// # Errors
    /// If a submission in flight still uses it.
    pub fn remove(&mut self, id: RequestId) -> Result<Payload, String> {
        let Some(owned) = self.requests.remove(&id) else { return Ok(Payload::empty()) };
        match owned.uses.first() {
            Some(used) => Err(format!(
                "request {} ended while submission {} uses its memory",
                id.get(),
                used.submission
            )),
            None => Ok(owned.payload),
        }
    }

    fn stretch(&self, piece: &Piece) -> Result<Stretch, String> {
        let (owner, start, limit) = match piece.memory {
            Memory::Request { id, offset } => {
                let owned = self.requests.get(&id);
                let Payload { skip, length, .. } =
                    owned.ok_or_else(|| format!("no request {} is in flight", id.get()))?.payload;
                (Some(id), skip + size(offset), skip + length)
            }
            Memory::Pool { page, offset } => {
                (None, size(page.get()) * BLOCK_BYTES + size(offset), self.pool.len() * BLOCK_BYTES)
            }
        };
        let end = start + size(piece.length);
        if end > limit || piece.length == 0 {
            return Err(format!("{piece:?} is outside of memory: byte {limit} is the end"));
        }
        Ok(Stretch { owner, start, end })
    }

    fn pages_of(stretch: &Stretch) -> std::ops::Range<usize> {
        stretch.start / BLOCK_BYTES..stretch.end.div_ceil(BLOCK_BYTES)
    }

    /// Records that a submission uses pieces until [`DriverMemory::release`].
    ///
    /// # Errors
    /// If a piece is outside of memory, or another submission uses it in an incompatible way.
    pub fn guard(&mut self, submission: u64, pieces: &[Piece], access: MemoryAccess) -> Result<(), String> {
        for piece in pieces {
            let stretch = self.stretch(piece)?;
            self.check_free(&stretch, access)?;
            self.take(submission, &stretch, access);
        }
        Ok(())
    }

    fn take(&mut self, submission: u64, stretch: &Stretch, access: MemoryAccess) {
        if let Some(owned) = stretch.owner.and_then(|id| self.requests.get_mut(&id)) {
            owned.uses.push(Use { submission, start: stretch.start, end: stretch.end, access });
            return;
        }
        for page in &mut self.pages[DriverMemory::pages_of(stretch)] {
            *page = match (access, *page) {
                (MemoryAccess::Target, _) => PageUse::Target,
                (MemoryAccess::Source, PageUse::Source(count)) => PageUse::Source(count + 1),
                (MemoryAccess::Source, PageUse::Free | PageUse::Target) => PageUse::Source(1),
            };
        }
    }

    fn check_free(&self, stretch: &Stretch, access: MemoryAccess) -> Result<(), String> {
        let busy = |user: &str| Err(format!("{access:?} {stretch:?} is in use by {user}"));
        if let Some(owned) = stretch.owner.and_then(|id| self.requests.get(&id)) {
            let clashes = |used: &&Use| {
                let is_shared = access == MemoryAccess::Source && used.access == MemoryAccess::Source;
                !is_shared && used.start < stretch.end && stretch.start < used.end
            };
            return match owned.uses.iter().find(clashes) {
                Some(used) => busy(&format!("{used:?}")),
                None => Ok(()),
            };
        }
        let clashes = |page: &PageUse| match page {
            PageUse::Free => false,
            PageUse::Source(_) => access == MemoryAccess::Target,
            PageUse::Target => true,
        };
        match self.pages[DriverMemory::pages_of(stretch)].iter().find(|page| clashes(page)) {
            Some(page) => busy(&format!("{page:?}")),
            None => Ok(()),
        }
    }

    pub fn release(&mut self, submission: u64, pieces: &[Piece]) {
        for piece in pieces {
            if let Memory::Request { id, .. } = piece.memory {
                if let Some(owned) = self.requests.get_mut(&id) {
                    owned.uses.retain(|used| used.submission != submission);
                }
                continue;
            }
            let Ok(stretch) = self.stretch(piece) else { continue };
            for page in &mut self.pages[DriverMemory::pages_of(&stretch)] {
                *page = match *page {
                    PageUse::Source(count) if count > 1 => PageUse::Source(count - 1),
                    PageUse::Free | PageUse::Source(_) | PageUse::Target => PageUse::Free,
                };
            }
        }
    }

    fn blocks(&self, stretch: &Stretch) -> &[Block] {
        match stretch.owner {
            Some(id) => &self.requests[&id].payload.blocks,
            None => &self.pool,
        }
    }

    fn blocks_mut(&mut self, stretch: &Stretch) -> &mut [Block] {
        match stretch.owner {
            Some(id) => &mut self.requests.get_mut(&id).expect("the stretch was checked").payload.blocks,
            None => &mut self.pool,
        }
    }

    /// Appends the bytes of pieces to `payload`.
    ///
    /// # Errors
    /// If a piece is outside of memory.
    pub fn gather(&self, pieces: &[Piece], payload: &mut Payload) -> Result<(), String> {
        for piece in pieces {
            let stretch = self.stretch(piece)?;
            let (at, length) = (payload.skip + payload.length, stretch.end - stretch.start);
            payload.length += length;
            payload.blocks.resize((at + length).div_ceil(BLOCK_BYTES), Block::Zeroes);
            copy((self.blocks(&stretch), stretch.start), (&mut payload.blocks, at), length);
        }
        Ok(())
    }

    /// Fills pieces with bytes of a device, from byte `at` on.
    ///
    /// # Errors
    /// If a piece is outside of memory.
    pub fn scatter(&mut self, pieces: &[Piece], device: &[Block], mut at: u64) -> Result<(), String> {
        for piece in pieces {
            let stretch = self.stretch(piece)?;
            let length = stretch.end - stretch.start;
            copy((device, index(at)), (self.blocks_mut(&stretch), stretch.start), length);
            at += length as u64;
        }
        Ok(())
    }

    /// Fills pieces with arbitrary bytes.
    ///
    /// # Errors
    /// If a piece is outside of memory.
    pub fn scramble(&mut self, pieces: &[Piece]) -> Result<(), String> {
        for piece in pieces {
            let stretch = self.stretch(piece)?;
            self.lay(&stretch, &Block::Noise(0x5A));
        }
        Ok(())
    }

    fn lay(&mut self, stretch: &Stretch, block: &Block) {
        let target = self.blocks_mut(stretch);
        let mut at = stretch.start;
        while at < stretch.end {
            let into = at % BLOCK_BYTES;
            let part = (stretch.end - at).min(BLOCK_BYTES - into);
            copy((std::slice::from_ref(block), into), (target, at), part);
            at += part;
        }
    }

    /// Appends the checksums of the pages of pieces.
    ///
    /// # Errors
    /// If a piece is outside of memory, or does not consist of whole pages.
    pub fn checksums(&self, pieces: &[Piece], checksums: &mut Vec<Checksum>) -> Result<(), String> {
        for piece in pieces {
            let stretch = self.stretch(piece)?;
            let ends = [stretch.start, stretch.end];
            if ends.iter().any(|end| !end.is_multiple_of(BLOCK_BYTES)) {
                return Err(format!("{piece:?} is not made of blocks"));
            }
            let blocks = &self.blocks(&stretch)[DriverMemory::pages_of(&stretch)];
            checksums.extend(blocks.iter().map(Block::checksum));
        }
        Ok(())
    }

    /// Copies within memory at once.
    ///
    /// # Errors
    /// If a piece is outside of memory, the source is being filled, or the target is in use.
    pub fn copy(&mut self, from: Memory, to: Memory, length: u32) -> Result<(), String> {
        let source = self.stretch(&Piece { memory: from, length })?;
        self.check_free(&source, MemoryAccess::Source)?;
        let target = self.stretch(&Piece { memory: to, length })?;
        self.check_free(&target, MemoryAccess::Target)?;
        let blocks = self.blocks(&source)[DriverMemory::pages_of(&source)].to_vec();
        let skip = source.start % BLOCK_BYTES;
        copy((&blocks, skip), (self.blocks_mut(&target), target.start), size(length));
        Ok(())
    }

    /// Zeroes memory at once.
    ///
    /// # Errors
    /// If the piece is outside of memory or in use.
    pub fn zero(&mut self, to: Memory, length: u32) -> Result<(), String> {
        let target = self.stretch(&Piece { memory: to, length })?;
        self.check_free(&target, MemoryAccess::Target)?;
        self.lay(&target, &Block::Zeroes);
        Ok(())
    }

    /// The checksum of the whole pool page that contains a place.
    ///
    /// # Errors
    /// If the place is not in the pool.
    pub fn page_checksum(&self, at: Memory) -> Result<Checksum, String> {
        match at {
            Memory::Request { .. } => Err(format!("{at:?} is no place of the pool")),
            Memory::Pool { page, offset } => {
                let page = size(page.get()) + index(u64::from(offset) / BLOCK_SIZE);
                let block = self.pool.get(page).ok_or_else(|| format!("{at:?} is outside of the pool"))?;
                Ok(block.checksum())
            }
        }
    }
}
