//! A target that an executable puts up by its verbs `up`, `path`, `down`, and, if it has them, `restart` and
//! `cache-size`.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use kickcache_command::interrupt::Interrupt;
use kickcache_command::notice::notice;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use crate::bench::options::Data;

/// The exit code of an unsupported `restart`: EX_USAGE.
const CANNOT: i32 = 64;
/// The most bytes that are read of the executable's standard output, and of its standard error.
const OUTPUT_BYTES_MAX: usize = 4_096;
/// The most characters of the executable's output or error message that a message quotes.
const SAID_MAX: usize = 400;
/// How long `down` may run after the bench is interrupted.
const DOWN_MAX: Duration = Duration::from_secs(15);
/// How long the executable may take to end after SIGTERM; after that, or once it has ended, its process group gets
/// SIGKILL.
const END_MAX: Duration = Duration::from_millis(500);
const LOOK_EVERY: Duration = Duration::from_millis(20);

#[derive(Clone, Debug)]
pub(super) struct Program {
    pub(super) path: PathBuf,
    /// A directory for the executable's own use, removed afterwards.
    pub(super) directory: PathBuf,
    /// Bytes that the job and the stale data need; an unknown amount counts as 0.
    pub(super) bytes: u64,
    pub(super) data: Data,
    pub(super) interrupt: Arc<Interrupt>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum VerbResult {
    Done,
    Unknown,
}

struct ProgramOutput {
    status: ExitStatus,
    output: String,
    complaint: String,
}

impl Program {
    pub(super) fn up(&self) -> anyhow::Result<()> {
        self.run("up").map(drop)
    }

    pub(super) fn place(&self) -> anyhow::Result<String> {
        let output = self.run("path")?;
        let said = output.trim();
        if said.is_empty() || said.contains('\n') {
            let said: String = said.chars().take(SAID_MAX).collect();
            bail!("`{} path` printed `{said}`, expected one path or URI", self.path.display());
        }
        Ok(said.to_owned())
    }

    pub(super) fn restart(&self) -> anyhow::Result<VerbResult> {
        let said = self.start("restart")?;
        if said.status.code() == Some(CANNOT) {
            return Ok(VerbResult::Unknown);
        }
        self.check("restart", said)?;
        Ok(VerbResult::Done)
    }

    /// Bytes of the target's cache; `None` if `cache-size` fails, or prints no number.
    pub(super) fn cache_bytes(&self) -> Option<u64> {
        let said = self.start("cache-size").ok().filter(|said| said.status.success())?;
        let bytes = said.output.trim().parse().ok();
        if bytes.is_none() {
            let (name, output) = (self.path.display(), said.output.trim().escape_debug().to_string());
            let output: String = output.chars().take(SAID_MAX).collect();
            notice(&format!(
                "kickcache: warning: `{name} cache-size` printed `{output}`, which is no number of bytes"
            ));
        }
        bytes
    }

    pub(super) fn down(&self) -> anyhow::Result<()> {
        self.run("down").map(drop)
    }

    fn command(&self, verb: &str) -> Command {
        // A relative path starts at the working directory; $PATH is not searched.
        let path = self.path.canonicalize().unwrap_or_else(|_| Path::new(".").join(&self.path));
        let mut command = Command::new(path);
        let destroy = if self.data == Data::Destroy { "1" } else { "0" };
        command
            .arg(verb)
            .env("KICKCACHE_BENCH_DIR", &self.directory)
            .env("KICKCACHE_BENCH_BYTES", self.bytes.to_string())
            .env("KICKCACHE_BENCH_DESTROY", destroy)
            .stdin(Stdio::null())
            .process_group(0);
        command
    }

    fn run(&self, verb: &str) -> anyhow::Result<String> {
        let said = self.start(verb)?;
        self.check(verb, said)
    }

    /// Runs the executable to its end. Its output goes to files: pipes would end only with its background processes.
    fn start(&self, verb: &str) -> anyhow::Result<ProgramOutput> {
        let failed = || format!("`{} {verb}` cannot be run", self.path.display());
        let [output, complaint] = [tempfile::tempfile()?, tempfile::tempfile()?];
        let mut command = self.command(verb);
        command.stdout(output.try_clone()?).stderr(complaint.try_clone()?);
        let mut child = command.spawn().with_context(failed)?;
        self.wait(verb, &child).with_context(failed)?;
        let status = child.wait().with_context(failed)?;
        Ok(ProgramOutput { status, output: text(&output)?, complaint: text(&complaint)? })
    }

    /// Waits for the end of the executable without reaping it; a signal ends it with all processes of its group,
    /// `down` only after [`DOWN_MAX`].
    fn wait(&self, verb: &str, child: &Child) -> anyhow::Result<()> {
        let group = Pid::from_child(child);
        let has_ended = || {
            // The process is not reaped, so that its id is not reused while a signal may still be sent to it.
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
            anyhow::Ok(waitid(WaitId::Pid(group), options)?.is_some())
        };
        let patience = if verb == "down" { DOWN_MAX } else { Duration::ZERO };
        let mut interrupted: Option<Instant> = None;
        while !has_ended()? {
            thread::sleep(LOOK_EVERY);
            if self.interrupt.signal().is_none() {
                continue;
            }
            let since = interrupted.get_or_insert_with(|| {
                if !patience.is_zero() {
                    let name = self.path.display();
                    notice(&format!("kickcache: waiting up to {} s for `{name} {verb}`", patience.as_secs()));
                }
                Instant::now()
            });
            if since.elapsed() >= patience {
                return self.end(verb, group, has_ended);
            }
        }
        Ok(())
    }

    fn end(
        &self,
        verb: &str,
        group: Pid,
        has_ended: impl Fn() -> anyhow::Result<bool>,
    ) -> anyhow::Result<()> {
        let asked = Instant::now();
        let _ = kill_process_group(group, Signal::TERM);
        while !has_ended()? && asked.elapsed() < END_MAX {
            thread::sleep(LOOK_EVERY);
        }
        let _ = kill_process_group(group, Signal::KILL);
        if verb == "down" {
            let name = self.path.display();
            notice(&format!(
                "kickcache: `{name} down` did not end, and was killed: check whether it has left mounts or devices"
            ));
        }
        self.interrupt.check()
    }

    fn check(&self, verb: &str, said: ProgramOutput) -> anyhow::Result<String> {
        if said.status.success() {
            return Ok(said.output);
        }
        let complaint: String = said.complaint.trim().replace('\n', "; ").chars().take(SAID_MAX).collect();
        let complaint =
            if complaint.is_empty() { "it wrote no message to standard error" } else { &complaint };
        bail!("`{} {verb}` failed ({}): {complaint}", self.path.display(), said.status)
    }
}

/// The beginning of an output file; background processes may still write to it.
fn text(file: &File) -> anyhow::Result<String> {
    let mut bytes = vec![0; OUTPUT_BYTES_MAX];
    let length = file.read_at(&mut bytes, 0)?;
    Ok(String::from_utf8_lossy(&bytes[..length]).into_owned())
}
