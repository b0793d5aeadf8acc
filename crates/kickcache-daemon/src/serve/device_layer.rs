//! The layer between engine and driver: with a mirror, an operation of the engine may go to two devices.

use kickcache_engine::cache_engine::CacheEngine;
use kickcache_engine::device::{Completion, Data, Submission};
use kickcache_engine::mirror::Mirror;
use kickcache_engine::mirror::ending::Ending;
use kickcache_engine::time::Instant;

use crate::serve::core::Core;

impl<E: CacheEngine> Core<E> {
    pub(crate) fn submit(&mut self, now: Instant, submission: Submission) {
        match &mut self.mirror {
            None => self.driver.submit(now, submission),
            Some(mirror) => {
                mirror.handle_submission(submission);
                self.submit_mirrored(now);
            }
        }
    }

    /// Handles the driver's next completion; returns whether there was one.
    pub(crate) fn pass_completion(&mut self, now: Instant) -> bool {
        // The copy of a part may have ended, for which submissions waited.
        self.submit_mirrored(now);
        let Some(completion) = self.driver.poll_completion(now) else { return false };
        let Some(mirror) = &mut self.mirror else {
            self.engine.handle_completion(now, completion);
            return true;
        };
        match mirror.handle_end(completion.id, completion.result.map(drop)) {
            Ending::Passed => self.engine.handle_completion(now, completion),
            Ending::Awaited => {}
            Ending::Ended(id, result) => {
                let result = result.map(|()| Data::default());
                self.engine.handle_completion(now, Completion { id, result });
            }
        }
        self.submit_mirrored(now);
        true
    }

    fn submit_mirrored(&mut self, now: Instant) {
        while let Some(routed) = self.mirror.as_mut().and_then(Mirror::poll_submission) {
            self.driver.submit_routed(now, routed);
        }
    }
}
