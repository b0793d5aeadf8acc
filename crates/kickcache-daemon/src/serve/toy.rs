//! An engine without a cache for tests of the loop: every request is one submission to the origin.

use std::collections::{HashMap, VecDeque};

use kickcache_engine::cache_engine::CacheEngine;
use kickcache_engine::device::{
    Checksums, Completion, Device, DeviceOperation, Memory, Piece, Pieces, Submission, SubmissionId,
};
use kickcache_engine::engine::Phase;
use kickcache_engine::request::{Durability, Errno, Operation, ReadFrom, Reply, Request, RequestId};
use kickcache_engine::time::Instant;

pub(crate) struct ToyEngine {
    pub(crate) submissions: VecDeque<Submission>,
    replies: VecDeque<Reply>,
    in_flight: HashMap<u64, RequestId>,
    next: u64,
    phase: Phase,
    pub(crate) checksums_seen: usize,
}

impl ToyEngine {
    pub(crate) fn new() -> ToyEngine {
        ToyEngine {
            submissions: VecDeque::new(),
            replies: VecDeque::new(),
            in_flight: HashMap::new(),
            next: 0,
            phase: Phase::Running,
            checksums_seen: 0,
        }
    }

    fn operation(&mut self, request: &Request<'_>) -> Option<DeviceOperation> {
        let device = Device::Origin(request.volume);
        let extent = request.extent;
        let pieces = || {
            let memory = Memory::Request { id: request.id, offset: 0 };
            Pieces::One(Piece { memory, length: u32::try_from(extent.length).unwrap() })
        };
        Some(match request.operation {
            Operation::Read => {
                let whole = extent.length.is_multiple_of(4096);
                let checksums = if whole { Checksums::Compute } else { Checksums::Skip };
                DeviceOperation::Read { device, offset: extent.start, pieces: pieces(), checksums }
            }
            Operation::Write(durability) => {
                self.checksums_seen += request.checksums.len();
                DeviceOperation::Write { device, offset: extent.start, pieces: pieces(), durability }
            }
            Operation::Flush => DeviceOperation::Flush { device },
            Operation::Discard => DeviceOperation::Discard { device, extent },
            Operation::WriteZeroes { unmap, .. } => {
                DeviceOperation::WriteZeroes { device, extent, unmap, durability: Durability::Durable }
            }
            Operation::Promote => return None,
        })
    }
}

impl CacheEngine for ToyEngine {
    fn phase(&self) -> Phase {
        self.phase.clone()
    }

    fn handle_request(&mut self, _now: Instant, request: Request<'_>) {
        let Some(operation) = self.operation(&request) else {
            return self.replies.push_back(Reply {
                id: request.id,
                result: Ok(()),
                read_from: ReadFrom::Origin,
            });
        };
        self.next += 1;
        self.in_flight.insert(self.next, request.id);
        self.submissions.push_back(Submission { id: SubmissionId::from_u64(self.next), operation });
    }

    fn handle_completion(&mut self, _now: Instant, completion: Completion<'_>) {
        let id = self.in_flight.remove(&completion.id.as_u64()).unwrap();
        let result = completion.result.map(|_| ()).map_err(|_| Errno::Io);
        self.replies.push_back(Reply { id, result, read_from: ReadFrom::Origin });
    }

    fn poll_submission(&mut self) -> Option<Submission> {
        self.submissions.pop_front()
    }

    fn poll_reply(&mut self) -> Option<Reply> {
        self.replies.pop_front()
    }

    fn stop(&mut self, _now: Instant) {
        self.phase = Phase::Stopped;
    }
}
