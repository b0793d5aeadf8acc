//! Adding and removing volumes.

use std::os::fd::AsFd;

use kickcache_engine::cache_engine::CacheEngine;

use crate::serve::core::Core;
use crate::serve::frontend::vhost_user::VhostUser;
use crate::serve::frontend::vhost_user::key::Part;
use crate::serve::frontend::vhost_user::port::OpenGuest;
use crate::serve::frontend::vhost_user::session::key;

/// No volume has this index: the port is free for another one.
const NOBODY: usize = usize::MAX;

impl VhostUser {
    pub(in crate::serve::frontend) fn join<E>(
        &mut self,
        core: &mut Core<E>,
        volume: usize,
        guest: OpenGuest,
    ) {
        let mut port = guest.port(volume, &core.volumes[volume].info);
        let index = match self.ports.iter().position(|port| port.volume == NOBODY) {
            Some(free) => {
                // Late events of the previous port are recognised by its generation.
                port.generation = self.ports[free].next_generation();
                self.ports[free] = port;
                free
            }
            None => {
                self.ports.push(port);
                self.ports.len() - 1
            }
        };
        self.listen(core, index);
    }

    /// Disconnects the virtual machine of a volume, and accepts no other virtual machine.
    pub(in crate::serve::frontend) fn hide<E: CacheEngine>(&mut self, core: &mut Core<E>, volume: usize) {
        for index in self.indices_of(volume) {
            self.ports[index].is_hidden = true;
            self.stop_listening_at(core, index);
            self.disconnect(core, index, None);
        }
    }

    pub(in crate::serve::frontend) fn show<E>(&mut self, core: &mut Core<E>, volume: usize) {
        for index in self.indices_of(volume) {
            self.ports[index].is_hidden = false;
            self.listen(core, index);
        }
    }

    /// Whether the volume of an index has no connected virtual machine, and no request in flight or held.
    pub(in crate::serve::frontend) fn has_ended(&self, volume: usize) -> bool {
        let mut ports = self.ports.iter().filter(|port| port.volume == volume);
        ports.all(|port| port.device.outstanding() == 0 && port.held.is_none() && port.socket.is_none())
    }

    pub(in crate::serve::frontend) fn part<E>(&mut self, core: &mut Core<E>, volume: usize) {
        for index in self.indices_of(volume) {
            self.stop_listening_at(core, index);
            let port = &mut self.ports[index];
            if let Some(listener) = port.listener.take() {
                let address = &listener.address;
                tracing::info!(event = "not_listening", "vhost-user is not served on {address} any more");
            }
            port.volume = NOBODY;
        }
    }

    fn stop_listening_at<E>(&mut self, core: &mut Core<E>, index: usize) {
        let port = &mut self.ports[index];
        if let (true, Some(listener)) = (std::mem::take(&mut port.listening), &port.listener) {
            core.driver.unwatch(listener.as_fd(), key(index, Part::Listener, 0));
        }
    }

    fn indices_of(&self, volume: usize) -> Vec<usize> {
        (0..self.ports.len()).filter(|index| self.ports[*index].volume == volume).collect()
    }
}
