//! Runs that aim at rare combinations of events, which would seldom occur by chance.

use std::num::NonZeroU64;

use kickcache_engine::config::{Admission, Mode, Room, SequentialCutoff, VolumeSettings};
use kickcache_engine::rate::RateCap;
use kickcache_engine::time::Duration;
use kickcache_engine::units::{BLOCK_SIZE, VolumeId};
use kickcache_random::Random;

use crate::plan::Plan;
use crate::plan::aim::Aim;
use crate::plan::faults::{Damage, Faults, LongTrouble, Rotting, Trouble};
use crate::plan::growth::Growth;
use crate::plan::latency::Latency;
use crate::plan::load::Shape;
use crate::plan::pick::draw_mode;
use crate::plan::replacement::Replacement;

pub(crate) fn draw(plan: &mut Plan, random: &mut Random) {
    match random.below(20) {
        0 => lose_writes(plan, random),
        1..=4 => crash_while_reclaiming(plan, random),
        5..=7 => crash_after_a_crash(plan, random),
        8 | 9 => crash_at_a_checkpoint(plan, random),
        10 if random.chance(500) => fail_origin_flushes(plan, random),
        10 => rot(plan, random),
        11 => rot_between_lives(plan, random),
        12 => go_out_of_service(plan, random),
        13 | 14 | 19 => trouble_a_neighbour(plan, random),
        15 => fail_flushes_past_the_log(plan, random),
        16 | 18 => write_behind_demotions(plan, random),
        17 => carry_what_waits_for_a_flush(plan, random),
        _ => {}
    }
}

fn keep_dirty(plan: &mut Plan) {
    for volume in &mut plan.volumes {
        volume.mode = Mode::WriteBack;
        (volume.dirty_low, volume.dirty_high, volume.dirty_limit) = (600, 750, 900);
        volume.idle_after = Duration::from_millis(5_000);
    }
    (plan.mode_changes, plan.drains, plan.long_pause_permille) = (false, false, 0);
}

fn lose_writes(plan: &mut Plan, random: &mut Random) {
    keep_dirty(plan);
    plan.faults = Faults::default();
    plan.faults.cache.write = random.within(500, 5_000);
    (plan.shape.sector_permille, plan.shape.hot_permille, plan.shape.hot_blocks) = (500, 950, 16);
    (plan.weights.read, plan.weights.write) = (30, 100);
    (plan.requests, plan.lives) = (random.within(30, 100), random.within(8, 16));
}

/// For any plan: the cache device fails all writes for a while in most lives.
pub(super) fn go_out_of_service(plan: &mut Plan, random: &mut Random) {
    plan.faults = Faults::default();
    plan.faults.long = Some(LongTrouble { permille: 900, is_cache: true, trouble: Trouble::Refuses });
    plan.faults.note = [0, 3_000, 10_000][random.index(3)];
    if random.chance(500) {
        // Aims at overwrites of all dirty blocks past the cache device before a power cut.
        keep_dirty(plan);
        plan.weights.flush = 20;
        (plan.shape.hot_permille, plan.shape.hot_blocks, plan.shape.length_max) = (1_000, 4, 16 << 10);
        plan.origin_latency.base = Duration::from_millis(20);
        (plan.requests, plan.lives) = (random.within(20, 60), random.within(6, 12));
        (plan.ends.power_cut, plan.ends.kill, plan.ends.verify, plan.ends.aim) = (900, 50, 1_000, Aim::Marks);
        return;
    }
    (plan.weights.read, plan.weights.write) = (50, 100);
    (plan.shape.hot_permille, plan.shape.hot_blocks) = (random.within(300, 950), 64);
    plan.shape.length_max = 64 << 10;
    plan.ends.aim = if random.chance(500) { Aim::Marks } else { Aim::Anything };
    (plan.requests, plan.lives) = (random.within(40, 150), random.within(6, 12));
    (plan.ends.power_cut, plan.ends.kill, plan.ends.verify) = (400, 400, 1_000);
}

fn need_two_volumes(plan: &mut Plan) {
    while plan.origin_sizes.len() < 2 {
        plan.origin_sizes.push(plan.origin_sizes[0]);
        let volume = VolumeId::new(u8::try_from(plan.volumes.len()).expect("few volumes"));
        plan.volumes.push(VolumeSettings { volume, ..plan.volumes[0] });
    }
}

/// For any plan: in nine of ten lives one origin soon refuses writes, is full, or is silent, for a second or longer.
/// The volumes of the other origins must not be affected.
pub(super) fn trouble_a_neighbour(plan: &mut Plan, random: &mut Random) {
    need_two_volumes(plan);
    for volume in &mut plan.volumes {
        let least = if random.chance(500) { 300 } else { 700 };
        let limit = u16::try_from(random.within(least, 850)).expect("small");
        (volume.dirty_low, volume.dirty_high, volume.dirty_limit) = (limit / 4, limit / 2, limit);
        volume.mode = if random.chance(700) { Mode::WriteBack } else { draw_mode(random) };
    }
    let trouble = [Trouble::Refuses, Trouble::Full, Trouble::Silent][random.index(3)];
    plan.faults =
        Faults { long: Some(LongTrouble { permille: 900, is_cache: false, trouble }), ..Faults::default() };
    plan.wait_max = Some(Duration::from_millis(1_000));
    // With a batch for each block, the blocks that reclaim moves would take twice the space.
    plan.settings.fill_linger = plan.settings.fill_linger.max(Duration::from_millis(20));
    plan.cache_size = 8 << 20;
    plan.clients = plan.clients.max(8);
    (plan.cache_latency.stall_permille, plan.origin_latency.stall_permille) = (0, 0);
    let origin = Duration::from_micros(random.within(100, 2_000));
    (plan.origin_latency.base, plan.origin_latency.mean) = (origin, origin);
    plan.shape.length_max = 64 << 10;
    plan.shape.hot_permille = [0, 300, 700][random.index(3)];
    (plan.weights.read, plan.weights.write) = (random.within(5, 40), 100);
    (plan.requests, plan.lives) = (random.within(600, 1_500), random.within(1, 3));
}

/// Aims at power cuts while reclaim moves dirty blocks.
pub(super) fn crash_while_reclaiming(plan: &mut Plan, random: &mut Random) {
    keep_dirty(plan);
    if plan.faults.damage != Damage::default() || random.chance(500) {
        plan.faults = Faults::default();
        plan.faults.cache.write = if random.chance(500) { 0 } else { random.within(10, 200) };
    }
    plan.cache_size = 8 << 20;
    plan.cache_latency.stall_permille = random.within(0, 100);
    plan.shape.length_max = 256 << 10;
    (plan.shape.hot_permille, plan.shape.hot_blocks) = (random.within(0, 600), 256);
    (plan.weights.read, plan.weights.write) = (30, 100);
    (plan.requests, plan.lives) = (random.within(40, 150), random.within(4, 10));
    plan.ends.power_cut = 900;
    plan.ends.aim = if random.chance(500) { Aim::Records } else { Aim::Anything };
}

/// Aims at power cuts soon after a kill, while the data that recovery found is not durable.
fn crash_after_a_crash(plan: &mut Plan, random: &mut Random) {
    keep_dirty(plan);
    if plan.faults.damage != Damage::default() {
        plan.faults = Faults::default();
    }
    plan.weights.write = 100;
    plan.weights.durable_permille = 0;
    (plan.ends.kill, plan.ends.power_cut, plan.ends.during_verify) = (500, 500, 300);
    (plan.requests, plan.lives) = (random.within(3, 30), random.within(10, 24));
}

/// Aims at power cuts while a checkpoint is written.
pub(super) fn crash_at_a_checkpoint(plan: &mut Plan, random: &mut Random) {
    keep_dirty(plan);
    if plan.faults.damage != Damage::default() || random.chance(500) {
        plan.faults = Faults::default();
    }
    plan.cache_size = 8 << 20;
    plan.clients = plan.clients.max(4);
    (plan.shape.hot_permille, plan.shape.hot_blocks) = (random.within(500, 900), 64);
    plan.shape.length_max = 64 << 10;
    (plan.weights.read, plan.weights.write, plan.weights.flush) = (20, 100, 30);
    plan.weights.discard = random.within(10, 40);
    (plan.requests, plan.lives) = (random.within(100, 300), random.within(4, 10));
    (plan.ends.power_cut, plan.ends.kill, plan.ends.aim) = (900, 50, Aim::Checkpoint);
}

/// A failed flush of an origin drops all unflushed writes that have ended, and the origin reports the error.
fn fail_origin_flushes(plan: &mut Plan, random: &mut Random) {
    for volume in &mut plan.volumes {
        (volume.mode, volume.sequential_cutoff, volume.dirty_limit) =
            (Mode::WriteBack, SequentialCutoff::Off, 900);
    }
    plan.mode_changes = false;
    plan.faults = Faults::default();
    (plan.faults.origin.flush, plan.faults.origin.forgets) = (random.within(500, 5_000), true);
    (plan.weights.write, plan.weights.flush) = (100, 10);
    (plan.weights.discard, plan.weights.zeroes, plan.shape.length_max) = (0, 0, 16 << 10);
    plan.shape.sequential_permille = 0;
    (plan.requests, plan.lives) = (random.within(20, 200), random.within(3, 8));
    (plan.ends.power_cut, plan.ends.kill, plan.ends.kill_then_cut, plan.ends.verify) = (900, 0, 0, 1_000);
}

/// A failed flush of an origin drops writes that only the origin has.
fn fail_flushes_past_the_log(plan: &mut Plan, random: &mut Random) {
    for volume in &mut plan.volumes {
        volume.mode = if random.chance(500) { Mode::WriteAround } else { Mode::Bypass };
    }
    (plan.mode_changes, plan.drains, plan.absent_permille) = (false, false, 0);
    plan.faults = Faults::default();
    (plan.faults.origin.flush, plan.faults.origin.forgets) = (random.within(1_000, 5_000), true);
    plan.settings.origin_flush_after = Duration::from_millis(random.within(1, 10));
    (plan.weights.read, plan.weights.promote) = (0, 0);
    (plan.weights.write, plan.weights.flush, plan.weights.durable_permille) = (100, random.within(2, 20), 0);
    (plan.weights.discard, plan.weights.zeroes, plan.shape.length_max) = (0, 0, 16 << 10);
    (plan.shape.sector_permille, plan.shape.unaligned_permille, plan.shape.sequential_permille) = (0, 0, 0);
    (plan.requests, plan.lives) = (random.within(20, 200), random.within(3, 8));
    if random.chance(500) {
        (plan.weights.zeroes, plan.weights.flush, plan.shape.sector_permille) = (100, 50, 900);
        (plan.clients, plan.pause) = (16, Duration::from_micros(0));
        (plan.shape.hot_permille, plan.origin_latency.base) =
            (0, Duration::from_micros(random.within(200, 2_000)));
        (plan.requests, plan.lives) = (random.within(100, 300), random.within(6, 10));
    }
    (plan.ends.power_cut, plan.ends.kill, plan.ends.kill_then_cut, plan.ends.verify) = (900, 0, 0, 1_000);
}

/// Through the whole log, reclaim moves blocks that were written to the origin, and that the origin has not flushed.
pub(super) fn carry_what_waits_for_a_flush(plan: &mut Plan, random: &mut Random) {
    keep_dirty(plan);
    for volume in &mut plan.volumes {
        (volume.dirty_low, volume.dirty_high) = (10, 50);
        volume.idle_after = Duration::from_millis(1);
    }
    plan.settings.origin_flush_after = Duration::from_millis(2_000);
    plan.faults = Faults::default();
    plan.cache_size = 8 << 20;
    plan.absent_permille = 0;
    plan.origin_latency = Latency {
        base: Duration::from_micros(20),
        mean: Duration::from_micros(random.within(2_000, 6_000)),
        stall_permille: random.within(30, 150),
    };
    (plan.shape.hot_permille, plan.shape.length_max) = (random.within(0, 300), 64 << 10);
    (plan.weights.read, plan.weights.write, plan.weights.flush) = (20, 100, 0);
    (plan.requests, plan.lives) = (random.within(450, 1_200), random.within(3, 8));
    (plan.ends.power_cut, plan.ends.kill, plan.ends.verify) = (900, 0, 1_000);
}

/// Aims at power cuts after demoted blocks are written again, before the record of the demotion is durable.
/// The origin may have the new content, and recovery must not restore the older copy over it.
fn write_behind_demotions(plan: &mut Plan, random: &mut Random) {
    for volume in &mut plan.volumes {
        (volume.mode, volume.admission, volume.sequential_cutoff) =
            (Mode::WriteThrough, Admission::Always, SequentialCutoff::Off);
    }
    (plan.mode_changes, plan.drains, plan.absent_permille, plan.long_pause_permille) = (false, false, 0, 0);
    plan.faults = Faults::default();
    plan.cache_size = 8 << 20;
    let (blocks, count) = (random.within(1_400, 2_000), plan.origin_sizes.len() as u64);
    plan.origin_sizes.fill(blocks / count * BLOCK_SIZE);
    plan.clients = 16;
    plan.pause = Duration::from_micros(0);
    plan.cache_latency = Latency {
        base: Duration::from_micros(50),
        mean: Duration::from_micros(random.within(100, 500)),
        stall_permille: random.within(0, 30),
    };
    (plan.origin_latency.base, plan.origin_latency.mean) =
        (Duration::from_micros(20), Duration::from_micros(50));
    plan.shape = Shape {
        length_max: 32 << 10,
        hot_permille: 0,
        sequential_permille: random.within(500, 1_000),
        ..plan.shape
    };
    (plan.weights.read, plan.weights.write, plan.weights.flush) = (100, 40, 0);
    (plan.weights.durable_permille, plan.settings.origin_flush_after) = (0, Duration::from_millis(50));
    (plan.requests, plan.lives) = (random.within(2_000, 4_000), random.within(8, 14));
    (plan.ends.power_cut, plan.ends.kill, plan.ends.aim) = (950, 0, Aim::Forgotten);
    plan.ends.verify = 1_000;
}

/// Aims at dirty blocks that cannot be read while reclaim moves others.
pub(super) fn unreadable(plan: &mut Plan, random: &mut Random) {
    if random.chance(500) {
        keep_dirty(plan);
    } else {
        for volume in &mut plan.volumes {
            volume.mode = Mode::WriteBack;
            (volume.dirty_low, volume.dirty_high, volume.dirty_limit) = (100, 400, 700);
        }
        plan.mode_changes = false;
    }
    plan.faults = Faults { bad_spot_permille: random.within(5, 60), ..Faults::default() };
    plan.wait_max = Some(Duration::from_millis(3_000));
    plan.cache_size = 8 << 20;
    plan.clients = plan.clients.max(4);
    (plan.cache_latency.stall_permille, plan.origin_latency.stall_permille) = (0, 0);
    let origin = Duration::from_micros(random.within(100, 2_000));
    (plan.origin_latency.base, plan.origin_latency.mean) = (origin, origin);
    (plan.shape.length_max, plan.shape.hot_blocks) = (64 << 10, 128);
    plan.shape.hot_permille = [0, 300, 700][random.index(3)];
    (plan.weights.read, plan.weights.write) = (random.within(5, 100), 100);
    (plan.requests, plan.lives) = (random.within(400, 1_200), random.within(1, 4));
    (plan.ends.power_cut, plan.ends.kill, plan.ends.verify) = (300, 300, 500);
}

/// Most volumes have a rate limit of writeback, in bytes, in requests, or in both.
pub(super) fn cap_writeback(plan: &mut Plan, random: &mut Random) {
    for volume in &mut plan.volumes {
        let mut draw =
            |least, most| NonZeroU64::new(random.within(least, most)).filter(|_| random.chance(700));
        volume.writeback_cap = RateCap { bytes: draw(64 << 10, 32 << 20), requests: draw(5, 2_000) };
    }
}

/// Most volumes have a reservation or a limit of cache space.
pub(super) fn bound_rooms(plan: &mut Plan, random: &mut Random) {
    for volume in &mut plan.volumes {
        let mut draw = |most| {
            let room = [Room::Share(random_share(random, most)), Room::Blocks(random.within(1, 1_500))];
            random.chance(600).then(|| room[random.index(2)])
        };
        (volume.room_min, volume.room_max) = (draw(900), draw(700));
    }
}

pub(super) fn budget_writes(plan: &mut Plan, random: &mut Random) {
    plan.settings.write_budget = NonZeroU64::new(random.within(1 << 18, 64 << 20));
}

pub(super) fn random_share(random: &mut Random, most: u64) -> u16 {
    u16::try_from(random.within(1, most)).expect("small")
}

fn rot(plan: &mut Plan, random: &mut Random) {
    plan.faults = Faults::default();
    plan.faults.damage.flip = random.within(100, 2_000);
    (plan.shape.hot_permille, plan.shape.hot_blocks) = (800, 256);
    (plan.weights.read, plan.weights.write) = (100, 30);
    (plan.requests, plan.lives) = (400, 1);
}

pub(super) fn rot_between_lives(plan: &mut Plan, random: &mut Random) {
    keep_dirty(plan);
    plan.faults = Faults::default();
    plan.faults.rot_permille = random.within(500, 1_000);
    plan.faults.rotting = [Rotting::Anything, Rotting::Journal][random.index(2)];
    (plan.shape.hot_permille, plan.shape.length_max) = (random.within(0, 600), 64 << 10);
    (plan.weights.read, plan.weights.write, plan.weights.flush) = (20, 100, 10);
    plan.weights.discard = [0, 10, 40][random.index(3)];
    (plan.requests, plan.lives) = (random.within(20, 150), random.within(6, 14));
    (plan.ends.power_cut, plan.ends.kill, plan.ends.verify) = (500, 450, 1_000);
    if plan.faults.rotting == Rotting::Journal {
        (plan.weights.discard, plan.weights.flush) = (50, 50);
        (plan.requests, plan.lives) = (random.within(20, 100), random.within(10, 20));
    }
}

/// Rot of the newest data only.
pub(super) fn rot_newest_data(plan: &mut Plan, random: &mut Random) {
    rot_between_lives(plan, random);
    (plan.faults.rot_permille, plan.faults.rotting) = (1_000, Rotting::Data);
    (plan.weights.flush, plan.weights.discard) = (30, 0);
    (plan.requests, plan.lives) = (random.within(10, 60), random.within(10, 20));
}

pub(super) fn zero_segments(plan: &mut Plan, random: &mut Random) {
    rot_between_lives(plan, random);
    (plan.faults.rot_permille, plan.faults.rotting) = (random.within(200, 500), Rotting::Segments);
    (plan.ends.power_cut, plan.ends.kill) = (200, 200);
    (plan.weights.flush, plan.weights.discard) = (10, [0, 10, 40][random.index(3)]);
}

pub(super) fn unreadable_between_lives(plan: &mut Plan, random: &mut Random) {
    plan.faults = Faults { unreadable_permille: random.within(500, 1_000), ..Faults::default() };
    plan.cache_size = 8 << 20;
    if random.chance(700) {
        keep_dirty(plan);
        plan.weights.discard = random.within(0, 30);
    }
    (plan.shape.hot_permille, plan.shape.length_max) = (random.within(0, 900), 64 << 10);
    (plan.weights.read, plan.weights.write, plan.weights.flush) = (20, 100, 10);
    (plan.requests, plan.lives) = (random.within(20, 200), random.within(6, 14));
    (plan.ends.power_cut, plan.ends.kill, plan.ends.verify) = (450, 400, 1_000);
}

pub(super) fn newest_data_unreadable(plan: &mut Plan, random: &mut Random) {
    unreadable_between_lives(plan, random);
    keep_dirty(plan);
    (plan.faults.unreadable_permille, plan.faults.unreadable_newest) = (1_000, true);
    (plan.shape.hot_permille, plan.shape.hot_blocks) = (random.within(300, 900), 64);
    plan.weights.discard = 0;
    (plan.requests, plan.lives) = (random.within(10, 60), random.within(10, 20));
}

/// Aims at kills after reads of unacknowledged writes, which must survive.
pub(super) fn read_what_lands(plan: &mut Plan, random: &mut Random) {
    plan.forbid_changes();
    (plan.faults, plan.mode_changes, plan.drains) = (Faults::default(), false, false);
    plan.clients = plan.clients.max(8);
    (plan.pause, plan.long_pause_permille) = (Duration::from_micros(random.within(0, 50)), 0);
    plan.cache_latency.base = Duration::from_micros(random.within(200, 5_000));
    (plan.shape.hot_permille, plan.shape.hot_blocks, plan.shape.length_max) = (1_000, 8, 8 << 10);
    (plan.weights.read, plan.weights.write, plan.weights.flush) = (100, 100, 2);
    (plan.weights.discard, plan.weights.durable_permille) = (0, 0);
    (plan.requests, plan.lives) = (random.within(20, 120), random.within(10, 20));
    (plan.ends.kill, plan.ends.power_cut, plan.ends.verify) = (900, 50, 1_000);
}

/// Aims at growths of the cache device while reclaim moves dirty blocks.
pub(super) fn grow_cache(plan: &mut Plan, random: &mut Random) {
    keep_dirty(plan);
    plan.forbid_restarts();
    plan.faults = Faults::default();
    plan.cache_size = 8 << 20;
    plan.growth = Some(growth(random));
    go_round(plan, random);
}

pub(super) fn growth(random: &mut Random) -> Growth {
    let step_max = [1_000, 300_000][random.index(2)];
    Growth {
        permille: random.within(300, 900),
        within: Duration::from_micros(random.within(100, 100_000)),
        step_max: Duration::from_micros(random.within(10, step_max)),
        most: random.within(128 << 10, 8 << 20),
        is_stale: random.chance(500),
        is_repeated: false,
    }
}

/// Aims at replacements while reclaim moves dirty blocks.
pub(super) fn replace_cache(plan: &mut Plan, random: &mut Random) {
    keep_dirty(plan);
    plan.forbid_restarts();
    (plan.faults, plan.growth) = (Faults::default(), None);
    if random.chance(300) {
        (plan.faults.cache.write, plan.faults.cache.flush) = (random.within(1, 100), random.within(1, 200));
    }
    plan.cache_size = 8 << 20;
    let step_max = [1_000, 20_000, 300_000][random.index(3)];
    if step_max > 20_000 {
        // With long steps, requests may wait longer than the usual limit.
        plan.wait_max = None;
    }
    plan.replacement = Some(Replacement {
        permille: random.within(500, 1_000),
        within: Duration::from_micros(random.within(100, 50_000)),
        step_max: Duration::from_micros(random.within(10, step_max)),
        larger_max: [0, 1 << 20][random.index(2)],
    });
    go_round(plan, random);
}

pub(super) fn leave_out_cache(plan: &mut Plan, random: &mut Random) {
    plan.forbid_restarts();
    (plan.faults, plan.growth) = (Faults::default(), None);
    plan.cache_size = 8 << 20;
    plan.absent_permille = 0;
    // Leave-out waits for an idle engine, and with a batch for each block reclaim might never end.
    plan.settings.fill_linger = plan.settings.fill_linger.max(Duration::from_millis(20));
    plan.leaving_permille = random.within(300, 1_000);
    go_round(plan, random);
}

/// In many lives a volume is removed and added again.
pub(super) fn part_volumes(plan: &mut Plan, random: &mut Random) {
    need_two_volumes(plan);
    leave_out_cache(plan, random);
    (plan.parting_permille, plan.leaving_permille) = (plan.leaving_permille, 0);
}

fn go_round(plan: &mut Plan, random: &mut Random) {
    (plan.shape.hot_permille, plan.shape.hot_blocks) = (random.within(0, 600), 256);
    plan.shape.length_max = 256 << 10;
    (plan.weights.read, plan.weights.write) = (30, 100);
    (plan.weights.flush, plan.weights.discard) = (random.within(0, 20), random.within(0, 20));
    (plan.requests, plan.lives) = (random.within(40, 200), random.within(4, 12));
    (plan.ends.power_cut, plan.ends.kill, plan.ends.verify) = (600, 250, 1_000);
}
