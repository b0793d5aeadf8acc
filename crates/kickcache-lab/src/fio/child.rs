//! Running fio.

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How long fio may take to end after SIGTERM; then fio and its jobs are killed.
const END_MAX: Duration = Duration::from_millis(500);

/// Whether an I/O engine of fio can be used.
///
/// # Errors
/// A sentence, if fio cannot be started, or lacks the engine.
pub(crate) fn check_engine(engine: &str) -> anyhow::Result<()> {
    let output = Command::new("fio").arg(format!("--enghelp={engine}")).stdin(Stdio::null()).output();
    let output = output.context("fio cannot be started; install it")?;
    if !output.status.success() {
        anyhow::bail!("this fio was built without its {engine} engine; install another one");
    }
    Ok(())
}

pub(crate) fn version() -> anyhow::Result<String> {
    let output = Command::new("fio").arg("--version").stdin(Stdio::null()).output();
    let output = output.context("fio cannot be started; install it")?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Called with the time that fio has been running; an error ends fio.
pub(crate) type Watch<'a> = &'a mut dyn FnMut(Duration) -> anyhow::Result<()>;

pub(crate) struct Fio<'a> {
    pub(crate) arguments: Vec<OsString>,
    pub(crate) directory: &'a Path,
    /// How long fio may run before it is ended; `None` for no limit.
    pub(crate) longest: Option<Duration>,
}

impl Fio<'_> {
    /// Runs fio to its end; returns its report in the format json+.
    ///
    /// # Errors
    /// If fio cannot be started, fails, takes too long or leaves an incomplete report, or the watch returns
    /// an error.
    pub(crate) fn run(&self, watch: Watch<'_>) -> anyhow::Result<String> {
        let [report, complaints] = ["fio.json", "fio.err"].map(|name| self.directory.join(name));
        let _ = fs::remove_file(&report);
        let child = command()
            .args(["--output-format=json+", "--eta=never"])
            .arg(flag("--output=", &report))
            .args(&self.arguments)
            .current_dir(self.directory)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&complaints)?)
            .spawn()
            .context("fio cannot be started; install it")?;
        let begin = Instant::now();
        let status = self.wait(Guard(child), &mut *watch)?;
        let text = fs::read_to_string(&report).unwrap_or_default();
        if !status.success() {
            // A signal to the whole process group ends fio, too: that is an interruption, not a failure.
            watch(begin.elapsed())?;
            anyhow::bail!("fio failed: {}", complaint(&complaints, &text, status));
        }
        check_whole(&text, self.directory)?;
        Ok(text)
    }

    fn wait(&self, mut child: Guard, watch: Watch<'_>) -> anyhow::Result<ExitStatus> {
        let start = Instant::now();
        loop {
            if let Some(status) = child.0.try_wait()? {
                return Ok(status);
            }
            let elapsed = start.elapsed();
            if self.longest.is_some_and(|longest| elapsed > longest) {
                anyhow::bail!("fio did not end within {} seconds", elapsed.as_secs());
            }
            watch(elapsed)?;
            std::thread::sleep(LOOK_EVERY);
        }
    }
}

/// Runs fio so that the kernel sends it SIGTERM when the thread that starts it ends; without `setpriv`, fio continues
/// then.
fn command() -> Command {
    static HAS_SETPRIV: LazyLock<bool> = LazyLock::new(|| {
        let mut tried = with_setpriv("true");
        tried.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        tried.status().is_ok_and(|status| status.success())
    });
    if *HAS_SETPRIV { with_setpriv("fio") } else { Command::new("fio") }
}

fn with_setpriv(program: &str) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "TERM", program]);
    command
}

/// Refuses an incomplete report: fio also ends with success if there was no space for the report.
fn check_whole(report: &str, directory: &Path) -> anyhow::Result<()> {
    if report.trim_end().ends_with('}') {
        return Ok(());
    }
    anyhow::bail!(
        "the report of fio in {} is cut short ({} bytes): make room there, or set TMPDIR to another directory",
        directory.display(),
        report.len()
    )
}

/// A directory for fio's output and files, removed when the value is dropped.
///
/// # Errors
/// A sentence that names the place.
pub(crate) fn folder(prefix: &str) -> anyhow::Result<TempDir> {
    tempfile::Builder::new().prefix(prefix).tempdir().with_context(|| {
        let place = std::env::temp_dir();
        format!(
            "a directory for the output of fio cannot be created in {}; set TMPDIR to another one",
            place.display()
        )
    })
}

pub(crate) fn flag(name: &str, path: &Path) -> OsString {
    let mut argument = OsString::from(name);
    argument.push(path);
    argument
}

/// fio's error message; fio writes some messages before its report.
fn complaint(path: &Path, report: &str, status: ExitStatus) -> String {
    let said = fs::read_to_string(path).unwrap_or_default();
    let before = report.split("\n{").next().unwrap_or_default();
    let any = || said.lines().last().map(str::to_owned);
    last_of_fio(&said, before).or_else(any).unwrap_or_else(|| format!("it gives no reason ({status})"))
}

/// The line with the cause of an error: a line about a dropped job only follows from another error.
fn last_of_fio(said: &str, before: &str) -> Option<String> {
    let is_dropped = |line: &str| line.starts_with("fio: job ") && line.ends_with(" dropped");
    let bad_option = said.lines().find(|line| line.starts_with("Bad option"));
    if let Some(option) = bad_option.filter(|_| said.lines().any(is_dropped)) {
        return Some(option.to_owned());
    }
    let mut lines = said.lines().chain(before.lines());
    let last = lines.rfind(|line| line.starts_with("fio:") && !is_dropped(line));
    last.map(|line| line.trim_start_matches("fio:").trim().to_owned())
}

fn jobs_of(fio: u32) -> Vec<Pid> {
    let children = fs::read_to_string(format!("/proc/{fio}/task/{fio}/children")).unwrap_or_default();
    children.split_whitespace().filter_map(|child| Pid::from_raw(child.parse().ok()?)).collect()
}

/// A child that is killed when its owner drops it.
struct Guard(Child);

impl Drop for Guard {
    fn drop(&mut self) {
        // SIGTERM lets fio end the processes of its jobs; an ended fio needs no signal.
        let pid = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw);
        if let (Ok(None), Some(pid)) = (self.0.try_wait(), pid) {
            let _ = kill_process(pid, Signal::TERM);
            let deadline = Instant::now() + END_MAX;
            while matches!(self.0.try_wait(), Ok(None)) && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        // While a device is slow, the processes of fio's jobs could outlive fio.
        let jobs = jobs_of(self.0.id());
        let _ = self.0.kill();
        let _ = self.0.wait();
        for job in jobs {
            let _ = kill_process(job, Signal::KILL);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_that_is_wrong_is_named() {
        let said = "Bad option <colour=3>\nfio: job a dropped\n";
        assert_eq!(last_of_fio(said, "").as_deref(), Some("Bad option <colour=3>"));
        let said = "Option unlink requires an argument\nfio: failed parsing unlink\nfio: job a dropped\n";
        assert_eq!(last_of_fio(said, "").as_deref(), Some("failed parsing unlink"));
        assert_eq!(last_of_fio("fio: one\nx\n", "fio: two\n").as_deref(), Some("two"));
        assert_eq!(last_of_fio("x\n", ""), None);
    }

    #[test]
    fn a_truncated_report_is_distinguished_from_a_whole_one() {
        let directory = Path::new("/tmp/x");
        assert!(check_whole("note: a line\n{\"jobs\": []}\n", directory).is_ok());
        for cut in ["", "{\"jobs\": ["] {
            let said = check_whole(cut, directory).unwrap_err().to_string();
            assert!(said.contains("/tmp/x is cut short") && said.contains("TMPDIR"), "{said}");
        }
    }
}
