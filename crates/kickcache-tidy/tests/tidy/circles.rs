//! No circle of files: code that two files need is in a third one below both.

use std::collections::BTreeSet;

use crate::code::module_graph::{Arrows, arrows, root_files};
use crate::source::{Source, source};
use crate::workspace::{expect_nothing, sources};

/// The sets of files, or of folders, that need one another, directly or through others.
pub(crate) fn circles(arrows: &Arrows) -> Vec<BTreeSet<&str>> {
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

/// The files that a file needs, directly or through others.
fn reachable<'a>(arrows: &'a Arrows, file: &'a str) -> BTreeSet<&'a str> {
    let mut found = BTreeSet::new();
    let mut open = vec![file];
    while let Some(next) = open.pop() {
        let needed = arrows.get(next).into_iter().flat_map(|needed| needed.keys());
        open.extend(needed.map(String::as_str).filter(|file| found.insert(*file)));
    }
    found
}

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

fn findings(sources: &[Source]) -> Vec<String> {
    let of_crate = |root_file| {
        let arrows = arrows(sources, root_file);
        circles(&arrows).iter().map(|circle| describe(&arrows, circle)).collect::<Vec<_>>()
    };
    root_files(sources).into_iter().flat_map(of_crate).collect()
}

#[test]
fn no_files_need_one_another() {
    expect_nothing(&findings(&sources()));
}

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
    let found = findings(&crate_of(&files));
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
    let found = findings(&crate_of(&files));
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
    assert_eq!(findings(&crate_of(&files)), [""; 0]);
}
