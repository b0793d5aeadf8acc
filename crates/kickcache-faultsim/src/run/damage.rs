//! What the cache device suffers between two lives.

use crate::rot::{Rotted, rot};
use crate::run::Simulation;
use crate::sectors::{Spoiled, spoil};

impl Simulation {
    /// After a crash.
    pub(super) fn damage_cache(&mut self) {
        self.rot();
        self.spoil_cache();
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
    pub(super) fn spoil_cache(&mut self) {
        let permille = self.plan.faults.spoil_permille;
        if permille > 0 && self.random.chance(permille) {
            let spoiled = spoil(&mut self.devices.cache, &mut self.random);
            self.note(|| format!("unreadable: {spoiled:?}"));
            self.summary.injected.spoiled_blocks += match spoiled {
                Spoiled::Nothing => 0,
                Spoiled::Data(count) => count,
                Spoiled::Summary | Spoiled::Header | Spoiled::Journal => 1,
            };
        }
    }
}
