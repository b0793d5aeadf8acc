//! A driver that is not ours: the `virtio-driver` crate.

use virtio_driver::{
    VhostUser, VirtioBlkConfig, VirtioBlkFeatureFlags, VirtioBlkQueue, VirtioBlkReqBuf, VirtioBlkTransport,
    VirtioFeatureFlags,
};
use vm_memory::{FileOffset, MmapRegion};

use crate::daemon::Spec;
use crate::need_kickcache;
use crate::scratch::{MIB, Scratch};

const BLOCK: usize = 4096;
const DEPTH: usize = 16;
const QUEUES: usize = 2;

struct Driver {
    transport: Box<VirtioBlkTransport>,
    queues: Vec<VirtioBlkQueue<'static, usize>>,
    memory: MmapRegion,
}

impl Driver {
    fn connect(path: &str, features: VirtioFeatureFlags) -> Driver {
        let block = VirtioBlkFeatureFlags::MQ | VirtioBlkFeatureFlags::FLUSH;
        let features = (features | VirtioFeatureFlags::VERSION_1).bits() | block.bits();
        let mut transport: Box<VirtioBlkTransport> =
            Box::new(VhostUser::<VirtioBlkConfig, VirtioBlkReqBuf>::new(path, features).unwrap());
        let queues = VirtioBlkQueue::setup_queues(&mut *transport, QUEUES, 256).unwrap();
        let length = QUEUES * DEPTH * BLOCK;
        let file = tempfile::tempfile().unwrap();
        file.set_len(length as u64).unwrap();
        let fd = std::os::fd::AsRawFd::as_raw_fd(&file);
        let memory = MmapRegion::from_file(FileOffset::new(file.try_clone().unwrap(), 0), length).unwrap();
        transport.map_mem_region(memory.as_ptr().addr(), length, fd, 0).unwrap();
        Driver { transport, queues, memory }
    }

    fn buffer(&self, queue: usize, slot: usize) -> &'static mut [u8] {
        let start = self.memory.as_ptr().wrapping_add((queue * DEPTH + slot) * BLOCK);
        // SAFETY: the memory is mapped as long as the driver lives, and each slot has one request.
        unsafe { std::slice::from_raw_parts_mut(start, BLOCK) }
    }

    /// Returns the number of interrupts waited for.
    fn finish(&mut self, queue: usize, count: usize) -> usize {
        self.queues[queue].set_used_notif_enabled(true);
        if self.queues[queue].avail_notif_needed() {
            self.transport.get_submission_notifier(queue).notify().unwrap();
        }
        let call = self.transport.get_completion_fd(queue);
        let (mut left, mut waits) = (count, 0);
        while left > 0 {
            if !self.queues[queue].completions().has_next() {
                use rustix::event::{PollFd, PollFlags, Timespec, poll};
                let limit = Timespec { tv_sec: 20, tv_nsec: 0 };
                // SAFETY: the descriptor is open as long as `call` lives.
                let fd =
                    unsafe { std::os::fd::BorrowedFd::borrow_raw(std::os::fd::AsRawFd::as_raw_fd(&*call)) };
                let ready = poll(&mut [PollFd::from_borrowed_fd(fd, PollFlags::IN)], Some(&limit)).unwrap();
                assert!(ready > 0, "a request hangs");
                let _ = call.read();
                waits += 1;
            }
            for completion in self.queues[queue].completions() {
                assert_eq!(completion.ret, 0);
                left -= 1;
            }
        }
        waits
    }
}

#[test]
fn the_crate_reads_back_its_writes() {
    need_kickcache!();
    for features in [VirtioFeatureFlags::empty(), VirtioFeatureFlags::RING_EVENT_IDX] {
        let scratch = Scratch::new();
        let mut spec = Spec::new(&scratch, &scratch.sparse("origin", 16 * MIB), "write-back", "32M");
        let socket = spec.dir.join("guest.sock");
        spec.extra.extend(["--vhost-user".into(), socket.clone().into()]);
        let daemon = spec.start();
        let mut driver = Driver::connect(socket.to_str().unwrap(), features);
        for round in 0..40_usize {
            for queue in 0..QUEUES {
                let place = |slot: usize| (((round * QUEUES + queue) * DEPTH + slot) * BLOCK) as u64;
                for slot in 0..DEPTH {
                    driver.buffer(queue, slot).fill(u8::try_from((round + slot) % 251).unwrap());
                    let buffer = driver.buffer(queue, slot);
                    driver.queues[queue].write(place(slot), buffer, slot).unwrap();
                }
                driver.finish(queue, DEPTH);
                driver.queues[queue].flush(0).unwrap();
                driver.finish(queue, 1);
                for slot in 0..DEPTH {
                    driver.buffer(queue, slot).fill(0xff);
                    let buffer = driver.buffer(queue, slot);
                    driver.queues[queue].read(place(slot), buffer, slot).unwrap();
                }
                driver.finish(queue, DEPTH);
                for slot in 0..DEPTH {
                    let expected = u8::try_from((round + slot) % 251).unwrap();
                    assert!(driver.buffer(queue, slot).iter().all(|byte| *byte == expected));
                }
            }
        }
        drop(driver);
        daemon.stop();
    }
}
