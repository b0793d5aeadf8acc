//! A read: blocks from the cache device or from the origin.
//!
//! Invariants:
//! * I-8: a read returns a block from the cache device only if its checksum is right; a clean block with a wrong
//!   checksum is read from the origin.

mod completion;
mod direct;
mod hit;
mod lookup;
mod miss;
mod serve;

use crate::config::FILL_WINDOW_MAX;
use crate::ids::RequestSlot;
use crate::inflight::requests::{Cursor, Stage};
pub(crate) use crate::path::read::completion::{again, on_direct, on_hit, on_hit_part, on_shared, retry};
pub(crate) use crate::path::read::lookup::warm;
use crate::pool::PARTIAL_PAGES;
use crate::state::State;
use crate::units::{BlockIndex, ByteExtent};

/// Begins a read, or makes it wait for pages.
pub(crate) fn begin(state: &mut State, slot: RequestSlot) {
    let pending = state.requests.get(slot);
    let (volume, extent) = (pending.volume, pending.extent);
    if extent != extent.widened_to_blocks() && state.pool.free_for(volume) < PARTIAL_PAGES {
        state.waiters.stall(slot);
        return;
    }
    state.requests.add_pending(slot);
    serve::serve(state, slot, extent);
    state.end_pending(slot);
}

/// Begins the next stretch of a promote, makes it wait for pages, or ends it.
pub(crate) fn promote(state: &mut State, slot: RequestSlot) {
    let volume = state.requests.get(slot).volume;
    let pages = state.pool.free_for(volume) as u64;
    let pending = state.requests.get_mut(slot);
    let end = pending.extent.end();
    let Stage::Cursor(Cursor { next, .. }) = &mut pending.stage else { panic!("a promote has a cursor") };
    if *next >= end || pending.error.is_some() {
        state.end_request(slot);
        return;
    }
    if pages == 0 {
        state.waiters.stall(slot);
        return;
    }
    let room = BlockIndex::containing(*next).plus(pages).byte_offset() - *next;
    let part = ByteExtent { start: *next, length: (end - *next).min(FILL_WINDOW_MAX).min(room) };
    *next = part.end();
    state.requests.add_pending(slot);
    serve::serve(state, slot, part);
    state.end_pending(slot);
}

#[cfg(test)]
mod tests {
    use crate::config::Mode;
    use crate::request::Operation;
    use crate::scene::Scene;

    #[test]
    fn a_promote_reads_only_the_missing_blocks_of_its_extent() {
        let mut scene = Scene::new(Mode::WriteThrough);
        let (result, seen) = scene.ask(Operation::Promote, 0, 3 << 20);
        assert_eq!(result, Ok(()));
        let lengths = seen.iter().filter_map(|line| line.strip_prefix("origin read ")?.split('+').nth(1));
        let bytes: u64 = lengths.map(|length| length.parse::<u64>().unwrap()).sum();
        assert_eq!(bytes, 3 << 20, "{seen:?}");
        assert!((0..16).all(|block| scene.is_cached(block * 4096)));
        assert_eq!(scene.ask(Operation::Promote, 0, 1 << 16), (Ok(()), alloc::vec::Vec::new()));
    }
}
