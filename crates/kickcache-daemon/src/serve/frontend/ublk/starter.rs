//! The process that has the kernel start a device.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use super::abi::ControlCommand;

/// Makes `kickcache ublk start` send the command: the command prints the errno, or 0 for success.
pub(super) fn start_in_child(command: &ControlCommand) -> io::Result<i32> {
    let words = [command.device_id.to_string(), command.data.to_string()];
    let mut child = Command::new("/proc/self/exe");
    child.args(["ublk", "start"]).args(words).process_group(0);
    let ended = child.stdin(Stdio::null()).stderr(Stdio::null()).output()?;
    match String::from_utf8_lossy(&ended.stdout).trim().parse() {
        Ok(0) => Ok(0),
        Ok(number) => Err(io::Error::from_raw_os_error(number)),
        Err(_) => Err(io::Error::other(format!("the process that starts it ended: {}", ended.status))),
    }
}
