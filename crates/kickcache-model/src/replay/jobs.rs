//! The clients: jobs with a queue each, and the processor time that an access costs them.

use std::collections::VecDeque;

use kickcache_engine::time::{Duration, Instant, earlier};

use crate::replay::cache_model::Demand;
use crate::replay::slots::Slots;
use crate::result::JobResult;
use crate::workload::{JobStep, Kind, Workload};

#[derive(Clone, Copy, Debug)]
struct InFlight {
    job: usize,
    begun: Instant,
    kind: Kind,
    bytes: u64,
}

#[derive(Debug)]
struct ClientState {
    /// When its places in the queue become free, ascending.
    free: VecDeque<Instant>,
    /// Places that wait until `wake`; without a time there, for other jobs.
    parked: usize,
    wake: Option<Instant>,
    waits_for_jobs: bool,
    finished: bool,
    in_flight: u32,
    busy_until: Instant,
    result: JobResult,
}

impl ClientState {
    fn next_event(&self) -> Option<Instant> {
        let wake = self.wake.filter(|_| self.parked > 0);
        earlier(self.free.front().copied(), wake)
    }

    fn has_ended(&self) -> bool {
        self.finished && self.in_flight == 0
    }
}

/// Times are relative to the run: it starts at zero.
pub(crate) struct Jobs<'a> {
    workload: &'a mut dyn Workload,
    jobs: Vec<ClientState>,
    in_flight: Slots<InFlight>,
    cost: Duration,
    measured_from: Instant,
}

impl<'a> Jobs<'a> {
    pub(crate) fn new(workload: &'a mut dyn Workload, cost: Duration) -> Jobs<'a> {
        let new_job = |shape: &crate::workload::JobShape| ClientState {
            free: (0..shape.depth)
                .map(|place| Instant::from_nanos(u64::from(place) * cost.as_nanos()))
                .collect(),
            parked: 0,
            wake: None,
            waits_for_jobs: false,
            finished: false,
            in_flight: 0,
            busy_until: Instant::ZERO,
            result: JobResult::new(&shape.name, shape.depth),
        };
        let jobs = workload.jobs().iter().map(new_job).collect();
        let measured_from = workload.measured_from();
        Jobs { workload, jobs, in_flight: Slots::default(), cost, measured_from }
    }

    pub(crate) fn next_event(&self) -> Option<Instant> {
        self.jobs.iter().filter_map(ClientState::next_event).min()
    }

    pub(crate) fn have_ended(&self) -> bool {
        self.jobs.iter().all(ClientState::has_ended)
    }

    pub(crate) fn begin(&mut self, now: Instant) -> Option<Demand> {
        for job in 0..self.jobs.len() {
            while self.take_place(job, now) {
                match self.workload.next(job, now) {
                    JobStep::Access(access) => {
                        let bytes = access.extent.length;
                        let id = self.enter(InFlight { job, begun: now, kind: access.kind, bytes });
                        return Some(Demand { id, job, kind: access.kind, extent: access.extent });
                    }
                    JobStep::WaitUntil(until) => self.park(job, Some(until)),
                    JobStep::WaitForJobs => self.park(job, None),
                    JobStep::Finished => self.finish(job, now),
                }
            }
        }
        None
    }

    fn take_place(&mut self, job: usize, now: Instant) -> bool {
        let job = &mut self.jobs[job];
        if job.parked > 0 && job.wake.is_some_and(|wake| wake <= now) {
            job.parked -= 1;
            return true;
        }
        let is_free = job.free.front().is_some_and(|at| *at <= now);
        if is_free {
            job.free.pop_front();
        }
        is_free
    }

    fn park(&mut self, job: usize, wake: Option<Instant>) {
        let job = &mut self.jobs[job];
        job.parked += 1;
        job.wake = wake;
        job.waits_for_jobs = wake.is_none();
    }

    fn finish(&mut self, job: usize, now: Instant) {
        let job = &mut self.jobs[job];
        job.finished = true;
        job.free.clear();
        job.parked = 0;
        if job.in_flight == 0 {
            self.wake_waiting(now);
        }
    }

    fn enter(&mut self, access: InFlight) -> u32 {
        self.jobs[access.job].in_flight += 1;
        self.in_flight.insert(access)
    }

    pub(crate) fn end(&mut self, now: Instant, id: u32) {
        let access = self.in_flight.take(id);
        let job = &mut self.jobs[access.job];
        job.in_flight -= 1;
        // Half of the cost is that of noticing the end, the other half that of the next beginning.
        let noticed = now.max(job.busy_until).plus(Duration::from_nanos(self.cost.as_nanos() / 2));
        let free = noticed.plus(Duration::from_nanos(self.cost.as_nanos() / 2));
        job.busy_until = free;
        if access.begun >= self.measured_from {
            record(&mut job.result, access, noticed, self.measured_from);
        }
        if !job.finished {
            job.free.push_back(free);
        } else if job.in_flight == 0 {
            self.wake_waiting(now);
        }
    }

    fn wake_waiting(&mut self, now: Instant) {
        for job in self.jobs.iter_mut().filter(|job| job.waits_for_jobs && job.parked > 0) {
            job.wake = Some(now);
        }
    }

    pub(crate) fn into_results(self) -> Vec<JobResult> {
        self.jobs.into_iter().map(|job| job.result).collect()
    }
}

fn record(result: &mut JobResult, access: InFlight, ended: Instant, measured_from: Instant) {
    let of_run = |at: Instant| Instant::ZERO.plus(at.since(measured_from));
    let direction = match access.kind {
        Kind::Read => &mut result.reads,
        Kind::Write => &mut result.writes,
        Kind::Flush | Kind::Discard | Kind::WriteZeroes => {
            result.others += 1;
            return;
        }
    };
    direction.record(of_run(access.begun), of_run(ended), access.bytes);
}

#[cfg(test)]
mod tests {
    use kickcache_engine::time::{Duration, Instant};

    use crate::cache_model::bare::Bare;
    use crate::device_model::device_file::built_in;
    use crate::replay::bench::{Course, run};
    use crate::replay::devices::Devices;
    use crate::workload::fio::FioWorkload;

    #[test]
    fn jobs_behind_a_stonewall_wait_for_earlier_ones() {
        for depth in [1, 8] {
            let text = format!(
                "[global]\nbs=4k\nsize=1m\niodepth={depth}\n[w]\nrw=write\n[r]\nstonewall\nrw=read\n"
            );
            let mut jobs = FioWorkload::parse(&text, 1).unwrap();
            let mut devices = Devices::bare(built_in("mirrored-5400").unwrap().start(1));
            let course = Course { length: Duration::from_millis(60_000), ..Course::default() };
            let result = run(course, &mut jobs, &mut Bare::default(), &mut devices, &mut |_| ());
            assert_eq!(
                (result.jobs[0].writes.count, result.jobs[1].reads.count),
                (256, 256),
                "depth {depth}"
            );
            assert!(result.nanos < Instant::from_nanos(60_000_000_000).as_nanos());
        }
    }
}
