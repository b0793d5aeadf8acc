//! Keys of the configuration file with their values, for the comparison of two plans.

use crate::driver::device::AccessMode;
use crate::plan::cache_spec::CacheSpec;
use crate::plan::span::show_span;
use crate::plan::volume_spec::VolumeSpec;

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Setting {
    pub(super) key: &'static str,
    pub(super) value: String,
}

impl Setting {
    pub(super) fn new(key: &'static str, value: &impl ToString) -> Setting {
        Setting { key, value: value.to_string() }
    }

    pub(super) fn optional(key: &'static str, value: Option<&impl ToString>) -> Setting {
        Setting { key, value: value.map_or_else(|| "not set".into(), ToString::to_string) }
    }
}

impl CacheSpec {
    /// Settings that may change while the cache device is in use.
    pub(super) fn changeable(&self) -> Vec<Setting> {
        vec![
            Setting::optional("write-budget", self.write_budget.as_ref()),
            Setting::optional("endurance", self.endurance.as_ref()),
        ]
    }

    /// Settings that are fixed while the cache device is in use, except its path and its size.
    pub(super) fn fixed(&self) -> Vec<Setting> {
        vec![Setting::new("discard", &self.discard)]
    }
}

impl VolumeSpec {
    pub(super) fn changeable(&self) -> Vec<Setting> {
        vec![
            Setting::new("mode", &self.mode.as_str()),
            Setting::new("admission", &self.admission.as_str()),
            Setting::new("sequential-cutoff", &self.sequential_cutoff),
            Setting::new("fill-window-max", &self.fill_window_max),
            Setting::optional("dirty-low", self.dirty_low.as_ref()),
            Setting::optional("dirty-high", self.dirty_high.as_ref()),
            Setting::new("dirty-limit", &self.dirty_limit),
            Setting::new("idle-after", &show_span(self.idle_after)),
            Setting::optional("writeback-rate", self.writeback_rate.as_ref()),
            Setting::optional("writeback-iops", self.writeback_iops.as_ref()),
            Setting::optional("client-bandwidth", self.client_bandwidth.as_ref()),
            Setting::optional("client-iops", self.client_iops.as_ref()),
            Setting::new("client-burst", &show_span(self.client_burst)),
            Setting::optional("room-min", self.room_min.as_ref()),
            Setting::optional("room-max", self.room_max.as_ref()),
        ]
    }

    /// Settings that are fixed while the volume is served; those of ublk only while it is a block device.
    pub(super) fn fixed(&self) -> Vec<Setting> {
        let ublk = self.frontends.ublk;
        let clients = self.frontends.nbd.allowed_clients().iter().map(ToString::to_string);
        let clients: Vec<String> = clients.collect();
        vec![
            Setting::new("origin", &self.origin),
            Setting::new("origin-timeout", &self.origin_timeout),
            Setting::new("read-only", &(self.access == AccessMode::ReadOnly)),
            Setting::new("origin-no-flush", &self.claims.flushless),
            Setting::new("guest-block", &self.frontends.guest_block_bytes()),
            Setting::new("serial", &self.serial()),
            Setting::optional(
                "allow-client",
                Some(clients.join(", ")).filter(|all| !all.is_empty()).as_ref(),
            ),
            Setting::optional("ublk", ublk.id.as_ref()),
            Setting::optional("ublk-queues", ublk.queues.map(|queues| queues.get()).as_ref()),
            Setting::optional("ublk-depth", ublk.depth.map(|depth| depth.get()).as_ref()),
        ]
    }

    pub(super) fn places(&self) -> Vec<String> {
        let served_by = self.served_by();
        let nbd = served_by.nbd.addresses().iter().map(|address| format!("nbd {address}"));
        let guest = served_by.vhost_user.path.iter().map(|path| format!("vhost-user {}", path.display()));
        let ublk = served_by.ublk.id.map(|_| "block device (ublk)".into());
        nbd.chain(guest).chain(ublk).collect()
    }
}
