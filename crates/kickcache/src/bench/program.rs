//! A target that an executable puts up: `up`, `path`, `down`, and `restart` if it can.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context;

use crate::bench::options::Data;

/// What `restart` ends with if it cannot be done: EX_USAGE.
const CANNOT: i32 = 64;
/// Most that is repeated of what it says when it fails.
const SAID_MAX: usize = 400;

/// The executable, and what it is told by its environment.
#[derive(Clone, Debug)]
pub(super) struct Program {
    pub(super) path: PathBuf,
    /// A directory for its own use, gone afterwards.
    pub(super) directory: PathBuf,
    /// Bytes that the job and the stale data need.
    pub(super) bytes: u64,
    pub(super) data: Data,
}

/// Whether a verb is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Known {
    /// It is, and was done.
    Done,
    /// It is not.
    Unknown,
}

impl Program {
    /// Puts it up, with an empty cache.
    pub(super) fn up(&self) -> anyhow::Result<()> {
        self.run("up").map(drop)
    }

    /// Where it is: a path or a URI.
    pub(super) fn place(&self) -> anyhow::Result<String> {
        let said = self.run("path")?.trim().to_owned();
        if said.is_empty() || said.contains('\n') {
            anyhow::bail!("`{} path` printed `{said}`, expected one path or URI", self.path.display());
        }
        Ok(said)
    }

    /// Stops it and starts it again with the cache that it has.
    pub(super) fn restart(&self) -> anyhow::Result<Known> {
        let output = self.command("restart").output().with_context(|| self.failed("restart"))?;
        if output.status.code() == Some(CANNOT) {
            return Ok(Known::Unknown);
        }
        self.check("restart", &output)?;
        Ok(Known::Done)
    }

    /// Bytes of its cache; nothing if it does not know the verb, or they are unknown.
    pub(super) fn cache_bytes(&self) -> Option<u64> {
        let output = self.command("cache-size").output().ok().filter(|output| output.status.success())?;
        String::from_utf8_lossy(&output.stdout).trim().parse().ok()
    }

    /// Takes it down.
    pub(super) fn down(&self) -> anyhow::Result<()> {
        self.run("down").map(drop)
    }

    fn command(&self, verb: &str) -> Command {
        // A relative path is one of this directory, never of $PATH.
        let path = self.path.canonicalize().unwrap_or_else(|_| Path::new(".").join(&self.path));
        let mut command = Command::new(path);
        let destroy = if self.data == Data::Destroy { "1" } else { "0" };
        command
            .arg(verb)
            .env("KICKCACHE_BENCH_DIR", &self.directory)
            .env("KICKCACHE_BENCH_BYTES", self.bytes.to_string())
            .env("KICKCACHE_BENCH_DESTROY", destroy)
            .stdin(Stdio::null());
        command
    }

    fn failed(&self, verb: &str) -> String {
        format!("`{} {verb}` cannot be run", self.path.display())
    }

    fn run(&self, verb: &str) -> anyhow::Result<String> {
        let output = self.command(verb).output().with_context(|| self.failed(verb))?;
        self.check(verb, &output)?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    fn check(&self, verb: &str, output: &std::process::Output) -> anyhow::Result<()> {
        if output.status.success() {
            return Ok(());
        }
        let said: String = String::from_utf8_lossy(&output.stderr)
            .trim()
            .replace('\n', "; ")
            .chars()
            .take(SAID_MAX)
            .collect();
        let said = if said.is_empty() { "it said nothing on standard error" } else { &said };
        anyhow::bail!("`{} {verb}` failed ({}): {said}", self.path.display(), output.status)
    }
}
