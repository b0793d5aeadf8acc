//! Blocks of a read that are not cached: the read waits for a fill in flight, begins a fill, or bypasses the cache.

use crate::config::{Admission, FILL_WINDOW_MAX, Mode, SequentialCutoff};
use crate::ids::RequestSlot;
use crate::inflight::blocks::{blocks_of, intersection};
use crate::inflight::fills::{BlockSet, FillWaiter};
use crate::inflight::requests::{Cursor, Stage};
use crate::path::fill;
use crate::path::fill::FillTarget;
use crate::path::read::lookup::RUN_MAX;
use crate::path::read::{direct, lookup};
use crate::policy::admission::Verdict;
use crate::policy::ghost_lists::EntryAge;
use crate::policy::miniature::Use;
use crate::policy::passage::{Piece, Way};
use crate::policy::returns::Returned;
use crate::policy::spread::Scale;
use crate::policy::wear::Rank;
use crate::policy::window::{MissFacts, Recall};
use crate::pool::BufferQuota;
use crate::queue::Queue;
use crate::request::{Errno, Operation, ReadFrom};
use crate::state::State;
use crate::task::Task;
use crate::units::{BLOCK_SIZE, BlockIndex, BlockKey, ByteExtent, VolumeId};

const FILL_BLOCKS_MAX: u64 = FILL_WINDOW_MAX / BLOCK_SIZE;
/// Distance in fill windows at which two blocks count as independent.
const FAR: u64 = 16;
const _: () = assert!(RUN_MAX as u64 == FILL_BLOCKS_MAX);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Keep {
    Nothing,
    /// The blocks are to be promoted, those in `main` into the main queue.
    Promote {
        main: BlockSet,
    },
}

/// Serves the blocks from the start of `rest` that are not cached; returns the start of the rest of the request.
#[inline(never)]
pub(super) fn serve_miss(state: &mut State, slot: RequestSlot, volume: VolumeId, rest: ByteExtent) -> u64 {
    let first = BlockIndex::containing(rest.start);
    if !state.fills.is_empty()
        && let Some(end) = join_fill(state, slot, volume, rest)
    {
        return end;
    }
    let is_open = |state: &State, block: BlockIndex| {
        lookup::find(state, BlockKey::new(volume, block)).is_none()
            && (state.fills.is_empty() || !state.fills.covers(volume, block))
    };
    let blocks = blocks_of(rest).take(RUN_MAX as usize).skip(1);
    let end = blocks.into_iter().find(|block| !is_open(state, *block));
    let limit = end.unwrap_or_else(|| first.plus(FILL_BLOCKS_MAX)).byte_offset();
    let part = ByteExtent { start: rest.start, length: limit.min(rest.end()) - rest.start };
    let count = blocks_of(part).len() as u64;
    let counters = &mut state.volumes.get_mut(volume).counters;
    counters.miss_blocks += count;
    let is_promote = matches!(state.requests.get(slot).operation, Operation::Promote);
    let wish = if is_promote { Wish::Promote } else { Wish::Read };
    let keep = choose(state, volume, part, wish);
    if keep == Keep::Nothing {
        state.volumes.get_mut(volume).counters.bypass_blocks += count;
    }
    if keep == Keep::Nothing && is_promote {
        return part.end();
    }
    read_origin(state, slot, part, keep);
    part.end()
}

/// Waits for a fill in flight that brings the first blocks of the extent, if there is one.
fn join_fill(state: &mut State, slot: RequestSlot, volume: VolumeId, rest: ByteExtent) -> Option<u64> {
    let wants_data = !matches!(state.requests.get(slot).operation, Operation::Promote);
    let fill = state.fills.covering(volume, BlockIndex::containing(rest.start))?;
    let part = intersection(rest, fill.extent);
    let is_fresh = |offset: usize| !fill.stale.contains(offset) || mutant!(StaleFillJoined);
    let usable = |block: &BlockIndex| fill.offset_of(*block).is_some_and(is_fresh);
    let blocks = blocks_of(part).take_while(usable).count() as u64;
    let limit = BlockIndex::containing(rest.start).plus(blocks).byte_offset();
    let end = limit.min(part.end());
    let extent = ByteExtent { start: rest.start, length: end - rest.start };
    for block in blocks_of(extent) {
        let offset = fill.offset_of(block).expect("within the fill");
        fill.wanted.insert(offset);
    }
    fill.waiters.push(FillWaiter { request: slot, extent, wants_data });
    state.requests.add_pending(slot);
    state.requests.get_mut(slot).read_from = ReadFrom::Origin;
    let counters = &mut state.volumes.get_mut(volume).counters;
    counters.miss_blocks += blocks;
    counters.shared_blocks += blocks;
    Some(end)
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Wish {
    Read,
    Promote,
}

/// Whether a miss is promoted, and to which queue. A promotion on request of a client never bypasses the cache as a
/// part of a stream.
fn choose(state: &mut State, volume: VolumeId, part: ByteExtent, wish: Wish) -> Keep {
    let is_asked_for = wish == Wish::Promote;
    let is_behind = !is_asked_for && state.is_cache_behind(volume, part.length);
    let now = state.now;
    let found = state.volumes.get_mut(volume);
    let settings = found.settings;
    let is_paused = now < found.paused_until;
    let stream = found.read_streams.observe(part);
    let keeps_nothing = is_paused || settings.mode == Mode::Bypass || state.is_room_overdrawn(volume);
    let piece = Piece::new(volume, Use::Read, part);
    state.retention.passage.on_missed(piece);
    let is_above = matches!(settings.sequential_cutoff, SequentialCutoff::Above(length) if stream > length);
    let passes_by = is_above && !is_asked_for;
    if passes_by {
        state.volumes.get_mut(volume).counters.stream_blocks += piece.blocks;
    }
    if passes_by || is_behind || keeps_nothing || state.device.is_out_of_service() {
        return Keep::Nothing;
    }
    for block in blocks_of(part) {
        state.retention.hold.observe(BlockKey::new(volume, block), Use::Read);
    }
    let admission = if state.has_own_room(volume) { Admission::Always } else { settings.admission };
    let may_be_turned_away = !is_asked_for && admission != Admission::Always;
    if may_be_turned_away && state.retention.hold.is_on() && !lets_go(state, volume, part) {
        return choose_while_held(state, volume, part);
    }
    let is_judged = matches!(settings.sequential_cutoff, SequentialCutoff::Auto(length) if stream > length);
    if is_judged && !is_asked_for && state.choose_way(piece) == Way::PassBy {
        state.volumes.get_mut(volume).counters.stream_blocks += piece.blocks;
        return Keep::Nothing;
    }
    let mut main = BlockSet::default();
    let mut noted: Option<EntryAge> = is_asked_for.then_some(EntryAge::JustNow);
    for (offset, block) in blocks_of(part).enumerate() {
        let Some(known) = state.retention.place(BlockKey::new(volume, block)) else { continue };
        noted = Some(noted.map_or(known.noted, |before| before.min(known.noted)));
        if known.queue == Queue::Main {
            main.insert(offset);
        }
    }
    note_miss(state, volume, part, noted);
    match state.volumes.get(volume).gate.choose(admission, state.pressure(), noted) {
        Verdict::Promote if state.wear.allows(state.now, Rank::of(noted), piece.blocks) => {
            Keep::Promote { main }
        }
        Verdict::Promote | Verdict::Remember => {
            blocks_of(part).for_each(|block| state.retention.remember(BlockKey::new(volume, block)));
            Keep::Nothing
        }
    }
}

/// Whether the miss releases the frozen main.
fn lets_go(state: &mut State, volume: VolumeId, part: ByteExtent) -> bool {
    let key = BlockKey::new(volume, BlockIndex::containing(part.start));
    let hits: u64 = state.volumes.ids().map(|volume| state.volumes.get(volume).counters.hit_blocks).sum();
    let blocks = u32::try_from(blocks_of(part).len()).expect("at most 256");
    let returned = state.retention.on_held_miss(key, blocks, hits);
    let recall = if returned == Returned::No { Recall::First } else { Recall::Known };
    let found = state.volumes.get_mut(volume);
    found.window.observe(part, recall, state.now);
    let Returned::InVain { first } = returned else { return false };
    found.window.on_others(first);
    found.gate.open(state.device.order.newest(), found.asked());
    true
}

/// While main is frozen, few misses are promoted, and these enter main. The others are remembered if main may soon be
/// released.
fn choose_while_held(state: &mut State, volume: VolumeId, part: ByteExtent) -> Keep {
    let filled = state.volumes.get(volume).window.bytes() / BLOCK_SIZE;
    let count = blocks_of(part).len() as u64;
    let needed = filled.max(count);
    let often = |block| state.retention.comes_often(BlockKey::new(volume, block));
    let often = blocks_of(part).map(often).filter(|often| *often).count();
    if state.is_look_due() {
        state.agenda.push_back(Task::Reclaim);
    }
    if state.has_unused() {
        state.retention.hold.on_unused(needed);
    }
    let takes_in = state.retention.hold.takes_in(count, often as u64, needed);
    let is_allowed = takes_in && state.wear.allows(state.now, Rank::Unknown, count);
    if takes_in && !is_allowed {
        state.retention.hold.on_room(needed);
    }
    if !is_allowed {
        if state.retention.hold.is_in_doubt() {
            blocks_of(part).for_each(|block| state.retention.remember(BlockKey::new(volume, block)));
        }
        return Keep::Nothing;
    }
    let mut main = BlockSet::default();
    (0..blocks_of(part).len()).for_each(|offset| main.insert(offset));
    Keep::Promote { main }
}

/// Begins to read an extent from the origin, through pages or straight into the request's memory.
pub(super) fn read_origin(state: &mut State, slot: RequestSlot, part: ByteExtent, keep: Keep) {
    if let Keep::Promote { main } = keep
        && fill::begin(state, slot, part, main)
    {
        return;
    }
    if lookup::is_sector_aligned(part) && !matches!(state.requests.get(slot).operation, Operation::Promote) {
        direct::read_directly(state, slot, part);
        return;
    }
    let whole = part.widened_to_blocks();
    let count = usize::try_from(whole.length / BLOCK_SIZE).expect("at most 256 blocks");
    let pending = state.requests.get_mut(slot);
    let volume = pending.volume;
    let pages = state.pool.take_for(volume, count, BufferQuota::All).or_else(|| match &mut pending.stage {
        Stage::Cursor(Cursor { next, .. }) => {
            // If an earlier fill uses the pages, a promote tries this part again.
            *next = part.start.min(*next);
            None
        }
        // A read of a part of a block must end: it may exceed the share of its volume.
        Stage::Simple | Stage::Write(_) => {
            let pages = state.pool.take_over(volume, count);
            if pages.is_none() {
                pending.fail(Errno::Io);
            }
            pages
        }
    });
    let Some(pages) = pages else { return };
    fill::begin_whole(state, slot, part, FillTarget { extent: whole, pages });
}

fn note_miss(state: &mut State, volume: VolumeId, part: ByteExtent, noted: Option<EntryAge>) {
    let found = state.volumes.get(volume);
    let bytes = found.window.bytes();
    let block = BlockIndex::containing(part.start).get();
    let is_cached = |distance: u64| {
        let other = BlockIndex::new(block ^ (bytes / BLOCK_SIZE * distance));
        state.cache.find(BlockKey::new(volume, other)).is_some()
    };
    let capacity = state.retention.capacity();
    let missed = MissFacts {
        is_known: noted.is_some(),
        is_near: is_cached(1),
        is_crowded: is_cached(FAR),
        extent: part,
        hits: found.counters.hit_blocks,
        scale: Scale { capacity, size: found.size },
        now: state.now,
        newest: state.device.order.newest(),
    };
    let found = state.volumes.get_mut(volume);
    let asked = found.asked();
    found.gate.on_miss(noted, asked, capacity);
    if let Some(before) = found.window.on_miss(missed) {
        found.gate.open(missed.newest, asked);
        state.reclaim.shift.want(volume, before);
    }
}

#[cfg(test)]
mod tests {
    use core::num::NonZeroU64;

    use crate::config::{Admission, Mode, SequentialCutoff, VolumeSettings};
    use crate::policy::miniature::Use;
    use crate::scene::Scene;
    use crate::time::Duration;
    use crate::units::{BlockIndex, BlockKey, VolumeId};

    #[test]
    fn bypass_reads_only_the_request_and_caches_no_blocks() {
        let mut scene = Scene::new(Mode::Bypass);
        assert_eq!(scene.read(4096, 4096).1, ["origin read 4096+4096"]);
        assert!(!scene.is_cached(4096));
    }

    #[test]
    fn a_pause_serves_cached_blocks_and_adds_no_others() {
        let mut scene = Scene::new(Mode::WriteBack);
        scene.read(4096, 4096).0.unwrap();
        let until = |scene: &Scene, seconds: u64| scene.now.plus(Duration::from_millis(seconds * 1_000));
        let volume = VolumeId::new(0);
        scene.engine.pause_caching(volume, until(&scene, 60));
        assert!(!scene.read(4096, 4096).1.iter().any(|line| line.starts_with("origin")), "it is a hit");
        assert_eq!(scene.read(1 << 20, 4096).1, ["origin read 1048576+4096"]);
        assert!(!scene.is_cached(1 << 20));
        scene.write(2 << 20, 4096).0.unwrap();
        assert!(scene.is_cached(2 << 20), "a write goes on as before");
        scene.pass(Duration::from_millis(60_000));
        scene.read(1 << 20, 4096).0.unwrap();
        assert!(scene.is_cached(1 << 20), "the pause is over");
        scene.engine.pause_caching(volume, until(&scene, 60));
        scene.engine.pause_caching(volume, scene.now);
        scene.read(3 << 20, 4096).0.unwrap();
        assert!(scene.is_cached(3 << 20), "it was ended");
    }

    #[test]
    fn without_a_write_budget_a_miss_is_only_remembered() {
        let mut scene = Scene::new(Mode::WriteThrough);
        scene.engine.set_write_budget(scene.now, NonZeroU64::new(1));
        assert_eq!(scene.read(4096, 4096).1, ["origin read 4096+4096"]);
        assert_eq!((scene.is_cached(4096), scene.engine.status().counters.refused_blocks), (false, 1));
        scene.engine.set_write_budget(scene.now, None);
        scene.settings(VolumeId::new(0)).admission = Admission::SecondTouch;
        scene.read(4096, 4096).0.unwrap();
        assert!(scene.is_cached(4096), "it was asked for before");
    }

    #[test]
    fn a_frozen_main_remembers_soon_returning_misses() {
        let mut scene = Scene::new(Mode::WriteThrough);
        let block = |number| BlockKey::new(VolumeId::new(0), BlockIndex::new(number));
        let capacity = scene.engine.state.retention.capacity();
        let observe = |scene: &mut Scene, number| {
            scene.engine.state.retention.hold.observe(block(1_000 + number), Use::Read);
        };
        (0..6 * capacity).for_each(|number| observe(&mut scene, number % (2 * capacity)));
        let is_known = |scene: &mut Scene, number: u64| {
            scene.read(number * 4096, 4096).0.unwrap();
            assert!(!scene.is_cached(number * 4096) && scene.engine.state.retention.hold.is_on());
            scene.engine.state.retention.place(block(number)).is_some()
        };
        assert!(!is_known(&mut scene, 1));
        (0..capacity * 3 / 4).for_each(|number| observe(&mut scene, 4 * capacity + number % (capacity / 2)));
        assert!(is_known(&mut scene, 3));
    }

    #[test]
    fn a_frozen_main_keeps_its_room_without_a_write_budget() {
        let mut scene = Scene::new(Mode::WriteThrough);
        let block = |number| BlockKey::new(VolumeId::new(0), BlockIndex::new(number));
        let capacity = scene.engine.state.retention.capacity();
        (0..6 * capacity).for_each(|number| {
            scene.engine.state.retention.hold.observe(block(1_000 + number % (2 * capacity)), Use::Read);
        });
        scene.engine.state.retention.hold.on_room(2_000);
        scene.engine.set_write_budget(scene.now, NonZeroU64::new(1));
        (0..2_000).for_each(|number| scene.read(number << 16, 4096).0.unwrap());
        assert!(scene.engine.status().counters.refused_blocks > 0);
        assert!(
            scene.engine.state.retention.hold.is_on() && !scene.engine.state.retention.hold.wants_room(2_000)
        );
    }

    #[test]
    fn a_long_stream_goes_past_the_cache() {
        let mut scene = Scene::new(Mode::WriteThrough);
        let default = VolumeSettings::new(VolumeId::new(0));
        let wanted = VolumeSettings { sequential_cutoff: SequentialCutoff::Above(4 << 20), ..default };
        scene.engine.change_settings(scene.now, &wanted);
        (0..16).for_each(|piece| scene.read(piece << 20, 1 << 20).0.unwrap());
        assert!(scene.is_cached(0), "a stream is not known at its beginning");
        assert!(!scene.is_cached(15 << 20), "past the cut-off of 4 MiB");
    }
}
