//! Adding and removing volumes.

use kickcache_engine::cache_engine::CacheEngine;

use super::device::UblkDevice;
use super::open_ublk::OpenUblk;
use super::place::NOBODY;
use super::removal::remove_aside;
use super::{Ublk, process};
use crate::serve::core::Core;
use crate::serve::frontend::kinds::WatchKey;

impl Ublk {
    pub(in crate::serve::frontend) fn join<E>(&mut self, core: &mut Core<E>, volume: usize, open: OpenUblk) {
        let mut device = open.into_device();
        device.volume = volume;
        let index = self.insert(device);
        self.fetch(core, index);
    }

    pub(super) fn insert(&mut self, device: UblkDevice) -> usize {
        if self.devices.is_empty() {
            process::take_part_in_io();
        }
        match self.devices.iter().position(UblkDevice::is_gone) {
            Some(free) => {
                self.devices[free] = device;
                free
            }
            None => {
                self.devices.push(device);
                self.devices.len() - 1
            }
        }
    }

    /// Holds new requests of the device of the volume with an index.
    pub(crate) fn hide(&mut self, volume: usize) {
        self.devices_of(volume).for_each(|device| device.is_hidden = true);
    }

    pub(crate) fn show(&mut self, volume: usize) {
        self.devices_of(volume).for_each(|device| device.is_hidden = false);
    }

    /// Whether no request of the device of a volume was passed on and has no reply; requests held while
    /// hidden do not count.
    pub(crate) fn has_ended(&self, volume: usize) -> bool {
        let mut devices = self.devices.iter().filter(|device| device.volume == volume);
        devices.all(|device| device.in_flight == 0)
    }

    /// Removes the block device of a volume; further requests of the kernel end with an error.
    pub(in crate::serve::frontend) fn part<E: CacheEngine>(&mut self, core: &mut Core<E>, volume: usize) {
        let controls = self.controls.clone();
        for device in self.devices_of(volume) {
            device.volume = NOBODY;
            if device.is_served() {
                remove_aside(&controls, device.id, device.path());
            }
        }
        // Waiting requests of this device end with an error, too.
        for key in std::mem::take(&mut self.waiting) {
            core.driver.buffers().budget.cancel(WatchKey::Ublk(key).bits());
            self.held.push(key);
        }
        self.take_requests(core);
    }

    fn devices_of(&mut self, volume: usize) -> impl Iterator<Item = &mut UblkDevice> {
        self.devices.iter_mut().filter(move |device| device.volume == volume)
    }
}
