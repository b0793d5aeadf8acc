//! Runs of programs, each within a time limit.

use std::ffi::OsStr;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::scratch::state_dir;

const TOOL_SECONDS_MAX: &str = "120";

/// Prints why a test cannot run here, and skips the test.
#[macro_export]
macro_rules! skip {
    ($($why:tt)*) => {{
        $crate::tools::say_skipped(&format!($($why)*));
        return;
    }};
}

#[macro_export]
macro_rules! need_tools {
    ($($tool:literal),+) => {
        for tool in [$($tool),+] {
            if !$crate::tools::is_installed(tool) {
                $crate::skip!("{tool} is not installed");
            }
        }
    };
}

/// Not by `eprintln!`, which the test harness hides for tests that pass.
pub(crate) fn say_skipped(why: &str) {
    let test = std::thread::current().name().unwrap_or("a test").to_owned();
    let _ = writeln!(std::io::stderr(), "skipped: {test}: {why}");
}

pub(crate) fn is_installed(tool: &str) -> bool {
    let found = |dir: &Path| dir.join(tool).is_file();
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| found(&dir)) || found(Path::new("/usr/sbin"))
}

pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

pub(crate) fn output<I>(tool: &str, arguments: I) -> Output
where
    I: IntoIterator,
    I::Item: AsRef<OsStr>,
{
    let mut command = Command::new("timeout");
    command.args(["-k", "2", TOOL_SECONDS_MAX, tool]).args(arguments).stdin(Stdio::null());
    command.env("KICKCACHE_STATE", state_dir());
    command.output().unwrap()
}

/// The tool must succeed; returns its standard output.
pub(crate) fn run<I>(tool: &str, arguments: I) -> String
where
    I: IntoIterator,
    I::Item: AsRef<OsStr>,
{
    let arguments: Vec<_> = arguments.into_iter().map(|argument| argument.as_ref().to_owned()).collect();
    let output = output(tool, &arguments);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{tool} {arguments:?}: {}\n{text}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    text
}
