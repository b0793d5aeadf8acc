//! The dependencies between the files of a crate, by the names that a file uses.

use std::collections::{BTreeMap, BTreeSet};

use crate::code::paths::{Import, NamedPath, Paths, Reach};
use crate::source::Source;

/// By names from the root of the crate.
type ModulePath = Vec<String>;

struct Module {
    file: String,
    paths: Paths,
}

struct Target {
    module: ModulePath,
    /// Empty if the path names the module.
    names: Vec<String>,
}

/// For each file the files that it needs, with the names it uses.
pub(crate) type Arrows = BTreeMap<String, BTreeMap<String, BTreeSet<String>>>;

struct Crate {
    modules: BTreeMap<ModulePath, Module>,
}

/// The arrows between the files of a crate; tests are left out.
pub(crate) fn arrows(sources: &[Source], root_file: &str) -> Arrows {
    let found = Crate::new(sources, root_file);
    let mut arrows = Arrows::new();
    for (path, module) in &found.modules {
        let needed = arrows.entry(module.file.clone()).or_default();
        for target in found.targets(path, module) {
            if target.module != *path && !target.names.is_empty() {
                let file = found.modules[&target.module].file.clone();
                needed.entry(file).or_default().insert(target.names.join("::"));
            }
        }
    }
    arrows
}

/// The root files of libraries, and of programs with a folder of their own.
pub(crate) fn root_files(sources: &[Source]) -> Vec<&str> {
    let paths = sources.iter().map(|source| source.path.as_str());
    let is_program = |path: &str| path.contains("/src/bin/") && path.ends_with("/main.rs");
    paths.filter(|path| path.ends_with("/src/lib.rs") || is_program(path)).collect()
}

impl Crate {
    fn new(sources: &[Source], root_file: &str) -> Crate {
        let (folder, _) = root_file.rsplit_once('/').unwrap_or_default();
        let belongs = |source: &&Source| {
            let inner = source.path.strip_prefix(folder).and_then(|path| path.strip_prefix('/'));
            let is_other = inner.is_none_or(|path| path.starts_with("bin/") || path == "main.rs");
            source.path == root_file || (source.is_rust() && !source.is_test() && !is_other)
        };
        let module = |source: &Source| {
            let file = source.path.clone();
            (module_path(&file[folder.len() + 1..]), Module { file, paths: Paths::of(&source.text) })
        };
        Crate { modules: sources.iter().filter(belongs).map(module).collect() }
    }

    /// The targets of private imports and of paths, within the crate.
    fn targets(&self, path: &ModulePath, module: &Module) -> Vec<Target> {
        let imports = module.paths.imports.iter().filter(|import| import.reach == Reach::Private);
        let imported = imports.map(|import| {
            let mut target = self.resolve(path, &import.path)?;
            // A glob import counts as a use; a module alone is only the beginning of other paths.
            target.names.extend((import.name == "*").then(|| "*".to_owned()));
            Some(target)
        });
        let inline = module.paths.inline.iter().map(|named| self.resolve(path, named));
        imported.chain(inline).flatten().collect()
    }

    fn resolve(&self, from: &ModulePath, named: &NamedPath) -> Option<Target> {
        self.follow(from, named, 0)
    }

    /// `None` if the path leads out of the crate, or in circles.
    fn follow(&self, from: &ModulePath, named: &NamedPath, turns: usize) -> Option<Target> {
        const TURNS_MAX: usize = 8;
        let [first, rest @ ..] = named.segments.as_slice() else { return None };
        let mut here = [from.as_slice(), &named.within].concat();
        let rest = match first.as_str() {
            "crate" => {
                here.clear();
                rest
            }
            "self" => rest,
            "super" => {
                let up = named.segments.iter().take_while(|segment| *segment == "super").count();
                here.truncate(here.len().saturating_sub(up));
                &named.segments[up..]
            }
            name if self.has_child(&here, name) => &named.segments,
            name => {
                let import = self.import(from, name)?;
                let is_itself = import.path.segments == named.segments;
                let known = (turns < TURNS_MAX && !is_itself)
                    .then(|| self.follow(from, &import.path, turns + 1))??;
                here = known.module;
                here.extend(known.names);
                rest
            }
        };
        for (index, name) in rest.iter().enumerate() {
            if self.has_child(&here, name) {
                here.push(name.clone());
            } else if let Some(import) = self.exported(&here, name)
                && turns < TURNS_MAX
            {
                let segments = [import.path.segments.as_slice(), &rest[index + 1..]].concat();
                let onward = NamedPath { segments, ..import.path.clone() };
                return self.follow(&here, &onward, turns + 1);
            } else {
                here.extend_from_slice(&rest[index..]);
                break;
            }
        }
        Some(self.split(&here))
    }

    fn has_child(&self, module: &[String], name: &str) -> bool {
        self.modules.contains_key(&[module, &[name.to_owned()]].concat())
    }

    fn import(&self, module: &[String], name: &str) -> Option<&Import> {
        self.modules.get(module)?.paths.imports.iter().find(|import| import.name == name)
    }

    fn exported(&self, module: &[String], name: &str) -> Option<&Import> {
        self.import(module, name).filter(|import| import.reach == Reach::Exported)
    }

    /// The deepest module with a file, and the names in it.
    fn split(&self, path: &[String]) -> Target {
        let mut module = path.to_vec();
        while !self.modules.contains_key(&module) && !module.is_empty() {
            module.pop();
        }
        let names = path[module.len()..].to_vec();
        Target { module, names }
    }
}

fn module_path(file: &str) -> ModulePath {
    let mut names: ModulePath = file.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
    let is_index = names.last().is_some_and(|last| last == "mod") || ["lib.rs", "main.rs"].contains(&file);
    names.truncate(names.len() - usize::from(is_index));
    names
}
