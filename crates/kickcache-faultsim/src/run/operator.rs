//! The actions of an operator during a life, and restarts of the origins' servers.

use kickcache_engine::time::Duration;
use kickcache_engine::units::VolumeId;

use crate::host::Host;
use crate::plan::pick::draw_mode;
use crate::queue::Event;
use crate::run::{Simulation, volume_id};
use crate::subject::Subject;

impl Simulation {
    pub(super) fn operate<E: Subject>(&mut self, host: &mut Host<E>) {
        let number = self.random.index(self.volumes.len());
        let volume = volume_id(number);
        if !self.served[number] {
            // The engine does not serve the volume, so the operator cannot act on it.
        } else if self.plan.mode_changes && self.random.chance(700) {
            let mode = draw_mode(&mut self.random);
            self.note(|| format!("mode of volume {number} becomes {mode:?}"));
            self.volumes[number].mode = mode;
            host.engine.set_mode(self.now, volume, mode);
        } else if self.plan.drains {
            self.note(|| format!("drain volume {number}"));
            host.engine.drain(self.now, volume);
        }
        let pause = Duration::from_micros(self.random.within(100, 200_000));
        if self.budget > 0 {
            self.queue.push(self.now.plus(pause), Event::Operator);
        }
    }

    pub(super) fn schedule_restart(&mut self, volume: VolumeId) {
        if let Some(mean) = self.plan.restart_after {
            let pause = Duration::from_nanos(self.random.within(1, 2 * mean.as_nanos()));
            self.queue.push(self.now.plus(pause), Event::Restart(volume));
        }
    }
}
