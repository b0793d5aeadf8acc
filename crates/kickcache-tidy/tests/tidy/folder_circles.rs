//! No circle of folders: what two folders need is in a third place below both.

use std::collections::BTreeMap;

use crate::circles::circles;
use crate::code::module_graph::{Arrows, arrows, root_files};
use crate::exceptions::beyond;
use crate::source::{Source, source};
use crate::workspace::{expect_nothing, sources};

const EXCEPTIONS: &str = include_str!("exceptions/folder_circles.txt");

/// The arrows between the members of a folder; of each arrow the files at its ends.
fn folder_arrows(arrows: &Arrows) -> Arrows {
    let mut found = Arrows::new();
    for (file, needed) in arrows {
        for other in needed.keys() {
            let Some((from, to)) = branches(file, other) else { continue };
            let names = found.entry(from).or_default().entry(to.clone()).or_default();
            names.insert(format!("{file} needs {other}"));
            found.entry(to).or_default();
        }
    }
    found
}

/// The paths of two files up to the first difference; `None` if one of these is an index file.
fn branches(file: &str, other: &str) -> Option<(String, String)> {
    let (of_file, of_other): (Vec<&str>, Vec<&str>) = (file.split('/').collect(), other.split('/').collect());
    let common = of_file.iter().zip(&of_other).take_while(|(a, b)| a == b).count();
    let branch = |parts: &[&str]| parts[..=common].join("/");
    let is_index = |path: &str| ["/mod.rs", "/lib.rs", "/main.rs"].iter().any(|end| path.ends_with(end));
    let (from, to) = (branch(&of_file), branch(&of_other));
    (!is_index(&from) && !is_index(&to)).then_some((from, to))
}

fn findings(sources: &[Source]) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for root_file in root_files(sources) {
        let arrows = folder_arrows(&arrows(sources, root_file));
        for circle in circles(&arrows) {
            for member in &circle {
                let inside = arrows[*member].iter().filter(|(to, _)| circle.contains(to.as_str()));
                let lines: Vec<&str> = inside.flat_map(|(_, files)| files).map(String::as_str).collect();
                let what = format!("{member}: it is in a circle of folders:\n    {}", lines.join("\n    "));
                found.insert((*member).to_owned(), what);
            }
        }
    }
    found
}

#[test]
fn no_folders_need_one_another() {
    expect_nothing(&beyond(findings(&sources()), EXCEPTIONS));
}

#[test]
fn circles_of_folders_are_found() {
    let files = [
        ("lib.rs", "mod a; mod b; mod c;"),
        ("a/mod.rs", "mod x; mod y;"),
        ("a/x.rs", "use crate::b::z::Z;\nuse crate::c::C;\npub struct X;"),
        ("a/y.rs", "use crate::a::x::X;\npub struct Y;"),
        ("b/mod.rs", "mod z;\nuse crate::a::y::Y;"),
        ("b/z.rs", "pub struct Z;"),
        ("c.rs", "pub struct C;"),
    ];
    let files = files.map(|(path, text)| source(&format!("crates/x/src/{path}"), text));
    let found = findings(&files);
    let expected = "crates/x/src/a: it is in a circle of folders:\n    \
                    crates/x/src/a/x.rs needs crates/x/src/b/z.rs";
    assert_eq!(found.keys().collect::<Vec<_>>(), ["crates/x/src/a", "crates/x/src/b"]);
    assert_eq!(found["crates/x/src/a"], expected);
}
