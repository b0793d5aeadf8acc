//! A guest without a virtual machine: this process drives the queues of a vhost-user-blk device, and keeps
//! them when the daemon dies.

mod queue;

use std::fs::File;
use std::io::Read;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{MemfdFlags, memfd_create};
use vhost::vhost_user::message::{VhostUserConfigFlags, VhostUserInflight};
use vhost::vhost_user::{Frontend, VhostUserFrontend, VhostUserProtocolFeatures};
use vhost::{VhostBackend, VhostUserMemoryRegionInfo};
use vm_memory::{Bytes, FileOffset, GuestAddress, GuestMemoryMmap};

pub(crate) use self::queue::CompletedRequest;
use self::queue::Queue;

/// Of a queue.
pub(crate) const SLOTS: u16 = 128;
/// Of a request.
pub(crate) const PAYLOAD: u64 = 64 << 10;

/// The address of the memory in the front end; the memory starts at guest address 0.
const USER: u64 = 0x5000_0000;
const DATA: u64 = 1 << 20;
const START_TIME_MAX: Duration = Duration::from_secs(20);

pub(crate) const EVENT_IDX: u64 = 1 << 29;
pub(crate) const READ: u32 = 0;
pub(crate) const WRITE: u32 = 1;
pub(crate) const FLUSH: u32 = 4;
pub(crate) const GET_ID: u32 = 8;
pub(crate) const DISCARD: u32 = 11;
pub(crate) const ZEROES: u32 = 13;

/// VERSION_1, protocol features, and FLUSH, CONFIG_WCE, MQ, DISCARD, WRITE_ZEROES.
const FEATURES: u64 = 1 << 32 | 1 << 30 | 1 << 9 | 1 << 11 | 1 << 12 | 1 << 13 | 1 << 14;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Cut {
    Payload,
    All,
}

pub(crate) struct Guest {
    path: PathBuf,
    features: u64,
    ram: GuestMemoryMmap,
    file: File,
    queues: Vec<Queue>,
    inflight: Option<(VhostUserInflight, File)>,
    /// For changes that the device reports.
    channel: Option<UnixStream>,
    front: Option<Frontend>,
}

impl Guest {
    /// Over a socket that is connected already.
    pub(crate) fn over(stream: UnixStream, queues: u16) -> Guest {
        let mut guest = Guest::new(Path::new(""), queues, 0);
        guest.front = Some(Frontend::from_stream(stream, 16));
        guest.set_up();
        guest
    }

    /// `extra` features are requested in addition to the usual ones.
    pub(crate) fn connect(path: &Path, queues: u16, extra: u64) -> Guest {
        let mut guest = Guest::new(path, queues, extra);
        guest.reconnect();
        guest
    }

    fn new(path: &Path, queues: u16, extra: u64) -> Guest {
        let bytes = DATA + u64::from(queues) * u64::from(SLOTS) * PAYLOAD;
        let file = File::from(memfd_create("guest", MemfdFlags::CLOEXEC).unwrap());
        file.set_len(bytes).unwrap();
        let whole = (
            GuestAddress(0),
            usize::try_from(bytes).unwrap(),
            Some(FileOffset::new(file.try_clone().unwrap(), 0)),
        );
        let ram = GuestMemoryMmap::from_ranges_with_files([whole]).unwrap();
        let queues = (0..queues).map(|index| Queue::new(index, extra & EVENT_IDX != 0)).collect();
        let features = FEATURES | extra;
        Guest { path: path.into(), features, ram, file, queues, inflight: None, channel: None, front: None }
    }

    /// Connects again, with the requests in flight; waits for a daemon that starts.
    pub(crate) fn reconnect(&mut self) {
        self.front = None;
        let start = Instant::now();
        let front = loop {
            match Frontend::connect(&self.path, 16) {
                Ok(front) => break front,
                Err(error) => assert!(start.elapsed() < START_TIME_MAX, "nobody serves a guest: {error}"),
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        self.front = Some(front);
        self.set_up();
    }

    pub(crate) fn disconnect(&mut self) {
        self.front = None;
    }

    fn set_up(&mut self) {
        let front = self.front.as_mut().unwrap();
        front.set_owner().unwrap();
        let offered = front.get_features().unwrap();
        front.set_features(offered & self.features).unwrap();
        let protocol = front.get_protocol_features().unwrap();
        let wanted = VhostUserProtocolFeatures::MQ
            | VhostUserProtocolFeatures::REPLY_ACK
            | VhostUserProtocolFeatures::CONFIG
            | VhostUserProtocolFeatures::INFLIGHT_SHMFD
            | VhostUserProtocolFeatures::BACKEND_REQ;
        assert!(protocol.contains(wanted), "{protocol:?}");
        front.set_protocol_features(wanted).unwrap();
        front.set_hdr_flags(vhost::vhost_user::message::VhostUserHeaderFlag::NEED_REPLY);
        let (ours, theirs) = UnixStream::pair().unwrap();
        front.set_backend_request_fd(&theirs).unwrap();
        ours.set_nonblocking(true).unwrap();
        self.channel = Some(ours);
        let count = u16::try_from(self.queues.len()).unwrap();
        let inflight = self.inflight.get_or_insert_with(|| {
            front.get_inflight_fd(&VhostUserInflight::new(0, 0, count, queue::SIZE)).unwrap()
        });
        front.set_inflight_fd(&inflight.0, inflight.1.as_raw_fd()).unwrap();
        let region = VhostUserMemoryRegionInfo {
            guest_phys_addr: 0,
            memory_size: self.file.metadata().unwrap().len(),
            userspace_addr: USER,
            mmap_offset: 0,
            mmap_handle: self.file.as_raw_fd(),
        };
        front.set_mem_table(&[region]).unwrap();
        for (index, queue) in self.queues.iter().enumerate() {
            front.set_vring_num(index, queue::SIZE).unwrap();
            // QEMU sends the used index after a reconnect; the device must use its own record instead.
            front.set_vring_base(index, queue.used_index(&self.ram)).unwrap();
            front.set_vring_addr(index, &queue.addresses(USER)).unwrap();
            front.set_vring_call(index, &queue.call).unwrap();
            front.set_vring_kick(index, &queue.kick).unwrap();
            front.set_vring_enable(index, true).unwrap();
        }
    }

    /// The guest must be kicked after this. `data` is the payload of a write, or as long as a read.
    pub(crate) fn submit(&mut self, queue: u16, kind: u32, sector: u64, data: &[u8]) -> u16 {
        self.queues[usize::from(queue)].submit(&self.ram, kind, sector, data)
    }

    pub(crate) fn free_slots(&self, queue: u16) -> usize {
        self.queues[usize::from(queue)].free_slots()
    }

    pub(crate) fn kick(&mut self, queue: u16) {
        self.queues[usize::from(queue)].kick_if_wanted(&self.ram);
    }

    /// Requests that ended since the last call; waits for an interrupt if there are none, `None` if none
    /// arrives.
    pub(crate) fn wait(&mut self, queue: u16, limit: Duration) -> Option<Vec<CompletedRequest>> {
        self.queues[usize::from(queue)].wait(&self.ram, limit)
    }

    pub(crate) fn payload(&self, queue: u16, slot: u16, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        self.ram.read_slice(&mut bytes, queue::data(queue, slot)).unwrap();
        bytes
    }

    /// Executes one request and returns its status and the data of a read.
    pub(crate) fn run(&mut self, queue: u16, kind: u32, sector: u64, data: &[u8]) -> (u8, Vec<u8>) {
        let slot = self.submit(queue, kind, sector, data);
        self.kick(queue);
        let ended = self.wait(queue, Duration::from_secs(20)).expect("a request hangs");
        assert_eq!(ended.len(), 1);
        assert_eq!(ended[0].slot, slot);
        (ended[0].status, self.payload(queue, slot, data.len()))
    }

    pub(crate) fn enable(&mut self, queue: u16, on: bool) {
        self.front.as_mut().unwrap().set_vring_enable(queue.into(), on).unwrap();
    }

    /// Cuts the memory short where the payload begins, or at its start; an access to the removed memory would
    /// kill this process.
    pub(crate) fn cut_memory(&mut self, cut: Cut) {
        let left = match cut {
            Cut::Payload => DATA,
            Cut::All => 0,
        };
        self.file.set_len(left).unwrap();
    }

    /// Connects again, with memory for requests in flight that can be cut short.
    pub(crate) fn bring_own_inflight(&mut self) {
        let (message, _) = self.inflight.take().unwrap();
        let file = File::from(memfd_create("inflight", MemfdFlags::CLOEXEC).unwrap());
        file.set_len(message.mmap_size).unwrap();
        self.inflight = Some((message, file));
        self.reconnect();
    }

    pub(crate) fn cut_inflight(&mut self) {
        self.inflight.as_ref().unwrap().1.set_len(0).unwrap();
    }

    /// Without a check of the rings.
    pub(crate) fn kick_blindly(&mut self, queue: u16) {
        self.queues[usize::from(queue)].kick.write(1).unwrap();
    }

    pub(crate) fn wait_for_end(&mut self) {
        let start = Instant::now();
        while self.front.as_mut().unwrap().get_features().is_ok() {
            assert!(start.elapsed() < START_TIME_MAX, "the connection stays");
            std::thread::sleep(Duration::from_millis(5));
        }
        self.front = None;
    }

    pub(crate) fn config(&mut self) -> Vec<u8> {
        let (_, bytes) =
            self.front.as_mut().unwrap().get_config(0, 60, VhostUserConfigFlags::WRITABLE, &[0; 60]).unwrap();
        bytes
    }

    /// Since the last call.
    pub(crate) fn is_told_of_change(&mut self) -> bool {
        let mut message = [0; 12];
        match self.channel.as_mut().unwrap().read(&mut message) {
            Ok(length) => {
                // Request 2, version 1, no payload.
                assert_eq!((length, message), (12, [2, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]));
                true
            }
            Err(error) => {
                assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
                false
            }
        }
    }

    pub(crate) fn set_write_cache(&mut self, on: bool) {
        self.front.as_mut().unwrap().set_config(32, VhostUserConfigFlags::WRITABLE, &[on.into()]).unwrap();
    }

    /// As a guest that shuts down; returns the end of the ring.
    pub(crate) fn stop_queue(&mut self, queue: u16) -> u32 {
        self.front.as_mut().unwrap().get_vring_base(queue.into()).unwrap()
    }
}
