//! The cache device is replaced while an engine serves: the steps of the operator and of the daemon.

use kickcache_engine::engine::Phase;
use kickcache_engine::format::mark::ServiceMark;
use kickcache_engine::format::succession::{Succession, succession};
use kickcache_engine::format::superblock::{SUPERBLOCK_OFFSETS, SUPERBLOCK_SIZE, Superblock};
use kickcache_engine::format::takeover::{OtherDevice, Takeover};
use kickcache_engine::mirror::Mirror;
use kickcache_engine::mirror::side::Side;
use kickcache_engine::request::Durability;
use kickcache_engine::stats::CacheHealth;
use kickcache_engine::time::Duration;
use kickcache_engine::units::{BLOCK_BYTES, BLOCK_SIZE, ByteExtent};

use crate::content::Block;
use crate::device::SimulatedDevice;
use crate::host::Host;
use crate::index::index;
use crate::payload::Payload;
use crate::plan::replacement::Replacement;
use crate::queue::Event;
use crate::replacing::{Copy, Replacing, Step};
use crate::run::Simulation;
use crate::subject::{Subject, prepare_marks, prepare_superblock};
use crate::superblock::{any_superblock, each_superblock};

/// How often the successor does not respond when a part is due to be copied while operations on it are in flight, in
/// 1/1000.
const SILENT_PERMILLE: u64 = 400;

/// The same at another step of the copy, in 1/1000, if operations of the successor hang.
const SILENT_AT_STEP_PERMILLE: u64 = 250;

impl Simulation {
    pub(super) fn schedule_replacement(&mut self) {
        if let Some(replacement) = self.plan.replacement
            && self.random.chance(replacement.permille)
        {
            let pause = Duration::from_nanos(self.random.below(replacement.within.as_nanos()));
            self.queue.push(self.now.plus(pause), Event::Replace);
        }
    }

    pub(super) fn replace<E: Subject>(&mut self, host: &mut Host<E>) -> Result<(), String> {
        self.replacement_steps += 1;
        let Some(replacing) = self.replacing.take() else { return self.begin_replacement(host) };
        let Replacing { step, mut left } = replacing;
        let step = match step {
            Step::Copying | Step::Read(..) | Step::Written(_) | Step::Flushing(_)
                if mirror(host)?.waits_for_new().is_some() && self.is_silent(&step) =>
            {
                self.desert(host)
            }
            Step::Copying => self.copy(host)?,
            Step::Read(extent, payload) => Step::Written(self.new_device().write(extent.start, payload)),
            Step::Written(ticket) => {
                self.new_device().complete_write(ticket, Durability::Volatile);
                mirror(host)?.handle_copied();
                self.summary.copied_parts += 1;
                self.copy(host)?
            }
            Step::Flushing(ticket) => {
                self.new_device().complete_flush(ticket);
                if mirror(host)?.failure().is_none() {
                    mirror(host)?.seal();
                    host.note_sealed();
                    left = self.superblocks()?;
                    self.write_next(&mut left)
                } else {
                    self.let_go(host)?
                }
            }
            Step::Noting(on, ticket) => {
                let device = self.device_of(on);
                device.complete_write(ticket, Durability::Volatile);
                Step::Noted(on, device.start_flush())
            }
            Step::Noted(on, ticket) => {
                self.device_of(on).complete_flush(ticket);
                if left.is_empty() && mirror(host)?.take_failure().is_some() {
                    left = self.superblocks()?;
                }
                if left.is_empty() {
                    mirror(host)?.part();
                    Step::Parting
                } else {
                    self.write_next(&mut left)
                }
            }
            Step::Parting | Step::GivenUp => step,
        };
        let waits = matches!(step, Step::Parting | Step::GivenUp);
        self.replacing = Some(Replacing { step, left });
        if !waits {
            self.schedule_replacement_step();
        }
        Ok(())
    }

    /// Whether the operator abandons the successor at this step because an operation of it does not end.
    fn is_silent(&mut self, step: &Step) -> bool {
        let permille = if matches!(step, Step::Copying) {
            SILENT_PERMILLE
        } else if self.plan.faults.successor.hang > 0 {
            SILENT_AT_STEP_PERMILLE
        } else {
            0
        };
        self.random.chance(permille)
    }

    fn schedule_replacement_step(&mut self) {
        let Some(Replacement { step_max, .. }) = self.plan.replacement else { return };
        let pause = Duration::from_nanos(1 + self.random.below(step_max.as_nanos()));
        self.queue.push(self.now.plus(pause), Event::Replace);
    }

    /// No replacement begins if the engine is not running with a good cache device, or the clients have
    /// finished.
    fn begin_replacement<E: Subject>(&mut self, host: &mut Host<E>) -> Result<(), String> {
        let Some(Replacement { larger_max, .. }) = self.plan.replacement else { return Ok(()) };
        let is_well = host.engine.phase() == Phase::Running && host.engine.health() == CacheHealth::Good;
        if !is_well || self.budget == 0 {
            return Ok(());
        }
        let old = any_superblock(&self.devices.cache).map_err(|error| error.to_string())?;
        let size = self.devices.cache.size() + self.random.within(0, larger_max) / BLOCK_SIZE * BLOCK_SIZE;
        // A successor of an abandoned replacement with its content, or a blank device.
        let spare = self.spare.take().filter(|spare| spare.size() >= old.geometry.device_size);
        let mut new = spare.unwrap_or_else(|| SimulatedDevice::new(size));
        let mut uuid = [0; 16];
        uuid[..8].copy_from_slice(&self.random.next_u64().to_le_bytes());
        let incomplete =
            old.with_takeover(Takeover::Incomplete(OtherDevice { uuid, path: "old".to_owned() }));
        prepare_superblock(&mut new, &incomplete);
        prepare_marks(&mut new, ServiceMark::InService, old.uuid);
        self.note(|| format!("the cache device is to be replaced by a device of {} bytes", new.size()));
        self.devices.successor = Some(new);
        host.begin_mirror(old.geometry.log());
        self.replacing = Some(Replacing { step: Step::Copying, left: Vec::new() });
        self.schedule_replacement_step();
        Ok(())
    }

    fn copy<E: Subject>(&mut self, host: &mut Host<E>) -> Result<Step, String> {
        let mirror = mirror(host)?;
        if mirror.is_copied() {
            return Ok(Step::Flushing(self.new_device().start_flush()));
        }
        let Some(extent) = mirror.poll_copy() else { return Ok(Step::Copying) };
        if !self.devices.cache.can_read(extent) {
            return self.let_go(host);
        }
        let blocks = self.devices.cache.blocks();
        Ok(Step::Read(extent, Payload::new(extent, |number| blocks[index(number)].clone())))
    }

    fn let_go<E: Subject>(&mut self, host: &mut Host<E>) -> Result<Step, String> {
        mirror(host)?.give_up();
        self.note(|| "the successor is abandoned".to_owned());
        self.summary.abandoned_successors += 1;
        Ok(Step::GivenUp)
    }

    fn desert<E: Subject>(&mut self, host: &mut Host<E>) -> Step {
        self.new_device().complete_all();
        host.desert(self.now);
        self.note(|| "the successor does not respond, and is abandoned".to_owned());
        self.summary.deserted_successors += 1;
        Step::GivenUp
    }

    /// The superblocks to write, the first one last.
    fn superblocks(&mut self) -> Result<Vec<Copy>, String> {
        let old = any_superblock(&self.devices.cache).map_err(|error| error.to_string())?;
        let new = any_superblock(self.new_device()).map_err(|error| error.to_string())?;
        let told = new.takeover.other().or_else(|| old.takeover.other());
        let other = told.ok_or("no superblock names the other device of the replacement")?.clone();
        let epoch = new.epoch + 1;
        let replaced = Superblock { epoch: old.epoch + 1, ..old.with_takeover(Takeover::Replaced(other)) };
        let complete = Superblock { epoch, ..old.succeeded() };
        let copies = |on, superblock: Superblock| {
            SUPERBLOCK_OFFSETS.map(|offset| Copy { on, offset, superblock: superblock.clone() })
        };
        let mut left: Vec<Copy> =
            copies(Side::Old, replaced).into_iter().chain(copies(Side::New, complete)).collect();
        left.reverse();
        Ok(left)
    }

    fn write_next(&mut self, left: &mut Vec<Copy>) -> Step {
        let Some(Copy { on, offset, superblock }) = left.pop() else { return Step::Parting };
        let bytes = superblock.encode();
        let extent = ByteExtent { start: offset, length: SUPERBLOCK_SIZE as u64 };
        let payload = Payload::new(extent, |number| {
            let at = index(number * BLOCK_SIZE - offset);
            Block::from_bytes(bytes[at..at + BLOCK_BYTES].try_into().expect("a block"))
        });
        Step::Noting(on, self.device_of(on).write(offset, payload))
    }

    fn new_device(&mut self) -> &mut SimulatedDevice {
        self.devices.successor.as_mut().expect("a replacement has a new device")
    }

    fn device_of(&mut self, on: Side) -> &mut SimulatedDevice {
        match on {
            Side::Old => &mut self.devices.cache,
            Side::New => self.new_device(),
        }
    }

    pub(super) fn poll_replacement<E: Subject>(&mut self, host: &mut Host<E>) -> Result<(), String> {
        let Some(Replacing { step, .. }) = &self.replacing else { return Ok(()) };
        let is_out = host.engine.health() != CacheHealth::Good;
        match step {
            Step::Parting if host.is_mirror_idle() => {
                self.replacing = None;
                self.take_over();
                host.switch(&mut self.around())
            }
            Step::GivenUp if mirror(host)?.is_quiet() => {
                self.replacing = None;
                host.end_mirror();
                self.spare = self.devices.successor.take();
                Ok(())
            }
            Step::Copying | Step::Read(..) | Step::Written(_) | Step::Flushing(_)
                if is_out || mirror(host)?.failure().is_some() =>
            {
                if !is_out && !host.takeover_errors().has_successor_failed() {
                    return Err("a successor without an error is abandoned".to_owned());
                }
                // The successor still completes the writes of a part that are in flight.
                if let Some(successor) = &mut self.devices.successor {
                    successor.complete_all();
                }
                let step = self.let_go(host)?;
                self.replacing = Some(Replacing { step, left: Vec::new() });
                Ok(())
            }
            Step::Copying
            | Step::Read(..)
            | Step::Written(_)
            | Step::Flushing(_)
            | Step::Noting(..)
            | Step::Noted(..)
            | Step::Parting
            | Step::GivenUp => Ok(()),
        }
    }

    fn take_over(&mut self) {
        let Some(successor) = self.devices.successor.take() else { return };
        self.note(|| "the new cache device has taken over".to_owned());
        self.summary.successors += 1;
        self.retired = Some(std::mem::replace(&mut self.devices.cache, successor));
        self.spare = None;
    }

    /// A stop abandons a successor that is not sealed, and waits for the end of the replacement.
    pub(super) fn end_replacement<E: Subject>(&mut self, host: &mut Host<E>) -> Result<(), String> {
        let is_copying = |step: &Step| {
            matches!(step, Step::Copying | Step::Read(..) | Step::Written(_) | Step::Flushing(_))
        };
        if self.replacing.as_ref().is_some_and(|replacing| is_copying(&replacing.step)) {
            if let Some(successor) = &mut self.devices.successor {
                successor.complete_all();
            }
            let step = self.let_go(host)?;
            self.replacing = Some(Replacing { step, left: Vec::new() });
        }
        self.run(host, None, |life, _| life.replacing.is_none())?;
        Ok(())
    }

    /// Determines after a crash which of the two devices is served, as a start does.
    pub(super) fn end_interrupted_replacement(&mut self) -> Result<(), String> {
        self.replacing = None;
        let Some(mut new) = self.devices.successor.take() else { return self.check_retired() };
        let read = |device: &SimulatedDevice| any_superblock(device).map_err(|error| error.to_string());
        let (old, found) = (read(&self.devices.cache)?, read(&new)?);
        check_strangers(&old, &found)?;
        let succession = succession(&old, &found);
        self.note(|| format!("two devices were found: {succession:?}"));
        self.summary.interrupted_replacements += 1;
        let complete = match succession {
            Succession::Old => {
                self.spare = Some(new);
                return Ok(());
            }
            Succession::New => found,
            Succession::NewToComplete => {
                self.summary.completed_successors += 1;
                Superblock { epoch: found.epoch + 1, ..old.succeeded() }
            }
            Succession::Unrelated => return Err(format!("neither {old:?} nor {found:?} is the cache")),
        };
        // Writes of a dead process may still be lost: both superblocks are written again, durably, the old one first.
        prepare_superblock(&mut self.devices.cache, &old);
        prepare_superblock(&mut new, &complete);
        self.devices.successor = Some(new);
        self.take_over();
        self.check_retired()
    }

    /// A device that was replaced is never used again.
    fn check_retired(&self) -> Result<(), String> {
        let Some(retired) = &self.retired else { return Ok(()) };
        for copy in each_superblock(retired) {
            match copy.map(|superblock| superblock.takeover) {
                Ok(Takeover::Replaced(_)) => {}
                other => return Err(format!("a device that was replaced would be served: {other:?}")),
            }
        }
        Ok(())
    }
}

/// Fails if a device that is not the successor counts as the successor.
fn check_strangers(old: &Superblock, found: &Superblock) -> Result<(), String> {
    if !matches!(old.takeover, Takeover::Replaced(_)) {
        return Ok(());
    }
    let uuid = found.uuid.map(|byte| !byte);
    let another = Takeover::Incomplete(OtherDevice { uuid, path: "another".to_owned() });
    let strangers = [
        Superblock { uuid, ..found.clone() },
        found.with_takeover(another),
        old.with_takeover(Takeover::None),
    ];
    let is_taken = |stranger: &&Superblock| {
        matches!(succession(old, stranger), Succession::New | Succession::NewToComplete)
    };
    match strangers.iter().find(is_taken) {
        None => Ok(()),
        Some(stranger) => Err(format!("{stranger:?} counts as the successor of {old:?}")),
    }
}

fn mirror<E: Subject>(host: &mut Host<E>) -> Result<&mut Mirror, String> {
    host.mirror().ok_or_else(|| "there is no mirror".to_owned())
}
