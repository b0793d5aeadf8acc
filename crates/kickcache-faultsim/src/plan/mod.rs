//! What a run does, drawn from its seed; each run switches some features off.

use kickcache_engine::config::{
    Admission, EngineSettings, Mode, OriginOffload, RottedLog, Service, VolumeSettings,
};
use kickcache_engine::time::Duration;
use kickcache_engine::units::{BLOCK_SIZE, VolumeId};
use kickcache_random::Random;

use crate::plan::faults::{Damage, Faults};

pub mod faults;
mod focus;

/// How long submissions of a device take.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Latency {
    /// Shortest.
    pub base: Duration,
    /// Mean of what comes on top.
    pub mean: Duration,
    /// Probability in 1/1000 of a stall of 100 times the mean.
    pub stall_permille: u64,
}

impl Latency {
    /// The time of one submission of so many bytes.
    pub fn draw(&self, random: &mut Random, bytes: u64) -> Duration {
        let scale = if random.chance(self.stall_permille) { 100.0 } else { 1.0 };
        #[expect(clippy::cast_precision_loss, reason = "means are short")]
        let extra = random.exponential(self.mean.as_nanos() as f64 * scale);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive and short")]
        let extra = extra as u64;
        Duration::from_nanos(self.base.as_nanos() + extra + bytes / 2)
    }
}

/// Relative weights of what clients ask for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Weights {
    /// Reads.
    pub read: u64,
    /// Writes.
    pub write: u64,
    /// Flushes.
    pub flush: u64,
    /// Discards.
    pub discard: u64,
    /// Write zeroes.
    pub zeroes: u64,
    /// Promotes.
    pub promote: u64,
    /// Of writes and write-zeroes, how many are FUA, in 1/1000.
    pub durable_permille: u64,
}

/// Sizes and alignment of requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    /// Largest request in bytes.
    pub length_max: u64,
    /// Requests at multiples of 512 that are no blocks, in 1/1000.
    pub sector_permille: u64,
    /// Requests at multiples of 32 bytes, in 1/1000.
    pub unaligned_permille: u64,
    /// Requests in the hot region, in 1/1000.
    pub hot_permille: u64,
    /// Blocks of the hot region.
    pub hot_blocks: u64,
    /// Clients that read or write in sequence, in 1/1000.
    pub sequential_permille: u64,
}

/// What a crash waits for, so that it comes while that is on its way to the cache device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Aim {
    /// Nothing: it comes at any time.
    Anything,
    /// A part of a checkpoint.
    Checkpoint,
    /// Records.
    Records,
    /// The end of an origin's write of a block whose older copy the cache has forgotten, but not put that on record yet.
    Forgotten,
    /// The marks of a cache device that went out of service, or the host's note.
    Marks,
}

/// How often things happen to a life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ends {
    /// Lives that end with a power cut, in 1/1000.
    pub power_cut: u64,
    /// Lives that end with a kill, in 1/1000; the others stop cleanly.
    pub kill: u64,
    /// Kills after which the power goes off too, in 1/1000.
    pub kill_then_cut: u64,
    /// What crashes wait for.
    pub aim: Aim,
    /// Crashes that come while everything is read, in 1/1000.
    pub during_verify: u64,
    /// Recoveries in which the next crash comes, in 1/1000.
    pub during_recovery: u64,
    /// Crashes after which everything is read, in 1/1000.
    pub verify: u64,
}

/// Everything that a run does.
#[derive(Clone, PartialEq, Debug)]
pub struct Plan {
    /// Bytes of the cache device.
    pub cache_size: u64,
    /// Whether the cache device holds junk before it is formatted.
    pub cache_junk: bool,
    /// Bytes of the origins.
    pub origin_sizes: Vec<u64>,
    /// Chunks of the origins that hold data before the run, in 1/1000.
    pub filled_permille: u64,
    /// The engine's settings.
    pub settings: EngineSettings,
    /// The volumes' settings at the start.
    pub volumes: Vec<VolumeSettings>,
    /// Whether modes change while the volume is served.
    pub mode_changes: bool,
    /// Whether drains are asked for in between.
    pub drains: bool,
    /// Clients.
    pub clients: usize,
    /// Mean pause of a client between requests.
    pub pause: Duration,
    /// Long pauses (2 s), in 1/1000.
    pub long_pause_permille: u64,
    /// Lives in which a volume is not served, in 1/1000.
    pub absent_permille: u64,
    /// Requests of a life.
    pub requests: u64,
    /// Lives.
    pub lives: u64,
    /// What clients ask for.
    pub weights: Weights,
    /// Sizes and places.
    pub shape: Shape,
    /// Latency of the cache device.
    pub cache_latency: Latency,
    /// Latency of the origins.
    pub origin_latency: Latency,
    /// Faults.
    pub faults: Faults,
    /// Ends of lives.
    pub ends: Ends,
    /// Bytes that a power cut does not tear.
    pub atomic_unit: u64,
    /// The books are checked after so many steps.
    pub checks_every: u64,
    /// How long a request may take whose own devices are well, if that is watched.
    pub wait_max: Option<Duration>,
}

fn pick<T: Copy>(random: &mut Random, choices: &[T]) -> T {
    choices[random.index(choices.len())]
}

/// A feature that is off in about half of the runs.
fn swarm(random: &mut Random, low: u64, high: u64) -> u64 {
    if random.chance(500) { 0 } else { random.within(low, high) }
}

const MODES: [Mode; 4] = [Mode::WriteThrough, Mode::WriteBack, Mode::WriteAround, Mode::Bypass];

/// A mode; the two that put writes into the log are more frequent.
pub fn draw_mode(random: &mut Random) -> Mode {
    if random.chance(700) { pick(random, &MODES[..2]) } else { pick(random, &MODES) }
}

fn millis(random: &mut Random, choices: &[u64]) -> Duration {
    Duration::from_millis(pick(random, choices))
}

fn draw_volume(random: &mut Random, volume: VolumeId) -> VolumeSettings {
    let low = random.within(1, 300);
    let high = random.within(low, 700);
    VolumeSettings {
        volume,
        mode: draw_mode(random),
        admission: pick(random, &[Admission::Pressure, Admission::Always, Admission::SecondTouch]),
        sequential_cutoff: pick(random, &[None, Some(64 << 10), Some(1 << 20), Some(4 << 20)]),
        fill_window_max: BLOCK_SIZE << random.within(0, 8),
        dirty_low: u16::try_from(low).expect("small"),
        dirty_high: u16::try_from(high).expect("small"),
        dirty_limit: u16::try_from(random.within(high, 900)).expect("small"),
        idle_after: millis(random, &[1, 20, 500, 5_000]),
    }
}

fn draw_settings(random: &mut Random) -> EngineSettings {
    EngineSettings {
        pool_pages: pick(random, &[512, 1_024, 2_048]),
        fill_linger: millis(random, &[0, 1, 20, 200]),
        origin_flush_after: millis(random, &[1, 50, 500, 2_000]),
        rotted_log: RottedLog::Refused,
        service: Service::In,
        origin_offload: OriginOffload::Proven,
    }
}

fn draw_weights(random: &mut Random) -> Weights {
    Weights {
        read: random.within(20, 100),
        write: random.within(20, 100),
        flush: swarm(random, 1, 20),
        discard: swarm(random, 1, 15),
        zeroes: swarm(random, 1, 15),
        promote: swarm(random, 1, 15),
        durable_permille: pick(random, &[0, 0, 50, 300, 900]),
    }
}

fn draw_shape(random: &mut Random) -> Shape {
    Shape {
        length_max: pick(random, &[4 << 10, 16 << 10, 64 << 10, 64 << 10, 256 << 10, 1 << 20]),
        sector_permille: swarm(random, 10, 500),
        unaligned_permille: swarm(random, 10, 300),
        hot_permille: pick(random, &[0, 500, 800, 950]),
        hot_blocks: pick(random, &[4, 16, 64, 256]),
        sequential_permille: swarm(random, 50, 400),
    }
}

fn draw_latency(random: &mut Random, base_micros: u64) -> Latency {
    let base = random.within(base_micros / 4 + 1, base_micros);
    Latency {
        base: Duration::from_micros(base),
        mean: Duration::from_micros(random.within(1, base * 4)),
        stall_permille: swarm(random, 1, 20),
    }
}

fn draw_ends(random: &mut Random) -> Ends {
    Ends {
        power_cut: pick(random, &[0, 300, 600, 900]),
        kill: pick(random, &[0, 200, 400]),
        kill_then_cut: pick(random, &[0, 300]),
        aim: Aim::Anything,
        during_verify: 0,
        during_recovery: pick(random, &[0, 200, 500]),
        verify: pick(random, &[200, 600, 1_000]),
    }
}

impl Plan {
    /// Whether no block is read, for a client or for the rest of a partial one, until everything is after a crash.
    pub fn reads_nothing(&self) -> bool {
        let Plan { weights, shape, .. } = self;
        let asked = weights.read + weights.promote + shape.sequential_permille;
        asked + shape.sector_permille + shape.unaligned_permille == 0
    }

    /// The plan of a seed.
    pub fn draw(random: &mut Random) -> Plan {
        let volume_count = pick(random, &[1, 1, 2, 3]);
        let origin_sizes: Vec<u64> = (0..volume_count).map(|_| draw_origin_size(random)).collect();
        let volumes = (0..volume_count).map(|number| draw_volume(random, VolumeId::new(number))).collect();
        let faults = if random.chance(400) { faults::draw(random) } else { Faults::default() };
        let ends = draw_ends(random);
        let (requests, lives) = draw_lives(random);
        let mut plan = Plan {
            cache_size: pick(random, &[8 << 20, 9_000_000, 12 << 20, 16 << 20]),
            cache_junk: random.chance(250),
            origin_sizes,
            filled_permille: pick(random, &[0, 300, 700]),
            settings: draw_settings(random),
            volumes,
            mode_changes: random.chance(400),
            drains: random.chance(300),
            clients: pick(random, &[1, 2, 4, 8, 16]),
            pause: Duration::from_micros(pick(random, &[0, 10, 200, 5_000])),
            long_pause_permille: swarm(random, 1, 10),
            absent_permille: swarm(random, 200, 600),
            requests,
            // A damaged block of a segment without a summary looks like a torn one to recovery.
            lives: if faults.damage == Damage::default() { lives } else { 1 },
            weights: draw_weights(random),
            shape: draw_shape(random),
            cache_latency: draw_latency(random, 200),
            origin_latency: draw_latency(random, 8_000),
            faults,
            ends,
            atomic_unit: pick(random, &[512, 4_096]),
            checks_every: pick(random, &[256, 1_024, 4_096]),
            wait_max: None,
        };
        focus::draw(&mut plan, random);
        // What a dead process had written past the cache is nowhere else: an origin that lets go of it when its flush
        // fails leaves a cached copy that differs from the origin after a power cut.
        plan.faults.origin.forgets &= plan.ends.kill == 0;
        if random.clone().below(30) == 7 {
            focus::spoil(&mut plan, &mut random.clone());
        }
        // Without a draw of its own: what follows stays as it is for each seed.
        if random.clone().below(8) == 0 {
            plan.settings.origin_offload = OriginOffload::Forced;
        }
        plan
    }
}

/// Requests of a life and lives: some runs hardly do anything but crash.
fn draw_lives(random: &mut Random) -> (u64, u64) {
    if random.chance(300) {
        return (random.within(3, 30), random.within(8, 24));
    }
    (random.within(20, 200), random.within(1, 8))
}

/// A size of 4 to 16 MiB, now and then 64 MiB.
fn draw_origin_size(random: &mut Random) -> u64 {
    let blocks = if random.chance(100) { 16_384 } else { random.within(1_024, 4_096) };
    blocks * BLOCK_SIZE
}
