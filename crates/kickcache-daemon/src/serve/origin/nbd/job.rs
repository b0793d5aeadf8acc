//! The driver's operations on a remote origin.

use std::ops::Range;
use std::time::Instant;

use kickcache_engine::request::{Durability, Unmap};
use kickcache_engine::units::ByteExtent;

use super::outcome::Outcome;
use crate::driver::queued_device::{DeviceExtent, ExtentsTold, QueuedRequest};

/// The most bytes that one request discards or zeroes.
const LONG_MAX: u64 = 1 << 30;

#[derive(Debug)]
pub(super) enum Work {
    Read(ByteExtent),
    Write { offset: u64, data: Vec<u8> },
    Flush,
    Discard(ByteExtent),
    WriteZeroes(ByteExtent, Unmap),
    Extents(ByteExtent),
}

/// The job keeps the bytes of a write, as it may be repeated on another connection.
#[derive(Debug)]
pub(super) struct OriginJob {
    pub(super) token: u64,
    pub(super) work: Work,
    pub(super) durability: Durability,
    /// Requests of the job without a reply.
    pub(super) parts: usize,
    /// The bytes of a read: of its full length from the first request on, and zero where no byte has arrived.
    pub(super) data: Vec<u8>,
    pub(super) extents: Vec<DeviceExtent>,
    /// The errno of the request that failed first, since the last loss of the server.
    pub(super) error: Option<i32>,
    /// Whether the flush that makes the job durable was requested, since the last loss of the server.
    pub(super) is_flushing: bool,
    /// When a server was lost for the first time before it answered this job.
    pub(super) lost_at: Option<Instant>,
}

impl OriginJob {
    pub(super) fn new(token: u64, request: QueuedRequest<'_>) -> OriginJob {
        let (work, durability) = match request {
            QueuedRequest::Read(extent) => (Work::Read(extent), Durability::Volatile),
            QueuedRequest::Write { offset, pieces, durability } => {
                let mut data = Vec::with_capacity(pieces.iter().map(|piece| piece.len()).sum());
                pieces.iter().for_each(|piece| data.extend_from_slice(piece));
                (Work::Write { offset, data }, durability)
            }
            QueuedRequest::Flush => (Work::Flush, Durability::Volatile),
            // If the server lost the discard, the old data would return after other data was read.
            QueuedRequest::Discard(extent) => (Work::Discard(extent), Durability::Durable),
            QueuedRequest::WriteZeroes { extent, unmap, durability } => {
                (Work::WriteZeroes(extent, unmap), durability)
            }
        };
        OriginJob::of(token, work, durability)
    }

    pub(super) fn extents(token: u64, extent: ByteExtent) -> OriginJob {
        OriginJob::of(token, Work::Extents(extent), Durability::Volatile)
    }

    fn of(token: u64, work: Work, durability: Durability) -> OriginJob {
        OriginJob {
            token,
            work,
            durability,
            parts: 0,
            data: Vec::new(),
            extents: Vec::new(),
            error: None,
            is_flushing: false,
            lost_at: None,
        }
    }

    pub(super) fn outcome(self, result: Result<(), i32>) -> Outcome {
        let OriginJob { token, work, data, extents, .. } = self;
        match work {
            Work::Extents(_) => {
                let extents = if result.is_ok() { extents } else { Vec::new() };
                Outcome::Told(ExtentsTold { token, extents })
            }
            Work::Read(_) | Work::Write { .. } | Work::Flush | Work::Discard(_) | Work::WriteZeroes(..) => {
                Outcome::Ended { token, result: result.map(|()| data) }
            }
        }
    }

    /// Begins the job again after a loss of the server.
    pub(super) fn start_again(&mut self, now: Instant) {
        self.lost_at.get_or_insert(now);
        (self.parts, self.error, self.is_flushing) = (0, None, false);
        self.data.clear();
    }

    /// The ranges of the job's requests, relative to its start.
    pub(super) fn ranges(&self, payload_max: u64) -> impl Iterator<Item = Range<u64>> + use<> {
        let (length, most) = match &self.work {
            Work::Read(extent) => (extent.length, payload_max),
            Work::Write { data, .. } => (data.len() as u64, payload_max),
            Work::Discard(extent) | Work::WriteZeroes(extent, _) => (extent.length, LONG_MAX),
            Work::Flush | Work::Extents(_) => (1, 1),
        };
        (0..length.div_ceil(most)).map(move |number| number * most..((number + 1) * most).min(length))
    }
}

#[cfg(test)]
mod tests {
    use std::io::IoSlice;

    use super::*;

    #[test]
    fn long_requests_come_in_parts_that_the_server_takes() {
        let pieces = [IoSlice::new(&[1; 4096]), IoSlice::new(&[2; 8192])];
        let write = QueuedRequest::Write { offset: 512, pieces: &pieces, durability: Durability::Volatile };
        let ranges = |request, most| OriginJob::new(7, request).ranges(most).collect::<Vec<_>>();
        assert_eq!(ranges(write, 8192), [0..8192, 8192..12288]);
        assert_eq!(ranges(write, 65536).first(), Some(&(0..12288)));
        let extent = ByteExtent { start: 0, length: (1 << 30) + 4096 };
        assert_eq!(ranges(QueuedRequest::Discard(extent), 4096), [0..1 << 30, 1 << 30..(1 << 30) + 4096]);
        assert_eq!(ranges(QueuedRequest::Flush, 4096).len(), 1);
    }

    #[test]
    fn discards_are_durable() {
        let extent = ByteExtent { start: 0, length: 4096 };
        assert_eq!(OriginJob::new(1, QueuedRequest::Discard(extent)).durability, Durability::Durable);
    }

    #[test]
    fn a_job_begins_again_with_all_of_its_requests() {
        let pieces = [IoSlice::new(&[1; 4096])];
        let write = QueuedRequest::Write { offset: 512, pieces: &pieces, durability: Durability::Durable };
        let mut job = OriginJob::new(7, write);
        let lost_at = Instant::now();
        (job.parts, job.error, job.is_flushing) = (3, Some(libc::EIO), true);
        job.data = vec![1; 512];
        job.start_again(lost_at);
        assert_eq!((job.parts, job.error, job.is_flushing), (0, None, false));
        assert_eq!((job.data.as_slice(), job.lost_at), ([].as_slice(), Some(lost_at)));
        assert!(matches!(&job.work, Work::Write { offset: 512, data } if data[..] == [1; 4096]));
        assert_eq!(job.durability, Durability::Durable);
        job.start_again(lost_at + std::time::Duration::from_secs(9));
        assert_eq!(job.lost_at, Some(lost_at));
    }

    #[test]
    fn a_job_is_as_durable_as_its_request() {
        let extent = ByteExtent { start: 0, length: 4096 };
        let pieces = [IoSlice::new(&[1; 4096])];
        for durability in [Durability::Durable, Durability::Volatile] {
            let write = QueuedRequest::Write { offset: 0, pieces: &pieces, durability };
            let zeroes = QueuedRequest::WriteZeroes { extent, unmap: Unmap::Allow, durability };
            assert_eq!(OriginJob::new(1, write).durability, durability);
            assert_eq!(OriginJob::new(1, zeroes).durability, durability);
        }
    }

    #[test]
    fn a_failed_question_has_no_extents() {
        let extent = ByteExtent { start: 0, length: 4096 };
        let mut job = OriginJob::extents(5, extent);
        job.extents.push(DeviceExtent { length: 4096, is_hole: true, is_zero: true });
        let Outcome::Told(told) = job.outcome(Err(libc::EIO)) else { panic!("no answer") };
        assert!(told.token == 5 && told.extents.is_empty());
    }
}
