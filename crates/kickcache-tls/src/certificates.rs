//! Certificates for tests, made by `openssl`.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A certificate authority in a folder, with the certificates that it issues.
pub(crate) struct Authority(PathBuf);

impl Authority {
    pub(crate) fn new(folder: &Path) -> Authority {
        let authority = Authority(folder.into());
        let new = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -keyout ca-key.pem -out ca-cert.pem";
        authority.openssl(new, &["-subj", "/CN=an authority"]);
        authority
    }

    /// NAME-cert.pem and NAME-key.pem for a host.
    pub(crate) fn issue(&self, name: &str, host: &str) {
        self.issue_as(name, &format!("/CN={host}"), &format!("DNS:{host}"));
    }

    pub(crate) fn issue_as(&self, name: &str, subject: &str, alternative: &str) {
        let new = format!(
            "req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout {name}-key.pem -out request.pem"
        );
        self.openssl(&new, &["-subj", subject]);
        std::fs::write(self.0.join("extensions"), format!("subjectAltName={alternative}\n")).unwrap();
        let sign = format!(
            "x509 -req -in request.pem -CA ca-cert.pem -CAkey ca-key.pem -CAcreateserial -days 1 -extfile extensions -out {name}-cert.pem"
        );
        self.openssl(&sign, &[]);
    }

    pub(crate) fn run(&self, words: &str) {
        self.openssl(words, &[]);
    }

    /// NAME-cert.pem for NAME-key.pem, with flags of `openssl x509 -req` and extensions, a line each.
    pub(crate) fn sign(&self, name: &str, flags: &str, extensions: &str) {
        std::fs::write(self.0.join("extensions"), extensions).unwrap();
        self.run(&format!("req -new -key {name}-key.pem -subj /CN={name} -out request.pem"));
        let extfile = if extensions.is_empty() { "" } else { " -extfile extensions" };
        self.run(&format!("x509 -req -in request.pem {flags}{extfile} -out {name}-cert.pem"));
    }

    fn openssl(&self, words: &str, more: &[&str]) {
        let mut command = Command::new("openssl");
        command.args(words.split(' ')).args(more).current_dir(&self.0);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{words}: {}", String::from_utf8_lossy(&output.stderr));
    }
}
