//! A whole run: lives of an engine, crashes between them, and the final check of the origins.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use kickcache_engine::config::{EngineSettings, Service, VolumeSettings};
use kickcache_engine::device::Device;
use kickcache_engine::engine::Engine;
use kickcache_engine::request::{Operation, Request, RequestId};
use kickcache_engine::stats::CacheHealth;
use kickcache_engine::time::{Duration, Instant, earlier};
use kickcache_engine::units::{ByteExtent, VolumeId};
use kickcache_random::Random;

use crate::content::{Block, Version};
use crate::device::SimulatedDevice;
use crate::drained::Drains;
use crate::growing::Growing;
use crate::host::{Devices, Host, Surroundings};
use crate::oracle::book::Tick;
use crate::oracle::write_content::WriteContent;
use crate::oracle::{Crash, FirstContent, Oracle};
use crate::payload::Payload;
use crate::plan::faults::Trouble;
use crate::plan::{Plan, PlanKind};
use crate::queue::{Event, Queue};
use crate::replacing::Replacing;
use crate::report::{Failure, Summary};
use crate::run::group_history::GroupHistory;
use crate::run_records::RunRecords;
use crate::setup::{cache_device, draw_filled, origin};
use crate::subject::Subject;
use crate::trace::{Printing, Trace};
use crate::workload::{Ask, Client};

/// Plays the run of a seed.
///
/// # Errors
/// The error that was found.
pub fn run_seed(seed: u64, plans: PlanKind) -> Result<Summary, Failure> {
    run_seed_printing(seed, plans, Printing::Silent)
}

/// Plays the run of a seed and prints its trace on request.
///
/// # Errors
/// As [`run_seed`].
pub fn run_seed_printing(seed: u64, plans: PlanKind, printing: Printing) -> Result<Summary, Failure> {
    run_subject::<Engine>(seed, plans, printing)
}

/// Plays the run of a seed with any implementation of the engine's interface.
fn run_subject<E: Subject>(seed: u64, plans: PlanKind, printing: Printing) -> Result<Summary, Failure> {
    let result = catch_unwind(AssertUnwindSafe(|| Simulation::new(seed, plans, printing).play::<E>()));
    match result {
        Ok(Ok(summary)) => Ok(summary),
        Ok(Err(what)) => Err(Failure { seed, plans, what }),
        Err(panic) => Err(Failure { seed, plans, what: format!("panic: {}", panic_text(panic.as_ref())) }),
    }
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default()
}

#[derive(Clone, Copy, Debug)]
struct Outstanding {
    ask: Ask,
    started: Tick,
    version: Version,
    issued: Instant,
    /// The client that waits; `None` for reads that verify.
    client: Option<usize>,
    /// The cache device was out of service when the request was issued.
    is_past_cache: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    Stop,
    Crash(Crash),
}

/// A run with more events than this counts as an endless loop.
const EVENTS_MAX: u64 = 5_000_000;
/// The longest simulated time of one step of a life.
const PATIENCE: Duration = Duration::from_millis(900_000);
/// More events than this at one point in time are a livelock.
const SAME_TIME_MAX: u64 = 100_000;

struct Simulation {
    plan: Plan,
    random: Random,
    trace: Trace,
    now: Instant,
    same_time: u64,
    queue: Queue,
    devices: Devices,
    oracle: Oracle,
    volumes: Vec<VolumeSettings>,
    served: Vec<bool>,
    clients: Vec<Client>,
    outstanding: BTreeMap<RequestId, Outstanding>,
    verify: Vec<(VolumeId, ByteExtent)>,
    next_id: u32,
    /// Requests that clients may still issue in this stretch of work.
    budget: u64,
    /// The cache device may be left out once fewer requests than this may still be issued; `None` if that has happened,
    /// or is not scheduled.
    abandoned_at: Option<u64>,
    faulty: bool,
    is_running: bool,
    /// A batch header has rotted, or a segment was zeroed, since the log was read back: recovery may refuse the log.
    has_rotted_header: bool,
    /// A block of the journal of this cache device has rotted: recovery may refuse the log.
    has_rotted_journal: bool,
    growing: Option<Growing>,
    replacing: Option<Replacing>,
    replacement_steps: u64,
    /// The device that was replaced last.
    retired: Option<SimulatedDevice>,
    /// A successor that did not take over.
    spare: Option<SimulatedDevice>,
    /// The cache device, while an engine runs without it.
    aside: Option<SimulatedDevice>,
    watched: RunRecords,
    drained: Drains,
    redo: Option<GroupHistory>,
    summary: Summary,
}

fn volume_id(number: usize) -> VolumeId {
    VolumeId::new(u8::try_from(number).expect("few volumes"))
}

impl Simulation {
    fn new(seed: u64, plans: PlanKind, printing: Printing) -> Simulation {
        let mut random = Random::new(seed);
        let plan = Plan::draw(plans, &mut random.split());
        let mut trace = Trace::new(printing);
        trace.record(Instant::ZERO, &[seed], || format!("{plan:#?}"));
        let mut content = random.split();
        let filled: Vec<Vec<bool>> =
            plan.origin_sizes.iter().map(|size| draw_filled(*size, &plan, &mut content)).collect();
        let origins = plan.origin_sizes.iter().zip(&filled).enumerate();
        let origins =
            origins.map(|(number, (size, filled))| origin(volume_id(number), *size, filled)).collect();
        let hot: Vec<u64> = plan.origin_sizes.iter().map(|size| random.below(size / 4096)).collect();
        let clients = (0..plan.clients).map(|_| Client::new(&plan, &hot, random.split())).collect();
        let cache = cache_device(&plan, &mut content);
        let contents = plan.origin_sizes.iter().zip(filled);
        let mut oracle =
            Oracle::new(contents.map(|(size, filled)| FirstContent { size: *size, filled }).collect());
        if !plan.faults.are_of_origins() || plan.abandoned.is_some() {
            oracle.be_lenient();
        }
        Simulation {
            volumes: plan.volumes.clone(),
            served: vec![true; plan.volumes.len()],
            random,
            trace,
            now: Instant::ZERO,
            same_time: 0,
            queue: Queue::default(),
            devices: Devices { cache, successor: None, redo: None, origins, noted: None },
            redo: plan.point_in_time.map(|_| GroupHistory::new(Random::new(seed))),
            oracle,
            clients,
            outstanding: BTreeMap::new(),
            verify: Vec::new(),
            next_id: 0,
            budget: 0,
            abandoned_at: None,
            faulty: false,
            is_running: false,
            has_rotted_header: false,
            has_rotted_journal: false,
            growing: None,
            replacing: None,
            spare: None,
            retired: None,
            replacement_steps: 0,
            aside: None,
            watched: RunRecords::new(plan.volumes.len()),
            drained: Drains::new(&plan.origin_sizes),
            summary: Summary::default(),
            plan,
        }
    }

    fn play<E: Subject>(mut self) -> Result<Summary, String> {
        self.format::<E>()?;
        self.format_redo();
        for _ in 1..self.plan.lives {
            let end = self.draw_end();
            self.live::<E>(end)?;
        }
        self.last_life::<E>()?;
        Ok(self.summarise())
    }

    fn summarise(mut self) -> Summary {
        self.summary.trace_hash = self.trace.hash();
        self.summary.events = self.trace.events();
        self.summary.nanos = self.now.as_nanos();
        self.summary
    }

    fn around(&mut self) -> Surroundings<'_> {
        Surroundings {
            now: self.now,
            devices: &mut self.devices,
            queue: &mut self.queue,
            trace: &mut self.trace,
            injected: &mut self.summary.injected,
            faulty: self.faulty,
            phase_is_running: self.is_running,
        }
    }

    fn note(&mut self, text: impl FnOnce() -> String) {
        self.trace.record(self.now, &[999], text);
    }

    fn format<E: Subject>(&mut self) -> Result<(), String> {
        let mut uuid = [0; 16];
        uuid[..8].copy_from_slice(&self.random.next_u64().to_le_bytes());
        uuid[8..].copy_from_slice(&self.random.next_u64().to_le_bytes());
        E::format(&mut self.devices.cache, uuid, &self.plan.origin_sizes)
    }

    fn open<E: Subject>(&mut self, service: Service) -> Result<Host<E>, String> {
        let served = self.volumes.iter().zip(&self.served).filter(|volume| *volume.1);
        let volumes: Vec<VolumeSettings> = served.map(|volume| *volume.0).collect();
        let settings = EngineSettings { service, ..self.plan.settings };
        if self.plan.restart_after.is_some() {
            // Writes of the previous life may be lost on an origin until it is flushed; every start flushes it.
            self.devices.origins.iter_mut().for_each(SimulatedDevice::make_all_durable);
        }
        let mut engine = E::open(self.now, &self.devices.cache, settings, &volumes)?;
        self.attach_redo(&mut engine)?;
        Ok(self.begin_life(engine))
    }

    fn begin_life<E: Subject>(&mut self, engine: E) -> Host<E> {
        self.queue = Queue::default();
        self.growing = None;
        self.drained.stop();
        self.summary.lives += 1;
        self.note(|| "a new life".to_owned());
        self.is_running = false;
        Host::new(engine, &self.plan, self.random.split(), self.now)
    }

    /// Processes events until `done`, or this many events; returns whether `done` was reached.
    fn run<E: Subject>(
        &mut self,
        host: &mut Host<E>,
        events: Option<u64>,
        done: impl Fn(&Simulation, &Host<E>) -> bool,
    ) -> Result<bool, String> {
        self.pump(host)?;
        let deadline = self.now.plus(PATIENCE);
        let mut left = events;
        while !done(self, host) {
            if let Some(left) = &mut left {
                if *left == 0 {
                    return Ok(false);
                }
                *left -= 1;
            }
            if self.now > deadline {
                return Err(self.stuck("takes too long", host));
            }
            if self.trace.events() > EVENTS_MAX {
                return Err(self.stuck("has no end of events", host));
            }
            self.step(host)?;
        }
        Ok(true)
    }

    fn stuck<E: Subject>(&self, what: &str, host: &Host<E>) -> String {
        let requests: Vec<String> = self
            .outstanding
            .iter()
            .take(8)
            .map(|(id, outstanding)| format!("{} {:?}", id.get(), outstanding.ask))
            .collect();
        format!(
            "{what}; {} requests wait: {requests:?}; in flight: {}; timeout {:?}; now {:?}; {:?}",
            self.outstanding.len(),
            host.in_flight_text(),
            host.engine.poll_timeout(),
            self.now,
            host.engine.status(),
        )
    }

    fn step<E: Subject>(&mut self, host: &mut Host<E>) -> Result<(), String> {
        let timeout = host.engine.poll_timeout();
        let event = self.queue.next();
        let Some(next) = earlier(timeout, event) else {
            return Err(self.stuck("no event will happen any more", host));
        };
        host.engine.handle_sleep(next.since(self.now));
        self.pass(next).map_err(|what| self.stuck(&what, host))?;
        self.check_waits(host)?;
        if event.is_some_and(|event| timeout.is_none_or(|timeout| event <= timeout)) {
            let (_, event) = self.queue.pop().expect("there is an event");
            self.happen(host, event)?;
        } else {
            self.trace.record(self.now, &[998], || "timeout".to_owned());
            host.engine.handle_timeout(self.now);
        }
        self.abandon_cache(host);
        // A driver may handle several completions before it polls the engine's submissions.
        let soon = self.queue.next().is_some_and(|next| next <= self.now.plus(Duration::from_micros(20)));
        if soon && self.random.chance(300) {
            return Ok(());
        }
        self.pump(host)
    }

    /// Checks for a request that waits for longer than the plan allows although its origin is not silent.
    fn check_waits<E: Subject>(&self, host: &Host<E>) -> Result<(), String> {
        let Some(wait_max) = self.plan.wait_max.filter(|_| self.is_running && E::KEEPS_NEIGHBOURS) else {
            return Ok(());
        };
        let is_silent =
            |volume| host.trouble(Device::Origin(volume), self.now, wait_max) == Some(Trouble::Silent);
        let is_late = |outstanding: &&Outstanding| {
            self.now.since(outstanding.issued) > wait_max && !is_silent(outstanding.ask.volume)
        };
        match self.outstanding.values().find(is_late) {
            None => Ok(()),
            Some(late) => Err(self.stuck(&format!("{:?} waits since {:?}", late.ask, late.issued), host)),
        }
    }

    fn pass(&mut self, next: Instant) -> Result<(), String> {
        if next > self.now {
            self.now = next;
            self.same_time = 0;
        }
        self.same_time += 1;
        if self.same_time > SAME_TIME_MAX { Err("time stands still".to_owned()) } else { Ok(()) }
    }

    fn happen<E: Subject>(&mut self, host: &mut Host<E>, event: Event) -> Result<(), String> {
        match event {
            Event::Apply(id) => {
                self.trace.record(self.now, &[id], || format!("apply {id:#x}"));
                host.apply(id, &mut self.around())
            }
            Event::Complete(id) => host.complete(id, &mut self.around()),
            // Events for clients and restarts may be left over when the work of a life is done; their volume may have
            // been removed since.
            Event::Client(client) => {
                if self.budget > 0 && self.is_served(self.clients[client].volume()) {
                    self.budget -= 1;
                    let ask = self.clients[client].next_ask();
                    self.issue(host, ask, Some(client));
                }
                Ok(())
            }
            Event::Restart(volume) => {
                if self.budget > 0 && self.is_served(volume) {
                    let unit = self.plan.atomic_unit;
                    self.note(|| format!("the origin of volume {} restarts", volume.get()));
                    host.restart_origin(volume, unit, &mut self.around())?;
                    // Out of service, writes bypass the cache device, and outdated clean copies remain.
                    if host.engine.health() != CacheHealth::OutOfService {
                        self.compare_clean(host)?;
                    }
                    self.schedule_restart(volume);
                }
                Ok(())
            }
            Event::Grow => self.grow(host),
            Event::Replace => self.replace(host),
            Event::Operator => {
                if self.budget > 0 {
                    self.operate(host);
                }
                Ok(())
            }
        }
    }

    fn is_served(&self, volume: VolumeId) -> bool {
        self.served[usize::from(volume.get())]
    }

    fn issue<E: Subject>(&mut self, host: &mut Host<E>, ask: Ask, client: Option<usize>) {
        self.next_id += 1;
        self.summary.requests += 1;
        self.summary.request_blocks += ask.extent.length.div_ceil(4096);
        let id = RequestId::new(self.next_id);
        let Ask { volume, operation, extent } = ask;
        let (mut payload, mut version, mut checksums) = (Payload::empty(), 0, Vec::new());
        let started = match operation {
            Operation::Read => {
                payload = Payload::new(extent, |_| Block::Noise(0x77));
                self.oracle.start()
            }
            Operation::Write(_) => {
                let write = self.oracle.start_write(volume, extent, WriteContent::Stamps);
                version = write.version;
                self.place_write(volume, extent, version, WriteContent::Stamps);
                payload = Payload::stamped(volume, extent, version);
                checksums = payload.checksums();
                write.issued
            }
            Operation::WriteZeroes { .. } => {
                let write = self.oracle.start_write(volume, extent, WriteContent::Zeroes);
                version = write.version;
                self.place_write(volume, extent, version, WriteContent::Zeroes);
                write.issued
            }
            Operation::Discard => self.oracle.start_discard(volume, extent),
            Operation::Flush | Operation::Promote => self.oracle.start(),
        };
        self.note_tick(started);
        self.watch_discard(host, id, &ask);
        self.drained.note_request(&ask);
        let number = u64::from(self.next_id);
        self.trace.record(self.now, &[number, extent.start, extent.length, version], || {
            format!("request {number} tick {started} version {version}: {ask:?}")
        });
        let (issued, is_past_cache) = (self.now, host.engine.health() == CacheHealth::OutOfService);
        self.outstanding.insert(id, Outstanding { ask, started, version, issued, client, is_past_cache });
        let request = Request { id, volume, operation, extent, checksums: &checksums };
        host.request(self.now, request, payload);
    }

    fn pump<E: Subject>(&mut self, host: &mut Host<E>) -> Result<(), String> {
        loop {
            let replies = host.pump(&mut self.around())?;
            self.note_health(host)?;
            self.note_drains(host);
            self.watch_redo(host)?;
            self.poll_growth(host);
            self.poll_replacement(host)?;
            if replies.is_empty() {
                return Ok(());
            }
            for reply in replies {
                self.take_reply(host, reply)?;
            }
        }
    }
}

mod causes;
mod crashes;
mod damage;
mod drains;
mod group_history;
mod growth;
mod leave_out;
mod life;
mod operator;
mod point_in_time;
mod replacement;
mod replies;
mod rest;
mod service;
#[cfg(test)]
mod stand_in;
#[cfg(test)]
mod tests;
mod volume_removal;
