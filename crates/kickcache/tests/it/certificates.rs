//! Folders of certificates, made by `openssl`.

use std::fs;
use std::path::{Path, PathBuf};

use crate::scratch::Scratch;
use crate::tools;

pub(crate) struct Authority {
    dir: PathBuf,
}

/// In days from now.
pub(crate) const VALID: i32 = 1;
pub(crate) const EXPIRED: i32 = -1;

const EC: &str = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";

impl Authority {
    pub(crate) fn new(scratch: &Scratch, name: &str) -> Authority {
        let dir = scratch.path(name);
        fs::create_dir(&dir).unwrap();
        let authority = Authority { dir };
        authority.openssl(&format!(
            "req -x509 {EC} -days 2 -keyout ca-key.pem -out ca-cert.pem -subj /CN=authority"
        ));
        authority
    }

    pub(crate) fn server(&self, folder: &str, days: i32, name: &str) -> PathBuf {
        let place = self.folder(folder);
        self.issue(&place, "server", days, name);
        place
    }

    pub(crate) fn client(&self, folder: &str, days: i32, name: &str) -> PathBuf {
        let place = self.folder(folder);
        self.issue(&place, "client", days, name);
        place
    }

    /// A folder of a client without a certificate.
    pub(crate) fn stranger(&self, folder: &str) -> PathBuf {
        self.folder(folder)
    }

    fn folder(&self, name: &str) -> PathBuf {
        let place = self.dir.join(name);
        fs::create_dir_all(&place).unwrap();
        self.install(&place);
        place
    }

    /// Makes a folder trust this authority.
    pub(crate) fn install(&self, place: &Path) {
        fs::copy(self.dir.join("ca-cert.pem"), place.join("ca-cert.pem")).unwrap();
    }

    /// Writes ROLE-cert.pem and ROLE-key.pem into a folder.
    pub(crate) fn issue(&self, place: &Path, role: &str, days: i32, name: &str) {
        let place = place.display();
        let (key, certificate) = (format!("{place}/{role}-key.pem"), format!("{place}/{role}-cert.pem"));
        self.openssl(&format!("req {EC} -keyout {key} -out request.pem -subj /O=test/CN={name}"));
        fs::write(self.dir.join("extensions"), format!("subjectAltName=DNS:{name}\n")).unwrap();
        let of = "-CA ca-cert.pem -CAkey ca-key.pem -CAcreateserial -extfile extensions";
        self.openssl(&format!("x509 -req -in request.pem {of} -days {days} -out {certificate}"));
    }

    fn openssl(&self, words: &str) {
        let words = format!("cd {} && openssl {words} 2>&1", self.dir.display());
        tools::run("sh", ["-c", &words]);
    }
}
