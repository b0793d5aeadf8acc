//! How a long write is cut into parts, each done before the next one begins.

use crate::units::{BLOCK_SIZE, ByteExtent};

/// The next part of a write: all of the rest, or up to a block boundary.
pub(super) fn of_payload(rest: ByteExtent, length_max: u64) -> ByteExtent {
    let length = if rest.length > length_max { length_max - rest.start % BLOCK_SIZE } else { rest.length };
    ByteExtent { length, ..rest }
}

/// The next part of write-zeroes: up to the next block boundary, then whole blocks, then the rest.
pub(super) fn of_zeroes(rest: ByteExtent, length_max: u64) -> ByteExtent {
    let into_block = rest.start % BLOCK_SIZE;
    let length = if into_block != 0 {
        rest.length.min(BLOCK_SIZE - into_block)
    } else if rest.length >= BLOCK_SIZE {
        rest.length.min(length_max) / BLOCK_SIZE * BLOCK_SIZE
    } else {
        rest.length
    };
    ByteExtent { start: rest.start, length }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_writes_go_in_parts_that_end_with_a_block() {
        let part = |start, length| of_payload(ByteExtent { start, length }, 16384).length;
        assert_eq!((part(100, 16384), part(100, 16385), part(4096, 20000)), (16384, 16284, 16384));
    }

    #[test]
    fn zeroes_go_block_by_block_where_they_are_not_aligned() {
        let part = |start, length| of_zeroes(ByteExtent { start, length }, 1 << 20);
        assert_eq!(part(100, 10), ByteExtent { start: 100, length: 10 });
        assert_eq!(part(100, 5000), ByteExtent { start: 100, length: 3996 });
        assert_eq!(part(4096, 5000), ByteExtent { start: 4096, length: 4096 });
        assert_eq!(part(8192, 5), ByteExtent { start: 8192, length: 5 });
        assert_eq!(part(0, 1 << 30), ByteExtent { start: 0, length: 1 << 20 });
    }
}
