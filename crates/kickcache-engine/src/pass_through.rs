//! An engine without a cache, for tests of drivers.

use alloc::collections::{BTreeMap, VecDeque};

use crate::cache_engine::CacheEngine;
use crate::device::{
    Checksums, Completion, Device, DeviceOperation, Memory, Piece, Pieces, Submission, SubmissionId,
};
use crate::engine::Phase;
use crate::request::{Errno, Operation, ReadFrom, Reply, Request, RequestId};
use crate::time::Instant;

/// An engine that submits each request to the origin of its volume; promotes need no operation.
#[derive(Debug, Default)]
pub struct PassThrough {
    outbox: VecDeque<Submission>,
    replies: VecDeque<Reply>,
    in_flight: BTreeMap<u64, RequestId>,
    last: u64,
    is_stopped: bool,
}

impl PassThrough {
    /// An engine without requests in flight.
    pub fn new() -> PassThrough {
        PassThrough::default()
    }

    /// Submits an operation; its end is the end of the request.
    pub fn submit(&mut self, request: RequestId, operation: DeviceOperation) {
        self.last += 1;
        self.in_flight.insert(self.last, request);
        self.outbox.push_back(Submission { id: SubmissionId::from_u64(self.last), operation });
    }

    /// Submits a memory operation without a completion.
    pub fn submit_memory(&mut self, operation: DeviceOperation) {
        self.outbox.push_back(Submission { id: SubmissionId::from_u64(u64::MAX), operation });
    }

    /// Answers a request.
    pub fn reply(&mut self, id: RequestId, result: Result<(), Errno>) {
        self.replies.push_back(Reply { id, result, read_from: ReadFrom::Origin });
    }
}

/// The origin operation of a request; `None` if none is needed.
pub fn operation_of(request: &Request<'_>) -> Option<DeviceOperation> {
    let (device, extent) = (Device::Origin(request.volume), request.extent);
    let pieces = || {
        let memory = Memory::Request { id: request.id, offset: 0 };
        let length = u32::try_from(extent.length).expect("requests have at most 32 MiB");
        Pieces::One(Piece { memory, length })
    };
    Some(match request.operation {
        Operation::Read => {
            let is_whole = extent == extent.widened_to_blocks();
            let checksums = if is_whole { Checksums::Compute } else { Checksums::Skip };
            DeviceOperation::Read { device, offset: extent.start, pieces: pieces(), checksums }
        }
        Operation::Write(durability) => {
            DeviceOperation::Write { device, offset: extent.start, pieces: pieces(), durability }
        }
        Operation::Flush => DeviceOperation::Flush { device },
        Operation::Discard => DeviceOperation::Discard { device, extent },
        Operation::WriteZeroes { unmap, durability } => {
            DeviceOperation::WriteZeroes { device, extent, unmap, durability }
        }
        Operation::Promote => return None,
    })
}

impl CacheEngine for PassThrough {
    fn phase(&self) -> Phase {
        match self.is_stopped {
            false => Phase::Running,
            true if self.in_flight.is_empty() => Phase::Stopped,
            true => Phase::Stopping,
        }
    }

    fn handle_request(&mut self, _now: Instant, request: Request<'_>) {
        match operation_of(&request) {
            Some(operation) => self.submit(request.id, operation),
            None => self.reply(request.id, Ok(())),
        }
    }

    fn handle_completion(&mut self, _now: Instant, completion: Completion<'_>) {
        let id = self.in_flight.remove(&completion.id.as_u64()).expect("a submission completes once");
        self.reply(id, completion.result.map(|_| ()).map_err(|_| Errno::Io));
    }

    fn poll_submission(&mut self) -> Option<Submission> {
        self.outbox.pop_front()
    }

    fn poll_reply(&mut self) -> Option<Reply> {
        self.replies.pop_front()
    }

    fn stop(&mut self, _now: Instant) {
        self.is_stopped = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{Data, DeviceError};
    use crate::units::{ByteExtent, VolumeId};

    #[test]
    fn each_request_ends_with_its_submission_before_a_stop() {
        let mut engine = PassThrough::new();
        let request = |number, operation| Request {
            id: RequestId::new(number),
            volume: VolumeId::new(3),
            operation,
            extent: ByteExtent { start: 512, length: 4096 },
            checksums: &[],
        };
        for (number, operation) in [(1, Operation::Read), (2, Operation::Flush), (3, Operation::Promote)] {
            engine.handle_request(Instant::ZERO, request(number, operation));
        }
        engine.stop(Instant::ZERO);
        assert_eq!(
            engine.poll_reply().map(|reply| reply.id),
            Some(RequestId::new(3)),
            "no operation is needed"
        );
        let [read, flush] = [(); 2].map(|()| engine.poll_submission().unwrap());
        assert!(matches!(
            read.operation,
            DeviceOperation::Read { offset: 512, checksums: Checksums::Skip, .. }
        ));
        let device = Device::Origin(VolumeId::new(3));
        assert_eq!(flush.operation, DeviceOperation::Flush { device });
        for (submission, result) in [(flush, Err(DeviceError::Io)), (read, Ok(Data::default()))] {
            assert_eq!(engine.phase(), Phase::Stopping);
            engine.handle_completion(Instant::ZERO, Completion { id: submission.id, result });
        }
        let ended = [(); 2].map(|()| engine.poll_reply().map(|reply| (reply.id, reply.result)).unwrap());
        assert_eq!(ended, [(RequestId::new(2), Err(Errno::Io)), (RequestId::new(1), Ok(()))]);
        assert_eq!(engine.phase(), Phase::Stopped);
    }
}
