//! Queries of queued devices in addition to their operations.

use kickcache_engine::device::Device;
use kickcache_engine::samples::Sample;
use kickcache_engine::units::ByteExtent;

use crate::driver::executor::{Driver, OpenMedium, slot};
use crate::driver::queued_device::{ExtentsTold, QueuedDevice};

impl Driver {
    /// Makes unanswered requests of a queued device fail soon, if the device permits it.
    pub fn give_up(&mut self, device: Device) {
        if let Some(device) = self.queued_device(device) {
            device.give_up();
        }
    }

    /// Begins to compare a queued device with samples of its expected contents, once, at the start.
    pub fn begin_compare(&mut self, device: Device, samples: &[Sample]) {
        if let Some(device) = self.queued_device(device) {
            device.begin_compare(samples);
        }
    }

    /// Ends the comparison, and may wait for the device.
    ///
    /// # Errors
    /// A sentence, if the device holds something else, or does not answer.
    pub fn end_compare(&mut self, device: Device) -> Result<(), String> {
        self.queued_device(device).map_or(Ok(()), |device| device.end_compare())
    }

    /// Passes a device that [`Driver::poll_restart`] named samples of its expected contents for its restart.
    pub fn expect(&mut self, device: Device, samples: Vec<Sample>) {
        if let Some(device) = self.queued_device(device) {
            device.expect(samples);
        }
    }

    /// Whether a queued device can report its extents.
    pub fn has_extents(&mut self, device: Device) -> bool {
        self.queued_device(device).is_some_and(|device| device.has_extents())
    }

    /// Queries which parts of an extent of a device are holes.
    pub fn ask_extents(&mut self, device: Device, token: u64, extent: ByteExtent) {
        if let Some(device) = self.queued_device(device) {
            device.ask_extents(token, extent);
        }
    }

    /// The next answer of a queued device to [`Driver::ask_extents`].
    pub fn poll_extents(&mut self) -> Option<ExtentsTold> {
        let Driver { queued, media, .. } = self;
        queued.iter().find_map(|slot| match &mut media[*slot] {
            Some(OpenMedium::Queued(device)) => device.take_extents(),
            Some(OpenMedium::File(..)) | None => None,
        })
    }

    fn queued_device(&mut self, device: Device) -> Option<&mut dyn QueuedDevice> {
        match self.media.get_mut(slot(device))? {
            Some(OpenMedium::Queued(device)) => Some(device.as_mut()),
            Some(OpenMedium::File(..)) | None => None,
        }
    }
}
