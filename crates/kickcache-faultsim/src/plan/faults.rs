//! The faults of the devices in a run.

use kickcache_engine::device::{Device, DeviceError, DeviceOperation};
use kickcache_engine::time::{Duration, Instant};
use kickcache_engine::units::VolumeId;
use kickcache_random::Random;

use crate::operation::is_write;

/// How often submissions of a device fail, in 1/10000.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Rates {
    pub read: u64,
    pub write: u64,
    /// Discards and write-zeroes, in addition to the rate of writes: half of these errors say that the device cannot do
    /// that.
    pub unmap: u64,
    /// Flushes.
    pub flush: u64,
    /// Submissions of any kind that take half a minute; the rate of the cache device is also a rate of its successor.
    pub hang: u64,
    /// Flushes that report success without doing anything.
    pub lie: u64,
    /// Whether a failed flush after recovery drops the writes that it covered and that are not durable; of an origin,
    /// all such writes that have ended.
    pub forgets: bool,
}

/// Error rates of the two devices of a replacement after sealing; default rates leave a device as it was.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SealedRates {
    pub old: Rates,
    pub new: Rates,
}

/// Damage without an error, in 1/10000 of the reads of data or of the batches on the cache device.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Damage {
    /// Reads that find a flipped bit.
    pub flip: u64,
    /// Batches with a block that is not stored.
    pub phantom: u64,
    /// Batches with a block that is stored in the place of another block.
    pub misdirect: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Trouble {
    /// Every operation fails: the device is missing.
    Gone,
    /// Reads and flushes succeed, writes fail.
    Refuses,
    /// Writes and flushes succeed, reads fail.
    Unreadable,
    /// Reads and flushes succeed, writes fail because the device is full.
    Full,
    /// Operations that begin during the trouble do not complete before its end.
    Silent,
}

/// Trouble that lasts for seconds to minutes, or for the rest of a life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LongTrouble {
    /// Lives with such trouble, in 1/1000.
    pub permille: u64,
    /// Whether the cache device has the trouble, or an origin.
    pub is_cache: bool,
    pub trouble: Trouble,
}

/// The data in which bits flip, or that is zeroed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Rotting {
    /// Data, batch headers, and the journal.
    #[default]
    Anything,
    /// The journal; data, if no block of the journal is declared durable.
    Journal,
    /// All of the journal; data, if no block of the journal is declared durable.
    WholeJournal,
    /// Blocks of the newest data: the log stays readable and lists these blocks.
    Data,
    /// Whole segments, and sometimes the journal, which are zeroed, also after a stop.
    Segments,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Outage {
    pub device: Device,
    pub trouble: Trouble,
    pub from: Instant,
    pub until: Instant,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Faults {
    pub cache: Rates,
    pub origin: Rates,
    /// Of the successor of the cache device until sealing.
    pub successor: Rates,
    pub sealed: SealedRates,
    /// Whether writes of the journal and the marks are spared from the error rates of the cache device.
    pub spares_journal: bool,
    pub damage: Damage,
    /// Crashes after which bits flip in data that the log declares durable, in 1/1000; or ends of lives after which
    /// segments are zeroed.
    pub rot_permille: u64,
    pub rotting: Rotting,
    /// Ends of lives after which blocks of the cache device cannot be read until they are written, in 1/1000.
    pub unreadable_permille: u64,
    /// Whether the newest data becomes unreadable, or any part of the log.
    pub unreadable_newest: bool,
    /// Whether a failed durable write of an origin drops all its unflushed writes: a file system reports an error once.
    pub tells_once: bool,
    /// Writes that fail because a device is full, in 1/1000 of the failing ones.
    pub full_permille: u64,
    /// Probability in 1/1000 that a write of several blocks to the cache device adds a [bad
    /// spot](crate::host::bad_spots).
    pub bad_spot_permille: u64,
    /// Lives in which a device is missing for a while, in 1/1000.
    pub outage_permille: u64,
    /// Lives in which the cache device is missing or unreadable for a while, in 1/1000.
    pub early_permille: u64,
    pub long: Option<LongTrouble>,
    /// Records that the host fails to make, in 1/10000.
    pub note: u64,
    /// Whether devices fail during recovery too.
    pub in_recovery: bool,
}

impl Faults {
    pub fn any(&self) -> bool {
        *self != Faults::default()
    }

    /// Whether faults are possible only in operations of the origins, and in records of the host.
    pub fn are_of_origins(&self) -> bool {
        let Faults { origin, full_permille, note, .. } = *self;
        let long = self.long.filter(|long| !long.is_cache);
        *self == Faults { origin, full_permille, note, long, ..Faults::default() }
    }

    /// Whether all errors are of writes, discards and write-zeroes of the origins.
    pub fn are_of_writes_to_origins(&self) -> bool {
        let Faults { origin: Rates { write, unmap, .. }, full_permille, .. } = *self;
        let origin = Rates { write, unmap, ..Rates::default() };
        *self == Faults { origin, full_permille, ..Faults::default() }
    }

    /// Whether all errors are of the successor, or of either device after sealing.
    pub fn are_of_takeovers(&self) -> bool {
        let Faults { successor, sealed, .. } = *self;
        *self == Faults { successor, sealed, ..Faults::default() }
    }

    /// Whether a read of the cache device may fail or return other bytes than the engine wrote.
    pub fn may_hide_cached(&self) -> bool {
        let Rates { read, lie, forgets, .. } = self.cache;
        let SealedRates { old, new } = self.sealed;
        let permilles = self.rot_permille + self.unreadable_permille + self.bad_spot_permille;
        let outages = self.outage_permille + self.early_permille;
        let is_long = self.long.is_some_and(|long| long.is_cache);
        let forgets = forgets || old.forgets || new.forgets;
        read + lie + permilles + outages > 0 || is_long || forgets || self.damage != Damage::default()
    }

    /// Whether bad spots are the only possible faults.
    pub fn has_only_bad_spots(&self) -> bool {
        self.bad_spot_permille > 0
            && *self == Faults { bad_spot_permille: self.bad_spot_permille, ..Faults::default() }
    }

    /// Whether the cache device or an origin may lose or change bytes without an error, or drop the writes that a
    /// failed flush covered; [`Faults::sealed`] does not count.
    pub fn may_deceive(&self) -> bool {
        let lies = self.cache.lie + self.origin.lie + self.rot_permille > 0;
        lies || self.cache.forgets || self.origin.forgets || self.damage != Damage::default()
    }

    pub fn rates(&self, device: Device) -> Rates {
        match device {
            Device::Cache => self.cache,
            Device::Successor => self.successor,
            Device::Origin(_) | Device::RedoJournal => self.origin,
        }
    }

    pub fn once_sealed(&self) -> Faults {
        let SealedRates { old, new } = self.sealed;
        let stay = |rates: Rates, other: Rates| if rates == Rates::default() { other } else { rates };
        Faults { cache: stay(old, self.cache), successor: stay(new, self.successor), ..*self }
    }

    pub fn draw_failure(
        &self,
        device: Device,
        operation: &DeviceOperation,
        random: &mut Random,
    ) -> Option<DeviceError> {
        let rates = self.rates(device);
        if unmaps(operation) && rates.unmap > 0 && random.below(10_000) < rates.unmap {
            return Some([DeviceError::Io, DeviceError::Unsupported][random.index(2)]);
        }
        let (permyriad, writes) = match operation {
            DeviceOperation::Read { .. } | DeviceOperation::ReadMetadata { .. } => (rates.read, false),
            DeviceOperation::Write { .. }
            | DeviceOperation::WriteMetadata { .. }
            | DeviceOperation::WriteZeroes { .. } => (rates.write, true),
            DeviceOperation::Discard { .. } => (rates.write, false),
            DeviceOperation::Flush { .. } => (rates.flush, false),
            DeviceOperation::NoteOutOfService { .. } => (self.note, false),
            DeviceOperation::Copy { .. } | DeviceOperation::Zero { .. } => (0, false),
        };
        if permyriad == 0 || random.below(10_000) >= permyriad {
            return None;
        }
        let is_full = writes && random.chance(self.full_permille);
        Some(if is_full { DeviceError::NoSpace } else { DeviceError::Io })
    }

    pub fn draw_outages(&self, now: Instant, volumes: u8, random: &mut Random) -> Vec<Outage> {
        let short = self.draw_outage(now, volumes, random);
        let long = self.long.and_then(|long| long.draw(now, volumes, random));
        let early = (self.early_permille > 0).then(|| self.draw_early(now, random)).flatten();
        short.into_iter().chain(long).chain(early).collect()
    }

    fn draw_early(&self, now: Instant, random: &mut Random) -> Option<Outage> {
        if !random.chance(self.early_permille) {
            return None;
        }
        let trouble = [Trouble::Gone, Trouble::Unreadable][random.index(2)];
        let from = now.plus(Duration::from_micros(random.below(20_000)));
        let until = from.plus(Duration::from_micros(random.within(1_000, 1_000_000)));
        Some(Outage { device: Device::Cache, trouble, from, until })
    }

    fn draw_outage(&self, now: Instant, volumes: u8, random: &mut Random) -> Option<Outage> {
        if !random.chance(self.outage_permille) {
            return None;
        }
        let number = u8::try_from(random.below(u64::from(volumes) + 1)).expect("few volumes");
        let device = match number.checked_sub(1) {
            None => Device::Cache,
            Some(volume) => Device::Origin(VolumeId::new(volume)),
        };
        let from = now.plus(Duration::from_micros(random.below(300_000)));
        let until = from.plus(Duration::from_micros(random.within(100, 3_000_000)));
        Some(Outage { device, trouble: Trouble::Gone, from, until })
    }
}

impl LongTrouble {
    fn draw(&self, now: Instant, volumes: u8, random: &mut Random) -> Option<Outage> {
        if !random.chance(self.permille) {
            return None;
        }
        let number = u8::try_from(random.below(u64::from(volumes))).expect("few volumes");
        let device = if self.is_cache { Device::Cache } else { Device::Origin(VolumeId::new(number)) };
        let from = now.plus(Duration::from_micros(random.below(300_000)));
        let lasts_on = self.trouble != Trouble::Silent && random.chance(700);
        let span = if lasts_on { u64::MAX / 2 } else { random.within(1_000_000_000, 200_000_000_000) };
        Some(Outage { device, trouble: self.trouble, from, until: from.plus(Duration::from_nanos(span)) })
    }
}

impl Outage {
    pub fn is_at(&self, now: Instant) -> bool {
        self.from <= now && now < self.until
    }

    pub fn failure(&self, operation: &DeviceOperation) -> Option<DeviceError> {
        match self.trouble {
            Trouble::Gone => Some(DeviceError::Gone),
            Trouble::Refuses => is_write(operation).then_some(DeviceError::Io),
            Trouble::Full => is_write(operation).then_some(DeviceError::NoSpace),
            Trouble::Unreadable => is_read(operation).then_some(DeviceError::Io),
            Trouble::Silent => None,
        }
    }
}

fn unmaps(operation: &DeviceOperation) -> bool {
    matches!(operation, DeviceOperation::Discard { .. } | DeviceOperation::WriteZeroes { .. })
}

fn is_read(operation: &DeviceOperation) -> bool {
    matches!(operation, DeviceOperation::Read { .. } | DeviceOperation::ReadMetadata { .. })
}

fn draw_rates(random: &mut Random) -> Rates {
    let mut rate = |high: u64| if random.chance(600) { 0 } else { random.within(1, high) };
    Rates {
        read: rate(100),
        write: rate(100),
        unmap: 0,
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

/// Draws one kind of fault, or several errors together.
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
    faults.note = if faults.any() && random.chance(500) { [2_000, 10_000][random.index(2)] } else { 0 };
    faults.in_recovery = faults.cache.read + faults.cache.flush > 0 && random.chance(400);
    faults
}
