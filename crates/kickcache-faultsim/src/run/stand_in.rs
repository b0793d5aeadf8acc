//! A substitute for the engine: the pass-through engine, extended by a queue of requests, whole sectors, and an
//! optional flaw. It tests the simulation: without a flaw the simulation must find no error, with one it must find it.

use std::collections::VecDeque;

use kickcache_engine::cache_engine::CacheEngine;
use kickcache_engine::config::{EngineSettings, VolumeSettings};
use kickcache_engine::device::{
    Checksums, Completion, Device, DeviceOperation, Memory, Piece, Pieces, Submission,
};
use kickcache_engine::engine::Phase;
use kickcache_engine::format::mark::ServiceMark;
use kickcache_engine::pass_through::{PassThrough, operation_of};
use kickcache_engine::request::{Durability, Errno, Operation, ReadFrom, Reply, Request, RequestId};
use kickcache_engine::time::Instant;
use kickcache_engine::units::{BlockIndex, ByteExtent, Checksum, PageIndex, VolumeId};

use crate::device::SimulatedDevice;
use crate::subject::Subject;

pub(crate) struct Flaw;

impl Flaw {
    pub(crate) const NONE: u8 = 0;
    pub(crate) const FLUSH_DOES_NOTHING: u8 = 1;
    pub(crate) const FUA_IGNORED: u8 = 2;
    pub(crate) const EARLY_REPLY: u8 = 3;
    pub(crate) const LOST_TAIL: u8 = 4;
    pub(crate) const STUCK_AT_STOP: u8 = 5;
    pub(crate) const STALE_READ: u8 = 6;
    pub(crate) const WRONG_PLACE: u8 = 7;
}

#[derive(Clone, Copy, Debug)]
struct Task {
    id: RequestId,
    volume: VolumeId,
    operation: Operation,
    extent: ByteExtent,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    Widen,
    Main,
}

pub(crate) struct StandIn<const FLAW: u8> {
    waiting: VecDeque<Task>,
    current: Option<(Task, Step)>,
    inner: PassThrough,
    replies: VecDeque<Reply>,
    pool_bytes: u64,
    count: u64,
    stopping: bool,
    /// Volumes to flush before the stop is done.
    unflushed: Vec<VolumeId>,
}

fn wide(extent: ByteExtent) -> ByteExtent {
    let start = extent.start / 512 * 512;
    ByteExtent { start, length: extent.end().next_multiple_of(512) - start }
}

fn bits(length: u64) -> u32 {
    u32::try_from(length).unwrap()
}

const POOL: Memory = Memory::Pool { page: PageIndex::new(0), offset: 0 };

impl<const FLAW: u8> StandIn<FLAW> {
    fn submit(&mut self, task: Task, step: Step, operation: DeviceOperation) {
        self.current = Some((task, step));
        self.inner.submit(task.id, operation);
    }

    fn pass_through(&mut self, task: Task, extent: ByteExtent) {
        let Task { id, volume, operation, .. } = task;
        match operation_of(&Request { id, volume, operation, extent, checksums: &[] }) {
            Some(operation) => self.submit(task, Step::Main, operation),
            None => self.reply(id, Ok(())),
        }
    }

    fn go_on(&mut self) {
        while self.current.is_none() {
            let Some(task) = self.waiting.pop_front().or_else(|| self.last_flush()) else {
                return;
            };
            self.count += 1;
            self.begin(task);
        }
    }

    fn last_flush(&mut self) -> Option<Task> {
        let volume = if self.stopping { self.unflushed.pop()? } else { return None };
        let (id, extent) = (RequestId::new(u32::MAX), ByteExtent { start: 0, length: 0 });
        Some(Task { id, volume, operation: Operation::Flush, extent })
    }

    fn widen(&mut self, task: Task) {
        let extent = wide(task.extent);
        let operation = DeviceOperation::Read {
            device: Device::Origin(task.volume),
            offset: extent.start,
            pieces: Pieces::One(Piece { memory: POOL, length: bits(extent.length) }),
            checksums: Checksums::Skip,
        };
        self.submit(task, Step::Widen, operation);
    }

    /// Splits a request that exceeds the pool into its ends and a middle of whole sectors.
    fn split(&mut self, task: Task) {
        let (start, end) = (task.extent.start.next_multiple_of(512), task.extent.end() / 512 * 512);
        let part = |id: RequestId, start: u64, end: u64| Task {
            id,
            extent: ByteExtent { start, length: end - start },
            ..task
        };
        let (inner, whole) = (RequestId::new(u32::MAX), task.extent);
        let parts =
            [part(inner, whole.start, start), part(task.id, start, end), part(inner, end, whole.end())];
        parts
            .into_iter()
            .filter(|part| part.extent.length > 0)
            .for_each(|part| self.waiting.push_front(part));
        // The part that replies to the request is played last.
        let last = self.waiting.iter().position(|waiting| waiting.id == task.id).unwrap();
        self.waiting.swap(last, usize::from(whole.start < start) + usize::from(end < whole.end()));
    }

    fn begin(&mut self, task: Task) {
        if task.extent.length > self.pool_bytes && wide(task.extent) != task.extent {
            return self.split(task);
        }
        let aligned = wide(task.extent) == task.extent;
        match task.operation {
            Operation::Read | Operation::Write(_) | Operation::WriteZeroes { .. } if !aligned => {
                self.widen(task);
            }
            Operation::Read => {
                let mut extent = task.extent;
                if FLAW == Flaw::WRONG_PLACE && self.count % 100 == 99 && extent.start > 0 {
                    extent.start -= 512;
                }
                self.pass_through(task, extent);
            }
            Operation::Write(durability) => {
                if FLAW == Flaw::STALE_READ && self.count % 50 == 49 {
                    return self.reply(task.id, Ok(()));
                }
                self.write(task, task.extent, Memory::Request { id: task.id, offset: 0 }, durability);
            }
            Operation::Flush if FLAW == Flaw::FLUSH_DOES_NOTHING => self.reply(task.id, Ok(())),
            Operation::Flush | Operation::WriteZeroes { .. } | Operation::Promote => {
                self.pass_through(task, task.extent);
            }
            // A discard has no effect here, because an origin may keep discarded data.
            Operation::Discard => self.reply(task.id, Ok(())),
        }
    }

    fn write(&mut self, task: Task, mut extent: ByteExtent, memory: Memory, mut durability: Durability) {
        if FLAW == Flaw::FUA_IGNORED {
            durability = Durability::Volatile;
        }
        if FLAW == Flaw::LOST_TAIL && extent.length > 4096 && self.count % 50 == 49 {
            extent.length -= 512;
        }
        let operation = DeviceOperation::Write {
            device: Device::Origin(task.volume),
            offset: extent.start,
            pieces: Pieces::One(Piece { memory, length: bits(extent.length) }),
            durability,
        };
        self.submit(task, Step::Main, operation);
        if FLAW == Flaw::EARLY_REPLY {
            self.reply(task.id, Ok(()));
        }
    }

    fn widened(&mut self, task: Task) {
        let offset = bits(task.extent.start - wide(task.extent).start);
        let pool = Memory::Pool { page: PageIndex::new(0), offset };
        let request = Memory::Request { id: task.id, offset: 0 };
        let (length, checksums) = (bits(task.extent.length), Checksums::Skip);
        match task.operation {
            Operation::Write(durability) => {
                self.inner.submit_memory(DeviceOperation::Copy {
                    from: request,
                    to: pool,
                    length,
                    checksums,
                });
                self.write(task, wide(task.extent), POOL, durability);
            }
            Operation::WriteZeroes { durability, .. } => {
                self.inner.submit_memory(DeviceOperation::Zero { to: pool, length, checksums });
                self.write(task, wide(task.extent), POOL, durability);
            }
            Operation::Read | Operation::Flush | Operation::Discard | Operation::Promote => {
                self.inner.submit_memory(DeviceOperation::Copy {
                    from: pool,
                    to: request,
                    length,
                    checksums,
                });
                self.reply(task.id, Ok(()));
            }
        }
    }

    fn reply(&mut self, id: RequestId, result: Result<(), Errno>) {
        if id != RequestId::new(u32::MAX) {
            self.replies.push_back(Reply { id, result, read_from: ReadFrom::Origin });
        }
    }
}

impl<const FLAW: u8> Subject for StandIn<FLAW> {
    const KEEPS_NEIGHBOURS: bool = false;
    const OUTLIVES_RESTARTS: bool = false;
    const GROWS: bool = false;

    fn format(_: &mut SimulatedDevice, _: [u8; 16], _: &[u64]) -> Result<(), String> {
        Ok(())
    }

    fn open(
        _: Instant,
        _: &SimulatedDevice,
        settings: EngineSettings,
        volumes: &[VolumeSettings],
    ) -> Result<StandIn<FLAW>, String> {
        Ok(StandIn {
            waiting: VecDeque::new(),
            current: None,
            inner: PassThrough::new(),
            replies: VecDeque::new(),
            pool_bytes: u64::from(settings.pool_pages - 2) * 4_096,
            count: 0,
            stopping: false,
            unflushed: volumes.iter().map(|volume| volume.volume).collect(),
        })
    }

    fn service(_: &SimulatedDevice) -> Result<ServiceMark, String> {
        Ok(ServiceMark::InService)
    }

    fn set_service(_: &mut SimulatedDevice, _: ServiceMark) -> Result<(), String> {
        Ok(())
    }

    fn note_journal(&self, _: &mut SimulatedDevice) -> Result<(), String> {
        Ok(())
    }

    fn clean_blocks(&self) -> Vec<(VolumeId, BlockIndex, Checksum)> {
        Vec::new()
    }

    fn check(&self) {}
}

impl<const FLAW: u8> CacheEngine for StandIn<FLAW> {
    fn phase(&self) -> Phase {
        match self.stopping {
            false => Phase::Running,
            true if self.current.is_none() && self.waiting.is_empty() && FLAW != Flaw::STUCK_AT_STOP => {
                Phase::Stopped
            }
            true => Phase::Stopping,
        }
    }

    fn handle_request(&mut self, _: Instant, request: Request<'_>) {
        let Request { id, volume, operation, extent, .. } = request;
        self.waiting.push_back(Task { id, volume, operation, extent });
        self.go_on();
    }

    fn handle_completion(&mut self, now: Instant, completion: Completion<'_>) {
        self.inner.handle_completion(now, completion);
        let ended = self.inner.poll_reply().unwrap();
        let (task, step) = self.current.take().unwrap();
        match (ended.result, step) {
            (Err(_), _) if task.id == RequestId::new(u32::MAX) => self.waiting.push_front(task),
            (Err(_), _) => self.reply(task.id, Err(Errno::Io)),
            (Ok(()), Step::Widen) => self.widened(task),
            (Ok(()), Step::Main)
                if FLAW == Flaw::EARLY_REPLY && matches!(task.operation, Operation::Write(_)) => {}
            (Ok(()), Step::Main) => self.reply(task.id, Ok(())),
        }
        self.go_on();
    }

    fn poll_submission(&mut self) -> Option<Submission> {
        self.inner.poll_submission()
    }

    fn poll_reply(&mut self) -> Option<Reply> {
        self.replies.pop_front()
    }

    fn stop(&mut self, _: Instant) {
        self.stopping = true;
        self.go_on();
    }
}
