//! Forbidden names by folder.

use std::collections::BTreeSet;

use crate::source::{Source, source};
use crate::workspace::{expect_none, expect_nothing, sources};

/// Files below the first path, the names, and the reason.
const NEVERS: [(&str, &[&str], &str); 5] = [
    ("crates/kickcache-engine/src/", &["std::"], "the engine names nothing above it"),
    (
        "crates/kickcache-engine/src/policy/",
        &["crate::path", "crate::cache", "crate::log", "crate::inflight", "crate::state", "crate::engine"],
        "a policy decides from its own memory, it performs nothing",
    ),
    (
        "crates/kickcache-engine/src/format/",
        &["crate::path", "crate::policy", "crate::log", "crate::engine"],
        "the format turns bytes into structs, nothing else",
    ),
    (
        "crates/kickcache-daemon/src/driver/",
        &[
            "kickcache_nbd",
            "kickcache_vhost_user",
            "crate::serve",
            "crate::control",
            "crate::plan",
            "crate::config",
        ],
        "the driver knows the engine only",
    ),
    (
        "crates/kickcache-daemon/src/control/",
        &["crate::driver", "kickcache_nbd", "kickcache_vhost_user", "crate::serve"],
        "the control socket speaks for a ControlTarget, whoever that is",
    ),
];

/// The folders of front ends; a crate of the same name is a front end's protocol.
const FRONTENDS: &str = "crates/kickcache-daemon/src/serve/frontend/";
const EVENT_LOOP: &str = "crates/kickcache-daemon/src/serve/event_loop/";

const PATHS: &str = "crates/kickcache-engine/src/path/";
/// Paths, each with one below it that it may name.
const PATHS_BELOW: [(&str, &str); 1] = [("read", "fill")];

const UNSAFE_ROOMS: [&str; 4] = [
    "crates/kickcache-daemon/src/driver/",
    "crates/kickcache-daemon/src/serve/frontend/ublk/",
    "crates/kickcache-vhost-user/src/",
    "crates/kickcache/examples/",
];
const STDOUT_ROOMS: [&str; 15] = [
    "crates/kickcache-command/src/",
    "crates/kickcache/examples/",
    "crates/kickcache/src/cli/",
    "crates/kickcache-lab/src/cli/",
    "crates/kickcache/src/bin/",
    // These files start programs.
    "crates/kickcache-lab/src/fio/child.rs",
    "crates/kickcache-lab/src/bench/program.rs",
    "crates/kickcache-lab/src/judge/process.rs",
    "crates/kickcache-daemon/src/serve/frontend/ublk/starter.rs",
    // Prints instructions for cargo.
    "crates/kickcache/build.rs",
    "crates/kickcache-faultsim/src/bin/",
    "crates/kickcache-model/examples/",
    "crates/kickcache-report/examples/",
    // Reads the output of git.
    "crates/kickcache-faultsim/src/seeds.rs",
    "crates/kickcache-faultsim/src/trace.rs",
];

/// Whether a name occurs in the text, not as a part of a longer one.
fn has_name(text: &str, name: &str) -> bool {
    let is_inner = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(name).any(|(at, _)| {
        let starts = !text[..at].ends_with(is_inner);
        starts && (name.ends_with(':') || !text[at + name.len()..].starts_with(is_inner))
    })
}

fn forbidden_names(source: &Source) -> Vec<String> {
    let mut found = Vec::new();
    for (_, forbidden, why) in NEVERS.iter().filter(|(room, ..)| source.path.starts_with(room)) {
        for (number, code) in source.code() {
            let named = forbidden.iter().filter(|name| has_name(code, name));
            found.extend(named.map(|name| source.finding(number, &format!("names `{name}`; {why}"))));
        }
    }
    found
}

fn frontends(sources: &[Source]) -> BTreeSet<&str> {
    let below = sources.iter().filter_map(|source| source.path.strip_prefix(FRONTENDS));
    below.filter_map(|path| path.split_once('/')).map(|(room, _)| room).collect()
}

fn foreign_frontends(source: &Source, rooms: &BTreeSet<&str>) -> Vec<String> {
    let own = source.path.strip_prefix(FRONTENDS).and_then(|path| path.split_once('/')).map(|(room, _)| room);
    let is_loop = source.path.starts_with(EVENT_LOOP);
    if own.is_none() && !is_loop {
        return Vec::new();
    }
    let others = rooms.iter().filter(|room| Some(**room) != own);
    let mut forbidden: Vec<String> =
        others.flat_map(|room| [format!("frontend::{room}"), format!("kickcache_{room}")]).collect();
    forbidden.extend((!is_loop).then(|| "serve::event_loop".into()));
    let why = if is_loop {
        "the loop knows front ends by their port only"
    } else {
        "a front end names neither another one nor the loop"
    };
    let mut found = Vec::new();
    for (number, code) in source.code() {
        let named = forbidden.iter().filter(|name| has_name(code, name));
        found.extend(named.map(|name| source.finding(number, &format!("names `{name}`; {why}"))));
    }
    found
}

#[test]
fn front_ends_and_the_loop_share_only_the_port() {
    let sources = sources();
    let rooms = frontends(&sources);
    assert!(rooms.contains("nbd"), "the front ends were not found");
    let found: Vec<String> = sources.iter().flat_map(|source| foreign_frontends(source, &rooms)).collect();
    expect_nothing(&found);
}

#[test]
fn a_new_front_end_is_known_by_its_room() {
    let file = |path: &str, text: &str| source(&format!("{FRONTENDS}{path}"), text);
    let code = "use crate::serve::frontend::telepathy::A;\nuse crate::serve::event_loop::B;\nuse kickcache_nbd::C;\n";
    let sources = [file("nbd/a.rs", code), file("telepathy/b.rs", code), file("mod.rs", code)];
    let rooms = frontends(&sources);
    let counts = sources.each_ref().map(|source| foreign_frontends(source, &rooms).len());
    assert_eq!(counts, [2, 2, 0]);
    assert_eq!(foreign_frontends(&source(&format!("{EVENT_LOOP}a.rs"), code), &rooms).len(), 2);
}

/// `write` for `path/write/mod.rs`, `fill` for `path/fill.rs`.
fn journey(path: &str) -> Option<&str> {
    let rest = path.strip_prefix(PATHS)?;
    let name = rest.split('/').next()?.trim_end_matches(".rs");
    (name != "mod").then_some(name)
}

fn foreign_paths(source: &Source) -> Vec<String> {
    let Some(own) = journey(&source.path) else { return Vec::new() };
    let is_allowed = |other: &str| other == own || PATHS_BELOW.contains(&(own, other));
    let mut found = Vec::new();
    for (number, code) in source.code() {
        let named = code.match_indices("crate::path::").map(|(at, start)| &code[at + start.len()..]);
        let names =
            named.map(|rest| rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or(""));
        let foreign = names.filter(|other| !is_allowed(other));
        let advice = "a path names no other one, but what is below it";
        found
            .extend(foreign.map(|other| source.finding(number, &format!("names `path::{other}`; {advice}"))));
    }
    found
}

#[test]
fn a_path_names_only_the_paths_below() {
    expect_none(".rs", foreign_paths);
    let names = |path: &str| {
        let code = "use crate::path::write::log;\nuse crate::path::{a, b};\n// crate::path::read\n";
        foreign_paths(&source(&format!("{PATHS}{path}"), code)).len()
    };
    assert_eq!((names("write/mod.rs"), names("read.rs"), names("mod.rs")), (1, 2, 0));
}

fn misplaced(source: &Source, names: &[&str], rooms: &[&str], advice: &str) -> Vec<String> {
    let at_home = rooms.iter().any(|room| source.path.starts_with(room));
    let code = source.code().filter(|_| !at_home);
    let hits =
        code.filter_map(|(number, code)| Some((number, names.iter().find(|name| has_name(code, name))?)));
    let what = |name| format!("`{name}` outside {}; {advice}", rooms.join(" and "));
    hits.map(|(number, name)| source.finding(number, &what(name))).collect()
}

#[test]
fn no_folder_names_a_higher_one() {
    expect_none(".rs", forbidden_names);
}

#[test]
fn unsafe_stays_in_its_rooms() {
    let advice = "do it there behind a safe function, or with rustix";
    expect_none(".rs", |source| misplaced(source, &["unsafe"], &UNSAFE_ROOMS, advice));
}

#[test]
fn standard_output_belongs_to_the_command_line() {
    let advice = "return it, or take a `&mut dyn Write`";
    expect_none(".rs", |source| misplaced(source, &["println!", "print!", "stdout"], &STDOUT_ROOMS, advice));
}

#[test]
fn forbidden_names_are_found() {
    let policy =
        source("crates/kickcache-engine/src/policy/a.rs", "use crate::path::read;\n// crate::cache\n");
    assert_eq!(forbidden_names(&policy).len(), 1);
    let control =
        source("crates/kickcache-daemon/src/control/a.rs", "use crate::serve;\nuse kickcache_engine::x;\n");
    assert_eq!(forbidden_names(&control).len(), 1);
}

#[test]
fn misplaced_names_are_found() {
    let cli = source("crates/kickcache/src/cli/a.rs", "unsafe {}\nunsafe_code\n// unsafe\n");
    assert_eq!(misplaced(&cli, &["unsafe"], &UNSAFE_ROOMS, "").len(), 1);
}
