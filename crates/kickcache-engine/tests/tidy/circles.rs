//! No circle of files: what two files need stands in a third one below both.

use std::collections::BTreeSet;

use crate::module_graph::{Arrows, arrows, root_files};
use crate::source::{Source, source};
use crate::workspace::{expect_nothing, sources};

/// Circles that are still to be broken, by the files in them. Of a row's files no others than these may need one another;
/// a row goes when its circle is gone.
const KNOWN_CIRCLES: &[&[&str]] = &[
    &[
        "crates/kickcache-daemon/src/driver/device/mod.rs",
        "crates/kickcache-daemon/src/driver/device/storage.rs",
        "crates/kickcache-daemon/src/driver/ioctl.rs",
    ],
    &[
        "crates/kickcache-daemon/src/driver/executor/mod.rs",
        "crates/kickcache-daemon/src/driver/executor/notes.rs",
    ],
    &[
        "crates/kickcache-daemon/src/offline/books.rs",
        "crates/kickcache-daemon/src/offline/mod.rs",
        "crates/kickcache-daemon/src/offline/source.rs",
    ],
    &[
        "crates/kickcache-daemon/src/serve/cache_device/found.rs",
        "crates/kickcache-daemon/src/serve/cache_device/marks.rs",
        "crates/kickcache-daemon/src/serve/cache_device/mod.rs",
    ],
];

/// The files that need one another, directly or by way of others: each set of them once, in order.
fn circles(arrows: &Arrows) -> Vec<BTreeSet<&str>> {
    let reached: Vec<(&str, BTreeSet<&str>)> =
        arrows.keys().map(|file| (file.as_str(), reachable(arrows, file))).collect();
    let mut found: Vec<BTreeSet<&str>> = Vec::new();
    for (file, below) in &reached {
        let returns =
            |(other, others): &&(&str, BTreeSet<&str>)| below.contains(other) && others.contains(file);
        let circle: BTreeSet<&str> = reached.iter().filter(returns).map(|(other, _)| *other).collect();
        if !circle.is_empty() && !found.contains(&circle) {
            found.push(circle);
        }
    }
    found
}

/// The files that a file needs, directly or by way of others.
fn reachable<'a>(arrows: &'a Arrows, file: &'a str) -> BTreeSet<&'a str> {
    let mut found = BTreeSet::new();
    let mut open = vec![file];
    while let Some(next) = open.pop() {
        let needed = arrows.get(next).into_iter().flat_map(|needed| needed.keys());
        open.extend(needed.map(String::as_str).filter(|file| found.insert(*file)));
    }
    found
}

/// A circle for people: a line for each arrow of it, and what to do.
fn describe(arrows: &Arrows, circle: &BTreeSet<&str>) -> String {
    let mut lines = vec![format!("{} files need one another:", circle.len())];
    for file in circle {
        for (needed, names) in arrows[*file].iter().filter(|(needed, _)| circle.contains(needed.as_str())) {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            lines.push(format!("  {file} -> {needed}: {}", names.join(", ")));
        }
    }
    lines.push("  move what both ends of an arrow need into a file of its own, below both".into());
    lines.join("\n  ")
}

/// The circles that no row of a table knows, and the rows whose circle is gone.
fn findings(sources: &[Source], known: &[&[&str]]) -> Vec<String> {
    let (mut found, mut seen) = (Vec::new(), BTreeSet::new());
    for root_file in root_files(sources) {
        let arrows = arrows(sources, root_file);
        for circle in circles(&arrows) {
            match known.iter().position(|row| circle.iter().all(|file| row.contains(file))) {
                Some(row) => _ = seen.insert(row),
                None => found.push(describe(&arrows, &circle)),
            }
        }
    }
    let gone = known.iter().enumerate().filter(|(row, _)| !seen.contains(row));
    found.extend(
        gone.map(|(_, files)| format!("{}: no circle is left; take the row from KNOWN_CIRCLES", files[0])),
    );
    found
}

#[test]
fn no_files_need_one_another() {
    expect_nothing(&findings(&sources(), KNOWN_CIRCLES));
}

#[cfg(test)]
fn crate_of(files: &[(&str, &str)]) -> Vec<Source> {
    files.iter().map(|(path, text)| source(&format!("crates/x/src/{path}"), text)).collect()
}

#[test]
fn a_circle_through_the_parent_is_found() {
    let files = [
        ("lib.rs", "mod a;"),
        ("a/mod.rs", "mod b;\nuse self::b::B;\npub struct A;"),
        ("a/b.rs", "use super::A;\npub struct B;"),
    ];
    let found = findings(&crate_of(&files), &[]);
    let expected = "2 files need one another:\n    \
                    crates/x/src/a/b.rs -> crates/x/src/a/mod.rs: A\n    \
                    crates/x/src/a/mod.rs -> crates/x/src/a/b.rs: B\n    \
                    move what both ends of an arrow need into a file of its own, below both";
    assert_eq!(found, [expected]);
}

#[test]
fn a_circle_through_an_export_is_found() {
    let files = [
        ("lib.rs", "mod a; mod b; mod c;\npub use b::B;"),
        ("a.rs", "fn f() { crate::B::new() }\npub struct A;"),
        ("b.rs", "use crate::c;\npub struct B(c::Alias);"),
        ("c.rs", "pub use crate::a::A as Alias;"),
    ];
    let found = findings(&crate_of(&files), &[]);
    assert!(found.len() == 1 && found[0].contains("a.rs -> crates/x/src/b.rs: B::new"), "{found:?}");
    assert!(found[0].contains("b.rs -> crates/x/src/a.rs: A"), "{found:?}");
}

#[test]
fn a_parent_that_only_exports_is_in_no_circle() {
    let files = [
        ("lib.rs", "pub mod a;\npub use a::A;"),
        ("a/mod.rs", "mod b; mod c;\npub use self::b::B;\npub use c::A;"),
        ("a/b.rs", "use super::c::A;\npub struct B(super::A);\n#[cfg(test)]\nmod tests { use crate::a::B; }"),
        (
            "a/c.rs",
            "// use super::B;\npub struct A;\nmod inner { use super::A; }\nconst T: &str = \"crate::a::B\";",
        ),
    ];
    assert_eq!(findings(&crate_of(&files), &[]), [""; 0]);
}

#[test]
fn a_known_circle_is_let_through_until_it_is_gone() {
    let files = [("lib.rs", ""), ("a.rs", "use crate::b::B;"), ("b.rs", "use crate::a::A;"), ("c.rs", "")];
    let known: [&[&str]; 1] = [&["crates/x/src/a.rs", "crates/x/src/b.rs", "crates/x/src/c.rs"]];
    assert_eq!(findings(&crate_of(&files), &known), [""; 0]);
    let gone = findings(&crate_of(&files[..2]), &known);
    assert_eq!(gone, ["crates/x/src/a.rs: no circle is left; take the row from KNOWN_CIRCLES"]);
}
