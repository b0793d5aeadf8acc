//! Finds the targets, refuses what would cost data, and makes the files that are missing.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use kickcache_units::show_bytes;

use crate::bench::contents;
use crate::bench::in_use;
use crate::bench::job::{Access, JobSource};
use crate::bench::options::{Data, Options};
use crate::bench::own_cache::OwnCache;
use crate::bench::phase::Phase;
use crate::bench::place::Place;
use crate::bench::program::Program;
use crate::bench::scratch_file::ScratchFile;
use crate::bench::spec::{CacheTarget, TargetKind, TargetSpec};
use crate::bench::target::{DIRECTORY, Kind, ProgramState, ProgramTarget, Target};
use crate::interrupt::Interrupt;

/// What all targets are prepared for.
struct Preparation<'a> {
    options: &'a Options,
    job: &'a JobSource,
    /// For sockets and the like.
    directory: &'a Path,
    interrupt: &'a Interrupt,
}

/// The targets, in the order that they were named in.
///
/// # Errors
/// The first that cannot be used, in a sentence.
pub(super) fn targets(
    options: &Options,
    job: &JobSource,
    directory: &Path,
    interrupt: &Interrupt,
) -> anyhow::Result<Vec<Target>> {
    let preparation = Preparation { options, job, directory, interrupt };
    let names: Vec<&str> = options.targets.iter().map(|spec| spec.name.as_str()).collect();
    for (index, name) in names.iter().enumerate() {
        ensure!(
            !names[..index].contains(name),
            "two targets are called `{name}`; give each a name of its own"
        );
    }
    let left_out = job.left_out();
    if !left_out.is_empty() {
        eprintln!("kickcache: left out of the job file, as the targets decide it: {}", left_out.join(", "));
    }
    let target = |spec: &TargetSpec| {
        preparation.target(spec).with_context(|| format!("the target {} cannot be used", spec.name))
    };
    options.targets.iter().map(target).collect()
}

impl Preparation<'_> {
    fn target(&self, spec: &TargetSpec) -> anyhow::Result<Target> {
        let directory = self.directory.join(&spec.name);
        std::fs::create_dir(&directory)?;
        match &spec.kind {
            TargetKind::Place(text) => self.place(spec, text),
            TargetKind::Program(path) => {
                ensure!(path.is_file(), "there is no executable {}", path.display());
                let bytes = self.job.bytes.unwrap_or(0) + self.stale_bytes();
                let program = Program { path: path.clone(), directory, bytes, data: self.options.data };
                let kind = Kind::Program(ProgramTarget { program, state: ProgramState::Down });
                let family = path.file_name().map(|name| name.to_string_lossy().into_owned());
                Ok(Target { family, ..self.ready(spec, kind, &[Phase::Empty, Phase::Stale]) })
            }
            TargetKind::Cache(cache) => self.cache(spec, cache, &directory),
        }
    }

    fn ready(&self, spec: &TargetSpec, kind: Kind, phases: &[Phase]) -> Target {
        let phases = self.options.phases.as_deref().unwrap_or(phases).to_vec();
        let (name, origin) = (spec.name.clone(), spec.text.clone());
        Target { name, kind, phases, family: None, cache: None, origin, made: Vec::new() }
    }

    /// Bytes of stale data: as many as the job has, unless something else was said.
    fn stale_bytes(&self) -> u64 {
        self.options.stale_bytes.or(self.job.bytes).unwrap_or(0)
    }

    fn place(&self, spec: &TargetSpec, text: &str) -> anyhow::Result<Target> {
        let made = self.make_if_missing(text)?;
        let place = Place::find(text)?;
        if let Place::Directory(path) = &place {
            let own = tempfile::Builder::new().prefix(DIRECTORY).tempdir_in(path);
            let own = own.with_context(|| format!("no directory can be made in {}", path.display()))?;
            return Ok(self.ready(spec, Kind::FileSystem(own), &[Phase::Found]));
        }
        self.check_size(place.size()?, text)?;
        if made.is_empty() {
            self.check_writes(&place, text)?;
        }
        Ok(Target { made, ..self.ready(spec, Kind::Found(place), &[Phase::Found]) })
    }

    fn cache(&self, spec: &TargetSpec, cache: &CacheTarget, directory: &Path) -> anyhow::Result<Target> {
        let text = cache.origin.to_string();
        let made = self.make_if_missing(&text)?;
        let place = Place::find(&text)?;
        let size =
            place.size()?.with_context(|| format!("{text} is a directory; an origin is a disk or a file"))?;
        if made.is_empty() {
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
        let kind = Kind::Cache(OwnCache::new(cache, directory, self.options.data));
        let mut target = Target { made, ..self.ready(spec, kind, &phases) };
        let mode = cache.mode.as_str();
        target.cache = Some(format!("{}, {mode}", cache.cache.display()));
        target.family = Some(format!("kickcache, {mode}"));
        target.origin = text;
        Ok(target)
    }

    /// Makes a file of the size that the job and its stale data need, if there is nothing at a path.
    fn make_if_missing(&self, text: &str) -> anyhow::Result<Vec<ScratchFile>> {
        let path = PathBuf::from(text);
        if text.contains("://") || path.symlink_metadata().is_ok() || path.starts_with("/dev") {
            return Ok(Vec::new());
        }
        let bytes = self
            .job
            .bytes
            .with_context(|| format!("{text} does not exist, and how large it must be cannot be told"))?;
        let bytes = bytes + self.stale_bytes();
        eprintln!("kickcache: making {text}, {} for this bench", show_bytes(bytes));
        Ok(vec![ScratchFile::make(&path, bytes, self.interrupt)?])
    }

    fn check_size(&self, size: Option<u64>, text: &str) -> anyhow::Result<()> {
        let (Some(size), Some(needed)) = (size, self.job.bytes) else { return Ok(()) };
        ensure!(
            size >= needed,
            "{text} has {} and the job needs {}; choose a smaller --size",
            show_bytes(size),
            show_bytes(needed)
        );
        Ok(())
    }

    fn check_writes(&self, place: &Place, text: &str) -> anyhow::Result<()> {
        if self.job.access() == Access::Reads {
            return Ok(());
        }
        in_use::check_unused(place)?;
        if self.options.data == Data::Destroy {
            return Ok(());
        }
        match contents::look(place)? {
            None => Ok(()),
            Some(what) => bail!(
                "{text} holds {what}, and the job writes; name another target, or give --destroy-data, which loses it"
            ),
        }
    }
}
