//! `scripts/guest-lab` takes packages from where the apt of this machine has them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::need_tools;
use crate::scratch::Scratch;

/// apt leaves an empty list out.
const PACKAGE: &str = "Package: none\nVersion: 1\nArchitecture: amd64\nMaintainer: a <a@b>\nFilename: none.deb\nSize: 1\nSHA256: e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\nDescription: none\n";
const PACKAGE_SHA256: &str = "cb8485f824313ea97cd8c5b3b86c6526b1fd3985277a6ac48ffe100389d16a50";

fn scripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts")
}

#[test]
fn the_source_of_a_suite_matches_apt() {
    need_tools!("apt-get", "bash");
    let scratch = Scratch::new();
    let suite = scratch.path("mirror/dists/x");
    let packages = suite.join("main/binary-amd64");
    for folder in [&packages, &scratch.path("apt/sources.list.d"), &scratch.path("apt/apt.conf.d")] {
        fs::create_dir_all(folder).unwrap();
    }
    fs::write(packages.join("Packages"), PACKAGE).unwrap();
    let listed = format!("{PACKAGE_SHA256} {} main/binary-amd64/Packages", PACKAGE.len());
    let release = "Date: Wed, 01 Jan 2020 00:00:00 UTC\nOrigin: Debian\nLabel: Debian\nSuite: x\nCodename: x\nArchitectures: amd64\nComponents: main\n";
    fs::write(suite.join("Release"), format!("{release}SHA256:\n {listed}\n")).unwrap();
    let mirror = scratch.path("mirror");
    let sources =
        format!("deb [arch=amd64 trusted=yes signed-by=/keys.gpg] file:{} x main\n", mirror.display());
    fs::write(scratch.path("apt/sources.list"), sources).unwrap();
    let config = scratch.path("apt.conf");
    fs::write(&config, format!("Dir::Etc {:?};\n", scratch.path("apt"))).unwrap();
    let mut lab = Command::new(scripts().join("guest-lab"));
    lab.args(["source", "y"]).env("LAB", scratch.path("lab")).env("APT_CONFIG", config);
    let output = lab.output().unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    let expected = format!("deb [signed-by=/keys.gpg] file:{}/ y main\n", mirror.display());
    assert_eq!(printed, expected, "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn scripts_name_no_other_host() {
    for entry in fs::read_dir(scripts()).unwrap() {
        let path = entry.unwrap().path();
        let Ok(text) = fs::read_to_string(&path) else { continue };
        let urls = text
            .match_indices("://")
            .filter(|(at, _)| text[..*at].ends_with("http") || text[..*at].ends_with("https"));
        for (at, _) in urls {
            let host = &text[at + 3..];
            let is_own = ["127.0.0.1", "localhost", "[::1]"].iter().any(|own| host.starts_with(own));
            let line = text[..at].lines().count();
            assert!(is_own, "{}, line {line}", path.display());
        }
    }
}
