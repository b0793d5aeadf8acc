//! One run of fio against one target.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, ensure};
use kickcache_engine::units::ByteExtent;
use kickcache_model::result::RunResult;

use crate::bench::busy::Busy;
use crate::bench::disk_statistics::DiskWatch;
use crate::bench::job::{Access, JobSource, stale_extent, stale_text};
use crate::bench::own_cache::VOLUME;
use crate::bench::phase::Phase;
use crate::bench::place::Place;
use crate::bench::result::{BenchRun, Turn};
use crate::bench::target::Target;
use crate::fio::child::{Fio, Watch};
use crate::fio::report;
use crate::timeline::Timeline;

/// How much longer than twice the job's length fio may take.
const GRACE: Duration = Duration::from_secs(120);

/// The prefix of fio's logs, in its working directory: the full path may contain characters with a meaning in
/// a job file.
const LOG: &str = "log";

pub(super) struct Runner<'a> {
    pub(super) job: &'a JobSource,
    pub(super) directory: &'a Path,
    pub(super) stale_bytes: u64,
}

impl Runner<'_> {
    /// Makes the job's files in a directory before a run; a disk or an export stays as it is.
    ///
    /// # Errors
    /// If fio fails, or the watch returns an error.
    pub(super) fn lay_out(&self, place: &Place, seed: u64, watch: Watch<'_>) -> anyhow::Result<()> {
        let Place::Directory(_) = place else { return Ok(()) };
        let place = place.by_plain_name(self.directory)?;
        self.fio(&self.job.text(&place, seed, None), &["--create_only=1"], None)?.run(watch).map(drop)
    }

    /// Makes fio read stale data, which the job never requests: other files, deleted afterwards, or the part of a
    /// device behind the job's data.
    ///
    /// # Errors
    /// As [`Runner::lay_out`]; also if the end of the job's data on a device is unknown.
    pub(super) fn read_stale_data(&self, place: &Place, watch: Watch<'_>) -> anyhow::Result<()> {
        let bytes = self.stale_bytes;
        let text = |place: &Place, stale| {
            let place = place.by_plain_name(self.directory)?;
            anyhow::Ok(stale_text(&place.options().join("\n"), stale))
        };
        let Place::Directory(path) = place else {
            let before = self.job.bytes;
            let before = before
                .context("the end of the job's data is unknown, so there is no place for stale data")?;
            let text = text(place, stale_extent(before, bytes))?;
            return self.fio(&text, &["--readonly"], None)?.run(watch).map(drop);
        };
        let own = tempfile::Builder::new().prefix("stale-").tempdir_in(path)?;
        let text = text(&Place::Directory(own.path().into()), ByteExtent { start: 0, length: bytes })?;
        self.fio(&text, &[], None)?.run(watch)?;
        Ok(own.close()?)
    }

    /// Runs the job.
    ///
    /// # Errors
    /// If fio fails or completes no operation, its output is invalid, the server's counters cannot be read,
    /// or the watch returns an error.
    pub(super) fn measure(
        &self,
        target: &Target,
        phase: Phase,
        seed: u64,
        watch: Watch<'_>,
    ) -> anyhow::Result<BenchRun> {
        let place = target.place()?;
        self.remove_logs();
        let is_read_only = self.job.access() == Access::Reads && !matches!(place, Place::Directory(_));
        let flags: &[&str] = if is_read_only { &["--readonly"] } else { &[] };
        let named = place.by_plain_name(self.directory)?;
        let fio = self.fio(&self.job.text(&named, seed, Some(LOG)), flags, self.job.length)?;
        let mut timeline = target.server().map(|server| Timeline::begin(server, VOLUME)).transpose()?;
        let mut disk = DiskWatch::begin(&place);
        let busy = Busy::begin(&place);
        let text = fio.run(&mut |elapsed| {
            timeline.as_mut().map_or(Ok(()), |timeline| timeline.go_on(elapsed))?;
            if let Some(disk) = &mut disk {
                disk.go_on(elapsed);
            }
            watch(elapsed)
        })?;
        // Ctrl-C on a terminal reaches fio as well, which then ends without an error.
        watch(self.job.length.unwrap_or_default())?;
        let others = busy.others();
        let log = |job| self.directory.join(format!("{LOG}_iops.{job}.log"));
        let logs = (1..=report::count(&text)?).map(log);
        let logs = logs
            .map(fs::read_to_string)
            .collect::<Result<Vec<_>, _>>()
            .context("a log of fio cannot be read")?;
        let measured = report::read(&text, &logs, self.job.interval())?;
        let is_idle = measured.jobs.iter().all(|job| job.count() + job.others == 0);
        ensure!(!is_idle, "fio completed no operation in {:.1} s", measured.took.as_secs_f64());
        let mut result = self.result(target, phase, seed);
        result.nanos = u64::try_from(measured.took.as_nanos()).unwrap_or(u64::MAX);
        result.jobs = measured.jobs;
        // fio does not count its ramp time; servers and devices do.
        let took = self.job.ramp + measured.took;
        result.origin_device = disk.map(|disk| disk.finish(took));
        if let Some(timeline) = timeline {
            timeline.finish(took, &mut result)?;
        }
        Ok(BenchRun { target: target.name.clone(), phase, turn: Turn::Own, others, result })
    }

    fn result(&self, target: &Target, phase: Phase, seed: u64) -> RunResult {
        let name = match phase {
            Phase::Found => target.name.clone(),
            Phase::Empty | Phase::Stale | Phase::Restart | Phase::Repeated => {
                format!("{}, {}", target.name, phase.name())
            }
        };
        let mut result = RunResult::new(&name, &self.job.description, seed);
        result.ramp_nanos = u64::try_from(self.job.ramp.as_nanos()).unwrap_or(u64::MAX);
        result.family = target.family.as_ref().map(|family| format!("{family}, {}", phase.name()));
        result.cache.clone_from(&target.cache);
        result.cache_bytes = target.cache_bytes();
        result.origin.clone_from(&target.origin);
        result
    }

    fn fio(&self, job: &str, flags: &[&str], length: Option<Duration>) -> anyhow::Result<Fio<'_>> {
        let file = self.directory.join("job.fio");
        fs::write(&file, job).with_context(|| format!("{} cannot be written", file.display()))?;
        let arguments = flags.iter().map(Into::into).chain([file.into_os_string()]).collect();
        Ok(Fio { arguments, directory: self.directory, longest: length.map(|length| length * 2 + GRACE) })
    }

    fn remove_logs(&self) {
        let Ok(entries) = fs::read_dir(self.directory) else { return };
        for entry in entries.flatten().filter(|entry| entry.file_name().to_string_lossy().starts_with(LOG)) {
            let _ = fs::remove_file(entry.path());
        }
    }
}
