//! The difference between a daemon's present state and its configuration file.

use std::path::Path;

use crate::plan::ServePlan;
use crate::plan::cache_spec::CacheSpec;
use crate::plan::conflicts::{Conflict, check_free};
use crate::plan::exposure::Exposure;
use crate::plan::frontends::ublk;
use crate::plan::plan_change::PlanChange;
use crate::plan::setting::Setting;
use crate::plan::volume_spec::VolumeSpec;
use crate::shell_command::ShellCommand;
use crate::whole_path::whole_path;
use kickcache_units::Size;

/// A difference that a reload cannot apply to a running daemon.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Unchangeable {
    #[error(
        "`{key}` is {before} in the daemon and {after} in the file, and cannot change while the daemon runs; change the file \
         back, or stop the daemon and start it again"
    )]
    Daemon { key: &'static str, before: String, after: String },
    #[error(
        "the cache device {device} is {what}; cache devices do not change while the daemon runs: restore \
         the file, or stop the daemon and start it again"
    )]
    CacheDevice { device: String, what: &'static str },
    #[error(
        "`{key}` of the cache device {device} is {before} in the daemon and {after} in the file, and cannot change while the \
         daemon runs; change the file back, or stop the daemon and start it again"
    )]
    CacheKey { device: String, key: &'static str, before: String, after: String },
    #[error(
        "the cache device {device} has {} in the daemon and `size` is {} in the file; {}", shown(*before), shown(*after),
        size_remedy(device, *before, *after)
    )]
    Size {
        device: String,
        /// The `size` of the daemon's plan; `None` if it has none.
        before: Option<Size>,
        after: Option<Size>,
    },
    /// A volume has another cache device.
    #[error(
        "volume {volume} is behind {before} in the daemon and behind {after} in the file; remove it (`kickcache remove {volume}`) before \
         it is added there"
    )]
    Moved { volume: String, before: String, after: String },
    #[error(
        "volume {volume}: `{key}` is {before} in the daemon and {after} in the file, and cannot change while the volume is served; \
         change the file back, or remove the volume (`kickcache remove {volume}`) before it is added with the new value"
    )]
    Volume { volume: String, key: &'static str, before: String, after: String },
    /// The origin or the serial number of an added volume is in use.
    #[error(transparent)]
    Taken(#[from] Conflict),
}

/// The changes from the served plan to the wanted one: removed volumes first.
///
/// # Errors
/// A difference that a reload cannot apply.
pub fn difference(served: &ServePlan, wanted: &ServePlan) -> Result<Vec<PlanChange>, Unchangeable> {
    check_daemon(served, wanted)?;
    let gone = |cache: &&CacheSpec| wanted.cache(&cache.device).is_none();
    if let Some(gone) = served.caches.iter().find(gone) {
        return Err(cache_device(gone, "served by the daemon and not in the file"));
    }
    let (mut removed, mut others) = (Vec::new(), Vec::new());
    for cache in &wanted.caches {
        let Some(known) = served.cache(&cache.device) else {
            return Err(cache_device(cache, "in the file and not served by the daemon"));
        };
        others.extend(cache_difference(known, cache)?);
        removed.extend(gone_from(known, wanted));
        for volume in &cache.volumes {
            match known.volumes.iter().find(|known| known.name == volume.name) {
                Some(known) => others.extend(volume_difference(known, volume)?),
                None => others.push(added(served, cache, volume)?),
            }
        }
    }
    Ok(removed.into_iter().chain(others).collect())
}

fn shown(size: Option<Size>) -> String {
    size.map_or_else(|| "not set".into(), |size| size.to_string())
}

fn size_remedy(device: &str, before: Option<Size>, after: Option<Size>) -> String {
    match (before, after) {
        (before, Some(after)) if before.is_none_or(|before| before < after) => {
            let grow = ShellCommand::new("grow")
                .path(Path::new(device))
                .word("--size")
                .word(&after.bytes().to_string());
            format!("`{grow}` extends it without a restart")
        }
        (_, Some(_)) => "a cache device does not shrink: change the file back".into(),
        (_, None) => "change the file back".into(),
    }
}

fn cache_device(cache: &CacheSpec, what: &'static str) -> Unchangeable {
    Unchangeable::CacheDevice { device: cache.device.display().to_string(), what }
}

struct Change {
    key: &'static str,
    before: String,
    after: String,
}

/// The differences between two lists of the same keys, in the same order.
fn changes(served: Vec<Setting>, wanted: Vec<Setting>) -> impl Iterator<Item = Change> {
    let both = served.into_iter().zip(wanted).filter(|(served, wanted)| served != wanted);
    both.map(|(served, wanted)| Change { key: wanted.key, before: served.value, after: wanted.value })
}

fn check_daemon(served: &ServePlan, wanted: &ServePlan) -> Result<(), Unchangeable> {
    let keys = |plan: &ServePlan| {
        let state = plan.state.as_ref().map(|state| state.display());
        let status = plan.status_socket.as_deref().map(Path::display);
        let certificates = plan.tls.certificates.as_deref().map(Path::display);
        vec![
            Setting::new("control", &whole_path(&plan.control).display()),
            Setting::optional("status-socket", status.as_ref()),
            Setting::optional("metrics", plan.metrics.as_ref()),
            Setting::optional("state", state.as_ref()),
            Setting::optional("user", plan.user.as_ref()),
            Setting::new("log-format", &format!("{:?}", plan.log.format).to_lowercase()),
            Setting::new("log-level", &format!("{:?}", plan.log.level).to_lowercase()),
            Setting::new("io-engine", &plan.io_engine.as_str()),
            Setting::new("memory-limit", &plan.memory_limit),
            Setting::new("insecure-tcp", &(plan.exposure == Exposure::InsecureTcp)),
            Setting::new("tls", &plan.tls.tls.as_str()),
            Setting::optional("tls-certificates", certificates.as_ref()),
            Setting::new("tls-verify-peer", &plan.tls.verify_peer.as_str()),
        ]
    };
    match changes(keys(served), keys(wanted)).next() {
        Some(Change { key, before, after }) => Err(Unchangeable::Daemon { key, before, after }),
        None => Ok(()),
    }
}

fn cache_difference(served: &CacheSpec, wanted: &CacheSpec) -> Result<Vec<PlanChange>, Unchangeable> {
    let device = wanted.device.display().to_string();
    if served.size != wanted.size {
        return Err(Unchangeable::Size { device, before: served.size, after: wanted.size });
    }
    if let Some(Change { key, before, after }) = changes(served.fixed(), wanted.fixed()).next() {
        return Err(Unchangeable::CacheKey { device, key, before, after });
    }
    let settings = changes(served.changeable(), wanted.changeable());
    let settings = settings.map(|Change { key, before, after }| {
        let (cache, key) = (device.clone(), key.into());
        PlanChange::CacheSetting { cache, key, before, after }
    });
    Ok(settings.collect())
}

/// Removals of the volumes of a served cache device that the file does not have.
fn gone_from<'a>(cache: &'a CacheSpec, wanted: &'a ServePlan) -> impl Iterator<Item = PlanChange> + 'a {
    let is_wanted = |name: &str| wanted.caches.iter().any(|cache| cache.names().any(|known| known == name));
    let gone = cache.names().filter(move |name| !is_wanted(name));
    let device = cache.device.display().to_string();
    gone.map(move |name| PlanChange::VolumeRemoved { volume: name.into(), cache: device.clone() })
}

fn added(served: &ServePlan, cache: &CacheSpec, volume: &VolumeSpec) -> Result<PlanChange, Unchangeable> {
    let after = cache.device.display().to_string();
    let elsewhere = served.caches.iter().find(|other| other.names().any(|name| name == volume.name));
    match elsewhere {
        Some(other) => {
            let before = other.device.display().to_string();
            Err(Unchangeable::Moved { volume: volume.name.clone(), before, after })
        }
        None => {
            check_free(served, volume)?;
            let (volume, origin) = (volume.name.clone(), volume.origin.to_string());
            Ok(PlanChange::VolumeAdded { volume, origin, cache: after })
        }
    }
}

fn volume_difference(served: &VolumeSpec, wanted: &VolumeSpec) -> Result<Vec<PlanChange>, Unchangeable> {
    let volume = &wanted.name;
    // The keys of ublk are fixed only while the volume remains a block device.
    let device_stays = served.frontends.has_host_device() == wanted.frontends.has_host_device();
    let stays = |change: &Change| device_stays || !ublk::KEYS.contains(&change.key);
    if let Some(Change { key, before, after }) = changes(served.fixed(), wanted.fixed()).find(stays) {
        return Err(Unchangeable::Volume { volume: volume.clone(), key, before, after });
    }
    let settings = changes(served.changeable(), wanted.changeable());
    let settings = settings.map(|Change { key, before, after }| {
        let (volume, key) = (volume.clone(), key.into());
        PlanChange::Setting { volume, key, before, after }
    });
    let (old, new) = (served.places(), wanted.places());
    let removed = old.iter().filter(|place| !new.contains(place)).cloned();
    let removed = removed.map(|place| PlanChange::PlaceRemoved { volume: volume.clone(), place });
    let added = new.iter().filter(|place| !old.contains(place)).cloned();
    let added = added.map(|place| PlanChange::PlaceAdded { volume: volume.clone(), place });
    Ok(settings.chain(removed).chain(added).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "[[cache]]\ndevice = \"/dev/fast\"\n\
                        [[cache.volume]]\nname = \"a\"\norigin = \"/dev/a\"\n\
                        [[cache.volume]]\nname = \"b\"\norigin = \"/dev/b\"\nnbd = [\"unix:/run/b.sock\"]\n";

    fn plan(text: &str) -> ServePlan {
        crate::config::parse(Path::new("t.toml"), text).unwrap()
    }

    fn told(wanted: &str) -> Vec<String> {
        let changes = difference(&plan(FILE), &plan(wanted)).unwrap();
        changes.iter().map(ToString::to_string).collect()
    }

    fn refused(wanted: &str) -> String {
        difference(&plan(FILE), &plan(wanted)).unwrap_err().to_string()
    }

    #[test]
    fn the_order_of_keys_is_no_difference() {
        assert_eq!(told(FILE), [""; 0]);
        assert_eq!(told(&FILE.replace("name = \"a\"\n", "mode = \"wt\"\nname = \"a\"\n")), [""; 0]);
    }

    #[test]
    fn differences_have_the_old_and_the_new_value() {
        let wanted = FILE.replace("name = \"a\"\n", "name = \"c\"\n").replace("/dev/a", "/dev/c");
        let wanted = wanted.replace(
            "nbd = [\"unix:/run/b.sock\"]",
            "mode = \"write-back\"\ndirty-limit = \"50%\"\ndirty-low = \"9%\"\nidle-after = \"3s\"\nsequential-cutoff = \"off\"\nadmission = \"always\"\n\
             fill-window-max = \"64K\"\nnbd = [\"tcp:127.0.0.1:10809\"]\nvhost-user = \"/run/b.vhost\"",
        );
        let expected = [
            "a: removed from /dev/fast",
            "c: added, /dev/c behind /dev/fast",
            "b: mode write-through -> write-back",
            "b: admission pressure -> always",
            "b: sequential-cutoff auto -> off",
            "b: fill-window-max 1 MiB -> 64 KiB",
            "b: dirty-low not set -> 9%",
            "b: dirty-limit 70% -> 50%",
            "b: idle-after 500ms -> 3s",
            "b: nbd unix:/run/b.sock removed",
            "b: nbd tcp:127.0.0.1:10809 added",
            "b: vhost-user /run/b.vhost added",
        ];
        assert_eq!(told(&wanted), expected);
    }

    #[test]
    fn settings_of_a_cache_device_are_listed_by_its_path() {
        let keys = "device = \"/dev/fast\"\nwrite-budget = \"50G/day\"\nendurance = \"600TBW\"";
        let expected =
            ["/dev/fast: write-budget not set -> 50 GiB/day", "/dev/fast: endurance not set -> 600TBW"];
        assert_eq!(told(&FILE.replace("device = \"/dev/fast\"", keys)), expected);
    }

    #[test]
    fn fixed_settings_are_refused_with_both_values() {
        let with = |from: &str, to: &str| refused(&FILE.replace(from, to));
        let origin = with("/dev/b\"", "/dev/x\"");
        assert!(
            origin.contains("volume b: `origin` is /dev/b in the daemon and /dev/x in the file"),
            "{origin}"
        );
        let access = with("name = \"b\"", "name = \"b\"\nread-only = true");
        assert!(access.contains("`read-only` is false in the daemon and true in the file"), "{access}");
        let size = with("device = \"/dev/fast\"", "device = \"/dev/fast\"\nsize = \"20G\"");
        assert!(
            size.contains("/dev/fast has not set in the daemon and `size` is 20 GiB in the file"),
            "{size}"
        );
        let cache = with("/dev/fast", "/dev/faster");
        assert!(
            cache.contains("the cache device /dev/fast is served by the daemon and not in the file"),
            "{cache}"
        );
        let tls = with("[[cache]]", "tls = \"on\"\ntls-certificates = \"/t\"\n[[cache]]");
        assert!(tls.contains("`tls` is off in the daemon and on in the file"), "{tls}");
        let memory = with("[[cache]]", "memory-limit = \"1G\"\n[[cache]]");
        assert!(memory.contains("`memory-limit` is 256 MiB in the daemon and 1 GiB in the file"), "{memory}");
        let level = with("[[cache]]", "log-level = \"warn\"\n[[cache]]");
        assert!(level.contains("`log-level` is info in the daemon and warn in the file"), "{level}");
    }

    #[test]
    fn another_size_names_the_command_that_extends_the_device() {
        let with =
            |size: &str| plan(&FILE.replace("\"/dev/fast\"", &format!("\"/dev/fast\"\nsize = \"{size}\"")));
        let refused =
            |served: &ServePlan, wanted: &ServePlan| difference(served, wanted).unwrap_err().to_string();
        assert_eq!(
            refused(&with("20G"), &with("40G")),
            "the cache device /dev/fast has 20 GiB in the daemon and `size` is 40 GiB in the file; `kickcache grow /dev/fast --size \
             42949672960` extends it without a restart"
        );
        let smaller = refused(&with("40G"), &with("20G"));
        assert!(smaller.ends_with("a cache device does not shrink: change the file back"), "{smaller}");
        assert_eq!(difference(&with("40G"), &with("40G")), Ok(Vec::new()));
    }

    #[test]
    fn a_block_device_is_added_or_removed_but_never_changed() {
        let with = FILE.replace("name = \"b\"", "name = \"b\"\nublk = true\nublk-depth = 16");
        assert_eq!(told(&with), ["b: block device (ublk) added"]);
        let back = difference(&plan(&with), &plan(FILE)).unwrap();
        assert_eq!(
            back.iter().map(ToString::to_string).collect::<Vec<_>>(),
            ["b: block device (ublk) removed"]
        );
        let other = difference(&plan(&with), &plan(&with.replace("16", "32"))).unwrap_err().to_string();
        assert!(other.contains("`ublk-depth` is 16 in the daemon and 32 in the file"), "{other}");
    }

    #[test]
    fn a_volume_does_not_move_to_another_cache_device() {
        let two = FILE.to_owned() + "[[cache]]\ndevice = \"/dev/two\"\n";
        let served = plan(&(two.clone() + "[[cache.volume]]\nname = \"c\"\norigin = \"/dev/c\"\n"));
        let moved = two + "[[cache.volume]]\nname = \"a\"\norigin = \"/dev/a\"\n";
        let moved =
            moved.replacen("name = \"a\"\norigin = \"/dev/a\"", "name = \"d\"\norigin = \"/dev/d\"", 1);
        let refused = difference(&served, &plan(&moved)).unwrap_err().to_string();
        assert!(
            refused.contains("volume a is behind /dev/fast in the daemon and behind /dev/two"),
            "{refused}"
        );
    }

    #[test]
    fn a_volume_is_not_renamed() {
        let refused = refused(&FILE.replace("name = \"a\"", "name = \"c\""));
        assert!(refused.contains("volume c: its origin /dev/a is that of volume a"), "{refused}");
    }

    #[test]
    fn changes_read_back_from_the_wire() {
        let change = PlanChange::PlaceAdded { volume: "a".into(), place: "nbd unix:/x".into() };
        let text = serde_json::to_string(&change).unwrap();
        assert_eq!(text, r#"{"change":"place-added","volume":"a","place":"nbd unix:/x"}"#);
        assert_eq!(serde_json::from_str::<PlanChange>(&text).unwrap(), change);
    }
}
