//! Errors and silences of devices, logged with names.

use kickcache_engine::cache_engine::CacheEngine;
use kickcache_engine::device::Device;
use kickcache_engine::time::{Duration, Instant};

use super::EventLoop;
use crate::devices::state::Completeness;
use crate::driver::device::BlockFile;
use crate::driver::fault::Fault;
use crate::serve::control::{Errors, TakeoverStage, Trouble};
use crate::serve::rate_limit::{SuppressedKind, SuppressedLines};
use crate::serve::troubles::{FaultKind, SILENT_MIN, Silence, Tally, show_cause};

struct DeviceName<'a> {
    device: String,
    volume: Option<&'a str>,
}

impl<E: CacheEngine> EventLoop<E> {
    /// Counts the errors that arrived since the last call, and logs the first of each kind in a span.
    pub(super) fn take_faults(&mut self, now: Instant) {
        for fault in self.core.driver.take_faults() {
            self.note_fault(&fault);
            if self.troubles.note(now, fault) {
                let DeviceName { device, volume } = self.name_device(fault.device);
                tracing::error!(event = "device_error", device, volume, "{}", self.show_fault(&fault));
            }
        }
    }

    /// An origin that failed a write, a write of zeroes or a flush may lack acknowledged writes in
    /// any mode. The record is written here, synchronously: no reply about the error may be sent
    /// before.
    fn note_fault(&self, fault: &Fault) {
        let (Some(notes), Device::Origin(volume)) = (&self.notes, fault.device) else { return };
        if ["write", "write-zeroes", "flush"].contains(&fault.operation) {
            notes.note_completeness(volume, Completeness::MayBeDirty);
        }
    }

    /// Logs news about devices, if the next look is due.
    pub(crate) fn tell_troubles(&mut self, now: Instant) {
        if !self.troubles.begin_look(now) {
            return;
        }
        while let Some(SuppressedKind { kind, held }) = self.troubles.poll_held(now) {
            self.tell_held(kind, held);
        }
        self.tell_damage();
        let origins = self.core.volumes.iter().map(|volume| Device::Origin(volume.info.id));
        let devices: Vec<Device> = origins.chain(Some(Device::Cache)).collect();
        for device in devices {
            if self.core.driver.away(device).is_some() {
                // No silence is logged during an outage, which has log lines of its own.
                continue;
            }
            let since = self.silent_since(device);
            let Some(silence) = self.troubles.hear(now, device, since) else { continue };
            let name = self.show_device(device);
            let DeviceName { device, volume } = self.name_device(device);
            match silence {
                Silence::Began(span) => tracing::error!(
                    event = "device_silent",
                    device,
                    volume,
                    "{name} has completed no operation for {} s: requests that need it wait",
                    seconds(span)
                ),
                Silence::Ended(span) => {
                    tracing::warn!(
                        event = "device_answers",
                        device,
                        volume,
                        "{name} answers again, after {} s",
                        seconds(span)
                    );
                }
            }
        }
    }

    /// Logs all errors that were only counted so far.
    pub(super) fn tell_last_troubles(&mut self, now: Instant) {
        for SuppressedKind { kind, held } in self.troubles.end(now) {
            self.tell_held(kind, held);
        }
    }

    /// Logs the counted errors of a device that is about to be removed.
    pub(super) fn tell_last_of(&mut self, now: Instant, device: Device) {
        for SuppressedKind { kind, held } in self.troubles.end_of(now, device) {
            self.tell_held(kind, held);
        }
    }

    /// Logs the counted errors of the present cache device under its name, before another device takes its
    /// place.
    pub(super) fn end_troubles_of_cache(&mut self, now: Instant) {
        self.take_faults(now);
        self.tell_last_of(now, Device::Cache);
        self.troubles.forget(Device::Cache);
    }

    fn tell_held(&self, kind: FaultKind, held: SuppressedLines) {
        let DeviceName { device, volume } = self.name_device(kind.device);
        tracing::error!(
            event = "device_error",
            device,
            volume,
            "{}: {}: {held}",
            self.show_operation(kind),
            show_cause(kind.cause)
        );
    }

    /// The time since which a device has completed none of its operations; `None` if it has none in
    /// flight, or, for the cache device, while clients wait for the new one.
    fn silent_since(&self, device: Device) -> Option<Instant> {
        if device == Device::Cache && self.takeover.waits_for_new(self.core.mirror.as_ref()) {
            return None;
        }
        self.core.engine.silent_since(device)
    }

    pub(super) fn trouble_of(&self, now: Instant, device: Device) -> Trouble {
        let since = self.silent_since(device).map(|since| now.since(since));
        let errors = |tally: Tally| Errors { count: tally.count, last: tally.last, ago: now.since(tally.at) };
        Trouble {
            errors: self.troubles.tally(device).map(errors),
            silent: since.filter(|span| *span >= SILENT_MIN),
            away: self.core.driver.away(device),
            unlinked_at: self.core.driver.file(device).and_then(BlockFile::unlinked_at),
        }
    }

    fn show_fault(&self, fault: &Fault) -> String {
        let (what, cause) = (self.show_operation(FaultKind::of(fault)), show_cause(fault.cause));
        let Fault { offset, length, .. } = fault;
        match length {
            0 => format!("{what}: {cause}"),
            _ => format!("{what}, {length} bytes at {offset}: {cause}"),
        }
    }

    fn show_operation(&self, kind: FaultKind) -> String {
        format!("{}: {} failed", self.show_device(kind.device), kind.operation)
    }

    pub(super) fn show_device(&self, device: Device) -> String {
        let is_over = self.takeover.stage() == Some(TakeoverStage::TakingOver);
        match (self.name_device(device), &self.takeover.with) {
            (DeviceName { device: old, volume: None }, Some(with))
                if is_over && device == Device::Cache && self.core.driver.is_idle(device) =>
            {
                format!("{with}, which takes over from the cache device {old},")
            }
            (DeviceName { device, volume: None }, _) => format!("the cache device {device}"),
            (DeviceName { device, volume: Some(volume) }, _) => format!("{device}, the origin of {volume}"),
        }
    }

    fn name_device(&self, device: Device) -> DeviceName<'_> {
        let path = self.core.driver.file(device).map(|file| file.path().display().to_string());
        match device {
            Device::Cache => {
                DeviceName { device: path.unwrap_or_else(|| self.cache.display().to_string()), volume: None }
            }
            Device::Successor | Device::RedoJournal => {
                DeviceName { device: path.unwrap_or_default(), volume: None }
            }
            Device::Origin(id) => {
                let found = self.core.volumes.iter().find(|volume| volume.info.id == id);
                let (name, origin) = found.map_or(("?", "?"), |found| (&found.info.name, &found.info.origin));
                DeviceName { device: path.unwrap_or_else(|| origin.into()), volume: Some(name) }
            }
        }
    }
}

pub(super) fn seconds(span: Duration) -> u64 {
    span.as_nanos() / 1_000_000_000
}
