//! The events of a run: always as a hash, on request also as lines of text.

use kickcache_engine::time::Instant;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Printing {
    Silent,
    Lines,
}

#[derive(Clone, Debug)]
pub struct Trace {
    hash: u64,
    printing: Printing,
    events: u64,
}

impl Trace {
    pub fn new(printing: Printing) -> Trace {
        Trace { hash: 0xCBF2_9CE4_8422_2325, printing, events: 0 }
    }

    /// Records an event: the numbers are hashed, the text is printed.
    pub fn record(&mut self, now: Instant, numbers: &[u64], text: impl FnOnce() -> String) {
        self.events += 1;
        self.mix(now.as_nanos());
        numbers.iter().for_each(|number| self.mix(*number));
        if self.printing == Printing::Lines {
            println!("{:>14} {}", now.as_nanos(), text());
        }
    }

    fn mix(&mut self, number: u64) {
        self.hash = (self.hash ^ number).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29);
    }

    pub fn hash(&self) -> u64 {
        self.hash
    }

    pub fn events(&self) -> u64 {
        self.events
    }
}
