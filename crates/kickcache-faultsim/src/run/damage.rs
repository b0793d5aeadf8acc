//! What the cache device suffers between two lives.

use crate::rot::{Rotted, rot};
use crate::run::Simulation;
use crate::sectors::{Unreadable, make_unreadable};

impl Simulation {
    /// After a crash.
    pub(super) fn damage_cache(&mut self) {
        self.rot();
        self.make_cache_unreadable();
    }

    fn rot(&mut self) {
        let permille = self.plan.faults.rot_permille;
        if permille > 0 && self.random.chance(permille) {
            let rotted = rot(&mut self.devices.cache, self.plan.faults.rotting, &mut self.random);
            self.note(|| format!("rotted: {rotted:?}"));
            match rotted {
                Rotted::Nothing => {}
                Rotted::Data(count) => self.summary.injected.rotted_blocks += count,
                Rotted::Header => {
                    self.summary.injected.rotted_headers += 1;
                    self.has_rotted_header = true;
                }
                Rotted::Journal => {
                    self.summary.injected.rotted_journals += 1;
                    self.has_rotted_journal = true;
                }
            }
        }
    }

    /// Blocks cannot be read any more.
    pub(super) fn make_cache_unreadable(&mut self) {
        let permille = self.plan.faults.unreadable_permille;
        if permille > 0 && self.random.chance(permille) {
            let unreadable = make_unreadable(&mut self.devices.cache, &mut self.random);
            self.note(|| format!("unreadable: {unreadable:?}"));
            self.summary.injected.unreadable_blocks += match unreadable {
                Unreadable::Nothing => 0,
                Unreadable::Data(count) => count,
                Unreadable::Summary | Unreadable::Header | Unreadable::Journal => 1,
            };
        }
    }
}
