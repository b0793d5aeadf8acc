//! Volumes that are written back in cuts: the redo journal of an engine.

use crate::config::Mode;
use crate::engine::Engine;
use crate::redo::{Redo, RedoSettings, RedoStatus};
use crate::task::Task;
use crate::time::Instant;

impl Engine {
    /// From here on the volumes of a group are written back in cuts, by way of a redo journal. The groups that the
    /// journal has from earlier are written to the origins first.
    ///
    /// # Panics
    /// If the engine has a redo journal, or a volume of the group is not in write-back mode.
    pub fn attach_redo(&mut self, now: Instant, settings: RedoSettings) {
        let state = &mut self.state;
        assert!(state.redo.is_none(), "an engine has one redo journal");
        let modes = settings.volumes.iter().filter_map(|volume| state.volumes.find(volume));
        let is_written_back = modes.into_iter().all(|volume| volume.settings.mode == Mode::WriteBack);
        assert!(is_written_back, "the mode was checked");
        state.now = now;
        state.redo = Some(Redo::new(now, settings).into());
        state.agenda.push_back(Task::Redo);
        self.is_stirred = true;
        self.run_agenda();
    }

    /// The state of the redo journal; `None` without one.
    pub fn redo_status(&self) -> Option<RedoStatus> {
        self.state.redo.as_ref().map(|redo| redo.status())
    }
}
