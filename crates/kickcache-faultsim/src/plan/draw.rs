//! Draws the plan of a seed.

use kickcache_engine::config::{
    Admission, EngineSettings, FreedSegments, OriginKind, OriginOffload, RottedLog, SequentialCutoff,
    Service, VolumeSettings,
};
use kickcache_engine::rate::RateCap;
use kickcache_engine::time::Duration;
use kickcache_engine::units::{BLOCK_SIZE, VolumeId};
use kickcache_random::Random;

use crate::plan::aim::Aim;
use crate::plan::ends::Ends;
use crate::plan::faults::{self, Damage, Faults};
use crate::plan::latency::Latency;
use crate::plan::load::{Shape, Weights};
use crate::plan::pick::{draw_mode, pick, swarm};
use crate::plan::{
    Plan, PlanKind, abandonments, checkpoints, coincidence, failed_batches, focus, focused, hard_starts,
    loops, overtaking, point_in_time, refusals, refused_supersedes, restarts, stretches, superseding,
    takeovers,
};

impl Plan {
    pub fn draw(kind: PlanKind, random: &mut Random) -> Plan {
        let volume_count = pick(random, &[1, 1, 2, 3]);
        let origin_sizes: Vec<u64> = (0..volume_count).map(|_| draw_origin_size(random)).collect();
        let volumes = (0..volume_count).map(|number| draw_volume(random, VolumeId::new(number))).collect();
        let faults = if random.chance(400) { faults::draw(random) } else { Faults::default() };
        let ends = draw_ends(random);
        let (requests, lives) = draw_lives(random);
        let mut plan = Plan {
            cache_size: pick(random, &[8 << 20, 9_000_000, 12 << 20, 16 << 20]),
            cache_stale: random.chance(250),
            origin_sizes,
            filled_permille: pick(random, &[0, 300, 700]),
            settings: draw_settings(random),
            volumes,
            mode_changes: random.chance(400),
            setting_changes: false,
            drains: random.chance(300),
            clients: pick(random, &[1, 2, 4, 8, 16]),
            pause: Duration::from_micros(pick(random, &[0, 10, 200, 5_000])),
            long_pause_permille: swarm(random, 1, 10),
            absent_permille: swarm(random, 200, 600),
            requests,
            // With damage, the run has one life: to the next recovery, a damaged block of a segment without a summary
            // would look like a torn one.
            lives: if faults.damage == Damage::default() { lives } else { 1 },
            weights: draw_weights(random),
            shape: draw_shape(random),
            cache_latency: draw_latency(random, 200),
            slow_part: None,
            origin_latency: draw_latency(random, 8_000),
            faults,
            ends,
            atomic_unit: pick(random, &[512, 4_096]),
            checks_every: pick(random, &[256, 1_024, 4_096]),
            wait_max: None,
            growth: None,
            replacement: None,
            leaving_permille: 0,
            abandoned: None,
            parting_permille: 0,
            restart_after: None,
            point_in_time: None,
        };
        focus::draw(&mut plan, random);
        // A dead process may have left unflushed writes on the origin that the log does not have. If the origin drops
        // them in a failed flush, and the power fails, a cached copy then differs from the origin.
        plan.faults.origin.forgets &= plan.ends.kill == 0;
        draw_rare(&mut plan, kind, random);
        // If an origin restarts during each of its flushes, no flush makes a block clean.
        let Latency { base, mean, .. } = plan.origin_latency;
        let slowest = Duration::from_nanos(base.as_nanos() + mean.as_nanos());
        plan.restart_after = plan.restart_after.map(|after| after.max(slowest));
        plan.check_origins();
        plan
    }
}

type Draw = fn(&mut Plan, &mut Random);

/// Rare features, tested in this order for three plans of four. An entry is (`of`, `numbers`, `draw`): a plan
/// has the feature if its random number below `of` is among `numbers`. All entries use the same draw, so that
/// some features occur together and others never do.
const RARE: [(u64, &[u64], Draw); 24] = [
    (30, &[7], focus::unreadable),
    (30, &[8, 9], focus::unreadable_between_lives),
    (40, &[15], focus::newest_data_unreadable),
    (30, &[14], focus::rot_newest_data),
    (30, &[16], focus::zero_segments),
    (7, &[5], restarts::draw),
    (24, &[7, 20], restarts::draw_beside_damage),
    (24, &[1, 23], restarts::draw_beside_fills),
    (24, &[16], restarts::draw_without_copies),
    (24, &[0], focus::trouble_a_neighbour),
    (24, &[2], focus::go_out_of_service),
    (16, &[11], focus::grow_cache),
    (16, &[13], focus::replace_cache),
    (16, &[9], focus::leave_out_cache),
    (16, &[5], focus::part_volumes),
    (9, &[3], focus::cap_writeback),
    (6, &[1], focus::bound_rooms),
    (8, &[4], focus::budget_writes),
    (24, &[10], superseding::draw),
    (24, &[21, 22], stretches::draw),
    (24, &[18], loops::draw),
    (24, &[3], refusals::draw),
    (24, &[4], overtaking::draw),
    (24, &[12], focus::read_what_lands),
];

/// Plans with a probability of their own: [`SCARCE_PERMILLE`] of 1000 runs get one of these.
const SCARCE: [Draw; 10] = [
    takeovers::draw,
    checkpoints::draw,
    checkpoints::draw,
    abandonments::draw,
    abandonments::draw,
    failed_batches::draw,
    refused_supersedes::draw,
    hard_starts::draw,
    rot_alone,
    restarts::draw_beside_fills,
];
const SCARCE_PERMILLE: u64 = 438;

/// Rot between lives on a cache device that stays the same, or grows.
fn rot_alone(plan: &mut Plan, random: &mut Random) {
    plan.forbid_changes();
    focus::rot_between_lives(plan, random);
    if random.chance(300) {
        plan.cache_size = 8 << 20;
        plan.growth = Some(focus::growth(random));
    }
}

/// Plans with a coincidence of two rare events, in 1/1000.
const COINCIDENCE_PERMILLE: u64 = 250;

/// Plans that focus on one subject, in 1/1000 of the plans of [`PlanKind::Any`].
const FOCUSED_PERMILLE: u64 = 200;

/// Draws the features that few plans have, with copies of the generator, so that later draws stay the same.
fn draw_rare(plan: &mut Plan, kind: PlanKind, random: &Random) {
    let mut rest = random.clone();
    rest.next_u64();
    // A separate generator, which the entries of `RARE` do not advance.
    let mut aside = Random::new(random.clone().next_u64());
    let rare: &[_] = if aside.chance(750) { &RARE } else { &[] };
    for (of, numbers, draw) in rare {
        if numbers.contains(&random.clone().below(*of)) {
            draw(plan, &mut rest.clone());
        }
    }
    if aside.chance(SCARCE_PERMILLE) {
        SCARCE[aside.index(SCARCE.len())](plan, &mut aside);
    }
    // Another generator, so that plans without a coincidence stay the same.
    let mut others = Random::new(aside.clone().next_u64());
    if others.chance(COINCIDENCE_PERMILLE) {
        coincidence::draw(plan, &mut others);
    }
    if aside.chance(FOCUSED_PERMILLE) || kind == PlanKind::Focused {
        focused::draw(plan, &mut aside);
    }
    coincidence::add(plan, &mut others);
    // The engine does not report writes past the log as lost after an error of another write.
    if aside.chance(125) && !plan.faults.tells_once {
        plan.settings.origin_offload = OriginOffload::Forced;
    }
    if aside.chance(200) {
        plan.settings.freed_segments = FreedSegments::Discarded;
    }
    let mut own = Random::new(!random.clone().next_u64());
    if own.chance(point_in_time::PERMILLE) || kind == PlanKind::PointInTime {
        focused::draw_point_in_time(plan, &mut own);
    }
}

fn millis(random: &mut Random, choices: &[u64]) -> Duration {
    Duration::from_millis(pick(random, choices))
}

/// Other settings of a volume, with the same mode and origin.
pub(crate) fn redraw_volume(settings: &VolumeSettings, random: &mut Random) -> VolumeSettings {
    let VolumeSettings { volume, mode, origin, .. } = *settings;
    VolumeSettings { mode, origin, ..draw_volume(random, volume) }
}

fn draw_volume(random: &mut Random, volume: VolumeId) -> VolumeSettings {
    let low = random.within(1, 300);
    let high = random.within(low, 700);
    VolumeSettings {
        volume,
        mode: draw_mode(random),
        origin: OriginKind::Local,
        admission: pick(random, &[Admission::Pressure, Admission::Always, Admission::SecondTouch]),
        sequential_cutoff: cutoff(random),
        fill_window_max: BLOCK_SIZE << random.within(0, 8),
        dirty_low: u16::try_from(low).expect("small"),
        dirty_high: u16::try_from(high).expect("small"),
        dirty_limit: u16::try_from(random.within(high, 900)).expect("small"),
        idle_after: millis(random, &[1, 20, 500, 5_000]),
        writeback_cap: RateCap::default(),
        room_min: None,
        room_max: None,
    }
}

fn cutoff(random: &mut Random) -> SequentialCutoff {
    let choices = [None, Some(64 << 10), Some(1 << 20), Some(4 << 20)];
    let Some(length) = pick(random, &choices) else { return SequentialCutoff::Off };
    match random.clone().below(2) {
        0 => SequentialCutoff::Above(length),
        _ => SequentialCutoff::Auto(length),
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
        freed_segments: FreedSegments::Kept,
        write_budget: None,
        // The choice uses no draw of its own, so that later draws stay the same.
        search_steps: pick(&mut random.clone(), &[16, 64, 256, 4_096]),
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

/// Requests of a life and number of lives.
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
