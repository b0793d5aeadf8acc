//! The state of a device.

use std::fs;
use std::path::Path;

use super::abi::DeviceInfo;
use super::control_device::ControlDevice;
use super::in_use::known_user_of;

const LIVE: u16 = 1;
const QUIESCED: u16 = 2;
const FAILS_IO: u16 = 3;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum DeviceState {
    /// The device was never started, or was ended.
    Dead,
    /// The process with this number serves the device.
    Live(i32),
    /// The server of the device has ended; the kernel keeps or fails requests until the next server.
    Waiting,
    /// The kernel names a server that has no open descriptor: it is ending or has ended.
    Ending,
}

impl DeviceState {
    pub(crate) fn of(info: &DeviceInfo) -> DeviceState {
        match info.state {
            LIVE if has_descriptors(info.server_pid) => DeviceState::Live(info.server_pid),
            LIVE => DeviceState::Ending,
            QUIESCED | FAILS_IO => DeviceState::Waiting,
            _ => DeviceState::Dead,
        }
    }

    pub(crate) fn is_served(self) -> bool {
        matches!(self, DeviceState::Live(_))
    }
}

/// Whether a device is stuck and unused.
pub(crate) fn is_stuck_unused(control: &mut ControlDevice, id: u32) -> bool {
    let is_ending = |control: &mut ControlDevice| {
        let info = control.info(id).ok().flatten();
        info.is_some_and(|info| DeviceState::of(&info) == DeviceState::Ending)
    };
    if !is_ending(control) || control.wait_until(|control| !is_ending(control)) {
        return false;
    }
    is_unused(id)
}

fn is_unused(id: u32) -> bool {
    let counts = fs::read_to_string(format!("/sys/block/ublkb{id}/stat"));
    let is_unwritten = counts.is_ok_and(|counts| has_no_writes(&counts));
    is_unwritten && known_user_of(Path::new(&format!("/dev/ublkb{id}"))).is_none()
}

/// Whether the kernel's counts of a disk report that no write, discard or flush has ended.
fn has_no_writes(counts: &str) -> bool {
    const ENDED: [usize; 3] = [4, 11, 15];
    let counts: Vec<&str> = counts.split_whitespace().collect();
    ENDED.iter().all(|index| counts.get(*index) == Some(&"0"))
}

pub(crate) fn stuck(id: u32) -> String {
    format!(
        "/dev/ublkb{id} is stuck: its daemon was killed, and the kernel does not release it (Linux 6.12 \
         does not, when it is killed while the kernel reads the partition table of a new device); only a \
         reboot removes it{}",
        if is_unused(id) {
            "; serve its volume without a number until then (--ublk), or with another one"
        } else {
            ""
        }
    )
}

fn has_descriptors(pid: i32) -> bool {
    fs::read_dir(format!("/proc/{pid}/fd")).is_ok_and(|mut all| all.next().is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ended_process_serves_no_device() {
        let live =
            |server_pid| DeviceState::of(&DeviceInfo { state: LIVE, server_pid, ..DeviceInfo::default() });
        let own = i32::try_from(std::process::id()).unwrap();
        assert_eq!((live(own), live(i32::MAX)), (DeviceState::Live(own), DeviceState::Ending));
        let waits = DeviceInfo { state: QUIESCED, server_pid: own, ..DeviceInfo::default() };
        assert_eq!(DeviceState::of(&waits), DeviceState::Waiting);
        assert_eq!(DeviceState::of(&DeviceInfo::default()), DeviceState::Dead);
    }

    #[test]
    fn nor_does_one_that_is_killed_and_not_yet_buried() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        let info = DeviceInfo { state: LIVE, server_pid: pid, ..DeviceInfo::default() };
        while DeviceState::of(&info).is_served() {
            std::thread::yield_now();
        }
        assert!(Path::new(&format!("/proc/{pid}/fd")).exists(), "it is there, without descriptors");
        child.wait().unwrap();
    }

    #[test]
    fn a_disk_without_writes_is_reported_as_such() {
        assert!(has_no_writes("  3 0 24 1  0 0 0 0  1 9 9  0 0 0 0  0 0\n"));
        for written in ["3 0 24 1 1 0 8 0 0 9 9 0 0 0 0 0 0", "3 0 24 1 0 0 0 0 0 9 9 0 0 0 0 1 0", "", "0 0"]
        {
            assert!(!has_no_writes(written), "{written}");
        }
    }
}
