//! A target that can be brought into the states that its phases begin with.

use std::path::PathBuf;

use anyhow::Context;
use kickcache_command::notice::notice;
use kickcache_daemon::serve::server::ServerHandle;
use tempfile::TempDir;

use crate::bench::own_cache::OwnCache;
use crate::bench::phase::Phase;
use crate::bench::place::Place;
use crate::bench::program::{Program, VerbResult};
use crate::bench::scratch_file::ScratchFile;
use crate::bench::write_check::WriteCheck;

/// A prepared target; its drop removes the files that were created for it.
pub(super) struct Target {
    pub(super) name: String,
    pub(super) kind: Kind,
    pub(super) phases: Vec<Phase>,
    /// The name that the target shares with targets that have a cache of another size; `None` for a place
    /// without a cache.
    pub(super) family: Option<String>,
    /// The target's cache device in a few words, if it is known.
    pub(super) cache: Option<String>,
    /// The origin of a cache that the bench serves; for other targets, the text that the user wrote.
    pub(super) origin: String,
    /// Files created for the target; the drop of this field, after that of `kind`, removes them.
    #[expect(dead_code, reason = "it is there to be dropped")]
    pub(super) made: Vec<ScratchFile>,
    pub(super) has_holes: bool,
    pub(super) shares_disk: bool,
}

pub(super) enum Kind {
    /// A disk, a file or an export.
    Found(Place),
    /// A file system, by a directory of the bench's own.
    FileSystem(TempDir),
    Program(ProgramTarget),
    Cache(OwnCache),
}

pub(super) struct ProgramTarget {
    pub(super) program: Program,
    pub(super) state: ProgramState,
    pub(super) check: WriteCheck,
    /// Whether the check was started, with success or not.
    pub(super) is_checked: bool,
}

pub(super) enum ProgramState {
    Down,
    /// The target is up, or an attempt to start it failed; on a file system it is a directory of the bench's
    /// own.
    Up(Place, Option<TempDir>),
}

pub(super) const DIRECTORY: &str = "kickcache-bench-";

impl ProgramTarget {
    fn up(&mut self) -> anyhow::Result<()> {
        self.put_up()?;
        if std::mem::replace(&mut self.is_checked, true) {
            return Ok(());
        }
        // After the first run, the target holds data of the bench.
        if let ProgramState::Up(place, None) = &self.state {
            let text = format!("the target of `{} path`", self.program.path.display());
            self.check.check(place, &text)?;
        }
        // The check may have read the target through its cache, which is then no longer empty.
        if self.check.looks_at_data() { self.put_up() } else { Ok(()) }
    }

    fn put_up(&mut self) -> anyhow::Result<()> {
        self.down()?;
        // If `up` fails half-way, `down` must still be run.
        self.state = ProgramState::Up(Place::Disk(PathBuf::new()), None);
        self.program.up()?;
        self.state = match Place::find(&self.program.place()?)? {
            Place::Directory(path) => {
                let own = tempfile::Builder::new().prefix(DIRECTORY).tempdir_in(&path);
                let own = own.with_context(|| format!("no directory can be made in {}", path.display()))?;
                ProgramState::Up(Place::Directory(own.path().into()), Some(own))
            }
            place @ (Place::Disk(_) | Place::Nbd(_)) => ProgramState::Up(place, None),
        };
        Ok(())
    }

    fn down(&mut self) -> anyhow::Result<()> {
        match std::mem::replace(&mut self.state, ProgramState::Down) {
            ProgramState::Down => Ok(()),
            ProgramState::Up(_, own) => {
                drop(own);
                self.program.down()
            }
        }
    }
}

impl Drop for ProgramTarget {
    fn drop(&mut self) {
        if let Err(error) = self.down() {
            notice(&format!("kickcache: warning: {error:#}"));
        }
    }
}

impl Target {
    /// Prepares the state of a phase, except stale data, which fio reads; [`VerbResult::Unknown`] if the
    /// target cannot be restarted.
    ///
    /// # Errors
    /// If it cannot be put up.
    pub(super) fn enter(&mut self, phase: Phase) -> anyhow::Result<VerbResult> {
        match (&mut self.kind, phase) {
            (Kind::Found(_) | Kind::FileSystem(_), Phase::Restart) => return Ok(VerbResult::Unknown),
            (Kind::Found(_) | Kind::FileSystem(_), _) | (_, Phase::Repeated) => {}
            (Kind::Program(program), Phase::Restart) => return program.program.restart(),
            (Kind::Program(program), Phase::Found | Phase::Empty | Phase::Stale) => program.up()?,
            (Kind::Cache(cache), Phase::Restart) => {
                cache.stop()?;
                cache.start()?;
            }
            (Kind::Cache(cache), Phase::Found | Phase::Empty | Phase::Stale) => cache.up()?,
        }
        Ok(VerbResult::Done)
    }

    /// Takes down the target of an executable or of the bench until its next turn; other targets stay as they
    /// are.
    ///
    /// # Errors
    /// If the target cannot be taken down, or its server ended with an error.
    pub(super) fn leave(&mut self) -> anyhow::Result<()> {
        match &mut self.kind {
            Kind::Found(_) | Kind::FileSystem(_) => Ok(()),
            Kind::Program(program) => program.down(),
            Kind::Cache(cache) => cache.down(),
        }
    }

    /// The place of the target now.
    ///
    /// # Errors
    /// If an executable's target is not up, or the path of the bench's socket makes no URI.
    pub(super) fn place(&self) -> anyhow::Result<Place> {
        match &self.kind {
            Kind::Found(place) => Ok(place.clone()),
            Kind::FileSystem(directory) => Ok(Place::Directory(directory.path().into())),
            Kind::Cache(cache) => Ok(Place::Nbd(cache.uri()?)),
            Kind::Program(program) => match &program.state {
                ProgramState::Up(place, _) => Ok(place.clone()),
                ProgramState::Down => anyhow::bail!("{} is not up", self.name),
            },
        }
    }

    pub(super) fn server(&self) -> Option<&ServerHandle> {
        match &self.kind {
            Kind::Cache(cache) => cache.server(),
            Kind::Found(_) | Kind::FileSystem(_) | Kind::Program(_) => None,
        }
    }

    /// [`OwnCache::check_origin`] for a target that the bench serves; no check of others.
    ///
    /// # Errors
    /// As [`OwnCache::check_origin`].
    pub(super) fn check_origin(&self) -> anyhow::Result<()> {
        match &self.kind {
            Kind::Cache(cache) => cache.check_origin(),
            Kind::Found(_) | Kind::FileSystem(_) | Kind::Program(_) => Ok(()),
        }
    }

    pub(super) fn cache_bytes(&self) -> Option<u64> {
        match &self.kind {
            Kind::Cache(cache) => cache.cache_bytes(),
            Kind::Program(program) => program.program.cache_bytes(),
            Kind::Found(_) | Kind::FileSystem(_) => None,
        }
    }
}
