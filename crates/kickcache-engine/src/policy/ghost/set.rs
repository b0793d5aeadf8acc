//! A set of ghost memory: a ring of fingerprints, followed for a time by counters.

/// Fingerprints of a set that does not count.
pub(super) const WAYS: usize = 31;
/// Fingerprints of a set that counts.
const WAYS_LEFT: usize = 15;

#[derive(Clone, Debug)]
#[repr(align(64))]
pub(super) struct Set {
    /// Fingerprints, followed by counters while the set counts.
    words: [u16; WAYS],
    mark: Mark,
}

const _: () = assert!(size_of::<Set>() == 64);

/// Turn numbers wrap around after this many.
pub(super) const TURNS: u16 = 1 << 10;
/// This many turns reduce any count to zero.
pub(crate) const TURNS_ALL: u16 = 3;
/// Counters in a word.
const COUNTERS: usize = 8;
/// The maximum of a counter.
pub(crate) const COUNT_MAX: u8 = 3;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Content {
    Prints,
    PrintsAndCounts,
}

impl Content {
    const fn prints(self) -> usize {
        match self {
            Content::Prints => WAYS,
            Content::PrintsAndCounts => WAYS_LEFT,
        }
    }
}

/// The state of a set in 16 bits: the next fingerprint, the content, and the turn of its last use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Mark(u16);

impl Mark {
    const COUNTS: u16 = 1 << 5;

    fn new(next: usize, content: Content, turn: u16) -> Mark {
        let counts = if content == Content::PrintsAndCounts { Mark::COUNTS } else { 0 };
        Mark((turn << 6) | counts | u16::try_from(next).expect("below 31"))
    }

    const fn next(self) -> usize {
        (self.0 & (Mark::COUNTS - 1)) as usize
    }

    const fn content(self) -> Content {
        if self.0 & Mark::COUNTS == 0 { Content::Prints } else { Content::PrintsAndCounts }
    }

    const fn turn(self) -> u16 {
        self.0 >> 6
    }
}

#[derive(Clone, Copy)]
struct Counter {
    word: usize,
    shift: usize,
}

impl Counter {
    /// The counter that 16 bits of a hash choose.
    fn of(bits: u16) -> Counter {
        let number = (usize::from(bits) * COUNTERS * (WAYS - WAYS_LEFT)) >> 16;
        Counter { word: WAYS_LEFT + number / COUNTERS, shift: number % COUNTERS * 2 }
    }
}

impl Set {
    pub(super) fn empty() -> Set {
        Set { words: [0; WAYS], mark: Mark::new(0, Content::Prints, 0) }
    }

    pub(super) fn come_to(&mut self, turn: u16, content: Content) {
        if self.mark.content() != content {
            self.change(turn, content);
        }
        let age = (TURNS + turn - self.mark.turn()) % TURNS;
        if age > 0 {
            self.mark = Mark::new(self.mark.next(), content, turn);
        }
        if content == Content::PrintsAndCounts {
            for _ in 0..age.min(TURNS_ALL) {
                self.words[WAYS_LEFT..].iter_mut().for_each(|word| *word -= (*word | (*word >> 1)) & 0x5555);
            }
        }
    }

    /// Keeps the newest fingerprints; counts begin at zero.
    fn change(&mut self, turn: u16, content: Content) {
        let (next, before) = (self.mark.next(), self.mark.content().prints());
        self.words[..before].rotate_left(next);
        self.words[..before].rotate_left(before - WAYS_LEFT);
        self.words[WAYS_LEFT..].fill(0);
        self.mark = Mark::new(WAYS_LEFT % content.prints(), content, turn);
    }

    const fn get(&self, Counter { word, shift }: Counter) -> u16 {
        (self.words[word] >> shift) & 3
    }

    fn raise(&mut self, counter: Counter, count: u16) {
        if self.get(counter) < count {
            let Counter { word, shift } = counter;
            self.words[word] = (self.words[word] & !(3 << shift)) | (count << shift);
        }
    }

    pub(super) fn insert(&mut self, hash: u64) {
        let (next, content) = (self.mark.next(), self.mark.content());
        self.words[next] = fingerprint(hash);
        self.mark = Mark::new((next + 1) % content.prints(), content, self.mark.turn());
    }

    /// Removes a fingerprint; returns the number of later insertions, if it was there.
    pub(super) fn take(&mut self, hash: u64) -> Option<usize> {
        let print = fingerprint(hash);
        let prints = self.mark.content().prints();
        let found = self.words[..prints].iter().position(|held| *held == print)?;
        self.words[found] = 0;
        Some((self.mark.next() + prints - 1 - found) % prints)
    }

    pub(super) fn count(&mut self, hash: u64) -> u8 {
        let mixed = (hash.wrapping_mul(0x9e37_79b1) >> 16) & 0xffff;
        let bits = [fingerprint(hash), u16::try_from(mixed).expect("16 bits")];
        let counters = bits.map(Counter::of);
        let least = counters.map(|counter| self.get(counter)).into_iter().min().expect("two");
        let count = (least + 1).min(COUNT_MAX.into());
        counters.into_iter().for_each(|counter| self.raise(counter, count));
        u8::try_from(count).expect("few")
    }
}

/// Zero means "empty".
#[expect(clippy::cast_possible_truncation, reason = "the low 16 bits are the fingerprint")]
const fn fingerprint(hash: u64) -> u16 {
    let print = hash as u16;
    if print == 0 { 1 } else { print }
}
