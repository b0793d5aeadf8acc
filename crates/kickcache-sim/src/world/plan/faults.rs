//! What goes wrong with devices in a run.

use kickcache_engine::device::{Device, DeviceError, DeviceOperation};
use kickcache_engine::time::{Duration, Instant};

use crate::random::Random;

/// How often submissions of a device fail, in 1/10000.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Rates {
    /// Reads.
    pub read: u64,
    /// Writes.
    pub write: u64,
    /// Flushes.
    pub flush: u64,
    /// Anything takes half a minute.
    pub hang: u64,
    /// Flushes that do nothing and say that they did.
    pub lie: u64,
    /// A failed flush lets go of what it covered.
    pub forgets: bool,
}

/// Damage without an error, in 1/10000 of the reads or writes of blocks on the cache device.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Damage {
    /// Reads that find a flipped bit.
    pub flip: u64,
    /// Batches of which a block is not stored.
    pub phantom: u64,
    /// Batches of which a block is stored in the place of another.
    pub misdirect: u64,
}

/// A device is gone for a while.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Outage {
    /// Which one.
    pub device: Device,
    /// From when on.
    pub from: Instant,
    /// Until when.
    pub until: Instant,
}

/// The faults of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Faults {
    /// Of the cache device.
    pub cache: Rates,
    /// Of the origins.
    pub origin: Rates,
    /// Of the cache device.
    pub damage: Damage,
    /// Crashes after which bits have flipped in what the log calls durable, in 1/1000.
    pub rot_permille: u64,
    /// Writes that fail because a device is full, in 1/1000 of those that fail.
    pub full_permille: u64,
    /// Lives in which a device is gone for a while, in 1/1000.
    pub outage_permille: u64,
    /// The log may fail to be read back; it is tried again.
    pub in_recovery: bool,
}

impl Faults {
    /// Whether anything can go wrong that the engine hears of or can tell.
    pub fn any(&self) -> bool {
        *self != Faults::default()
    }

    /// How a submission fails, if it does.
    pub fn draw_failure(&self, operation: &DeviceOperation, random: &mut Random) -> Option<DeviceError> {
        let (rates, is_cache) = match operation {
            DeviceOperation::Read { device: Device::Origin(_), .. }
            | DeviceOperation::Write { device: Device::Origin(_), .. }
            | DeviceOperation::WriteZeroes { device: Device::Origin(_), .. }
            | DeviceOperation::Discard { device: Device::Origin(_), .. }
            | DeviceOperation::Flush { device: Device::Origin(_) } => (&self.origin, false),
            _ => (&self.cache, true),
        };
        let (permyriad, writes) = match operation {
            DeviceOperation::Read { .. } | DeviceOperation::ReadMetadata { .. } => (rates.read, false),
            DeviceOperation::Write { .. }
            | DeviceOperation::WriteMetadata { .. }
            | DeviceOperation::WriteZeroes { .. } => (rates.write, true),
            DeviceOperation::Discard { .. } => (if is_cache { 0 } else { rates.write }, false),
            DeviceOperation::Flush { .. } => (rates.flush, false),
            DeviceOperation::Copy { .. } | DeviceOperation::Zero { .. } => (0, false),
        };
        if permyriad == 0 || random.below(10_000) >= permyriad {
            return None;
        }
        let is_full = writes && random.chance(self.full_permille);
        Some(if is_full { DeviceError::NoSpace } else { DeviceError::Io })
    }

    /// The outages of a life that begins now, over so many volumes.
    pub fn draw_outages(&self, now: Instant, volumes: u8, random: &mut Random) -> Vec<Outage> {
        if !random.chance(self.outage_permille) {
            return Vec::new();
        }
        let number = u8::try_from(random.below(u64::from(volumes) + 1)).expect("few volumes");
        let device = match number.checked_sub(1) {
            None => Device::Cache,
            Some(volume) => Device::Origin(kickcache_engine::units::VolumeId::new(volume)),
        };
        let from = now.plus(Duration::from_micros(random.below(300_000)));
        let until = from.plus(Duration::from_micros(random.within(100, 3_000_000)));
        vec![Outage { device, from, until }]
    }
}

fn draw_rates(random: &mut Random) -> Rates {
    let mut rate = |high: u64| if random.chance(600) { 0 } else { random.within(1, high) };
    Rates {
        read: rate(100),
        write: rate(100),
        flush: rate(200),
        hang: rate(20),
        lie: 0,
        forgets: rate(2) > 0,
    }
}

fn draw_damage(random: &mut Random) -> Damage {
    let mut rate = |high: u64| if random.chance(400) { 0 } else { random.within(1, high) };
    Damage { flip: rate(200), phantom: rate(200), misdirect: rate(200) }
}

/// Draws one of the kinds of faults, or several errors together.
pub(crate) fn draw(random: &mut Random) -> Faults {
    let mut faults = Faults::default();
    match random.below(11) {
        0 => faults.damage = draw_damage(random),
        1 => {
            let rate = random.within(500, 10_000);
            if random.chance(500) { faults.cache.lie = rate } else { faults.origin.lie = rate }
        }
        2 => faults.outage_permille = 700,
        3 => (faults.cache.hang, faults.origin.hang) = (random.below(30), random.below(30)),
        4 => faults.cache = draw_rates(random),
        5 => faults.origin = draw_rates(random),
        6 => faults.rot_permille = random.within(100, 1_000),
        _ => {
            faults.cache = draw_rates(random);
            faults.origin = draw_rates(random);
            faults.outage_permille = if random.chance(700) { 0 } else { 300 };
            faults.rot_permille = if random.chance(700) { 0 } else { 300 };
        }
    }
    faults.full_permille = if random.chance(500) { 0 } else { random.below(1_001) };
    faults.in_recovery = faults.cache.read + faults.cache.flush > 0 && random.chance(400);
    faults
}
