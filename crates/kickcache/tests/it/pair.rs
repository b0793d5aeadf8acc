//! Two volumes, `one` and `two`, behind one cache device.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use crate::client::Client;
use crate::daemon::{Daemon, KICKCACHE, Spec, guarded};
use crate::scratch::{MIB, Scratch};

pub(crate) const NAMES: [&str; 2] = ["one", "two"];

/// The configuration file of two volumes, with its folder.
pub(crate) struct Pair {
    dir: PathBuf,
    pub(crate) spec: Spec,
}

impl Pair {
    pub(crate) fn new(scratch: &Scratch, mode: &'static str) -> Pair {
        let spec = Spec::new(scratch, &scratch.sparse("one", 8 * MIB), mode, "8M");
        scratch.sparse("two", 8 * MIB);
        let pair = Pair { dir: scratch.dir().into(), spec };
        let cache = format!("[[cache]]\ndevice = \"{}\"\nsize = \"8M\"\n", pair.spec.cache.display());
        pair.configure(&(cache + &pair.volume("one") + &pair.volume("two")));
        pair
    }

    /// The section of a volume in the file.
    pub(crate) fn volume(&self, name: &str) -> String {
        format!(
            "[[cache.volume]]\nname = \"{name}\"\nmode = \"{}\"\norigin = \"{}\"\nnbd = [\"unix:{}\"]\nidle-after = \"24h\"\n",
            self.spec.mode,
            self.origin(name).display(),
            self.socket(name).display()
        )
    }

    pub(crate) fn configure(&self, caches: &str) {
        let control = self.spec.control();
        fs::write(self.file(), format!("control = \"{}\"\n{caches}", control.display())).unwrap();
    }

    fn file(&self) -> PathBuf {
        self.dir.join("pair.toml")
    }

    pub(crate) fn origin(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    pub(crate) fn socket(&self, name: &str) -> PathBuf {
        self.dir.join(format!("{name}.sock"))
    }

    pub(crate) fn arguments(&self, flags: &[&str]) -> Vec<OsString> {
        let mut arguments: Vec<OsString> = vec!["serve".into(), "--config".into(), self.file().into()];
        arguments.extend(flags.iter().map(Into::into));
        arguments
    }

    /// No other volume may be served.
    pub(crate) fn start(&self, flags: &[&str], names: &[&str]) -> Daemon {
        let command = guarded(KICKCACHE, self.arguments(flags));
        let sockets: Vec<PathBuf> = names.iter().map(|name| self.socket(name)).collect();
        let daemon = Daemon::start(command, self.spec.clone(), &sockets);
        for name in NAMES.iter().filter(|name| !names.contains(name)) {
            assert!(!self.socket(name).exists(), "{name} is served: {}", daemon.log());
        }
        daemon
    }

    pub(crate) fn client(&self, name: &str) -> Client {
        Client::connect(&self.socket(name), name).unwrap()
    }

    /// The origin of `one`, served as the volume `v` with a cache device of its own.
    pub(crate) fn one_with(&self, cache: &Path) -> Spec {
        let extra = vec!["--new-cache".into()];
        Spec { cache: cache.into(), extra, ..self.spec.clone() }
    }
}
