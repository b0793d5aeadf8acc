//! What a block and a segment must have had when their turn comes, in the cache and in its miniatures.

/// Hits after which a block of probation moves to main.
pub(crate) const PROMOTION_HITS: u8 = 2;
/// Segments of a queue that one search looks at.
pub(crate) const SEARCH_MAX: usize = 16;
/// The same in a main that is held.
pub(crate) const HOLD_SEARCH_MAX: usize = 4;
/// Of a segment whose turn it is at most so much is copied, in percent: what is left over leaves, used or not.
pub(crate) const CARRIED_PERCENT: u32 = 50;
/// A segment of main with more than this share of hot blocks stays in place, in percent.
const KEEP_PERCENT: u64 = 60;
/// In a main that is held all hot blocks stay if they are at most this share, in percent: something must leave at all.
const HOLD_CARRIED_PERCENT: u64 = 90;

/// Whether a segment of main stays in place, `hot` of its `blocks` blocks with hits.
pub(crate) const fn stays_in_place(hot: u64, blocks: u64) -> bool {
    hot * 100 > blocks * KEEP_PERCENT
}

/// Whether all that is hot in a segment of a main that is held is carried.
pub(crate) const fn carries_all(hot: u64, blocks: u64) -> bool {
    hot * 100 <= blocks * HOLD_CARRIED_PERCENT
}
