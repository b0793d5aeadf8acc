//! Devices that a start would not take over: a process that has one open would later write to a volume that
//! is served elsewhere meanwhile.

use super::abi::DeviceInfo;
use super::control_device::ControlDevice;
use super::cookie::is_of;
use super::state::{DeviceState, is_stuck_unused, stuck};
use crate::devices::volume_identity::VolumeIdentity;
use crate::plan::frontends::ublk::id::UblkId;
use crate::serve::error::ServeError;

pub(crate) struct Starting<'a> {
    pub(crate) volume: &'a VolumeIdentity,
    /// An earlier identity of the volume's origin, with another volume name.
    pub(crate) earlier: Option<&'a VolumeIdentity>,
    pub(crate) device: Option<UblkId>,
}

struct OwnDevice {
    info: DeviceInfo,
    /// The name of the volume for which the device was created.
    name: String,
}

/// Refuses a volume with a started device that this start does not take over, unless the device is
/// stuck and unused. Without the kernel's driver, or the right to use it, no volume is refused.
///
/// # Errors
/// [`ServeError::Volume`].
pub(crate) fn check(starting: &Starting<'_>) -> Result<(), ServeError> {
    let refuse = |what| ServeError::Volume { name: starting.volume.name.clone(), what };
    ControlDevice::open().map_or(Ok(()), |mut control| check_with(&mut control, starting).map_err(refuse))
}

fn check_with(control: &mut ControlDevice, starting: &Starting<'_>) -> Result<(), String> {
    let mut found = None;
    // Waits, since an ending daemon may still delete the device.
    control.wait_until(|control| {
        found = starting.left_behind(control);
        found.as_ref().is_none_or(|left| !DeviceState::of(&left.info).is_served())
    });
    match found {
        Some(left) if is_stuck_unused(control, left.info.device_id) => {
            tracing::warn!(event = "ublk_stuck", "{}", stuck(left.info.device_id));
            Ok(())
        }
        Some(left) => {
            let all = starting.own_devices(control);
            Err(if all.len() > 1 { starting.refusal_of(&all) } else { starting.refusal(&left) })
        }
        None => Ok(()),
    }
}

impl Starting<'_> {
    fn left_behind(&self, control: &mut ControlDevice) -> Option<OwnDevice> {
        let mut taken = None;
        self.own_devices(control).into_iter().find(|device| {
            let id = device.info.device_id;
            let is_wanted = match self.device {
                _ if device.name != self.volume.name => false,
                Some(UblkId::Number(wanted)) => wanted == id,
                Some(UblkId::Any) => *taken.get_or_insert(id) == id,
                None => false,
            };
            !is_wanted
        })
    }

    /// The block devices of the volume that were started and not deleted.
    fn own_devices(&self, control: &mut ControlDevice) -> Vec<OwnDevice> {
        let devices = control.devices().unwrap_or_default();
        let devices = devices.into_iter().filter(|info| DeviceState::of(info) != DeviceState::Dead);
        devices
            .filter_map(|info| {
                let name = self.name_of(&info)?.to_owned();
                Some(OwnDevice { info, name })
            })
            .collect()
    }

    fn name_of(&self, info: &DeviceInfo) -> Option<&str> {
        let identities = [Some(self.volume), self.earlier];
        let identity = identities.into_iter().flatten().find(|identity| is_of(info, identity))?;
        Some(&identity.name)
    }

    fn refusal_of(&self, all: &[OwnDevice]) -> String {
        let names: Vec<String> =
            all.iter().map(|device| format!("/dev/ublkb{}", device.info.device_id)).collect();
        let commands: Vec<String> =
            all.iter().map(|device| format!("kickcache ublk remove {}", device.info.device_id)).collect();
        format!(
            "{} are all devices of it already: a process that has one open would later overwrite newer \
             data; close or unmount all but one, remove those ({}), and serve the volume with the number \
             of the remaining device (--ublk=N, ublk = N)",
            names.join(" and "),
            commands.join(", ")
        )
    }

    fn refusal(&self, left: &OwnDevice) -> String {
        let id = left.info.device_id;
        let is = match DeviceState::of(&left.info) {
            DeviceState::Live(pid) => format!("is it already, served by the process {pid}"),
            _ => "is it already, and waits for its daemon".to_owned(),
        };
        let serve = match &left.name {
            name if *name == self.volume.name => format!("serve it with --ublk={id} (ublk = {id})"),
            name => {
                format!("serve it under the name that it has there, {name}, with --ublk={id} (ublk = {id})")
            }
        };
        format!(
            "/dev/ublkb{id} {is}: a process that has it open would later overwrite newer data; {serve}, \
             or close or unmount it and remove it (kickcache ublk remove {id})"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::super::fake_kernel::{DEAD, FakeKernel, LIVE};
    use super::*;

    const NAME: &str = "v";
    const ORIGIN: &str = "file:/o";

    struct Scene {
        kernel: FakeKernel,
        _nodes: tempfile::TempDir,
    }

    fn scene() -> Scene {
        let nodes = tempfile::tempdir().unwrap();
        let kernel = FakeKernel::new(nodes.path());
        kernel.leave(3, NAME, ORIGIN, 2048);
        Scene { kernel, _nodes: nodes }
    }

    impl Scene {
        fn check(&self, volume: &VolumeIdentity, device: Option<UblkId>) -> Result<(), String> {
            check_with(&mut self.kernel.control(), &Starting { volume, earlier: None, device })
        }

        fn change(&self, change: impl FnOnce(&mut DeviceInfo)) {
            change(&mut self.kernel.known().devices.get_mut(&3).unwrap().info);
        }
    }

    fn volume() -> VolumeIdentity {
        VolumeIdentity::of_origin(NAME, ORIGIN)
    }

    #[test]
    fn a_start_that_takes_the_device_over_is_not_refused() {
        let scene = scene();
        assert_eq!(scene.check(&volume(), Some(UblkId::Any)), Ok(()));
        assert_eq!(scene.check(&volume(), Some(UblkId::Number(3))), Ok(()));
    }

    #[test]
    fn one_that_leaves_it_behind_is_refused() {
        let scene = scene();
        for device in [None, Some(UblkId::Number(5))] {
            let said = scene.check(&volume(), device).unwrap_err();
            assert!(said.starts_with("/dev/ublkb3 is it already, and waits"), "{said}");
            assert!(said.contains("--ublk=3") && said.contains("kickcache ublk remove 3"), "{said}");
        }
    }

    #[test]
    fn foreign_and_dead_devices_block_no_start() {
        let scene = scene();
        assert_eq!(scene.check(&VolumeIdentity::of_origin("w", ORIGIN), None), Ok(()));
        assert_eq!(scene.check(&VolumeIdentity::of_origin(NAME, "file:/p"), None), Ok(()));
        scene.change(|info| info.state = DEAD);
        assert_eq!(scene.check(&volume(), None), Ok(()));
    }

    #[test]
    fn one_of_two_devices_is_left_behind_in_any_case() {
        let scene = scene();
        scene.kernel.leave(5, NAME, ORIGIN, 2048);
        let said = scene.check(&volume(), Some(UblkId::Any)).unwrap_err();
        assert!(said.starts_with("/dev/ublkb3 and /dev/ublkb5 are all devices of it already"), "{said}");
        assert!(said.contains("(kickcache ublk remove 3, kickcache ublk remove 5)"), "{said}");
        assert_eq!(scene.check(&volume(), Some(UblkId::Number(5))), Err(said));
    }

    #[test]
    fn an_origin_served_under_another_name_is_the_same_volume() {
        let scene = scene();
        let volume = VolumeIdentity::of_origin("w", ORIGIN);
        let earlier = Some(&VolumeIdentity::of_origin(NAME, ORIGIN));
        let starting = Starting { volume: &volume, earlier, device: Some(UblkId::Any) };
        let said = check_with(&mut scene.kernel.control(), &starting).unwrap_err();
        assert!(said.contains("under the name that it has there, v, with --ublk=3"), "{said}");
    }

    #[test]
    fn a_device_about_to_be_deleted_is_waited_for() {
        let scene = scene();
        let own = i32::try_from(std::process::id()).unwrap();
        scene.change(|info| (info.state, info.server_pid) = (LIVE, own));
        let said = scene.check(&volume(), None).unwrap_err();
        assert!(said.contains(&format!("served by the process {own}")), "{said}");
        let kernel = scene.kernel.clone();
        let daemon = std::thread::spawn(move || kernel.control().remove(3).unwrap());
        let checked = scene.check(&volume(), None);
        daemon.join().unwrap();
        assert_eq!(checked, Ok(()));
    }

    #[test]
    fn a_kernel_without_details_refuses_no_start() {
        let scene = scene();
        scene.kernel.known().unknown.push(super::super::abi::GET_DEV_INFO);
        assert_eq!(scene.check(&volume(), None), Ok(()));
    }
}
