//! The house rules that neither rustfmt nor clippy knows: lengths, words, who may name whom, dead files, titles.
//!
//! Each finding is one line, `path:line: what; what to do`. An exception is a row in one of the tables below, with
//! its reason.

#![expect(clippy::unwrap_used, reason = "helpers of a test may fail by a panic")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Lines of a file, its tests not counted.
const FILE_LINES_MAX: usize = 500;
/// What the header of a longer file says, followed by the reason.
const LONG_FILE_REASON: &str = "Over 500 lines because ";
/// Lines of a function from its name to its closing brace.
const FUNCTION_LINES_MAX: usize = 70;
/// What the engine may depend on.
const ENGINE_DEPENDENCIES: [&str; 3] = ["crc-fast", "hashbrown", "thiserror"];

/// Words that have a better one: how they begin, where they are looked for, and what to write.
const WORDS: [(&str, Where, &str); 17] = [
    ("evict", Where::Anywhere, "demote (a clean block), or reclaim (a segment)"),
    ("backing device", Where::Anywhere, "origin"),
    ("backing store", Where::Anywhere, "origin"),
    ("backing disk", Where::Anywhere, "origin"),
    ("cacheline", Where::Anywhere, "block (the processor's: 64 bytes)"),
    ("cache line", Where::Anywhere, "block (the processor's: 64 bytes)"),
    ("destag", Where::Anywhere, "writeback"),
    ("sub-bucket", Where::Anywhere, "segment, batch or block"),
    ("hit rate", Where::Anywhere, "hit ratio"),
    ("writethrough", Where::Prose, "write-through"),
    ("writearound", Where::Prose, "write-around"),
    ("write-back of", Where::Prose, "writeback of (write-back is the mode, writeback the copying)"),
    ("chunk", Where::Prose, "extent, batch or segment (a checkpoint has chunks, and so has an NBD reply)"),
    ("flusher", Where::Anywhere, "writeback"),
    ("fixme", Where::Anywhere, "an issue, or do it"),
    ("todo:", Where::Anywhere, "an issue, or do it"),
    ("xxx", Where::Prose, "an issue, or do it"),
];

/// Where a word is fine after all: how the path begins, how the word begins, why.
const WORD_EXCEPTIONS: [(&str, &str, &str); 8] = [
    ("crates/kickcache-engine/src/", "chunk", "a checkpoint is written in chunks"),
    ("crates/kickcache-faultsim/src/", "chunk", "a checkpoint is written in chunks"),
    ("crates/kickcache-engine/tests/tidy.rs", "", "this file"),
    ("crates/kickcache-engine/src/cache/", "cache line", "the processor's"),
    ("docs/format.md", "chunk", "a checkpoint is written in chunks"),
    ("crates/kickcache-nbd/src/", "chunk", "the NBD specification's word"),
    ("crates/kickcache/tests/it/", "chunk", "the NBD specification's word"),
    ("crates/kickcache-model/src/", "destag", "what the memory inside a disk drive does"),
];

/// The crates, and those below them that each may need: arrows run down only.
const CRATES: [(&str, &[&str]); 10] = [
    ("kickcache-engine", &[]),
    ("kickcache-units", &[]),
    ("kickcache-random", &[]),
    ("kickcache-faultsim", &["kickcache-engine", "kickcache-random"]),
    ("kickcache-model", &["kickcache-engine", "kickcache-random"]),
    ("kickcache-nbd", &["kickcache-engine"]),
    ("kickcache-vhost-user", &["kickcache-engine"]),
    ("kickcache-report", &["kickcache-model", "kickcache-units"]),
    ("kickcache-daemon", &["kickcache-engine", "kickcache-nbd", "kickcache-units", "kickcache-vhost-user"]),
    (
        "kickcache",
        &[
            "kickcache-daemon",
            "kickcache-engine",
            "kickcache-model",
            "kickcache-nbd",
            "kickcache-random",
            "kickcache-report",
            "kickcache-units",
        ],
    ),
];

/// Who must not name whom: files below the first, the names, and why.
const NEVERS: [(&str, &[&str], &str); 9] = [
    ("crates/kickcache-engine/src/", &["std::"], "the engine names nothing above it"),
    ("crates/kickcache-engine/src/path/", &["crate::path::", "super::"], "a path never names another path"),
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
        "crates/kickcache-daemon/src/serve/event_loop/",
        &["kickcache_nbd", "kickcache_vhost_user", "frontend::nbd", "frontend::vhost_user"],
        "the loop knows front ends by their port only",
    ),
    (
        "crates/kickcache-daemon/src/serve/frontend/nbd/",
        &["kickcache_vhost_user", "frontend::vhost_user", "serve::event_loop"],
        "a front end names neither another one nor the loop",
    ),
    (
        "crates/kickcache-daemon/src/serve/frontend/vhost_user/",
        &["kickcache_nbd", "frontend::nbd", "serve::event_loop"],
        "a front end names neither another one nor the loop",
    ),
    (
        "crates/kickcache-daemon/src/control/",
        &["crate::driver", "kickcache_nbd", "kickcache_vhost_user", "crate::serve"],
        "the control socket speaks for a ControlTarget, whoever that is",
    ),
];

/// Where `unsafe` may stand.
const UNSAFE_ROOMS: [&str; 3] =
    ["crates/kickcache-daemon/src/driver/", "crates/kickcache-vhost-user/src/", "crates/kickcache/examples/"];
/// Where standard output may be written.
const STDOUT_ROOMS: [&str; 8] = [
    "crates/kickcache/examples/",
    "crates/kickcache/src/cli/",
    "crates/kickcache/src/bin/",
    // Starts a program and reads what it prints.
    "crates/kickcache/src/demo/load/fio.rs",
    "crates/kickcache-faultsim/src/bin/",
    "crates/kickcache-model/examples/",
    // Reads what git prints.
    "crates/kickcache-faultsim/src/seeds.rs",
    "crates/kickcache-faultsim/src/trace.rs",
];

#[derive(Clone, Copy, PartialEq)]
enum Where {
    /// Code and comments.
    Anywhere,
    /// Comments and documents.
    Prose,
}

/// A file of the workspace.
struct Source {
    path: String,
    text: String,
}

impl Source {
    /// The lines and their numbers from 1.
    fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(index, line)| (index + 1, line))
    }

    fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    fn is_test(&self) -> bool {
        self.path.contains("/tests/") || self.path.ends_with("/tests.rs") || self.path.contains("/benches/")
    }

    /// A test module beside code says by its place what it is for.
    fn is_test_module(&self) -> bool {
        self.is_test() && self.path.contains("/src/")
    }

    /// The lines before the tests at the end of the file; none if all of it is tests.
    fn product_lines(&self) -> Vec<(usize, &str)> {
        let lines: Vec<_> = self.lines().collect();
        let starts_tests =
            |pair: &[(usize, &str)]| pair[0].1 == "#[cfg(test)]" && pair[1].1.starts_with("mod ");
        let end = lines.windows(2).position(starts_tests).unwrap_or(lines.len());
        if self.is_test() { Vec::new() } else { lines[..end].to_vec() }
    }

    /// The product lines without comments.
    fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        self.product_lines().into_iter().map(|(number, line)| (number, code_of(line)))
    }

    fn finding(&self, line: usize, what: &str) -> String {
        format!("{}:{line}: {what}", self.path)
    }
}

/// A line up to its comment; the `//` of an address does not count.
fn code_of(line: &str) -> &str {
    let comment = line.match_indices("//").find(|(at, _)| !line[..*at].ends_with(':'));
    comment.map_or(line, |(at, _)| &line[..at])
}

/// Whether a name stands in the text, not as a part of a longer one.
fn has_name(text: &str, name: &str) -> bool {
    let is_inner = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(name).any(|(at, _)| {
        let starts = !text[..at].ends_with(is_inner);
        starts && (name.ends_with(':') || !text[at + name.len()..].starts_with(is_inner))
    })
}

fn begins_word(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(at, _)| !text[..at].ends_with(char::is_alphanumeric))
}

fn long_file(source: &Source) -> Option<String> {
    let count =
        source.product_lines().iter().rposition(|(_, line)| !line.is_empty()).map_or(0, |last| last + 1);
    let excused = source.text.lines().any(|line| line.starts_with("//!") && line.contains(LONG_FILE_REASON));
    let what = format!(
        "{count} lines without tests, {FILE_LINES_MAX} are the limit; split it, or say `//! {LONG_FILE_REASON}...`"
    );
    (count > FILE_LINES_MAX && !excused).then(|| source.finding(1, &what))
}

fn long_functions(source: &Source) -> Vec<String> {
    let lines = source.product_lines();
    let starts = (0..lines.len()).filter(|index| begins_function(lines[*index].1));
    let measured = starts.map(|index| (lines[index].0, function_length(&lines[index..])));
    let long = measured.filter(|(_, length)| *length > FUNCTION_LINES_MAX);
    let what = |length| format!("a function of {length} lines, {FUNCTION_LINES_MAX} are the limit; split it");
    long.map(|(number, length)| source.finding(number, &what(length))).collect()
}

fn begins_function(line: &str) -> bool {
    let is_modifier =
        |word: &&str| word.starts_with("pub") || ["const", "unsafe", "extern", "\"C\""].contains(word);
    code_of(line).split_whitespace().find(|word| !is_modifier(word)) == Some("fn")
}

/// Lines up to the closing brace, or the semicolon, that rustfmt puts right below the start of the function.
fn function_length(lines: &[(usize, &str)]) -> usize {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let is_end = |(index, (_, line)): (usize, &(usize, &str))| {
        let below = indent(line) == indent(lines[0].1) && line.trim_start().starts_with(['}', ')']);
        (index == 0 || below) && line.ends_with(['}', ';'])
    };
    lines.iter().enumerate().position(is_end).map_or(1, |end| end + 1)
}

fn banned_words(source: &Source) -> Vec<String> {
    let mut found = Vec::new();
    for (number, line) in source.lines() {
        let line = line.to_lowercase().replace("checkpoint chunk", "");
        let prose = if source.is_rust() { &line[code_of(&line).len()..] } else { &line };
        for (word, place, better) in WORDS {
            let text = if place == Where::Prose { prose } else { &line };
            if begins_word(text, word) && !is_excused(&source.path, word) {
                found.push(
                    source.finding(number, &format!("`{word}` is not a word of the house; write {better}")),
                );
            }
        }
    }
    found
}

fn is_excused(path: &str, word: &str) -> bool {
    let in_checkpoint = word == "chunk" && path.contains("checkpoint");
    let listed =
        |(file, exception, _): &(&str, &str, &str)| path.starts_with(file) && word.starts_with(exception);
    in_checkpoint || WORD_EXCEPTIONS.iter().any(listed)
}

fn forbidden_names(source: &Source) -> Vec<String> {
    let mut found = Vec::new();
    for (_, forbidden, why) in NEVERS.iter().filter(|(room, ..)| holds_in(room, &source.path)) {
        for (number, code) in source.code() {
            let named = forbidden.iter().filter(|name| has_name(code, name));
            found.extend(named.map(|name| source.finding(number, &format!("names `{name}`; {why}"))));
        }
    }
    found
}

/// Whether a rule for a folder holds for a file: the paths' `mod.rs` is their list, not one of them.
fn holds_in(room: &str, path: &str) -> bool {
    path.starts_with(room) && !(room.ends_with("/path/") && path.ends_with("/path/mod.rs"))
}

fn misplaced(source: &Source, names: &[&str], rooms: &[&str], advice: &str) -> Vec<String> {
    let at_home = rooms.iter().any(|room| source.path.starts_with(room));
    let code = source.code().filter(|_| !at_home);
    let hits =
        code.filter_map(|(number, code)| Some((number, names.iter().find(|name| has_name(code, name))?)));
    let what = |name| format!("`{name}` outside {}; {advice}", rooms.join(" and "));
    hits.map(|(number, name)| source.finding(number, &what(name))).collect()
}

fn missing_header(source: &Source) -> Option<String> {
    let first = source.text.lines().find(|line| !line.trim().is_empty() && !line.starts_with("#!["));
    let first = first.unwrap_or_default();
    let what = "no header; begin with `//! ` and one sentence about what the file is for";
    (!first.starts_with("//! ") && !source.is_test_module()).then(|| source.finding(1, what))
}

fn missing_title(source: &Source) -> Option<String> {
    let what = "no title; begin with `# ` and what the page is about";
    (!source.text.starts_with("# ")).then(|| source.finding(1, what))
}

/// Files that cargo itself finds.
fn is_target(path: &str) -> bool {
    let parts: Vec<&str> = path.split('/').collect();
    let [.., folder, file] = parts[..] else { return true };
    match (folder, file) {
        ("src", "lib.rs" | "main.rs") | (_, "build.rs") | ("bin", _) => true,
        ("tests" | "benches" | "examples" | "fuzz_targets", _) | (_, "main.rs") => {
            !path.contains("/src/") || path.contains("/src/bin/")
        }
        _ => false,
    }
}

/// The files that a file's `mod` lines can mean.
fn declared(source: &Source) -> Vec<String> {
    let (folder, file) = source.path.rsplit_once('/').unwrap_or(("", &source.path));
    let stem = file.trim_end_matches(".rs");
    let owns_folder = is_target(&source.path) || stem == "mod";
    let folder = if owns_folder { folder.to_owned() } else { format!("{folder}/{stem}") };
    let modules = source.text.lines().filter_map(|line| {
        let (before, name) = code_of(line).trim().strip_suffix(';')?.rsplit_once("mod ")?;
        (before.is_empty() || before.starts_with("pub")).then_some(name)
    });
    modules.flat_map(|name| [format!("{folder}/{name}.rs"), format!("{folder}/{name}/mod.rs")]).collect()
}

fn dead_files(sources: &[Source]) -> Vec<String> {
    let rust: Vec<&Source> = sources.iter().filter(|source| source.is_rust()).collect();
    let targets = rust.iter().filter(|source| is_target(&source.path));
    let mut alive: BTreeSet<String> = targets.map(|source| source.path.clone()).collect();
    loop {
        let parents = rust.iter().filter(|source| alive.contains(&source.path));
        let reached: Vec<String> = parents.flat_map(|source| declared(source)).collect();
        let before = alive.len();
        alive.extend(reached);
        if alive.len() == before {
            break;
        }
    }
    // The fuzz targets are no part of the workspace: `cargo fuzz` finds them by its own manifest.
    let dead =
        rust.iter().filter(|source| !alive.contains(&source.path) && source.path.starts_with("crates/"));
    dead.map(|source| source.finding(1, "no `mod` leads here; declare it or delete it")).collect()
}

fn dependencies(manifest: &str) -> Vec<&str> {
    let section = manifest.lines().skip_while(|line| *line != "[dependencies]").skip(1);
    let entries = section.take_while(|line| !line.starts_with('['));
    let mut names: Vec<&str> = entries.filter_map(|line| line.split(['.', '=', ' ']).next()).collect();
    names.retain(|name| !name.is_empty() && !name.starts_with('#'));
    names.sort_unstable();
    names
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// All Rust files and documents of the workspace.
fn sources() -> Vec<Source> {
    let root = root();
    let mut found = Vec::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root.join(&folder)).unwrap().map(Result::unwrap) {
            let name = entry.file_name().into_string().unwrap();
            let path = folder.join(&name);
            if entry.file_type().unwrap().is_dir() {
                let skipped =
                    name.starts_with('.') || ["target", "corpus", "artifacts"].contains(&name.as_str());
                folders.extend((!skipped).then_some(path));
            } else if name.ends_with(".rs") || name.ends_with(".md") {
                let text = fs::read_to_string(root.join(&path)).unwrap();
                found.push(Source { path: path.display().to_string(), text });
            }
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    assert!(found.len() > 20, "the workspace was not found at {}", root.display());
    found
}

#[track_caller]
fn expect_none<I: IntoIterator<Item = String>>(extension: &str, check: impl Fn(&Source) -> I) {
    let sources = sources();
    let wanted = sources.iter().filter(|source| source.path.ends_with(extension));
    expect_nothing(&wanted.flat_map(check).collect::<Vec<_>>());
}

#[track_caller]
fn expect_nothing(found: &[String]) {
    assert!(found.is_empty(), "the house is untidy:\n  {}\n", found.join("\n  "));
}

#[test]
fn files_are_short() {
    expect_none(".rs", long_file);
}

#[test]
fn functions_fit_a_screen() {
    expect_none(".rs", long_functions);
}

#[test]
fn words_are_those_of_the_house() {
    expect_none("", banned_words);
}

#[test]
fn nobody_names_what_is_above() {
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
fn every_file_says_what_it_is_for() {
    expect_none(".rs", missing_header);
}

#[test]
fn every_document_has_a_title() {
    expect_none(".md", missing_title);
}

#[test]
fn no_file_is_dead() {
    expect_nothing(&dead_files(&sources()));
}

#[test]
fn the_engine_depends_on_three_crates() {
    let manifest = fs::read_to_string(root().join("crates/kickcache-engine/Cargo.toml")).unwrap();
    assert_eq!(dependencies(&manifest), ENGINE_DEPENDENCIES, "what the engine is built from is a promise");
}

fn source(path: &str, text: &str) -> Source {
    Source { path: path.into(), text: text.into() }
}

#[test]
fn long_files_and_functions_are_found() {
    let body = "    let x = 1;\n".repeat(FUNCTION_LINES_MAX);
    let long =
        source("crates/x/src/a.rs", &format!("fn f() {{}}\npub(crate) fn g(\n) {{\n{body}}}\nfn h();\n"));
    assert_eq!(
        long_functions(&long),
        ["crates/x/src/a.rs:2: a function of 73 lines, 70 are the limit; split it"]
    );
    let lines = "x\n".repeat(FILE_LINES_MAX + 1);
    assert!(long_file(&source("crates/x/src/a.rs", &lines)).is_some());
    assert!(long_file(&source("crates/x/src/a.rs", &format!("//! {LONG_FILE_REASON}y\n{lines}"))).is_none());
    assert!(
        long_file(&source("crates/x/src/a.rs", &format!("x\n#[cfg(test)]\nmod tests {{\n{lines}"))).is_none()
    );
    assert!(long_file(&source("crates/x/src/a/tests.rs", &lines)).is_none());
}

#[test]
fn foreign_words_and_names_are_found() {
    let words = source("docs/a.md", "Evicted lines\nwritethrough\na checkpoint chunk\nmore chunks\n");
    assert_eq!(banned_words(&words).len(), 3);
    assert!(
        banned_words(&source("crates/x/src/a.rs", "Mode::WriteThrough; x.chunks(2); // fine\n")).is_empty()
    );
    let policy =
        source("crates/kickcache-engine/src/policy/a.rs", "use crate::path::read;\n// crate::cache\n");
    assert_eq!(forbidden_names(&policy).len(), 1);
    let control =
        source("crates/kickcache-daemon/src/control/a.rs", "use crate::serve;\nuse kickcache_engine::x;\n");
    assert_eq!(forbidden_names(&control).len(), 1);
    let cli = source("crates/kickcache/src/cli/a.rs", "unsafe {}\nunsafe_code\n// unsafe\n");
    assert_eq!(misplaced(&cli, &["unsafe"], &UNSAFE_ROOMS, "").len(), 1);
}

#[test]
fn missing_headers_titles_and_parents_are_found() {
    assert!(missing_header(&source("a.rs", "\nuse x;\n")).is_some());
    assert!(missing_title(&source("a.md", "x\n")).is_some());
    let files = ["lib.rs", "a.rs", "a/b.rs", "c/mod.rs", "d.rs"].map(|name| format!("crates/x/src/{name}"));
    let texts = ["mod a;\npub mod c;\n", "pub(crate) mod b;\n", "", "", "mod e;\n"];
    let sources: Vec<Source> = files.iter().zip(texts).map(|(path, text)| source(path, text)).collect();
    assert_eq!(dead_files(&sources), ["crates/x/src/d.rs:1: no `mod` leads here; declare it or delete it"]);
}

#[test]
fn crates_need_only_those_below() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let names = fs::read_dir(&root).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let found: Vec<String> = names.flat_map(|name| crate_arrows(&root, &name)).collect();
    expect_nothing(&found);
}

/// What a crate's dependencies break of [`CRATES`].
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
