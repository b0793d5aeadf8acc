//! Socket activation: sockets that a service manager opened, for the only volume of a daemon.

use anyhow::ensure;

use crate::driver::inherited_sockets::InheritedSocket;
use crate::plan::ServePlan;
use crate::serve::config::InheritedSockets;

/// The name of a virtual machine's socket in a service manager (`FileDescriptorName=`).
const VHOST_USER: &str = "vhost-user";

#[derive(Debug, Default)]
pub(crate) struct ActivationSockets {
    guest: Option<InheritedSocket>,
    nbd: Vec<InheritedSocket>,
}

impl ActivationSockets {
    /// Takes the sockets for the only volume of the plan.
    ///
    /// # Errors
    /// If there are sockets and the plan has several volumes, or a virtual machine would get two sockets.
    pub(crate) fn take(
        sockets: Vec<InheritedSocket>,
        plan: &mut ServePlan,
    ) -> anyhow::Result<ActivationSockets> {
        let count = sockets.len();
        let (mut guests, nbd): (Vec<_>, Vec<_>) =
            sockets.into_iter().partition(|socket| socket.name == VHOST_USER);
        if count == 0 {
            return Ok(ActivationSockets::default());
        }
        let mut volumes: Vec<_> = plan.caches.iter_mut().flat_map(|cache| &mut cache.volumes).collect();
        ensure!(
            volumes.len() == 1,
            "sockets were passed by socket activation (LISTEN_FDS={count}) for {} volumes; start one daemon for each volume",
            volumes.len()
        );
        let volume = &mut volumes[0];
        ensure!(
            guests.len() <= 1,
            "{} sockets named {VHOST_USER} were passed by socket activation (LISTEN_FDNAMES), and a volume has one; pass one",
            guests.len()
        );
        if let (false, Some(path)) = (guests.is_empty(), &volume.frontends.vhost_user.path) {
            anyhow::bail!(
                "a socket named {VHOST_USER} was passed by socket activation (LISTEN_FDNAMES), and {} is configured as well; remove one of them",
                path.display()
            );
        }
        volume.frontends.nbd.nbd.get_or_insert_default();
        Ok(ActivationSockets { guest: guests.pop(), nbd })
    }

    pub(crate) fn into_inherited(self) -> InheritedSockets {
        InheritedSockets {
            nbd: self.nbd.into_iter().map(|socket| socket.fd).collect(),
            vhost_user: self.guest.map(|socket| socket.fd),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;
    use std::path::Path;

    use super::*;

    fn plan(volumes: &[(&str, &str)]) -> ServePlan {
        let volumes = volumes.iter().map(|(name, more)| {
            format!("[[cache.volume]]\nname = \"{name}\"\norigin = \"/dev/{name}\"\n{more}\n")
        });
        let text = format!("[[cache]]\ndevice = \"/dev/fast\"\n{}", volumes.collect::<String>());
        crate::config::parse(Path::new("test.toml"), &text).unwrap()
    }

    fn sockets(names: &[&str]) -> Vec<InheritedSocket> {
        let socket = |name: &&str| InheritedSocket {
            name: (*name).to_owned(),
            fd: UnixStream::pair().unwrap().0.into(),
        };
        names.iter().map(socket).collect()
    }

    fn refused(names: &[&str], volumes: &[(&str, &str)]) -> String {
        ActivationSockets::take(sockets(names), &mut plan(volumes)).unwrap_err().to_string()
    }

    #[test]
    fn a_default_path_is_replaced_by_a_passed_socket() {
        let mut plan = plan(&[("a", "")]);
        assert_eq!(plan.caches[0].volumes[0].served_by().nbd.addresses().len(), 1);
        assert!(ActivationSockets::take(Vec::new(), &mut plan).unwrap().guest.is_none());
        assert_eq!(plan.caches[0].volumes[0].served_by().nbd.addresses().len(), 1, "no socket was passed");
        let found = ActivationSockets::take(sockets(&["vhost-user", "x", ""]), &mut plan).unwrap();
        assert!(plan.caches[0].volumes[0].served_by().nbd.addresses().is_empty());
        assert_eq!((found.guest.is_some(), found.nbd.len()), (true, 2));
    }

    #[test]
    fn an_explicit_path_stays() {
        let mut plan = plan(&[("a", "nbd = [\"unix:/run/a.sock\"]")]);
        ActivationSockets::take(sockets(&[""]), &mut plan).unwrap();
        assert_eq!(plan.caches[0].volumes[0].served_by().nbd.addresses().len(), 1);
    }

    #[test]
    fn unusable_sockets_are_refused() {
        let two = refused(&["x"], &[("a", ""), ("b", "")]);
        assert!(
            two.contains("sockets were passed by socket activation (LISTEN_FDS=1) for 2 volumes"),
            "{two}"
        );
        let guests = refused(&["vhost-user", "vhost-user"], &[("a", "")]);
        assert!(guests.contains("2 sockets named vhost-user"), "{guests}");
        let both = refused(&["vhost-user"], &[("a", "vhost-user = \"/run/a.vhost\"")]);
        assert!(both.contains("/run/a.vhost is configured as well; remove one of them"), "{both}");
    }
}
