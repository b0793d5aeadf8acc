//! Adding and removing volumes and addresses.

use std::os::fd::AsFd;

use kickcache_engine::cache_engine::CacheEngine;

use crate::plan::address::NbdAddress;
use crate::serve::core::Core;
use crate::serve::frontend::listener::Listener;
use crate::serve::frontend::nbd::served_listener::ServedListener;
use crate::serve::frontend::nbd::{Nbd, listener_key};

pub(crate) struct OpenAddress {
    pub(crate) address: NbdAddress,
    /// The socket; `None` if the daemon already listens on this address for other volumes.
    pub(crate) listener: Option<Listener>,
}

impl Nbd {
    /// The configured addresses that more volumes may share.
    pub(in crate::serve::frontend) fn addresses(&self) -> Vec<NbdAddress> {
        let addresses = self.listeners.iter().flatten().filter_map(|served| served.address.clone());
        addresses.filter(|address| !address.is_any_port()).collect()
    }

    /// Whether a listener has this address; `false` if the system chooses its port.
    pub(in crate::serve::frontend) fn listens_on(&self, address: &NbdAddress) -> bool {
        self.position(address).is_some()
    }

    fn position(&self, address: &NbdAddress) -> Option<usize> {
        let is_meant =
            |served: &ServedListener| !address.is_any_port() && served.address.as_ref() == Some(address);
        self.listeners.iter().position(|served| served.as_ref().is_some_and(is_meant))
    }

    /// If `open` has no socket, the address has a listener already.
    pub(in crate::serve::frontend) fn join<E>(
        &mut self,
        core: &mut Core<E>,
        volume: usize,
        open: OpenAddress,
    ) {
        let OpenAddress { address, listener } = open;
        match (self.position(&address), listener) {
            (Some(index), _) => {
                let served = self.listeners[index].as_mut();
                served.into_iter().for_each(|served| served.join(volume, &core.volumes));
            }
            (None, Some(listener)) => {
                let served = ServedListener::of(listener, Some(address), vec![volume], &core.volumes);
                let index = self.listeners.iter().position(Option::is_none).unwrap_or_else(|| {
                    self.listeners.push(None);
                    self.listeners.len() - 1
                });
                self.listeners[index] = Some(served);
                self.watch_listener(core, index);
            }
            (None, None) => {}
        }
    }

    /// Does not serve the volume of an index on an address any more; with `None`, on no address.
    pub(in crate::serve::frontend) fn part<E>(
        &mut self,
        core: &mut Core<E>,
        volume: usize,
        address: Option<&NbdAddress>,
    ) {
        for index in 0..self.listeners.len() {
            let Some(served) = &mut self.listeners[index] else { continue };
            let is_meant = address.is_none_or(|address| served.address.as_ref() == Some(address));
            if !is_meant || !served.serves(volume) || served.part(volume, &core.volumes) {
                continue;
            }
            core.driver.unwatch(served.listener.as_fd(), listener_key(index));
            tracing::info!(
                event = "not_listening",
                "NBD is not served on {} any more",
                served.listener.address
            );
            self.listeners[index] = None;
        }
    }

    /// Hides a volume, and accepts no more commands for it.
    pub(in crate::serve::frontend) fn hide<E: CacheEngine>(&mut self, core: &mut Core<E>, volume: usize) {
        self.listeners.iter_mut().flatten().for_each(|served| served.hide(Some(volume), &core.volumes));
        for index in self.clients.indices() {
            let Some(connection) = self.clients.at(index) else { continue };
            if connection.handshaking && connection.volumes.contains(&volume) {
                self.close(core, index);
            } else if connection.volume() == Some(volume) {
                connection.is_leaving = true;
                connection.abandon_input(core.driver.buffers());
                self.clients.touch(index);
            }
        }
    }

    pub(in crate::serve::frontend) fn show<E>(&mut self, core: &Core<E>) {
        self.listeners.iter_mut().flatten().for_each(|served| served.hide(None, &core.volumes));
        for index in self.clients.indices() {
            self.clients.at(index).into_iter().for_each(|connection| connection.is_leaving = false);
        }
    }

    /// Ends the connections of the volume of an index that have their replies.
    pub(in crate::serve::frontend) fn end_quiet<E: CacheEngine>(
        &mut self,
        core: &mut Core<E>,
        volume: usize,
    ) {
        for index in self.clients.indices() {
            let Some(connection) = self.clients.at(index) else { continue };
            if connection.volume() == Some(volume) && connection.is_quiet() {
                self.close(core, index);
            }
        }
    }
}
