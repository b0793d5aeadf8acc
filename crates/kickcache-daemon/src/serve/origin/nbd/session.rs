//! The thread of a remote origin: it sends, receives, and finds the server again when it was lost.
//!
//! Invariants:
//! * The loss of any connection counts for all: writes that the server acknowledged and did not flush may be
//!   lost.
//! * A loss is reported after all completions of the old server and before the first completion of the new
//!   one.
//! * A job ends once. A job that was in flight at a loss begins again with all of its requests, except a
//!   query for extents, which ends.
//! * After a loss, a server is used only if it has the samples of the blocks that the cache recorded as
//!   flushed at the origin ([`Comparison`]); a writable export without flushes has no samples.
//! * A server counts as lost by its socket, by an invalid reply or ESHUTDOWN, or by order if its volume is being
//!   removed, never by the time of an answer.
//! * This thread waits for sockets only: connecting to a server is done on a thread of its own
//!   ([`connect_thread`](super::connect_thread)).
//! * The time limit of a job counts from the first loss that it met, however many servers were lost since.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kickcache_engine::samples::Sample;
use kickcache_nbd::client::{ClientError, NbdErrno, Reply};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::comparison::{Comparison, Progress};
use super::connect_thread::{ConnectThread, dial_beside};
use super::exchange::{Device, Exchange, Order};
use super::facts::Facts;
use super::job::{OriginJob, Work};
use super::links::{Links, Part};
use super::outage::{Outage, Pace};
use super::outage_log::OutageLog;
use super::outcome::Outcome;
use super::server_fault::{ServerFault, cause};
use crate::driver::clock::{WatchedTime, missed};
use crate::driver::queued_device::DeviceExtent;
use crate::plan::nbd_uri::NbdUri;

pub(super) struct Settings {
    pub(super) volume: String,
    pub(super) uri: NbdUri,
    pub(super) facts: Facts,
    /// How long jobs wait for a server: from the start of an outage, and for each job from its first loss of
    /// a server.
    pub(super) timeout: Duration,
    /// The longest wait for one answer of a handshake.
    pub(super) patience: Duration,
}

pub(super) struct Session {
    settings: Settings,
    exchange: Arc<Exchange>,
    links: Option<Links>,
    outage: Option<Outage>,
    pace: Pace,
    dialling: ConnectThread,
    /// A server that may succeed the lost one.
    comparison: Option<Comparison>,
    /// The sum of the times in which the process did not run since the thread began.
    missed: Duration,
    /// Samples of the expected contents of the next server.
    samples: Vec<Sample>,
    /// Losses without samples from the engine so far; while it is above 0, no connection is tried.
    samples_owed: u32,
    /// The jobs in the order of arrival.
    jobs: BTreeMap<u64, OriginJob>,
    next_job: u64,
    parts: HashMap<u64, Part>,
    next_cookie: u64,
    outcomes: Vec<Outcome>,
    log: OutageLog,
}

impl Session {
    pub(super) fn new(settings: Settings, exchange: Arc<Exchange>) -> Session {
        let Settings { volume, uri, timeout, .. } = &settings;
        let log = OutageLog::new(volume.clone(), uri.clone(), *timeout);
        Session {
            settings,
            exchange,
            links: None,
            outage: None,
            pace: Pace::default(),
            dialling: ConnectThread::No,
            comparison: None,
            missed: Duration::ZERO,
            samples: Vec::new(),
            samples_owed: 0,
            jobs: BTreeMap::new(),
            next_job: 0,
            parts: HashMap::new(),
            next_cookie: 0,
            outcomes: Vec::new(),
            log,
        }
    }

    pub(super) fn run(mut self) {
        let mut fresh = Vec::new();
        while self.exchange.take(&mut fresh) == Device::InUse {
            for order in fresh.drain(..) {
                match order {
                    Order::Use(links) => self.use_links(links),
                    Order::Do(job) => self.begin(job),
                    Order::Expect(samples) => {
                        self.samples = samples;
                        self.samples_owed = self.samples_owed.saturating_sub(1);
                    }
                    Order::GiveUp => self.give_up(),
                    Order::Dialled(links) => self.compare(links),
                }
            }
            self.look_after_outage();
            self.advance_comparison();
            if let Err(error) = self.transfer() {
                self.lose(&error);
            }
            self.exchange.deliver(&mut self.outcomes);
            self.log.tell_held_back();
            self.wait();
        }
        if let Some(links) = self.links {
            links.leave();
        }
    }

    fn begin(&mut self, job: OriginJob) {
        let is_away = self.links.is_none() && self.outage.is_some();
        let waits_for_nobody = matches!(job.work, Work::Extents(_));
        if is_away && (waits_for_nobody || self.outage.is_some_and(|outage| outage.is_over_limit)) {
            self.outcomes.push(job.outcome(Err(libc::EIO)));
            return;
        }
        let now = self.now();
        if let Some(outage) = self.outage.as_mut().filter(|_| self.jobs.is_empty() && self.links.is_some()) {
            outage.begin_to_count(now);
            self.exchange.note_limit(self.settings.timeout);
        }
        let number = self.next_job;
        self.next_job += 1;
        self.jobs.insert(number, job);
        if let Err(error) = self.ask(number) {
            self.lose(&error);
        }
    }

    /// A job that the server does not support ends at once.
    fn ask(&mut self, number: u64) -> Result<(), ClientError> {
        let Session { links: Some(links), jobs, parts, next_cookie, .. } = self else { return Ok(()) };
        let job = jobs.get_mut(&number).expect("it was just inserted, or is repeated");
        if !links.can_do(&job.work) {
            let result = if matches!(job.work, Work::Flush) { Ok(()) } else { Err(libc::EOPNOTSUPP) };
            self.outcomes.extend(jobs.remove(&number).map(|job| job.outcome(result)));
            return Ok(());
        }
        links.queue(number, job, |part| note(parts, next_cookie, part))
    }

    fn transfer(&mut self) -> Result<(), ClientError> {
        let count = self.links.as_ref().map_or(0, |links| links.links.len());
        for number in 0..count {
            self.receive(number)?;
        }
        for link in self.links.iter_mut().flat_map(|links| &mut links.links) {
            link.sender.try_send()?;
        }
        Ok(())
    }

    fn receive(&mut self, number: usize) -> Result<(), ClientError> {
        let Some(links) = &mut self.links else { return Ok(()) };
        let mut ended = Vec::new();
        while let Some(reply) = links.links[number].receiver.try_receive()? {
            if reply.result == Err(NbdErrno::Shutdown) {
                return Err(ClientError::Request(NbdErrno::Shutdown));
            }
            // The cookie is known, since the receiver refuses cookies that are not in flight.
            let Some(part) = self.parts.remove(&reply.cookie) else { continue };
            let Some(job) = self.jobs.get_mut(&part.job) else { continue };
            take_part(job, part, &reply);
            if job.parts == 0 {
                ended.push(part.job);
            }
        }
        for number in ended {
            self.finish(number)?;
        }
        Ok(())
    }

    /// Ends a job, as all of its requests have been answered, unless it still needs a flush, which is queued.
    fn finish(&mut self, number: u64) -> Result<(), ClientError> {
        let Session { links: Some(links), jobs, parts, next_cookie, .. } = self else { return Ok(()) };
        let job = jobs.get_mut(&number).expect("it has just been answered");
        let is_well = job.error.is_none();
        if is_well && links.queue_flush(number, job, |part| note(parts, next_cookie, part))? {
            return Ok(());
        }
        let job = jobs.remove(&number).expect("it was there");
        let result = job.error.map_or(Ok(()), Err);
        self.outcomes.push(job.outcome(result));
        self.end_outage();
        if self.pace.is_cautious() && self.jobs.values().all(|job| job.lost_at.is_none()) {
            self.pace = Pace::default();
        }
        Ok(())
    }

    /// Closes all connections after the loss of one.
    fn lose(&mut self, error: &ClientError) {
        self.links = None;
        self.parts.clear();
        self.outcomes.push(Outcome::Restarted);
        self.samples_owed += 1;
        // New samples arrive from the engine once it has handled this loss.
        self.samples.clear();
        self.end_questions();
        let now = self.now();
        self.jobs.values_mut().for_each(|job| job.start_again(now));
        match &mut self.outage {
            Some(outage) => outage.try_later(now),
            None => {
                let why = cause(error);
                self.log.lost(&why);
                self.outage = Some(Outage::begin(now, self.pace));
                self.exchange.note_away(why, self.settings.timeout);
            }
        }
    }

    fn look_after_outage(&mut self) {
        let now = self.now();
        let Some(outage) = self.outage.as_mut().filter(|_| self.links.is_none()) else { return };
        let is_free =
            self.samples_owed == 0 && self.comparison.is_none() && self.dialling == ConnectThread::No;
        let is_over = !outage.is_over_limit && outage.lasts(now) >= self.settings.timeout;
        outage.is_over_limit |= is_over;
        if is_free && outage.is_due(now) {
            self.connect();
        }
        if is_over {
            self.log.over_limit();
            let ended = std::mem::take(&mut self.jobs).into_values();
            self.outcomes.extend(ended.map(|job| job.outcome(Err(libc::EIO))));
        }
        self.end_fatal(now);
    }

    /// Abandons the server, unless it is connected and no job waits.
    fn give_up(&mut self) {
        if self.links.is_some() && !self.jobs.is_empty() {
            self.lose(&ClientError::Io(io::Error::other(
                "it does not respond, and its volume is being removed",
            )));
        }
        if let Some(outage) = self.outage.as_mut().filter(|_| self.links.is_none()) {
            outage.is_over_limit = true;
            self.exchange.note_limit(Duration::ZERO);
            let ended = std::mem::take(&mut self.jobs).into_values();
            self.outcomes.extend(ended.map(|job| job.outcome(Err(libc::EIO))));
        }
    }

    /// Fails jobs that did not end within the time limit after their first loss.
    fn end_fatal(&mut self, now: Instant) {
        let timeout = self.settings.timeout;
        let is_over = |job: &mut OriginJob| job.lost_at.is_some_and(|lost| now >= lost + timeout);
        let before = self.outcomes.len();
        let ended = self.jobs.extract_if(.., |_, job| is_over(job));
        self.outcomes.extend(ended.map(|(_, job)| job.outcome(Err(libc::EIO))));
        let count = self.outcomes.len() - before;
        if count > 0 {
            self.log.fatal(count);
        }
    }

    /// Ends queries for extents: the answer is that no extents are known.
    fn end_questions(&mut self) {
        let asked = self.jobs.extract_if(.., |_, job| matches!(job.work, Work::Extents(_)));
        self.outcomes.extend(asked.map(|(_, job)| job.outcome(Err(libc::EIO))));
    }

    fn connect(&mut self) {
        let Settings { uri, patience, .. } = &self.settings;
        match dial_beside(uri, *patience, &self.exchange) {
            Ok(()) => self.dialling = ConnectThread::Yes,
            Err(error) => self.turn_down(ServerFault::Away(format!("no thread can be started: {error}"))),
        }
    }

    fn compare(&mut self, dialled: Result<Links, ClientError>) {
        self.dialling = ConnectThread::No;
        let links = dialled.map_err(|error| ServerFault::from(&error));
        let links = links.and_then(|links| match self.settings.facts.difference(&links.export) {
            None => Ok(links),
            Some(difference) => Err(ServerFault::Wrong(difference)),
        });
        let patience = self.settings.patience;
        let begin = |links| {
            Comparison::begin(links, &self.samples, patience).map_err(|error| ServerFault::from(&error))
        };
        let comparison = links.and_then(begin);
        match comparison {
            Ok(comparison) => self.comparison = Some(comparison),
            Err(why) => self.turn_down(why),
        }
    }

    fn advance_comparison(&mut self) {
        let Some(comparison) = &mut self.comparison else { return };
        let progress = comparison.advance();
        if matches!(progress, Ok(Progress::Waiting)) {
            return;
        }
        let Some(comparison) = self.comparison.take() else { return };
        let verdict = match progress {
            Ok(_) => comparison.verdict().map_err(ServerFault::Wrong),
            Err(error) => Err(ServerFault::from(&error)),
        };
        match verdict {
            Ok(links) => self.use_links(links),
            Err(why) => self.turn_down(why),
        }
    }

    fn turn_down(&mut self, why: ServerFault) {
        self.exchange.note_why(why.why());
        self.log.unusable(why);
        let now = self.now();
        self.outage.iter_mut().for_each(|outage| outage.try_later(now));
    }

    fn use_links(&mut self, links: Links) {
        self.links = Some(links);
        let waiting: Vec<u64> = self.jobs.keys().copied().collect();
        if waiting.is_empty() {
            self.end_outage();
        }
        for number in waiting {
            if let Err(error) = self.ask(number) {
                return self.lose(&error);
            }
        }
    }

    /// Ends the outage: a server answers, or no job waits for one.
    fn end_outage(&mut self) {
        if let Some(outage) = self.outage.take() {
            self.exchange.note_back();
            let now = self.now();
            self.log.back(outage.lasts(now));
            self.pace = outage.pace_after(now);
        }
    }

    /// The present time, without the time in which the process did not run.
    fn now(&self) -> Instant {
        Instant::now().checked_sub(self.missed).unwrap_or_else(Instant::now)
    }

    fn wait(&mut self) {
        let begun = Instant::now();
        let wait = self.poll();
        self.missed += missed(wait, begun.elapsed());
    }

    /// Waits for something to do; returns the limit of the wait, if it has one.
    fn poll(&self) -> Option<Duration> {
        let mut fds = vec![PollFd::new(&self.exchange.to_thread, PollFlags::IN)];
        for link in self.links.iter().flat_map(|links| &links.links) {
            let out = if link.sender.queued() > 0 { PollFlags::OUT } else { PollFlags::empty() };
            fds.push(PollFd::new(&link.receiver, PollFlags::IN | out));
        }
        fds.extend(self.comparison.iter().map(Comparison::poll_fd));
        let span = [self.until_outage_needs_something(), self.log.until_due()].into_iter().flatten().min();
        let span = span.map(|span| (span + Duration::from_millis(1)).min(WatchedTime::LOOK_MAX));
        let timeout = span.and_then(|span| Timespec::try_from(span).ok());
        // An interrupted wait is no error, as all conditions are checked again.
        let _ = poll(&mut fds, timeout.as_ref());
        span
    }

    fn until_outage_needs_something(&self) -> Option<Duration> {
        let outage = self.outage.filter(|_| self.links.is_none())?;
        let (now, limit) = (self.now(), self.settings.timeout);
        let waits_for_others =
            self.comparison.is_some() || self.samples_owed > 0 || self.dialling == ConnectThread::Yes;
        let span =
            if waits_for_others { outage.until_limit(now, limit) } else { Some(outage.wait(now, limit)) };
        let first = self.jobs.values().filter_map(|job| job.lost_at).min();
        let until_fatal = first.map(|lost| (lost + limit).saturating_duration_since(now));
        [span, until_fatal].into_iter().flatten().min()
    }
}

fn take_part(job: &mut OriginJob, part: Part, reply: &Reply<'_>) {
    job.parts -= 1;
    if let Err(errno) = reply.result {
        job.error.get_or_insert_with(|| system_errno(errno));
        return;
    }
    let start = usize::try_from(part.start).expect("reads fit into memory");
    if !reply.data.is_empty() {
        job.data[start..start + reply.data.len()].copy_from_slice(reply.data);
    }
    let told = reply.extents.iter();
    job.extents.extend(told.map(|found| DeviceExtent {
        length: found.length,
        is_hole: found.hole,
        is_zero: found.zero,
    }));
}

fn note(parts: &mut HashMap<u64, Part>, next_cookie: &mut u64, part: Part) -> u64 {
    *next_cookie += 1;
    parts.insert(*next_cookie, part);
    *next_cookie
}

fn system_errno(errno: NbdErrno) -> i32 {
    match errno {
        NbdErrno::NoSpace => libc::ENOSPC,
        NbdErrno::NotSupported => libc::EOPNOTSUPP,
        NbdErrno::Invalid => libc::EINVAL,
        NbdErrno::NotPermitted
        | NbdErrno::Io
        | NbdErrno::NoMemory
        | NbdErrno::Overflow
        | NbdErrno::Shutdown => libc::EIO,
    }
}
