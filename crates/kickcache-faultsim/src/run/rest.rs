//! The end of a run: an idle engine holds no resources.

use crate::host::Host;
use crate::host::bad_spots::BAD_SPOTS_MAX;
use crate::run::Simulation;
use crate::subject::Subject;

impl Simulation {
    /// If bad spots are the only faults, each costs at most one block, and the run has retired at most
    /// [`BAD_SPOTS_MAX`] segments for each life.
    pub(super) fn check_bad_spots<E: Subject>(&self, host: &mut Host<E>) -> Result<(), String> {
        let (status, spots) = (host.engine.status(), host.bad_spots().count());
        let damaged: u64 = status.volumes.iter().map(|volume| volume.damaged_blocks).sum();
        // Segments stay retired in the lives that follow.
        let (retired, retired_max) = (status.retired_segments, self.summary.lives * BAD_SPOTS_MAX);
        if self.plan.faults.has_only_bad_spots() && (damaged > spots || retired > retired_max) {
            return Err(format!("{spots} bad spots, {damaged} damaged blocks, {retired} retired segments"));
        }
        Ok(())
    }

    /// An idle engine holds no memory and no request, and has space for new requests.
    pub(super) fn check_rest<E: Subject>(&mut self, host: &mut Host<E>) -> Result<(), String> {
        self.run(host, None, |_, host| is_at_rest(host))
            .map(drop)
            .map_err(|error| format!("pages of memory, requests or no free segment at rest: {error}"))
    }
}

fn is_at_rest<E: Subject>(host: &Host<E>) -> bool {
    let status = host.engine.status();
    let requests: u64 = status.volumes.iter().map(|volume| volume.requests_in_flight).sum();
    let has_room = status.segments == 0 || status.free_segments > 0;
    requests == 0 && has_room && host.engine.pool_pages_used() == 0
}
