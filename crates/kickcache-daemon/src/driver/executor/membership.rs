//! Devices that are added and removed while others are used.

use std::sync::Arc;

use kickcache_engine::device::Device;

use crate::driver::executor::{Driver, Medium, NamedMedium, OpenMedium, SUCCESSOR_SLOT, queued, slot, way};

/// A device that was removed from the driver; its drop may take long.
pub struct RemovedDevice {
    _medium: Option<OpenMedium>,
}

impl Driver {
    /// Adds a device.
    ///
    /// # Panics
    /// If the driver has the device already.
    pub fn add(&mut self, named: NamedMedium) {
        let slot = slot(named.device);
        if self.media.len() <= slot {
            self.media.resize_with(slot + 1, || None);
        }
        assert!(self.media[slot].is_none(), "a device is added once");
        self.media[slot] = Some(match named.medium {
            Medium::File(file) => {
                let target = self.backend.register_late(file.fd(), way(&file));
                OpenMedium::File(Arc::new(file), target)
            }
            Medium::Queued(device) => {
                self.queued.push(slot);
                self.unwatched.push(slot);
                OpenMedium::Queued(device)
            }
        });
        self.buffers.budget.set_volumes(self.volume_count());
    }

    /// Removes a device, which must be idle, if the driver has it.
    pub fn remove(&mut self, device: Device) -> RemovedDevice {
        let slot = slot(device);
        let medium = self.media.get_mut(slot).and_then(Option::take);
        match &medium {
            Some(OpenMedium::File(_, target)) => self.backend.unregister(*target),
            Some(OpenMedium::Queued(device)) => queued::unwatch(self.backend.as_mut(), slot, device.as_ref()),
            None => {}
        }
        self.queued.retain(|queued| *queued != slot);
        self.unwatched.retain(|unwatched| *unwatched != slot);
        self.buffers.budget.set_volumes(self.volume_count());
        RemovedDevice { _medium: medium }
    }

    /// Makes the successor the cache device, and returns the old cache device. Both must be idle.
    ///
    /// # Panics
    /// If there is no successor.
    pub fn take_over(&mut self) -> RemovedDevice {
        let successor = self.media.get_mut(SUCCESSOR_SLOT).and_then(Option::take);
        assert!(successor.is_some(), "a device takes over that is there");
        let parted = self.remove(Device::Cache);
        self.media[slot(Device::Cache)] = successor;
        parted
    }

    fn volume_count(&self) -> usize {
        self.media.iter().take(SUCCESSOR_SLOT).skip(1).flatten().count()
    }
}
