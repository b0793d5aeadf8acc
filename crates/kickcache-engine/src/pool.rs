//! The engine's memory: pages of 4 KiB that the driver owns, identified by number.

use alloc::vec;
use alloc::vec::Vec;

use crate::config::VOLUME_COUNT_MAX;
use crate::device::{Memory, Piece};
use crate::policy::quota::Quota;
use crate::units::{BLOCK_LENGTH, PageIndex, VolumeId, VolumeSet};

/// The part of its share that a user may take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BufferQuota {
    /// Fills that promote: not the last pages.
    Fill,
    /// The whole share of the volume.
    All,
}

/// The part of the pool that no volume's share includes: one page in this many.
const RECLAIM_PART: u64 = 8;
/// Pages that a request with partial blocks may need.
pub(crate) const PARTIAL_PAGES: usize = 2;
/// The owner of a page that is not counted for a volume.
const NOBODY: u8 = u8::MAX;

/// The free pages, and the volume of each page in use.
#[derive(Debug)]
pub(crate) struct Pool {
    free: Vec<PageIndex>,
    count: u32,
    owners: Vec<u8>,
    used: [u32; VOLUME_COUNT_MAX],
    quota: Quota,
}

impl Pool {
    /// Page 0 has zeroes for ever and is never assigned.
    pub(crate) const ZERO_PAGE: PageIndex = PageIndex::new(0);

    pub(crate) fn new(count: u32, volumes: VolumeSet) -> Pool {
        Pool {
            free: (1..count).rev().map(PageIndex::new).collect(),
            count,
            owners: vec![NOBODY; count as usize],
            used: [0; VOLUME_COUNT_MAX],
            quota: quota(count, volumes),
        }
    }

    pub(crate) fn set_volumes(&mut self, volumes: VolumeSet) {
        self.quota = quota(self.count, volumes);
    }

    /// Takes `count` pages, or none at all.
    pub(crate) fn take(&mut self, count: usize) -> Option<Vec<PageIndex>> {
        if self.free.len() < count {
            return None;
        }
        let mut pages = self.free.split_off(self.free.len() - count);
        pages.reverse();
        Some(pages)
    }

    /// Takes one page, if one is free.
    pub(crate) fn take_one(&mut self) -> Option<PageIndex> {
        self.free.pop()
    }

    /// Takes `count` pages of a volume's share, or none at all.
    pub(crate) fn take_for(
        &mut self,
        volume: VolumeId,
        count: usize,
        share: BufferQuota,
    ) -> Option<Vec<PageIndex>> {
        let (own, reserve) = match share {
            BufferQuota::Fill => (PARTIAL_PAGES, (self.count / 4) as usize),
            BufferQuota::All => (0, 0),
        };
        if self.free_for(volume) < count + own || self.free.len() < count + reserve {
            return None;
        }
        Some(self.charge(volume, self.free.len() - count))
    }

    /// Takes `count` pages for a volume, independent of its share.
    pub(crate) fn take_over(&mut self, volume: VolumeId, count: usize) -> Option<Vec<PageIndex>> {
        self.free.len().checked_sub(count).map(|rest| self.charge(volume, rest))
    }

    fn charge(&mut self, volume: VolumeId, from: usize) -> Vec<PageIndex> {
        let mut pages = self.free.split_off(from);
        pages.reverse();
        for page in &pages {
            self.owners[page.get() as usize] = volume.get();
        }
        self.used[usize::from(volume.get())] += u32::try_from(pages.len()).expect("at most the pool");
        pages
    }

    pub(crate) fn disown(&mut self, page: PageIndex) {
        let owner = core::mem::replace(&mut self.owners[page.get() as usize], NOBODY);
        if let Some(used) = self.used.get_mut(usize::from(owner)) {
            *used -= 1;
        }
    }

    pub(crate) fn release(&mut self, page: PageIndex) {
        debug_assert!(page != Pool::ZERO_PAGE, "the zero page is not given out");
        debug_assert!(self.free.len() + 1 < self.count as usize, "more pages were released than taken");
        self.disown(page);
        self.free.push(page);
    }

    /// Free pages of a volume's share.
    pub(crate) fn free_for(&self, volume: VolumeId) -> usize {
        let used = |volume: VolumeId| u64::from(self.used[usize::from(volume.get())]);
        let left = self.quota.allowance(volume, used).saturating_sub(used(volume));
        self.free.len().min(usize::try_from(left).unwrap_or(usize::MAX))
    }

    pub(crate) fn used(&self) -> u32 {
        self.count - 1 - u32::try_from(self.free.len()).expect("at most the pool")
    }
}

pub(crate) const fn page_memory(page: PageIndex) -> Memory {
    Memory::Pool { page, offset: 0 }
}

pub(crate) const fn page_piece(page: PageIndex) -> Piece {
    Piece { memory: page_memory(page), length: BLOCK_LENGTH }
}

/// Pages as pieces; adjacent pages are joined.
pub(crate) fn page_pieces(pages: &[PageIndex]) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::with_capacity(pages.len());
    let mut next = None;
    for page in pages {
        match pieces.last_mut() {
            Some(piece) if next == Some(*page) => piece.length += BLOCK_LENGTH,
            _ => pieces.push(page_piece(*page)),
        }
        next = Some(PageIndex::new(page.get() + 1));
    }
    pieces
}

/// The memory of blocks as pieces; adjacent memory is joined.
pub(crate) fn joined(memories: impl Iterator<Item = Memory>) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::new();
    for memory in memories {
        match pieces.last_mut() {
            Some(piece) if follows(piece, memory) => piece.length += BLOCK_LENGTH,
            _ => pieces.push(Piece { memory, length: BLOCK_LENGTH }),
        }
    }
    pieces
}

fn follows(piece: &Piece, memory: Memory) -> bool {
    match (piece.memory, memory) {
        (Memory::Request { id, offset }, Memory::Request { id: next_id, offset: next }) => {
            id == next_id && offset + piece.length == next
        }
        (Memory::Pool { page, offset: 0 }, Memory::Pool { page: next, offset: 0 }) => {
            page.get() + piece.length / BLOCK_LENGTH == next.get()
        }
        (Memory::Request { .. } | Memory::Pool { .. }, _) => false,
    }
}

fn quota(count: u32, volumes: VolumeSet) -> Quota {
    let count = u64::from(count);
    Quota::new(count - count / RECLAIM_PART, volumes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: VolumeId = VolumeId::new(0);
    const OTHER: VolumeId = VolumeId::new(5);

    #[test]
    fn fills_and_clients_leave_pages_for_reclaim() {
        let mut pool = Pool::new(100, [ONE].into_iter().collect());
        assert!(pool.take_for(ONE, 75, BufferQuota::Fill).is_none());
        let pages = pool.take_for(ONE, 74, BufferQuota::Fill).unwrap();
        assert!(pool.take_for(ONE, 1, BufferQuota::Fill).is_none());
        assert_eq!((pool.take_for(ONE, 15, BufferQuota::All), pool.free_for(ONE)), (None, 14));
        pool.take_for(ONE, 14, BufferQuota::All).unwrap();
        assert_eq!(pool.take(11).unwrap().len(), 11);
        assert_eq!(page_pieces(&pages).len(), 1);
        assert_eq!(pool.used(), 99);
    }

    #[test]
    fn a_fill_leaves_pages_for_the_ends_of_its_request() {
        let mut pool = Pool::new(801, [ONE, OTHER].into_iter().collect());
        let all = pool.free_for(ONE);
        assert!(pool.take_for(ONE, all - 1, BufferQuota::Fill).is_none());
        pool.take_for(ONE, all - 2, BufferQuota::Fill).unwrap();
        pool.take_for(ONE, 2, BufferQuota::All).unwrap();
        assert!(pool.take_for(ONE, 1, BufferQuota::All).is_none());
        assert_eq!(pool.take_over(ONE, 1).unwrap().len(), 1);
    }

    #[test]
    fn a_volume_that_keeps_its_pages_leaves_others_their_share() {
        let mut pool = Pool::new(801, [ONE, OTHER].into_iter().collect());
        while pool.take_for(ONE, 1, BufferQuota::All).is_some() {}
        assert_eq!(pool.free_for(OTHER), 175);
        let pages = pool.take_for(OTHER, 175, BufferQuota::All).unwrap();
        assert!(pool.take_for(OTHER, 1, BufferQuota::All).is_none());
        pool.disown(pages[0]);
        assert!(pool.take_for(OTHER, 1, BufferQuota::All).is_some(), "the log has a page of the volume");
        pages.into_iter().for_each(|page| pool.release(page));
        assert_eq!(pool.free_for(OTHER), 174);
    }
}
