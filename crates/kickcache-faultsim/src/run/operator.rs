//! The actions of an operator during a life, and restarts of the origins' servers.

use std::num::NonZeroU64;

use kickcache_engine::time::Duration;
use kickcache_engine::units::VolumeId;

use crate::host::Host;
use crate::plan::draw::redraw_volume;
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
        } else if self.plan.setting_changes && self.random.chance(500) {
            self.change_settings(host, number);
        } else if self.plan.drains {
            self.note(|| format!("drain volume {number}"));
            host.engine.drain(self.now, volume);
            self.drained.note_asked(volume);
        }
        let pause = Duration::from_micros(self.random.within(100, 200_000));
        if self.budget > 0 {
            self.queue.push(self.now.plus(pause), Event::Operator);
        }
    }

    /// The other settings of a volume change, or the write budget, or misses are not cached for a while.
    fn change_settings<E: Subject>(&mut self, host: &mut Host<E>, number: usize) {
        self.note(|| format!("the settings of volume {number} change"));
        let changed = redraw_volume(&self.volumes[number], &mut self.random);
        self.volumes[number] = changed;
        host.engine.change_settings(self.now, &changed);
        if self.random.chance(200) {
            let budget = NonZeroU64::new(self.random.within(1 << 18, 64 << 20));
            host.engine.set_write_budget(self.now, budget.filter(|_| self.random.chance(500)));
        }
        if self.random.chance(200) {
            let until = self.now.plus(Duration::from_micros(self.random.within(100, 100_000)));
            host.engine.pause_caching(volume_id(number), until);
        }
    }

    /// Schedules the next restart of the origin of a volume, if origins restart in this plan.
    pub(super) fn schedule_restart(&mut self, volume: VolumeId) {
        if let Some(mean) = self.plan.restart_after {
            let pause = Duration::from_nanos(self.random.within(1, 2 * mean.as_nanos()));
            self.queue.push(self.now.plus(pause), Event::Restart(volume));
        }
    }
}
