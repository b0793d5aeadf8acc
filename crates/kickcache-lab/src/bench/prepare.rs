//! Finds the targets, refuses targets that the job must not write to, and creates missing files.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, ensure};
use kickcache_command::exit::WrongArguments;
use kickcache_command::interrupt::{Interrupt, Interrupted};
use kickcache_command::notice::notice;
use kickcache_units::show_bytes;

use crate::bench::bench_lock::BenchLocks;
use crate::bench::in_use;
use crate::bench::job::{Access, Caching, JobSource};
use crate::bench::options::{Job, Options};
use crate::bench::own_cache::OwnCache;
use crate::bench::phase::Phase;
use crate::bench::place::{Place, has_holes};
use crate::bench::program::Program;
use crate::bench::same_disk::are_on_same_disk;
use crate::bench::scratch_file::ScratchFile;
use crate::bench::spec::{CacheTarget, TargetKind, TargetSpec};
use crate::bench::target::{DIRECTORY, Kind, ProgramState, ProgramTarget, Target};
use crate::bench::write_check::WriteCheck;

struct Preparation<'a> {
    options: &'a Options,
    job: &'a JobSource,
    /// The directory for sockets and other files of the bench.
    directory: &'a Path,
    interrupt: &'a Arc<Interrupt>,
    holds: &'a BenchLocks,
}

/// The targets, in the order that they were named in.
///
/// # Errors
/// A sentence about the first target that cannot be used, or about names or phases that do not fit; an
/// interruption.
pub(super) fn targets(
    options: &Options,
    job: &JobSource,
    directory: &Path,
    interrupt: &Arc<Interrupt>,
    holds: &BenchLocks,
) -> anyhow::Result<Vec<Target>> {
    let preparation = Preparation { options, job, directory, interrupt, holds };
    let names: Vec<&str> = options.targets.iter().map(|spec| spec.name.as_str()).collect();
    for (index, name) in names.iter().enumerate() {
        if names[..index].contains(name) {
            let sentence = format!("two targets are called `{name}`; give each a name of its own");
            return Err(WrongArguments(sentence).into());
        }
    }
    options.targets.iter().try_for_each(|spec| check_phases(spec, options.phases.as_deref()))?;
    if job.caching == Caching::PageCache {
        notice(
            "kickcache: warning: the job file has no direct=1: files and disks are measured in the page cache of this machine",
        );
    }
    let left_out = job.left_out();
    if !left_out.is_empty() {
        notice(&format!(
            "kickcache: left out of the job file, as the bench decides it: {}",
            left_out.join(", ")
        ));
    }
    let target = |(number, spec): (usize, &TargetSpec)| {
        let failed = |error: anyhow::Error| {
            if error.is::<Interrupted>() {
                return error;
            }
            error.context(format!("the target {} cannot be used", spec.name))
        };
        preparation.target(number, spec).map_err(failed)
    };
    options.targets.iter().enumerate().map(target).collect()
}

/// Refuses phases that a target cannot be brought into, as far as that is known before it is put up.
fn check_phases(spec: &TargetSpec, phases: Option<&[Phase]>) -> Result<(), WrongArguments> {
    let Some(phases) = phases else { return Ok(()) };
    let name = &spec.name;
    let wrong = match spec.kind {
        TargetKind::Place(_) => phases
            .contains(&Phase::Restart)
            .then(|| format!("{name} cannot be restarted by the bench; leave the phase or the target out")),
        TargetKind::Program(_) | TargetKind::Cache(_) => {
            let first = phases.first().filter(|first| matches!(first, Phase::Restart | Phase::Repeated));
            first.map(|_| {
                format!("{name} has no previous state; let --phases begin with found, empty or stale")
            })
        }
    };
    wrong.map_or(Ok(()), |sentence| Err(WrongArguments(sentence)))
}

impl Preparation<'_> {
    fn target(&self, number: usize, spec: &TargetSpec) -> anyhow::Result<Target> {
        let directory = self.directory.join(format!("target-{number}"));
        std::fs::create_dir(&directory)?;
        match &spec.kind {
            TargetKind::Place(text) => self.place(spec, text),
            TargetKind::Program(path) => {
                ensure!(path.is_file(), "there is no executable {}", path.display());
                let bytes = self.job.bytes.unwrap_or(0) + self.stale_bytes();
                let (data, interrupt) = (self.options.data, Arc::clone(self.interrupt));
                let program = Program { path: path.clone(), directory, bytes, data, interrupt };
                let (state, check) = (ProgramState::Down, self.write_check());
                let kind = Kind::Program(ProgramTarget { program, state, check, is_checked: false });
                let family = path.file_name().map(|name| name.to_string_lossy().into_owned());
                Ok(Target { family, ..self.ready(spec, kind, &[Phase::Empty, Phase::Stale]) })
            }
            TargetKind::Cache(cache) => self.cache(spec, cache, &directory),
        }
    }

    fn ready(&self, spec: &TargetSpec, kind: Kind, phases: &[Phase]) -> Target {
        let phases = self.options.phases.as_deref().unwrap_or(phases).to_vec();
        let (name, origin) = (spec.name.clone(), spec.text.clone());
        Target {
            name,
            kind,
            phases,
            family: None,
            cache: None,
            origin,
            made: Vec::new(),
            has_holes: false,
            shares_disk: false,
        }
    }

    /// Bytes of stale data: as many as the job has, or 0 if that is unknown, unless the user gives a number.
    fn stale_bytes(&self) -> u64 {
        self.options.stale_bytes.or(self.job.bytes).unwrap_or(0)
    }

    /// Stale data that places must have room for, in bytes.
    fn stale_bytes_wanted(&self) -> u64 {
        let is_wanted = match &self.options.phases {
            Some(phases) => phases.contains(&Phase::Stale),
            None => {
                let mut kinds = self.options.targets.iter().map(|target| &target.kind);
                kinds.any(|kind| matches!(kind, TargetKind::Cache(_)))
            }
        };
        if is_wanted { self.stale_bytes() } else { 0 }
    }

    fn place(&self, spec: &TargetSpec, text: &str) -> anyhow::Result<Target> {
        let made = self.make_if_missing(text)?;
        let place = Place::find(text)?;
        if let Place::Directory(path) = &place {
            let own = tempfile::Builder::new().prefix(DIRECTORY).tempdir_in(path);
            let own = own.with_context(|| format!("no directory can be made in {}", path.display()))?;
            self.check_room(own.path(), self.job.bytes.unwrap_or(0) + self.stale_bytes_wanted())?;
            return Ok(self.ready(spec, Kind::FileSystem(own), &[Phase::Found]));
        }
        self.check_size(self.size(&place)?, text)?;
        if made.is_empty() {
            self.hold(&place)?;
            self.check_writes(&place, text)?;
        }
        let has_holes = self.look_for_holes(&place, text);
        Ok(Target { made, has_holes, ..self.ready(spec, Kind::Found(place), &[Phase::Found]) })
    }

    fn cache(&self, spec: &TargetSpec, cache: &CacheTarget, directory: &Path) -> anyhow::Result<Target> {
        let text = cache.origin.to_string();
        let made = self.make_if_missing(&text)?;
        let place = Place::find(&text)?;
        let size = self
            .size(&place)?
            .with_context(|| format!("{text} is a directory; an origin is a disk or a file"))?;
        if made.is_empty() {
            self.hold(&place)?;
            self.check_writes(&place, &text)?;
        }
        let is_new = cache.cache.symlink_metadata().is_err();
        ensure!(
            !is_new || cache.size.is_some(),
            "{} does not exist; write size:SIZE for a new cache file",
            cache.cache.display()
        );
        let mut phases = vec![Phase::Empty, Phase::Stale];
        let needed = self.job.bytes.map(|bytes| bytes + self.stale_bytes());
        if needed.is_none_or(|needed| needed > size) {
            phases.pop();
            ensure!(
                !self.options.phases.as_ref().is_some_and(|phases| phases.contains(&Phase::Stale)),
                "{text} has {}, and the job with its stale data needs {}; write --stale SIZE, or leave the phase out",
                show_bytes(size),
                needed.map_or_else(|| "an unknown amount".into(), show_bytes)
            );
        }
        self.check_size(Some(size), &text)?;
        if !is_new {
            self.holds.keep(&cache.cache, Access::Writes)?;
            in_use::check_unused(&Place::Disk(cache.cache.clone()))?;
        }
        let has_holes = self.look_for_holes(&place, &text);
        let kind = Kind::Cache(OwnCache::new(cache, directory, self.options.data, self.interrupt));
        let mut target = Target { made, has_holes, ..self.ready(spec, kind, &phases) };
        let mode = cache.mode.as_str();
        target.cache = Some(format!("{}, {mode}", cache.cache.display()));
        target.family = Some(format!("kickcache, {mode}"));
        target.shares_disk = are_on_same_disk(&cache.cache, Path::new(&text));
        target.origin = text;
        Ok(target)
    }

    /// Creates a file of the size that the job and its stale data need, if the text is a path that does not exist
    /// and is not in /dev; otherwise returns no file.
    fn make_if_missing(&self, text: &str) -> anyhow::Result<Vec<ScratchFile>> {
        let path = PathBuf::from(text);
        if text.contains("://") || path.symlink_metadata().is_ok() || path.starts_with("/dev") {
            return Ok(Vec::new());
        }
        let bytes = self.job.bytes.with_context(|| {
            let why = &self.job.why_unknown;
            format!("{text} does not exist, and its size cannot be derived from this job: {why}")
        })?;
        let bytes = bytes + self.stale_bytes_wanted();
        self.check_room(path.parent().unwrap_or(&path), bytes)?;
        notice(&format!("kickcache: making {text}, {} for this bench", show_bytes(bytes)));
        Ok(vec![ScratchFile::make(&path, bytes, self.holds, self.interrupt)?])
    }

    fn check_size(&self, size: Option<u64>, text: &str) -> anyhow::Result<()> {
        let (Some(size), Some(needed)) = (size, self.job.bytes) else { return Ok(()) };
        ensure!(
            size >= needed,
            "{text} has {} and the job needs {}; {}",
            show_bytes(size),
            show_bytes(needed),
            self.smaller()
        );
        Ok(())
    }

    fn smaller(&self) -> &'static str {
        match self.options.job {
            Job::File(_) => "name a job with less data",
            Job::Article(_) => "choose a smaller --size",
        }
    }

    fn check_room(&self, folder: &Path, needed: u64) -> anyhow::Result<()> {
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        let failed = || format!("a file cannot be created in {}", folder.display());
        let system = rustix::fs::statvfs(folder).with_context(failed)?;
        let free = system.f_bavail.saturating_mul(system.f_frsize);
        ensure!(
            free >= needed,
            "{} has {} free, and the bench needs {}; {}",
            folder.display(),
            show_bytes(free),
            show_bytes(needed),
            self.smaller()
        );
        Ok(())
    }

    /// The size of a place; a signal ends the wait for a server that does not answer.
    fn size(&self, place: &Place) -> anyhow::Result<Option<u64>> {
        let place = place.clone();
        self.interrupt.wait_for(move || place.size())
    }

    fn hold(&self, place: &Place) -> anyhow::Result<()> {
        match place {
            Place::Disk(path) => self.holds.keep(path, self.job.access()),
            Place::Directory(_) | Place::Nbd(_) => Ok(()),
        }
    }

    fn check_writes(&self, place: &Place, text: &str) -> anyhow::Result<()> {
        self.write_check().check(place, text)
    }

    fn write_check(&self) -> WriteCheck {
        WriteCheck::new(self.job, self.options, self.interrupt)
    }

    /// Whether [`has_holes`] holds for the job's part of a file, or for the whole file if that part is unknown; if
    /// so, prints a warning.
    fn look_for_holes(&self, place: &Place, text: &str) -> bool {
        let Place::Disk(path) = place else { return false };
        let has_holes = has_holes(path, self.job.bytes.unwrap_or(u64::MAX));
        if has_holes {
            notice(&format!(
                "kickcache: warning: {text} has holes, which are read faster and written more slowly than data: the figures will differ from those of a full file"
            ));
        }
        has_holes
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::bench::article_job::ArticleJob;
    use crate::bench::options::{Data, NoiseFloor};

    fn fault(targets: &[&str], phases: Option<Vec<Phase>>, size: u64) -> String {
        let job = Job::Article(ArticleJob { size, runtime: Duration::from_secs(1) });
        let options = Options {
            targets: targets.iter().map(|target| target.parse().unwrap()).collect(),
            job: job.clone(),
            phases,
            rounds: 1,
            rounds_max: 1,
            margin: 0.05,
            noise_floor: NoiseFloor::Computed,
            busy_limit: 1.0,
            stale_bytes: None,
            seed: 1,
            data: Data::Keep,
            commit: None,
        };
        let directory = tempfile::tempdir().unwrap();
        let (interrupt, holds) = (Arc::new(Interrupt::listen("interrupted").unwrap()), BenchLocks::default());
        let job = JobSource::read(&job).unwrap();
        let found = super::targets(&options, &job, directory.path(), &interrupt, &holds);
        format!("{:#}", found.err().expect("it is refused"))
    }

    #[test]
    fn phases_that_cannot_be_are_refused_before_anything_is_made() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("new.img").display().to_string();
        let (plain, cached) = (format!("f={file}"), format!("k=cache:/nowhere/c,size:16M,origin:{file}"));
        let refused = fault(&[&cached, &plain], Some(vec![Phase::Found, Phase::Restart]), 1 << 20);
        assert!(refused.starts_with("f cannot be restarted by the bench"), "{refused}");
        let refused = fault(&[&cached], Some(vec![Phase::Restart]), 1 << 20);
        assert!(refused.starts_with("k has no previous state; let --phases begin"), "{refused}");
        assert!(!Path::new(&file).exists());
    }

    #[test]
    fn a_file_without_space_is_not_started() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("new.img");
        for target in [file.display().to_string(), folder.path().display().to_string()] {
            let refused = fault(&[&format!("a={target}")], None, 1 << 46);
            assert!(
                refused.contains(" free, and the bench needs 128 TiB; choose a smaller --size"),
                "{refused}"
            );
        }
        assert!(!file.exists());
    }
}
