//! Sequential streams, found by the adjacency of their addresses.

use crate::units::ByteExtent;

const STREAMS: usize = 32;
/// A request may leave out up to this many bytes of its stream.
const GAP_MAX: u64 = 16 << 10;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Stream {
    next: u64,
    length: u64,
    used: u64,
}

/// The streams of one volume and one direction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Streams {
    streams: [Stream; STREAMS],
    clock: u64,
}

impl Default for Streams {
    fn default() -> Streams {
        Streams::new()
    }
}

impl Streams {
    /// None yet.
    pub const fn new() -> Streams {
        Streams { streams: [Stream { next: u64::MAX, length: 0, used: 0 }; STREAMS], clock: 0 }
    }

    /// Adds a request; returns the bytes of its stream up to its end, gaps not counted.
    pub fn observe(&mut self, extent: ByteExtent) -> u64 {
        self.clock += 1;
        let follows = |stream: &&mut Stream| extent.start.wrapping_sub(stream.next) <= GAP_MAX;
        if let Some(stream) = self.streams.iter_mut().find(follows) {
            stream.length += extent.length;
            stream.next = extent.end();
            stream.used = self.clock;
            return stream.length;
        }
        let oldest = self.streams.iter_mut().min_by_key(|stream| stream.used).expect("there are streams");
        *oldest = Stream { next: extent.end(), length: extent.length, used: self.clock };
        extent.length
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interleaved_streams_are_distinguished() {
        let mut streams = Streams::new();
        let mut longest = [0; 3];
        for step in 0..100u64 {
            for (number, longest) in longest.iter_mut().enumerate() {
                let start = number as u64 * (1 << 40) + step * 65_536;
                *longest = streams.observe(ByteExtent { start, length: 65_536 });
            }
        }
        assert_eq!(longest, [6_553_600; 3]);
        assert_eq!(streams.observe(ByteExtent { start: 1 << 50, length: 512 }), 512);
    }
}
