//! The damage to the cache device between two lives.

use crate::plan::faults::Rotting;
use crate::rot::{Rotted, rot};
use crate::run::Simulation;
use crate::sectors::{Unreadable, make_newest_unreadable, make_unreadable};
use crate::zeroed_segments::overwrite;

impl Simulation {
    pub(super) fn damage_cache(&mut self) {
        match self.plan.faults.rotting {
            Rotting::Anything | Rotting::Journal | Rotting::WholeJournal | Rotting::Data => self.rot(),
            Rotting::Segments => self.overwrite_segments(),
        }
        self.make_cache_unreadable();
    }

    pub(super) fn damage_stopped_cache(&mut self) {
        if self.plan.faults.rotting == Rotting::Segments {
            self.overwrite_segments();
        }
        self.make_cache_unreadable();
    }

    fn overwrite_segments(&mut self) {
        if self.random.chance(self.plan.faults.rot_permille) {
            let count = overwrite(&mut self.devices.cache, &mut self.random);
            self.note(|| format!("zeroed: {count} segments"));
            self.summary.injected.zeroed_segments += count;
            self.has_rotted_header |= count > 0;
        }
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

    fn make_cache_unreadable(&mut self) {
        let permille = self.plan.faults.unreadable_permille;
        if permille > 0 && self.random.chance(permille) {
            let make =
                if self.plan.faults.unreadable_newest { make_newest_unreadable } else { make_unreadable };
            let unreadable = make(&mut self.devices.cache, &mut self.random);
            self.note(|| format!("unreadable: {unreadable:?}"));
            self.summary.injected.unreadable_blocks += match unreadable {
                Unreadable::Nothing => 0,
                Unreadable::Data(count) => count,
                Unreadable::Summary | Unreadable::Header | Unreadable::Journal => 1,
            };
        }
    }
}
