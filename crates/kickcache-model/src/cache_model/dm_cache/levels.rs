//! A queue of 64 levels, each from its oldest to its newest entry, as smq keeps its blocks.
//!
//! Leaves out the sentinels: an entry records the period in which it was put at a tail, which has the same effect.

pub(super) const LEVELS: u8 = 64;
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) older: u32,
    pub(super) newer: u32,
    pub(super) level: u8,
    pub(super) is_queued: bool,
    pub(super) is_dirty: bool,
    /// When it was put at a tail, in periods of the queue's owner, 0 at a head; an entry that changes places
    /// with a raised one keeps its period.
    pub(super) period: u32,
}

impl Default for Entry {
    fn default() -> Entry {
        Entry { older: NONE, newer: NONE, level: 0, is_queued: false, is_dirty: false, period: 0 }
    }
}

#[derive(Clone, Copy, Debug)]
struct List {
    oldest: u32,
    newest: u32,
    count: u32,
}

#[derive(Clone, Debug)]
pub(super) struct Levels {
    lists: [List; LEVELS as usize],
    targets: [u32; LEVELS as usize],
    count: u32,
    top: Option<Top>,
    targets_for: u32,
}

/// This many of the highest levels hold this many entries together.
#[derive(Clone, Copy, Debug)]
pub(super) struct Top {
    pub(super) levels: u32,
    pub(super) entries: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum End {
    Oldest,
    Newest,
}

fn at(entries: &mut [Entry], index: u32) -> &mut Entry {
    &mut entries[index as usize]
}

impl Levels {
    pub(super) fn new(top: Option<Top>) -> Levels {
        let empty = List { oldest: NONE, newest: NONE, count: 0 };
        Levels {
            lists: [empty; LEVELS as usize],
            targets: [0; LEVELS as usize],
            count: 0,
            top,
            targets_for: NONE,
        }
    }

    pub(super) fn count(&self) -> u32 {
        self.count
    }

    pub(super) fn oldest(&self, level: u8) -> Option<u32> {
        Some(self.lists[usize::from(level)].oldest).filter(|index| *index != NONE)
    }

    pub(super) fn lowest(&self, limit: u8) -> Option<u32> {
        (0..limit).find_map(|level| self.oldest(level))
    }

    pub(super) fn lowest_from_before(&self, entries: &[Entry], period: u32) -> Option<u32> {
        let is_older = |index: &u32| entries[*index as usize].period < period;
        (0..LEVELS).find_map(|level| self.oldest(level).filter(is_older))
    }

    pub(super) fn push(&mut self, entries: &mut [Entry], index: u32, end: End) {
        let level = at(entries, index).level;
        let list = &mut self.lists[usize::from(level)];
        list.count += 1;
        self.count += 1;
        let neighbour = if end == End::Newest { list.newest } else { list.oldest };
        let entry = at(entries, index);
        entry.is_queued = true;
        (entry.older, entry.newer) = if end == End::Newest { (neighbour, NONE) } else { (NONE, neighbour) };
        match (neighbour, end) {
            (NONE, _) => (list.oldest, list.newest) = (index, index),
            (_, End::Newest) => {
                at(entries, neighbour).newer = index;
                list.newest = index;
            }
            (_, End::Oldest) => {
                at(entries, neighbour).older = index;
                list.oldest = index;
            }
        }
    }

    pub(super) fn remove(&mut self, entries: &mut [Entry], index: u32) {
        let Entry { older, newer, level, .. } = *at(entries, index);
        let list = &mut self.lists[usize::from(level)];
        list.count -= 1;
        self.count -= 1;
        if older == NONE {
            list.oldest = newer;
        } else {
            at(entries, older).newer = newer;
        }
        if newer == NONE {
            list.newest = older;
        } else {
            at(entries, newer).older = older;
        }
        at(entries, index).is_queued = false;
    }

    /// Moves an entry up by some levels, to the highest at most, and puts it last there; if its level changes, the
    /// oldest entry of the new level moves to the former level.
    pub(super) fn raise(&mut self, entries: &mut [Entry], index: u32, by: u8, period: u32) {
        let from = at(entries, index).level;
        let to = (from + by).min(LEVELS - 1);
        self.remove(entries, index);
        if to > from
            && let Some(partner) = self.oldest(to)
        {
            self.remove(entries, partner);
            at(entries, partner).level = from;
            self.push(entries, partner, End::Newest);
        }
        let entry = at(entries, index);
        entry.level = to;
        entry.period = period;
        self.push(entries, index, End::Newest);
    }

    fn set_targets(&mut self) {
        if self.targets_for == self.count {
            return;
        }
        self.targets_for = self.count;
        let all = u32::from(LEVELS);
        let top = self.top.unwrap_or(Top { levels: 0, entries: 0 });
        let in_top = top.entries.min(self.count);
        share_out(&mut self.targets[..(all - top.levels) as usize], self.count - in_top);
        share_out(&mut self.targets[(all - top.levels) as usize..], in_top);
    }

    /// Gives every level its share of the entries; surplus entries move up to the given end of the next
    /// level.
    pub(super) fn redistribute(&mut self, entries: &mut [Entry], surplus_to: End, period: u32) {
        self.set_targets();
        for level in 0..LEVELS - 1 {
            let target = self.targets[usize::from(level)];
            while self.lists[usize::from(level)].count < target {
                let Some(index) = (level + 1..LEVELS).find_map(|higher| self.oldest(higher)) else { break };
                at(entries, index).period = period;
                self.shift(entries, index, level, End::Newest);
            }
            while self.lists[usize::from(level)].count > target {
                let index = self.lists[usize::from(level)].newest;
                at(entries, index).period = if surplus_to == End::Oldest { 0 } else { period };
                self.shift(entries, index, level + 1, surplus_to);
            }
        }
    }

    fn shift(&mut self, entries: &mut [Entry], index: u32, level: u8, end: End) {
        self.remove(entries, index);
        at(entries, index).level = level;
        self.push(entries, index, end);
    }
}

fn share_out(targets: &mut [u32], count: u32) {
    let levels = u32::try_from(targets.len()).expect("at most 64");
    for (number, target) in (0..).zip(targets) {
        *target = count / levels + u32::from(number < count % levels);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redistribution_gives_every_level_its_share() {
        let mut entries = vec![Entry::default(); 640];
        let mut levels = Levels::new(None);
        (0..640).for_each(|index| levels.push(&mut entries, index, End::Newest));
        levels.redistribute(&mut entries, End::Newest, 0);
        assert!(levels.lists.iter().all(|list| list.count == 10));
        assert_eq!(entries[0].level, 0, "the oldest stay below");
        assert_eq!(levels.count(), 640);
    }

    #[test]
    fn a_raised_entry_changes_places_with_the_oldest_there() {
        let mut entries = vec![Entry::default(); 2];
        entries[1].level = 3;
        let mut levels = Levels::new(None);
        (0..2).for_each(|index| levels.push(&mut entries, index, End::Newest));
        levels.raise(&mut entries, 0, 3, 7);
        assert_eq!((entries[0].level, entries[1].level, entries[0].period), (3, 0, 7));
        assert_eq!(levels.lowest(1), Some(1));
    }

    #[test]
    fn redistributed_entries_are_placed_behind_the_sentinels() {
        let mut entries = vec![Entry::default(); 128];
        let mut levels = Levels::new(None);
        (0..128).for_each(|index| levels.push(&mut entries, index, End::Newest));
        levels.redistribute(&mut entries, End::Newest, 9);
        let rested = entries.iter().filter(|entry| entry.period < 9).count();
        assert_eq!(rested, 2, "two may stay where they were");
        assert_eq!(levels.lowest_from_before(&entries, 9), Some(0));
        assert_eq!(levels.lowest_from_before(&entries, 0), None);
    }
}
