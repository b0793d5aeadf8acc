//! The built-in load: one thread, one connection a job, and the same number of requests in flight until the
//! end of the run.

use std::time::{Duration, Instant};

use anyhow::Context;
use kickcache_engine::units::BLOCK_SIZE;
use kickcache_nbd::client::{Client, ConnectOptions, Halves, Receiver, Sender};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::demo::content::Content;
use crate::demo::load::measure::JobMeasure;
use crate::demo::load::{Glance, Run, Watch};
use crate::demo::workload::JobLoad;

/// The longest sleep between two readings of the clock.
const PAUSE: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
const GLANCE_EVERY: Duration = Duration::from_millis(100);

/// Runs the load.
///
/// # Errors
/// If a connection or a request fails, a read returns wrong data, or the watch ends the run.
pub(crate) fn run(run: &Run<'_>, watch: Watch<'_>) -> anyhow::Result<Vec<JobMeasure>> {
    let mut jobs =
        run.jobs.iter().map(|load| JobConnection::connect(run, load)).collect::<Result<Vec<_>, _>>()?;
    let start = Instant::now();
    for job in &mut jobs {
        job.begin(start)?;
    }
    let mut glance_at = GLANCE_EVERY;
    while start.elapsed() < run.duration {
        for job in &mut jobs {
            job.turn(start, run)?;
        }
        let elapsed = start.elapsed();
        if elapsed >= glance_at {
            glance_at = elapsed + GLANCE_EVERY;
            let operations = jobs.iter().map(|job| job.measure.latencies.len()).sum();
            watch(Glance { elapsed, operations: Some(operations) })?;
        }
        wait(&jobs)?;
    }
    jobs.into_iter().map(JobConnection::finish).collect()
}

fn wait(jobs: &[JobConnection]) -> anyhow::Result<()> {
    let mut sockets: Vec<PollFd<'_>> =
        jobs.iter().map(|job| PollFd::new(&job.receiver, PollFlags::IN)).collect();
    match poll(&mut sockets, Some(&PAUSE)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[derive(Clone, Copy)]
struct Request {
    offset: u64,
    sent: Instant,
}

struct JobConnection {
    sender: Sender,
    receiver: Receiver,
    next_offset: Box<dyn FnMut() -> u64>,
    /// The requests in flight; a request's cookie is its place.
    requests: Vec<Request>,
    depth: usize,
    measure: JobMeasure,
}

impl JobConnection {
    fn connect(run: &Run<'_>, load: &JobLoad) -> anyhow::Result<JobConnection> {
        let options = ConnectOptions { export: run.export.into(), ..ConnectOptions::default() };
        let Halves { sender, receiver } =
            Client::connect_unix(run.socket, &options).context("the load cannot connect")?.split();
        Ok(JobConnection {
            sender,
            receiver,
            next_offset: Box::new(load.offsets()),
            requests: Vec::new(),
            depth: run.depth,
            measure: JobMeasure::new(),
        })
    }

    fn begin(&mut self, now: Instant) -> anyhow::Result<()> {
        for _ in 0..self.depth {
            let place = self.requests.len();
            self.requests.push(Request { offset: 0, sent: now });
            self.ask(place, now)?;
        }
        Ok(self.sender.send()?)
    }

    fn ask(&mut self, place: usize, now: Instant) -> anyhow::Result<()> {
        let offset = (self.next_offset)();
        self.requests[place] = Request { offset, sent: now };
        let cookie = u64::try_from(place).expect("few requests are in flight");
        Ok(self.sender.queue_read(cookie, offset, BLOCK_SIZE)?)
    }

    fn turn(&mut self, start: Instant, run: &Run<'_>) -> anyhow::Result<()> {
        while let Some(place) = self.take_reply(start, run)? {
            self.ask(place, Instant::now())?;
        }
        if self.sender.queued() > 0 {
            self.sender.send()?;
        }
        Ok(())
    }

    fn take_reply(&mut self, start: Instant, run: &Run<'_>) -> anyhow::Result<Option<usize>> {
        let Some(reply) = self.receiver.try_receive().context("a run lost its connection")? else {
            return Ok(None);
        };
        let place = usize::try_from(reply.cookie).expect("the client checks the cookie");
        let request = self.requests[place];
        if let Err(errno) = reply.result {
            anyhow::bail!("a read at {} failed: {}", request.offset, errno.text());
        }
        check(run.content, request.offset, reply.data)?;
        let now = Instant::now();
        if now - start < run.duration {
            self.measure.record(now - start, now - request.sent);
        }
        Ok(Some(place))
    }

    /// Takes the last replies, so that the server has no request left.
    fn finish(mut self) -> anyhow::Result<JobMeasure> {
        while self.sender.in_flight() > 0 {
            self.receiver.receive()?;
        }
        self.sender.send_disconnect()?;
        Ok(self.measure)
    }
}

fn check(content: Content, offset: u64, data: &[u8]) -> anyhow::Result<()> {
    if !content.fits(offset / BLOCK_SIZE, data) {
        anyhow::bail!("the read at byte {offset} brought other data than that block holds: please report it");
    }
    Ok(())
}
