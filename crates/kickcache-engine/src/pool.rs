//! The engine's memory: pages of 4 KiB in the driver's hands, named by number.

use alloc::vec::Vec;

use crate::device::{Memory, Piece};
use crate::units::{BLOCK_LENGTH, PageIndex};

/// Which pages a user may take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Share {
    /// Fills: not the last quarter.
    Fill,
    /// Merges, reclaim and writeback, which must go on for fills to end.
    All,
}

/// Which pages are free.
#[derive(Debug)]
pub(crate) struct Pool {
    free: Vec<PageIndex>,
    count: u32,
}

impl Pool {
    /// Page 0 holds zeroes for ever and is never given out.
    pub(crate) const ZERO_PAGE: PageIndex = PageIndex::new(0);

    /// A pool of `count` pages, all free but the zero page.
    pub(crate) fn new(count: u32) -> Pool {
        Pool { free: (1..count).rev().map(PageIndex::new).collect(), count }
    }

    /// Takes `count` pages, or none at all.
    pub(crate) fn take(&mut self, count: usize, share: Share) -> Option<Vec<PageIndex>> {
        let reserve = match share {
            Share::Fill => (self.count / 4) as usize,
            Share::All => 0,
        };
        if self.free.len() < count + reserve {
            return None;
        }
        let mut pages = self.free.split_off(self.free.len() - count);
        pages.reverse();
        Some(pages)
    }

    /// Takes one page.
    pub(crate) fn take_one(&mut self) -> Option<PageIndex> {
        self.free.pop()
    }

    /// Gives a page back.
    pub(crate) fn release(&mut self, page: PageIndex) {
        debug_assert!(page != Pool::ZERO_PAGE, "the zero page is not given out");
        debug_assert!(self.free.len() + 1 < self.count as usize, "more pages came back than went out");
        self.free.push(page);
    }

    /// Pages that are free.
    pub(crate) fn free(&self) -> usize {
        self.free.len()
    }

    /// Pages in use.
    pub(crate) fn used(&self) -> u32 {
        self.count - 1 - u32::try_from(self.free.len()).expect("at most the pool")
    }
}

/// The whole page as memory.
pub(crate) const fn page_memory(page: PageIndex) -> Memory {
    Memory::Pool { page, offset: 0 }
}

/// The whole page as a piece.
pub(crate) const fn page_piece(page: PageIndex) -> Piece {
    Piece { memory: page_memory(page), length: BLOCK_LENGTH }
}

/// Pages as pieces; neighbours are joined.
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

/// One piece a block; neighbours in memory are joined.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fills_leave_a_quarter() {
        let mut pool = Pool::new(100);
        assert!(pool.take(75, Share::Fill).is_none());
        let pages = pool.take(74, Share::Fill).unwrap();
        assert!(pool.take(1, Share::Fill).is_none());
        assert_eq!(pool.take(25, Share::All).unwrap().len(), 25);
        assert_eq!(page_pieces(&pages).len(), 1);
        assert_eq!(pool.used(), 99);
    }
}
