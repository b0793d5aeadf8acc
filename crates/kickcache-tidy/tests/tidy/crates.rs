//! Crates need only those below them.

use std::fs;
use std::path::Path;

use crate::workspace::{expect_nothing, root};

const ENGINE_DEPENDENCIES: [&str; 3] = ["crc-fast", "hashbrown", "thiserror"];

/// The crates, and those below them that each may need.
const CRATES: [(&str, &[&str]); 15] = [
    ("kickcache-tidy", &[]),
    ("kickcache-engine", &[]),
    ("kickcache-units", &[]),
    ("kickcache-curve", &[]),
    ("kickcache-random", &[]),
    ("kickcache-faultsim", &["kickcache-engine", "kickcache-random"]),
    ("kickcache-model", &["kickcache-curve", "kickcache-engine", "kickcache-random"]),
    ("kickcache-tls", &[]),
    ("kickcache-nbd", &["kickcache-engine", "kickcache-tls"]),
    ("kickcache-vhost-user", &["kickcache-engine"]),
    ("kickcache-report", &["kickcache-model", "kickcache-units"]),
    (
        "kickcache-daemon",
        &[
            "kickcache-curve",
            "kickcache-engine",
            "kickcache-nbd",
            "kickcache-tls",
            "kickcache-units",
            "kickcache-vhost-user",
        ],
    ),
    ("kickcache-command", &["kickcache-daemon", "kickcache-engine", "kickcache-units"]),
    (
        "kickcache-lab",
        &[
            "kickcache-command",
            "kickcache-daemon",
            "kickcache-engine",
            "kickcache-model",
            "kickcache-nbd",
            "kickcache-random",
            "kickcache-report",
            "kickcache-units",
        ],
    ),
    (
        "kickcache",
        &[
            "kickcache-command",
            "kickcache-daemon",
            "kickcache-engine",
            "kickcache-lab",
            "kickcache-model",
            "kickcache-nbd",
            "kickcache-units",
        ],
    ),
];

fn dependencies(manifest: &str) -> Vec<&str> {
    let section = manifest.lines().skip_while(|line| *line != "[dependencies]").skip(1);
    let entries = section.take_while(|line| !line.starts_with('['));
    let mut names: Vec<&str> = entries.filter_map(|line| line.split(['.', '=', ' ']).next()).collect();
    names.retain(|name| !name.is_empty() && !name.starts_with('#'));
    names.sort_unstable();
    names
}

/// Dependencies of a crate that [`CRATES`] forbids; dependencies of its tests are exempt.
fn crate_arrows(root: &Path, name: &str) -> Vec<String> {
    let Some((_, allowed)) = CRATES.iter().find(|(known, _)| *known == name) else {
        return vec![format!("crates/{name}: a crate that the table CRATES does not know")];
    };
    let manifest = fs::read_to_string(root.join(name).join("Cargo.toml")).unwrap();
    let needs = manifest.split("\n[dependencies]\n").nth(1).unwrap_or_default().split("\n[").next().unwrap();
    let ours = needs.lines().filter_map(|line| line.split(['.', ' ', '=']).next());
    ours.filter(|need| need.starts_with("kickcache") && !allowed.contains(need))
        .map(|need| format!("crates/{name}/Cargo.toml: needs {need}, which is not below it"))
        .collect()
}

#[test]
fn the_engine_depends_on_three_crates() {
    let manifest = fs::read_to_string(root().join("crates/kickcache-engine/Cargo.toml")).unwrap();
    assert_eq!(dependencies(&manifest), ENGINE_DEPENDENCIES, "what the engine is built from is a promise");
}

#[test]
fn crates_need_only_those_below() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let names = fs::read_dir(&root).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let found: Vec<String> = names.flat_map(|name| crate_arrows(&root, &name)).collect();
    expect_nothing(&found);
}
