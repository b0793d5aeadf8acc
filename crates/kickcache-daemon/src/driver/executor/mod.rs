//! The driver: executes the engine's submissions on devices, and watches sockets at the same time.
//!
//! Over 500 lines because every kind of submission begins, continues and ends here, on one table of
//! operations.

mod membership;
mod offload;
mod questions;
mod queued;
mod record_operations;
mod record_writer;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::Arc;

use kickcache_engine::config::VOLUME_COUNT_MAX;
use kickcache_engine::device::{
    Checksums, Completion, Data, Device, DeviceError, DeviceOperation, Memory, Piece, Pieces, Submission,
    SubmissionId,
};
use kickcache_engine::mirror::Routed;
use kickcache_engine::mirror::side::Side;
use kickcache_engine::request::Durability;
use kickcache_engine::time::{Duration, Instant};
use kickcache_engine::units::{BLOCK_BYTES, Checksum, PageIndex, VolumeId};

pub use self::membership::RemovedDevice;
use self::record_writer::{RECORD_THREAD_KEY, RecordWriter};
use crate::driver::backend::{Backend, DeviceCommand, Doorbells, Event, Interest, NoDoorbells, Target, Way};
use crate::driver::budget::Budget;
use crate::driver::buffers::Buffers;
use crate::driver::checksum::checksum;
use crate::driver::clock::span;
use crate::driver::device::{BlockFile, Flush};
use crate::driver::device_clock::DeviceClock;
use crate::driver::fault::{Cause, Fault, Faults};
use crate::driver::io_engine::IoEngine;
use crate::driver::memory::Mapping;
use crate::driver::operation::{Operation, SubmissionStep, Work, WriteSync};
use crate::driver::queued_device::{QueuedDevice, ServerOutage};
use crate::driver::ring::Ring;
use crate::driver::threads::Threads;

pub enum Medium {
    File(BlockFile),
    Queued(Box<dyn QueuedDevice>),
}

pub struct NamedMedium {
    pub device: Device,
    pub medium: Medium,
}

pub struct DriverSettings {
    pub io_engine: IoEngine,
    pub budget: Budget,
    pub pool_pages: u32,
    pub media: Vec<NamedMedium>,
}

/// Executes submissions. Stays on the thread that opened it.
pub struct Driver {
    backend: Box<dyn Backend>,
    io_engine: IoEngine,
    media: Vec<Option<OpenMedium>>,
    queued: Vec<usize>,
    /// The slots of queued devices without a watch.
    unwatched: Vec<usize>,
    operations: Vec<Operation>,
    free: Vec<u32>,
    fresh: Vec<Event>,
    /// I/Os that ended: token, and bytes moved or a negative errno.
    events: VecDeque<(u32, i32)>,
    ready: VecDeque<(u64, Interest)>,
    commands: VecDeque<(u64, i32)>,
    #[cfg(test)]
    pub(crate) given_commands: Vec<(u64, u32, [u8; 16])>,
    ended: VecDeque<EndedOperation>,
    notes: RecordWriter,
    faults: Faults,
    /// The operation of the completion that [`Driver::poll_completion`] returned last, until its next call; `None` for one in memory.
    held: Option<u32>,
    checksums: Vec<Checksum>,
    zeroes: Option<Mapping>,
    device_clock: DeviceClock,
    /// Payloads and pool; the last field, so that the backend is dropped before its memory.
    buffers: Buffers,
}

/// The outstanding work of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Load {
    pub device: Device,
    pub operation_count: usize,
}

enum OpenMedium {
    File(Arc<BlockFile>, Target),
    Queued(Box<dyn QueuedDevice>),
}

enum EndedOperation {
    Memory(SubmissionId, Checksum),
    Operation(u32, Result<(), DeviceError>),
}

#[derive(Clone, Copy)]
enum Metadata<'a> {
    Out(&'a [u8]),
    In(usize),
}

const SUCCESSOR_SLOT: usize = 1 + VOLUME_COUNT_MAX;
const REDO_SLOT: usize = SUCCESSOR_SLOT + 1;

impl Driver {
    /// Sets a driver up on this thread.
    ///
    /// # Errors
    /// If io_uring is required and not permitted, or memory or descriptors are short.
    pub fn open(settings: DriverSettings) -> io::Result<Driver> {
        let (mut backend, io_engine) = open_backend(settings.io_engine)?;
        let buffers = Buffers::new(settings.budget, settings.pool_pages)?;
        let OpenMedia { media, queued } = open_media(backend.as_mut(), settings.media);
        Ok(Driver {
            backend,
            io_engine,
            media,
            unwatched: queued.clone(),
            queued,
            operations: Vec::new(),
            free: Vec::new(),
            fresh: Vec::new(),
            events: VecDeque::new(),
            ready: VecDeque::new(),
            commands: VecDeque::new(),
            #[cfg(test)]
            given_commands: Vec::new(),
            ended: VecDeque::new(),
            notes: RecordWriter::default(),
            faults: Faults::default(),
            held: None,
            checksums: Vec::new(),
            zeroes: None,
            device_clock: DeviceClock::new(),
            buffers,
        })
    }

    /// How devices are read and written: never [`IoEngine::Auto`].
    pub fn io_engine(&self) -> IoEngine {
        self.io_engine
    }

    pub fn buffers(&mut self) -> &mut Buffers {
        &mut self.buffers
    }

    pub(crate) fn budget(&self) -> &Budget {
        &self.buffers.budget
    }

    /// The file or block device of a device; `None` if the driver has none for it.
    pub fn file(&self, device: Device) -> Option<&BlockFile> {
        match self.media.get(slot(device))? {
            Some(OpenMedium::File(file, _)) => Some(file),
            Some(OpenMedium::Queued(_)) | None => None,
        }
    }

    /// [`Driver::file`] for use by another thread.
    pub fn shared_file(&self, device: Device) -> Option<Arc<BlockFile>> {
        match self.media.get(slot(device))? {
            Some(OpenMedium::File(file, _)) => Some(Arc::clone(file)),
            Some(OpenMedium::Queued(_)) | None => None,
        }
    }

    /// Executes a submission; [`Driver::poll_completion`] returns its completion. Copies and zeroes in memory
    /// have none if no checksum is requested.
    ///
    /// # Panics
    /// If the submission names memory that does not exist.
    pub fn submit(&mut self, now: Instant, submission: Submission) {
        self.submit_for(now, Device::Cache, submission);
    }

    /// As [`Driver::submit`], with the cache device or its successor as the cache device.
    pub fn submit_routed(&mut self, now: Instant, Routed { side, submission }: Routed) {
        match side {
            Side::Old => self.submit_for(now, Device::Cache, submission),
            Side::New => self.submit_for(now, Device::Successor, submission),
        }
    }

    fn submit_for(&mut self, now: Instant, cache: Device, submission: Submission) {
        let Submission { id, operation } = submission;
        let meant = |device| if device == Device::Cache { cache } else { device };
        match operation {
            DeviceOperation::Read { device, offset, pieces, checksums } => {
                let token = self.begin(id, meant(device), Work::Read, offset);
                self.operation(token).checksums = checksums;
                self.add_pieces(token, &pieces);
                self.start(now, token);
            }
            DeviceOperation::Write { device, offset, pieces, durability } => {
                let work = Work::Write(self.write_sync(meant(device), durability));
                let token = self.begin(id, meant(device), work, offset);
                self.add_pieces(token, &pieces);
                self.start(now, token);
            }
            DeviceOperation::WriteMetadata { device, offset, bytes, pieces, durability } => {
                let work = Work::Write(self.write_sync(meant(device), durability));
                let token = self.begin(id, meant(device), work, offset);
                self.start_metadata(now, token, Metadata::Out(&bytes), pieces);
            }
            DeviceOperation::ReadMetadata { extent } => {
                let token = self.begin(id, cache, Work::ReadMetadata, extent.start);
                let length = usize::try_from(extent.length).expect("metadata fits into memory");
                self.start_metadata(now, token, Metadata::In(length), Vec::new());
            }
            DeviceOperation::Flush { device } => {
                let token = self.begin(id, meant(device), Work::Flush, 0);
                self.start(now, token);
            }
            DeviceOperation::Discard { device, extent } => {
                let work = Work::Discard(self.discard_kind(meant(device)));
                let token = self.begin(id, meant(device), work, extent.start);
                self.operation(token).length = extent.length;
                self.start_discard(now, token);
            }
            DeviceOperation::WriteZeroes { device, extent, unmap, durability } => {
                let token = self.begin(id, meant(device), Work::zero(unmap, durability), extent.start);
                self.operation(token).length = extent.length;
                self.start_zeroes(now, token);
            }
            DeviceOperation::NoteOutOfService { incomplete } => {
                let token = self.begin(id, Device::Cache, Work::Flush, 0);
                self.request_record(token, incomplete);
            }
            DeviceOperation::Copy { from, to, length, checksums } => {
                self.copy(id, Piece { memory: from, length }, to, checksums);
            }
            DeviceOperation::Zero { to, length, checksums } => self.zero(id, to, length, checksums),
        }
    }

    /// The next submission that ended.
    pub fn poll_completion(&mut self, now: Instant) -> Option<Completion<'_>> {
        self.release_held();
        self.take_events(now);
        let (id, result) = match self.ended.pop_front()? {
            EndedOperation::Memory(id, sum) => {
                self.checksums.clear();
                self.checksums.push(sum);
                return Some(Completion { id, result: Ok(Data { checksums: &self.checksums, bytes: &[] }) });
            }
            EndedOperation::Operation(token, result) => (token, result),
        };
        self.held = Some(id);
        let operation = &mut self.operations[usize::try_from(id).expect("usize has at least 32 bits")];
        if let Err(error) = result {
            return Some(Completion { id: operation.id, result: Err(error) });
        }
        self.checksums.clear();
        if operation.checksums == Checksums::Compute {
            operation.compute_checksums(&mut self.checksums);
        }
        let length = usize::try_from(operation.length).unwrap_or(0);
        let (id, read) = (operation.id, operation.work == Work::ReadMetadata);
        let bytes: &[u8] = match operation.bounce.as_mut().filter(|_| read) {
            Some(bounce) => bounce.bytes_mut(length),
            None => &[],
        };
        Some(Completion { id, result: Ok(Data { checksums: &self.checksums, bytes }) })
    }

    /// The next device that may have lost unflushed data. To be called once [`Driver::poll_completion`] returns
    /// `None`; afterwards, completions must be polled again.
    pub fn poll_restart(&mut self) -> Option<Device> {
        let Driver { queued, media, .. } = self;
        let slot = queued.iter().copied().find(|slot| match &mut media[*slot] {
            Some(OpenMedium::Queued(device)) => device.take_restart(),
            Some(OpenMedium::File(..)) | None => false,
        })?;
        Some(device_at(slot))
    }

    /// If the server of a device is unreachable: for how long, and why.
    pub fn away(&self, device: Device) -> Option<ServerOutage> {
        match self.media.get(slot(device))? {
            Some(OpenMedium::Queued(queued)) => queued.away(),
            Some(OpenMedium::File(..)) | None => None,
        }
    }

    /// The next descriptor that became ready, by the key of its watch.
    pub fn poll_ready(&mut self) -> Option<(u64, Interest)> {
        self.ready.pop_front()
    }

    /// The next command that ended, by its key: the result from the device, or a negative errno.
    pub(crate) fn poll_command(&mut self) -> Option<(u64, i32)> {
        self.commands.pop_front()
    }

    /// Sends a device a command of its own; [`Driver::poll_command`] returns its end. Memory that the command
    /// names stays in place until its end.
    pub(crate) fn command(&mut self, key: u64, fd: BorrowedFd<'_>, number: u32, bytes: [u8; 16]) {
        #[cfg(test)]
        self.given_commands.push((key, number, bytes));
        self.backend.command(key, &DeviceCommand { fd: fd.as_raw_fd(), number, bytes });
    }

    /// Reports by [`Driver::poll_ready`] when a descriptor is ready.
    pub fn watch(&mut self, fd: BorrowedFd<'_>, key: u64, interest: Interest) {
        self.backend.watch(fd, key, interest);
    }

    /// Ends the watches of a key; to be called before the descriptor is closed.
    pub fn unwatch(&mut self, fd: BorrowedFd<'_>, key: u64) {
        self.backend.unwatch(fd, key);
    }

    /// Passes submissions to the system.
    ///
    /// # Errors
    /// If the ring is broken.
    pub fn hand_over(&mut self) -> io::Result<()> {
        self.backend.submit()
    }

    /// Passes submissions to the system and waits for an event, at most until `until` or until a queued
    /// device has work to do. Does not wait if an event is available. Returns the part of the wait that is
    /// due to devices; zero if the kernel does not count delays of threads.
    ///
    /// # Errors
    /// If the ring is broken.
    pub fn wait(&mut self, now: Instant, until: Option<Instant>) -> io::Result<Duration> {
        self.wait_beside(now, until, &mut NoDoorbells)
    }

    /// As [`Driver::wait`], but also ends when a doorbell has work.
    ///
    /// # Errors
    /// If the ring is broken.
    pub fn wait_beside(
        &mut self,
        now: Instant,
        until: Option<Instant>,
        doorbells: &mut dyn Doorbells,
    ) -> io::Result<Duration> {
        self.watch_queued();
        let wakeups = self.queued.iter().filter_map(|&slot| self.media[slot].as_ref()?.next_wakeup());
        let until = wakeups.chain(until).min();
        let until = if self.has_completions() { Some(now) } else { until };
        let until = until.map(|until| span(now, until));
        let waited = self.backend.wait(until, doorbells, &mut self.fresh)?;
        let mut has_notes = false;
        for event in self.fresh.drain(..) {
            match event {
                Event::Io { token, result } => self.events.push_back((token, result)),
                Event::Command { key, result } => self.commands.push_back((key, result)),
                Event::Ready { key: RECORD_THREAD_KEY, .. } => has_notes = true,
                Event::Ready { key, interest } => match queued::slot_of(key) {
                    Some(slot) => self.unwatched.push(slot),
                    None => self.ready.push_back((key, interest)),
                },
            }
        }
        if has_notes {
            self.take_notes();
        }
        let slept = self.device_clock.pass(waited);
        Ok(Duration::from_nanos(u64::try_from(slept.as_nanos()).unwrap_or(u64::MAX)))
    }

    /// Whether an end of an operation is known that [`Driver::poll_completion`] has not handled.
    pub fn has_completions(&self) -> bool {
        !self.ended.is_empty() || !self.events.is_empty()
    }

    pub fn has_faults(&self) -> bool {
        !self.faults.is_empty()
    }

    /// Failed operations of devices since the last call, except discards that a device does not support.
    pub fn take_faults(&mut self) -> Vec<Fault> {
        self.faults.take()
    }

    /// The outstanding work of each device that has any.
    pub fn loads(&self) -> Vec<Load> {
        let mut counts: BTreeMap<usize, Load> = BTreeMap::new();
        for operation in self.owed() {
            let device = operation.device;
            let load = counts.entry(slot(device)).or_insert(Load { device, operation_count: 0 });
            load.operation_count += 1;
        }
        counts.into_values().collect()
    }

    /// The outstanding work of a device, except reads.
    pub fn changes_in_flight(&self, device: Device) -> Vec<SubmissionId> {
        let is_change = |work: Work| !matches!(work, Work::Read | Work::ReadMetadata);
        let meant = |operation: &&Operation| operation.device == device && is_change(operation.work);
        self.owed().filter(meant).map(|operation| operation.id).collect()
    }

    pub fn is_idle(&self, device: Device) -> bool {
        self.owed().all(|operation| operation.device != device)
    }

    fn owed(&self) -> impl Iterator<Item = &Operation> {
        let is_free: BTreeSet<usize> =
            self.free.iter().filter_map(|token| usize::try_from(*token).ok()).collect();
        let operations = self.operations.iter().enumerate();
        operations.filter(move |(token, _)| !is_free.contains(token)).map(|(_, operation)| operation)
    }

    /// Submissions from their begin until [`Driver::poll_completion`] is called again after it returned their completion; copies and
    /// zeroes in memory do not count.
    pub fn in_flight(&self) -> usize {
        self.operations.len() - self.free.len()
    }

    pub fn is_at_rest(&self) -> bool {
        self.in_flight() == 0 && self.ended.is_empty()
    }

    fn begin(&mut self, id: SubmissionId, device: Device, work: Work, offset: u64) -> u32 {
        let token = self.free.pop().unwrap_or_else(|| {
            self.operations.push(Operation::new());
            u32::try_from(self.operations.len() - 1).expect("operations in flight are bounded")
        });
        let operation = self.operation(token);
        operation.begin(id, device, work);
        operation.offset = offset;
        token
    }

    fn operation(&mut self, token: u32) -> &mut Operation {
        &mut self.operations[usize::try_from(token).expect("usize has at least 32 bits")]
    }

    fn add_pieces(&mut self, token: u32, pieces: &Pieces) {
        for &piece in pieces.as_slice() {
            let address = self.buffers.address(piece);
            self.operation(token).add(address, piece.length);
        }
    }

    fn start_metadata(&mut self, now: Instant, token: u32, metadata: Metadata<'_>, pieces: Vec<Piece>) {
        let length = match metadata {
            Metadata::Out(bytes) => bytes.len(),
            Metadata::In(length) => length,
        };
        let Ok(mut bounce) = self.buffers.allocator.allocate(length) else {
            return self.fail(token, Cause::Errno(libc::ENOMEM));
        };
        if let Metadata::Out(bytes) = metadata {
            bounce.bytes_mut(length).copy_from_slice(bytes);
        }
        let operation = self.operation(token);
        operation.add(bounce.base(), u32::try_from(length).expect("metadata is small"));
        operation.bounce = Some(bounce);
        self.add_pieces(token, &Pieces::Many(pieces));
        self.start(now, token);
    }

    fn start(&mut self, now: Instant, token: u32) {
        let operation = &mut self.operations[usize::try_from(token).expect("usize has at least 32 bits")];
        let medium = self.media.get_mut(slot(operation.device)).and_then(Option::as_mut);
        match medium {
            Some(OpenMedium::File(file, _))
                if operation.work == Work::Flush && file.flush() == Flush::Assumed =>
            {
                self.ended.push_back(EndedOperation::Operation(token, Ok(())));
            }
            Some(OpenMedium::File(_, target)) => {
                let io = operation.next_io(*target);
                self.backend.start(token, io);
            }
            Some(OpenMedium::Queued(device)) => {
                queued::start(device.as_mut(), now, token, operation);
            }
            None => self.ended.push_back(EndedOperation::Operation(token, Err(DeviceError::Gone))),
        }
    }

    fn fail(&mut self, token: u32, cause: Cause) {
        if let Some(fault) = self.operation(token).fault(cause) {
            self.faults.push(fault);
        }
        let error = self.operation(token).error(cause);
        self.ended.push_back(EndedOperation::Operation(token, Err(error)));
    }

    fn take_events(&mut self, now: Instant) {
        while let Some((token, result)) = self.events.pop_front() {
            self.advance(now, token, result);
            if !self.ended.is_empty() {
                return;
            }
        }
        for index in 0..self.queued.len() {
            self.take_queued(now, self.queued[index]);
        }
    }

    fn advance(&mut self, now: Instant, token: u32, result: i32) {
        match self.operation(token).advance(result) {
            SubmissionStep::Continue => self.start(now, token),
            SubmissionStep::WriteZeroes => self.write_zeroes(now, token),
            SubmissionStep::Done => self.ended.push_back(EndedOperation::Operation(token, Ok(()))),
            SubmissionStep::Failed(cause) => self.fail(token, cause),
        }
    }

    /// How a write to a device becomes durable, if it must.
    fn write_sync(&self, device: Device, durability: Durability) -> WriteSync {
        match self.file(device) {
            _ if durability == Durability::Volatile => WriteSync::Not,
            Some(file) if file.flush() == Flush::Assumed => WriteSync::Not,
            Some(file) if !file.keeps_dsync() => WriteSync::After,
            Some(_) | None => WriteSync::Flag,
        }
    }

    fn take_queued(&mut self, now: Instant, slot: usize) {
        while let Some(OpenMedium::Queued(device)) = &mut self.media[slot]
            && let Some(end) = device.poll(now)
        {
            let token = u32::try_from(end.token).expect("devices give tokens back unchanged");
            match end.result {
                Ok(()) => self.end_queued(now, slot, token),
                Err(errno) => self.advance(now, token, -errno),
            }
        }
    }

    fn end_queued(&mut self, now: Instant, slot: usize, token: u32) {
        let index = usize::try_from(token).expect("usize has at least 32 bits");
        if let Some(moved) = self.operations[index].repeated_length() {
            return self.advance(now, token, moved);
        }
        if let Some(OpenMedium::Queued(device)) = &mut self.media[slot] {
            queued::finish(device.as_mut(), token, &mut self.operations[index]);
        }
        self.ended.push_back(EndedOperation::Operation(token, Ok(())));
    }

    fn watch_queued(&mut self) {
        for slot in self.unwatched.drain(..) {
            if let Some(OpenMedium::Queued(device)) = &self.media[slot] {
                queued::watch(self.backend.as_mut(), slot, device.as_ref());
            }
        }
    }

    fn release_held(&mut self) {
        let Some(token) = self.held.take() else { return };
        if let Some(bounce) = self.operation(token).bounce.take() {
            self.buffers.allocator.release(bounce);
        }
        self.free.push(token);
    }

    fn copy(&mut self, id: SubmissionId, from: Piece, to: Memory, checksums: Checksums) {
        let length = from.length;
        let source = self.buffers.address(from);
        let target = self.buffers.address(Piece { memory: to, length });
        let count = usize::try_from(length).expect("usize has at least 32 bits");
        // SAFETY: both addresses were checked to have that many bytes, and `copy` allows them to overlap.
        unsafe { std::ptr::copy(source, target, count) };
        self.end_in_memory(id, to, checksums);
    }

    fn zero(&mut self, id: SubmissionId, to: Memory, length: u32, checksums: Checksums) {
        let target = self.buffers.address(Piece { memory: to, length });
        let count = usize::try_from(length).expect("usize has at least 32 bits");
        // SAFETY: the address was checked to have that many bytes.
        unsafe { std::ptr::write_bytes(target, 0, count) };
        self.end_in_memory(id, to, checksums);
    }

    fn end_in_memory(&mut self, id: SubmissionId, to: Memory, checksums: Checksums) {
        if checksums == Checksums::Skip {
            return;
        }
        let sum = checksum(self.page(to));
        self.ended.push_back(EndedOperation::Memory(id, sum));
    }

    fn page(&self, place: Memory) -> &[u8] {
        let Memory::Pool { page, offset } = place else { panic!("only pool pages have checksums of copies") };
        let page = PageIndex::new(page.get() + offset / 4096);
        let whole = Piece { memory: Memory::Pool { page, offset: 0 }, length: 4096 };
        // SAFETY: the address was checked to have 4096 bytes, and no device writes to a page that is copied to.
        unsafe { std::slice::from_raw_parts(self.buffers.address(whole), BLOCK_BYTES) }
    }
}

impl OpenMedium {
    fn next_wakeup(&self) -> Option<Instant> {
        match self {
            OpenMedium::Queued(device) => device.next_wakeup(),
            OpenMedium::File(..) => None,
        }
    }
}

fn slot(device: Device) -> usize {
    match device {
        Device::Cache => 0,
        Device::Origin(volume) => 1 + usize::from(volume.get()),
        Device::Successor => SUCCESSOR_SLOT,
        Device::RedoJournal => REDO_SLOT,
    }
}

fn device_at(slot: usize) -> Device {
    match slot.checked_sub(1) {
        None => Device::Cache,
        Some(_) if slot == SUCCESSOR_SLOT => Device::Successor,
        Some(_) if slot == REDO_SLOT => Device::RedoJournal,
        Some(number) => {
            Device::Origin(VolumeId::new(u8::try_from(number).expect("volumes have numbers of 8 bits")))
        }
    }
}

fn open_backend(io_engine: IoEngine) -> io::Result<(Box<dyn Backend>, IoEngine)> {
    match io_engine {
        IoEngine::IoUring => Ok((Box::new(Ring::new()?), IoEngine::IoUring)),
        IoEngine::Threads => Ok((Box::new(Threads::new()?), IoEngine::Threads)),
        IoEngine::Auto => match Ring::new() {
            Ok(ring) => {
                tracing::info!(event = "io_engine", "devices and sockets are driven by io_uring");
                Ok((Box::new(ring), IoEngine::IoUring))
            }
            Err(error) => {
                tracing::warn!(
                    event = "io_uring_unavailable",
                    "io_uring is not available ({error}): using threads, which is slower"
                );
                Ok((Box::new(Threads::new()?), IoEngine::Threads))
            }
        },
    }
}

struct OpenMedia {
    media: Vec<Option<OpenMedium>>,
    queued: Vec<usize>,
}

fn open_media(backend: &mut dyn Backend, media: Vec<NamedMedium>) -> OpenMedia {
    let files: Vec<_> = media
        .iter()
        .filter_map(|named| match &named.medium {
            Medium::File(file) => Some((file.fd(), way(file))),
            Medium::Queued(_) => None,
        })
        .collect();
    let mut targets = backend.register(&files).into_iter();
    let (mut open, mut queued) = (Vec::new(), Vec::new());
    for NamedMedium { device, medium } in media {
        let slot = slot(device);
        if open.len() <= slot {
            open.resize_with(slot + 1, || None);
        }
        open[slot] = match medium {
            Medium::File(file) => {
                Some(OpenMedium::File(Arc::new(file), targets.next().expect("one target for each file")))
            }
            Medium::Queued(device) => {
                queued.push(slot);
                Some(OpenMedium::Queued(device))
            }
        };
    }
    OpenMedia { media: open, queued }
}

fn way(file: &BlockFile) -> Way {
    if file.is_remote() { Way::Threads } else { Way::Any }
}

#[cfg(test)]
mod several_devices;
#[cfg(test)]
mod tests;
