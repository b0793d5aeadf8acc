//! A read is served stretch by stretch, each cached or not.

use crate::ids::RequestSlot;
use crate::path::read::{hit, lookup, miss};
use crate::state::State;
use crate::units::{BLOCK_SIZE, BlockIndex, BlockKey, ByteExtent};

pub(super) fn serve(state: &mut State, slot: RequestSlot, extent: ByteExtent) {
    let volume = state.requests.get(slot).volume;
    let end = extent.end();
    let mut at = extent.start;
    while at < end {
        let rest = whole_or_partial(ByteExtent { start: at, length: end - at });
        let key = BlockKey::new(volume, BlockIndex::containing(at));
        at = match lookup::find(state, key) {
            Some(location) => hit::serve_hit(state, slot, key, location, rest),
            None => miss::serve_miss(state, slot, volume, rest),
        };
    }
}

/// The first block if it is a partial one, else the whole blocks before a partial one.
fn whole_or_partial(rest: ByteExtent) -> ByteExtent {
    let into_block = rest.start % BLOCK_SIZE;
    let length = if into_block != 0 {
        rest.length.min(BLOCK_SIZE - into_block)
    } else if rest.length > BLOCK_SIZE {
        rest.length / BLOCK_SIZE * BLOCK_SIZE
    } else {
        rest.length
    };
    ByteExtent { start: rest.start, length }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partial_blocks_are_served_alone_and_whole_ones_together() {
        let first = |start, length| whole_or_partial(ByteExtent { start, length }).length;
        assert_eq!((first(512, 512), first(512, 9000)), (512, 3584), "to the end of the block");
        assert_eq!((first(4096, 9000), first(4096, 4096)), (8192, 4096), "whole blocks");
        assert_eq!(first(4096, 100), 100, "the last part");
    }
}
