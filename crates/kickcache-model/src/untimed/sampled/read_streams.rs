//! Sequential streams of reads that miss, where only a sample of the reads is known to hit or miss.
//!
//! The engine detects streams among the misses: cached blocks interrupt them. Outside of the sample, a stream
//! is assumed to continue as it did in the sample's extent before, interrupted or not, and a new stream as
//! most others do.

use kickcache_engine::units::ByteExtent;

const STREAMS: usize = 32;
/// Bytes that a read may leave out of its stream, and cached bytes that do not interrupt a stream.
const GAP_MAX: u64 = 16 << 10;
/// Streams with fewer bytes are left out of the count of interruptions.
const STREAM_MIN: u64 = 1 << 20;

#[derive(Clone, Copy, Debug, Default)]
struct Stream {
    next: u64,
    passed: u64,
    /// Bytes that missed since the last interruption.
    length: u64,
    /// Cached bytes that were read since the last miss.
    cached: u64,
    used: u64,
    extent: u64,
    /// Whether the stream was interrupted in that extent; before the first extent, whether most streams were.
    is_interrupted: bool,
}

#[derive(Clone, Debug)]
pub(super) struct ReadStreams {
    streams: [Stream; STREAMS],
    clock: u64,
    /// Extents of the sample that streams passed, and those in which they were interrupted.
    seen: u64,
    interrupted: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Run {
    Cached(u64),
    Missed(u64),
}

impl ReadStreams {
    pub(super) fn new() -> ReadStreams {
        let streams = [Stream { next: u64::MAX, ..Stream::default() }; STREAMS];
        ReadStreams { streams, clock: 0, seen: 0, interrupted: 0 }
    }

    pub(super) fn skip(&mut self, read: ByteExtent) {
        let stream = self.find(read);
        if stream.is_interrupted {
            stream.length = 0;
        } else {
            stream.length += read.length;
        }
    }

    /// Adds a read of the sample, in one extent; returns the length of its stream up to the read's end, in bytes.
    pub(super) fn observe(&mut self, read: ByteExtent, extent: u64, runs: impl Iterator<Item = Run>) -> u64 {
        let stream = self.find(read);
        let is_new = stream.extent != extent;
        if is_new {
            (stream.extent, stream.is_interrupted) = (extent, false);
        }
        let was_interrupted = stream.is_interrupted;
        for run in runs {
            match run {
                Run::Cached(bytes) => {
                    stream.cached += bytes;
                    if stream.cached > GAP_MAX {
                        (stream.length, stream.is_interrupted) = (0, true);
                    }
                }
                Run::Missed(bytes) => {
                    stream.length += bytes;
                    stream.cached = 0;
                }
            }
        }
        let (length, is_stream) = (stream.length, stream.passed >= STREAM_MIN);
        let is_interrupted = stream.is_interrupted && !was_interrupted;
        self.seen += u64::from(is_stream && is_new);
        self.interrupted += u64::from(is_stream && is_interrupted);
        length
    }

    /// The stream that a read continues, or a new one in the place of the least recently used.
    fn find(&mut self, read: ByteExtent) -> &mut Stream {
        self.clock += 1;
        let is_interrupted = self.interrupted * 2 > self.seen;
        let follows = |stream: &Stream| read.start.wrapping_sub(stream.next) <= GAP_MAX;
        let known = self.streams.iter().position(follows);
        let oldest =
            || (0..STREAMS).min_by_key(|index| self.streams[*index].used).expect("there are streams");
        let index = known.unwrap_or_else(oldest);
        let stream = &mut self.streams[index];
        if known.is_none() {
            *stream = Stream { extent: u64::MAX, is_interrupted, ..Stream::default() };
        }
        stream.passed += read.length;
        (stream.next, stream.used) = (read.end(), self.clock);
        stream
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn mebibyte(number: u64) -> ByteExtent {
        ByteExtent { start: number * MIB, length: MIB }
    }

    #[test]
    fn outside_of_the_sample_a_stream_continues_as_before() {
        let mut streams = ReadStreams::new();
        (0..3).for_each(|number| streams.skip(mebibyte(number)));
        assert_eq!(streams.observe(mebibyte(3), 3, [Run::Missed(MIB)].into_iter()), 4 * MIB);
        streams.skip(mebibyte(4));
        let runs = [Run::Missed(MIB / 2), Run::Cached(MIB / 4), Run::Missed(MIB / 4)];
        assert_eq!(streams.observe(mebibyte(5), 5, runs.into_iter()), MIB / 4);
        (6..9).for_each(|number| streams.skip(mebibyte(number)));
        assert_eq!(streams.observe(mebibyte(9), 9, [Run::Missed(MIB)].into_iter()), MIB);
    }

    #[test]
    fn a_few_cached_blocks_do_not_interrupt_a_stream() {
        let mut streams = ReadStreams::new();
        let runs = [Run::Missed(MIB / 2), Run::Cached(GAP_MAX), Run::Missed(MIB / 4)];
        assert_eq!(streams.observe(mebibyte(0), 0, runs.into_iter()), MIB / 4 * 3);
    }
}
