//! A submission in flight: its memory, its progress, and its next system call.

use kickcache_engine::device::{Checksums, Device, DeviceError, SubmissionId};
use kickcache_engine::request::{Durability, Unmap};
use kickcache_engine::units::{BLOCK_BYTES, ByteExtent, Checksum};

use crate::driver::backend::{Io, IoKind, Target};
use crate::driver::checksum::{RunningChecksum, checksum};
use crate::driver::fault::{Cause, Fault};
use crate::driver::memory::Chunk;

/// The most stretches of one system call.
const STRETCHES_MAX: usize = 1024;
/// The most bytes that one call discards or zeroes: between two calls the device can serve other requests.
const CHUNK: u64 = 1 << 30;
/// The most stretches of one call that writes zeroes; every stretch is the same memory.
const ZERO_STRETCHES_MAX: u64 = 16;
/// The most repetitions of calls that end with EINTR or EAGAIN, for one operation.
const REPEATS_MAX: u32 = 1000;

pub(crate) struct Operation {
    pub(crate) id: SubmissionId,
    pub(crate) device: Device,
    pub(crate) work: Work,
    pub(crate) offset: u64,
    pub(crate) length: u64,
    pub(crate) stretches: Vec<libc::iovec>,
    pub(crate) checksums: Checksums,
    pub(crate) bounce: Option<Chunk>,
    /// Extents that are still to be zeroed by writes.
    pub(crate) unwritten: Vec<ByteExtent>,
    /// Whether the only stretch is written repeatedly until the length is reached.
    is_repeated: bool,
    done: u64,
    repeats: u32,
    rest: Vec<libc::iovec>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Work {
    Read,
    ReadMetadata,
    Write(WriteSync),
    Flush,
    Discard(DiscardKind),
    Zero { mode: i32, durability: Durability },
    WrittenZeroes { durability: Durability },
}

impl Work {
    /// Storing zeroes; `unmap` decides whether the space may be released.
    pub(crate) fn zero(unmap: Unmap, durability: Durability) -> Work {
        let kind = match unmap {
            Unmap::Allow => libc::FALLOC_FL_PUNCH_HOLE,
            Unmap::Forbid => libc::FALLOC_FL_ZERO_RANGE,
        };
        Work::Zero { mode: kind | libc::FALLOC_FL_KEEP_SIZE, durability }
    }

    fn word(self) -> &'static str {
        match self {
            Work::Read | Work::ReadMetadata => "read",
            Work::Write(_) => "write",
            Work::Flush => "flush",
            Work::Discard(_) => "discard",
            Work::Zero { .. } | Work::WrittenZeroes { .. } => "write-zeroes",
        }
    }

    pub(crate) fn durability(self) -> Durability {
        match self {
            Work::Zero { durability, .. } | Work::WrittenZeroes { durability } => durability,
            Work::Write(WriteSync::Flag | WriteSync::After) => Durability::Durable,
            Work::Write(WriteSync::Not)
            | Work::Read
            | Work::ReadMetadata
            | Work::Flush
            | Work::Discard(_) => Durability::Volatile,
        }
    }

    fn ends_with_flush(self) -> bool {
        self.durability() == Durability::Durable && self != Work::Write(WriteSync::Flag)
    }
}

/// How a write becomes durable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum WriteSync {
    /// The write itself is not made durable.
    Not,
    /// A flag of the write itself makes it durable.
    Flag,
    /// A flush after the write makes it durable.
    After,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum DiscardKind {
    Punch,
    Block,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SubmissionStep {
    Continue,
    /// Write the zeroes that the device does not store by itself.
    WriteZeroes,
    Done,
    Failed(Cause),
}

struct Iovecs {
    first: *const libc::iovec,
    count: u32,
}

impl Operation {
    pub(crate) fn new() -> Operation {
        Operation {
            id: SubmissionId::from_u64(0),
            device: Device::Cache,
            work: Work::Flush,
            offset: 0,
            length: 0,
            stretches: Vec::new(),
            checksums: Checksums::Skip,
            bounce: None,
            unwritten: Vec::new(),
            is_repeated: false,
            done: 0,
            repeats: 0,
            rest: Vec::new(),
        }
    }

    pub(crate) fn begin(&mut self, id: SubmissionId, device: Device, work: Work) {
        (self.id, self.device, self.work) = (id, device, work);
        (self.offset, self.length, self.done, self.repeats) = (0, 0, 0, 0);
        (self.checksums, self.is_repeated) = (Checksums::Skip, false);
        self.stretches.clear();
        self.unwritten.clear();
    }

    pub(crate) fn begin_written_zeroes(&mut self, address: *mut u8, length: usize) {
        let extent = self.unwritten.pop().expect("zeroes are left to be written");
        if let Work::Zero { durability, .. } = self.work {
            self.work = Work::WrittenZeroes { durability };
        }
        (self.offset, self.length, self.done, self.is_repeated) = (extent.start, extent.length, 0, true);
        self.stretches.clear();
        self.stretches.push(libc::iovec { iov_base: address.cast(), iov_len: length });
    }

    /// Appends memory; memory that follows on directly extends the last stretch while this stays below 1 GiB.
    pub(crate) fn add(&mut self, address: *mut u8, length: u32) {
        self.length += u64::from(length);
        let length = usize::try_from(length).expect("usize has at least 32 bits");
        if let Some(last) = self.stretches.last_mut() {
            let end = last.iov_base.cast::<u8>().wrapping_add(last.iov_len);
            // One stretch stays below the maximum of a 32-bit length.
            if end == address && last.iov_len + length < 1 << 30 {
                last.iov_len += length;
                return;
            }
        }
        self.stretches.push(libc::iovec { iov_base: address.cast(), iov_len: length });
    }

    /// The memory for the call belongs to the slot and stays valid until the call has ended.
    pub(crate) fn next_io(&mut self, target: Target) -> Io {
        let offset = self.next_offset();
        let kind = match self.work {
            Work::Read | Work::ReadMetadata => {
                let Iovecs { first: iovecs, count } = self.remaining();
                IoKind::Read { iovecs, count }
            }
            Work::Write(sync) => {
                let Iovecs { first: iovecs, count } = self.remaining();
                IoKind::Write {
                    iovecs,
                    count,
                    flags: if sync == WriteSync::Flag { libc::RWF_DSYNC } else { 0 },
                }
            }
            Work::WrittenZeroes { .. } => {
                let Iovecs { first: iovecs, count } = self.remaining();
                IoKind::Write { iovecs, count, flags: 0 }
            }
            Work::Flush => IoKind::DataSync,
            Work::Discard(DiscardKind::Punch) => {
                let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
                IoKind::Allocate { mode, length: self.chunk() }
            }
            Work::Discard(DiscardKind::Block) => IoKind::BlockDiscard { length: self.chunk() },
            Work::Zero { mode, .. } => IoKind::Allocate { mode, length: self.chunk() },
        };
        Io { target, offset, kind }
    }

    fn chunk(&self) -> u64 {
        (self.length - self.done).min(CHUNK)
    }

    pub(crate) fn advance(&mut self, result: i32) -> SubmissionStep {
        match u64::try_from(result) {
            Ok(moved) => self.advance_by(moved),
            Err(_) => self.fail(-result),
        }
    }

    fn advance_by(&mut self, moved: u64) -> SubmissionStep {
        match self.work {
            Work::Read | Work::ReadMetadata | Work::Write(_) | Work::WrittenZeroes { .. } => {
                self.done += moved;
                match self.done.cmp(&self.length) {
                    std::cmp::Ordering::Less if moved > 0 => SubmissionStep::Continue,
                    // The device has become shorter, or the kernel reported a wrong count.
                    std::cmp::Ordering::Less | std::cmp::Ordering::Greater => {
                        SubmissionStep::Failed(Cause::Short)
                    }
                    std::cmp::Ordering::Equal => self.after_transfer(),
                }
            }
            Work::Discard(_) | Work::Zero { .. } if self.chunk() < self.length - self.done => {
                self.done += self.chunk();
                SubmissionStep::Continue
            }
            Work::Flush | Work::Discard(_) | Work::Zero { .. } => self.after_transfer(),
        }
    }

    fn after_transfer(&mut self) -> SubmissionStep {
        if !self.unwritten.is_empty() {
            return SubmissionStep::WriteZeroes;
        }
        // One flush for all extents of zeroes.
        if self.work.ends_with_flush() {
            self.work = Work::Flush;
            return SubmissionStep::Continue;
        }
        SubmissionStep::Done
    }

    fn fail(&mut self, errno: i32) -> SubmissionStep {
        if matches!(errno, libc::EINTR | libc::EAGAIN) && self.repeats < REPEATS_MAX {
            self.repeats += 1;
            return SubmissionStep::Continue;
        }
        let cause = Cause::Errno(errno);
        if matches!(self.work, Work::Zero { .. }) && self.error(cause) == DeviceError::Unsupported {
            let (start, length) = (self.next_offset(), self.length - self.done);
            self.unwritten.push(ByteExtent { start, length });
            return SubmissionStep::WriteZeroes;
        }
        SubmissionStep::Failed(cause)
    }

    /// The failed operation; `None` if a device does not support a discard.
    pub(crate) fn fault(&self, cause: Cause) -> Option<Fault> {
        let (offset, length) = match self.work {
            Work::Discard(_) if self.error(cause) == DeviceError::Unsupported => return None,
            Work::Flush => (0, 0),
            Work::Read
            | Work::ReadMetadata
            | Work::Write(_)
            | Work::Discard(_)
            | Work::Zero { .. }
            | Work::WrittenZeroes { .. } => (self.offset, self.length),
        };
        Some(Fault { device: self.device, operation: self.work.word(), offset, length, cause })
    }

    /// If a device answers zeroing or a discard with EINVAL, it does not support the operation with this
    /// alignment.
    pub(crate) fn error(&self, cause: Cause) -> DeviceError {
        match (self.work, cause) {
            (Work::Zero { .. } | Work::Discard(_), Cause::Errno(libc::EINVAL)) => DeviceError::Unsupported,
            (_, Cause::Errno(errno)) => device_error(errno),
            (_, Cause::Short) => DeviceError::Io,
        }
    }

    fn remaining(&mut self) -> Iovecs {
        let list = self.stretches_left();
        let count = list.len().min(STRETCHES_MAX);
        Iovecs { first: list.as_ptr(), count: u32::try_from(count).expect("at most 1024") }
    }

    pub(crate) fn next_offset(&self) -> u64 {
        self.offset + self.done
    }

    /// Bytes of the next call of an operation that writes one stretch again and again.
    pub(crate) fn repeated_length(&mut self) -> Option<i32> {
        let lengths = |list: &[libc::iovec]| list.iter().map(|stretch| stretch.iov_len).sum::<usize>();
        self.is_repeated.then(|| i32::try_from(lengths(self.stretches_left())).expect("16 MiB at most"))
    }

    /// The memory of the bytes that are left; the stretches of one call if a stretch is repeated.
    pub(crate) fn stretches_left(&mut self) -> &[libc::iovec] {
        if self.is_repeated {
            repeat(self.stretches[0], self.length - self.done, &mut self.rest);
            &self.rest
        } else if self.done == 0 {
            &self.stretches
        } else {
            skip(&self.stretches, self.done, &mut self.rest);
            &self.rest
        }
    }

    /// One checksum for each whole 4096 bytes of all stretches together.
    pub(crate) fn compute_checksums(&self, into: &mut Vec<Checksum>) {
        let (mut running, mut filled) = (RunningChecksum::new(), 0);
        for stretch in &self.stretches {
            let mut bytes = bytes(stretch);
            while !bytes.is_empty() {
                if filled == 0 && bytes.len() >= BLOCK_BYTES {
                    let (block, rest) = bytes.split_at(BLOCK_BYTES);
                    into.push(checksum(block));
                    bytes = rest;
                    continue;
                }
                let (part, rest) = bytes.split_at(bytes.len().min(BLOCK_BYTES - filled));
                running.update(part);
                filled += part.len();
                bytes = rest;
                if filled == BLOCK_BYTES {
                    into.push(running.finish());
                    (running, filled) = (RunningChecksum::new(), 0);
                }
            }
        }
    }
}

/// The bytes of a stretch of an operation that has ended, or has not begun.
pub(crate) fn bytes(stretch: &libc::iovec) -> &[u8] {
    // SAFETY: stretches are made from memory of the driver's buffers, which outlives the operation; the kernel does
    // not write to it, because the operation has ended or has not begun.
    unsafe { std::slice::from_raw_parts(stretch.iov_base.cast::<u8>(), stretch.iov_len) }
}

pub(crate) fn bytes_mut(stretch: &mut libc::iovec) -> &mut [u8] {
    // SAFETY: as for `bytes`; the engine does not let two operations in flight write to the same memory.
    unsafe { std::slice::from_raw_parts_mut(stretch.iov_base.cast::<u8>(), stretch.iov_len) }
}

fn repeat(stretch: libc::iovec, left: u64, into: &mut Vec<libc::iovec>) {
    into.clear();
    let each = u64::try_from(stretch.iov_len).expect("memory has at most 64 bits");
    let lengths = (0..ZERO_STRETCHES_MAX).map(|number| left.saturating_sub(number * each).min(each));
    for length in lengths.take_while(|length| *length > 0) {
        let iov_len = usize::try_from(length).expect("a part of a stretch");
        into.push(libc::iovec { iov_base: stretch.iov_base, iov_len });
    }
}

fn skip(list: &[libc::iovec], done: u64, into: &mut Vec<libc::iovec>) {
    into.clear();
    let mut left = usize::try_from(done).expect("operations lie in memory");
    for stretch in list {
        let skipped = left.min(stretch.iov_len);
        left -= skipped;
        if skipped < stretch.iov_len {
            let start = stretch.iov_base.cast::<u8>().wrapping_add(skipped);
            into.push(libc::iovec { iov_base: start.cast(), iov_len: stretch.iov_len - skipped });
        }
    }
}

fn device_error(errno: i32) -> DeviceError {
    match errno {
        libc::ENODEV | libc::ENXIO | libc::ENOMEDIUM => DeviceError::Gone,
        libc::ENOSPC | libc::EDQUOT => DeviceError::NoSpace,
        libc::EOPNOTSUPP | libc::ENOSYS | libc::ENOTTY => DeviceError::Unsupported,
        _ => DeviceError::Io,
    }
}
