//! Load on a vhost-user-blk device without a virtual machine: this process is the driver of its queues.
//! Prints one line of JSON.
//!
//! `guest_load SOCKET --depth 32 --queues 1 --seconds 5 [--write] [--no-event-idx] [--poll] [--server PID] [--size BYTES]`
#![expect(clippy::unwrap_used, reason = "a tool for measurements")]

use std::fs::File;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use clap::Parser;
use hdrhistogram::Histogram;
use rustix::event::{PollFd, PollFlags, poll};
use serde_json::json;
use virtio_driver::{
    VhostUser, VirtioBlkConfig, VirtioBlkFeatureFlags, VirtioBlkQueue, VirtioBlkReqBuf, VirtioBlkTransport,
    VirtioFeatureFlags,
};
use vm_memory::{FileOffset, MmapRegion};

const BLOCK: usize = 4096;
/// The kernel counts processor time in hundredths of a second.
const TICKS: f64 = 100.0;

/// 4 KiB random reads (or writes) over vhost-user
#[derive(Parser)]
struct Arguments {
    /// The device's socket
    socket: PathBuf,
    /// Requests in flight in each queue
    #[arg(long, default_value_t = 32)]
    depth: usize,
    #[arg(long, default_value_t = 1)]
    queues: usize,
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
    #[arg(long)]
    write: bool,
    #[arg(long)]
    no_event_idx: bool,
    /// Poll the rings all the time and suppress interrupts
    #[arg(long)]
    poll: bool,
    /// Process with the counted processor time
    #[arg(long)]
    server: Option<u32>,
    /// Bytes of the disk that are used [default: all]
    #[arg(long)]
    size: Option<u64>,
}

struct Counts {
    requests: u64,
    kicks: u64,
    waits: u64,
    latency: Histogram<u64>,
}

fn main() {
    let arguments = Arguments::parse();
    let event_idx = match arguments.no_event_idx {
        true => VirtioFeatureFlags::empty(),
        false => VirtioFeatureFlags::RING_EVENT_IDX,
    };
    let block = VirtioBlkFeatureFlags::MQ | VirtioBlkFeatureFlags::FLUSH;
    let features = (event_idx | VirtioFeatureFlags::VERSION_1).bits() | block.bits();
    let path = arguments.socket.to_str().unwrap();
    let mut transport: Box<VirtioBlkTransport> =
        Box::new(VhostUser::<VirtioBlkConfig, VirtioBlkReqBuf>::new(path, features).unwrap());
    let capacity = u64::from(transport.get_config().unwrap().capacity) * 512;
    let blocks = arguments.size.unwrap_or(capacity).min(capacity) / 4096;
    let ring = u16::try_from((arguments.depth * 4).next_power_of_two().clamp(128, 1024)).unwrap();
    let queues = VirtioBlkQueue::setup_queues(&mut *transport, arguments.queues, ring).unwrap();
    let memory = shared(&mut *transport, arguments.queues * arguments.depth * BLOCK);
    let (base, transport) = (memory.as_ptr().addr(), &*transport);
    let before = (cpu("self"), arguments.server.map(|pid| cpu(&pid.to_string())));
    let start = Instant::now();
    let counts: Vec<Counts> = thread::scope(|scope| {
        let run = |(index, queue)| {
            let start = base + index * arguments.depth * BLOCK;
            let arguments = &arguments;
            scope.spawn(move || load(transport, arguments, queue, index, (start, blocks)))
        };
        let threads: Vec<_> = queues.into_iter().enumerate().map(run).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let seconds = start.elapsed().as_secs_f64();
    let after = (cpu("self"), arguments.server.map(|pid| cpu(&pid.to_string())));
    report(
        &counts,
        seconds,
        (after.0 - before.0, after.1.zip(before.1).map(|(after, before)| after - before)),
    );
}

fn shared(transport: &mut VirtioBlkTransport, length: usize) -> MmapRegion {
    let fd = rustix::fs::memfd_create("guest", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    let file = File::from(fd);
    file.set_len(length as u64).unwrap();
    let raw = file.as_raw_fd();
    let memory = MmapRegion::from_file(FileOffset::new(file.try_clone().unwrap(), 0), length).unwrap();
    transport.map_mem_region(memory.as_ptr().addr(), length, raw, 0).unwrap();
    memory
}

type Queue = VirtioBlkQueue<'static, (usize, Instant)>;

/// Keeps a queue full until the time is over.
fn load(
    transport: &VirtioBlkTransport,
    arguments: &Arguments,
    mut queue: Queue,
    index: usize,
    (base, blocks): (usize, u64),
) -> Counts {
    let (kick, call) = (transport.get_submission_notifier(index), transport.get_completion_fd(index));
    let mut counts = Counts { requests: 0, kicks: 0, waits: 0, latency: Histogram::new(3).unwrap() };
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(index as u64 + 1);
    let mut submit = |queue: &mut Queue, slot: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        let (offset, buffer) =
            (seed % blocks * 4096, std::ptr::with_exposed_provenance_mut(base + slot * BLOCK));
        let context = (slot, Instant::now());
        let done = if arguments.write {
            // SAFETY: the buffer is mapped, has the length of a block, and belongs to this slot alone.
            unsafe { queue.write_raw(offset, buffer, BLOCK, context) }
        } else {
            // SAFETY: as for the write: the buffer is mapped, has the length of a block, and belongs to this slot alone.
            unsafe { queue.read_raw(offset, buffer, BLOCK, context) }
        };
        done.unwrap();
    };
    queue.set_used_notif_enabled(!arguments.poll);
    let end = Instant::now() + Duration::from_secs_f64(arguments.seconds);
    (0..arguments.depth).for_each(|slot| submit(&mut queue, slot));
    let mut left = arguments.depth;
    let mut fresh = true;
    while left > 0 {
        if std::mem::take(&mut fresh) && queue.avail_notif_needed() {
            kick.notify().unwrap();
            counts.kicks += 1;
        }
        while arguments.poll && !queue.completions().has_next() {
            std::hint::spin_loop();
        }
        if !queue.completions().has_next() {
            // SAFETY: the descriptor is open as long as `call` lives.
            let fd = unsafe { BorrowedFd::borrow_raw(call.as_raw_fd()) };
            poll(&mut [PollFd::from_borrowed_fd(fd, PollFlags::IN)], None).unwrap();
            let _ = call.read();
            counts.waits += 1;
        }
        let done: Vec<(usize, Instant)> = queue
            .completions()
            .map(|completion| {
                assert_eq!(completion.ret, 0, "a request failed");
                completion.context
            })
            .collect();
        counts.requests += done.len() as u64;
        let now = Instant::now();
        for (slot, began) in done {
            counts.latency.record(u64::try_from(now.duration_since(began).as_nanos()).unwrap()).unwrap();
            if now < end {
                submit(&mut queue, slot);
                fresh = true;
            } else {
                left -= 1;
            }
        }
    }
    counts
}

fn report(counts: &[Counts], seconds: f64, (client, server): (f64, Option<f64>)) {
    let mut latency = Histogram::<u64>::new(3).unwrap();
    counts.iter().for_each(|count| latency.add(&count.latency).unwrap());
    let sum = |of: fn(&Counts) -> u64| counts.iter().map(of).sum::<u64>() as f64;
    let requests = sum(|count| count.requests);
    let micros = |quantile: f64| latency.value_at_quantile(quantile) as f64 / 1e3;
    let line = json!({
        "iops": requests / seconds,
        "p50_us": micros(0.5),
        "p99_us": micros(0.99),
        "kicks_per_request": sum(|count| count.kicks) / requests,
        "waits_per_request": sum(|count| count.waits) / requests,
        "client_cpu_us": client * 1e6 / requests,
        "server_cpu_us": server.map(|server| server * 1e6 / requests),
    });
    println!("{line}");
}

/// Seconds of processor time that a process has used.
fn cpu(process: &str) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    (fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap()) / TICKS
}
