//! The paths that a file names.

use crate::code::tokens::{Token, product_tokens};

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct NamedPath {
    /// The inline modules around the path, from the outermost inwards.
    pub(crate) within: Vec<String>,
    pub(crate) segments: Vec<String>,
}

/// A name that a `use` makes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Import {
    pub(crate) path: NamedPath,
    /// `*` for all names of a module.
    pub(crate) name: String,
    pub(crate) reach: Reach,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reach {
    Private,
    Exported,
}

/// The imports of a file and the paths in its code; tests are left out.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Paths {
    pub(crate) imports: Vec<Import>,
    pub(crate) inline: Vec<NamedPath>,
}

impl Paths {
    pub(crate) fn of(text: &str) -> Paths {
        let tokens = product_tokens(text);
        let mut reader =
            Reader { tokens: &tokens, at: 0, within: Vec::new(), depth: 0, paths: Paths::default() };
        while reader.at < reader.tokens.len() {
            reader.step();
        }
        reader.paths
    }
}

struct InnerModule {
    name: String,
    depth: usize,
}

struct Reader<'a> {
    tokens: &'a [Token],
    at: usize,
    within: Vec<InnerModule>,
    depth: usize,
    paths: Paths,
}

impl Reader<'_> {
    fn token(&self, ahead: usize) -> Option<&Token> {
        self.tokens.get(self.at + ahead)
    }

    fn is_word(&self, ahead: usize, word: &str) -> bool {
        self.token(ahead).is_some_and(|token| token.is_word(word))
    }

    fn is_sign(&self, ahead: usize, sign: char) -> bool {
        self.token(ahead).is_some_and(|token| token.is_sign(sign))
    }

    fn step(&mut self) {
        if self.is_word(0, "pub") {
            self.at += 1;
            self.skip_scope();
            if self.is_word(0, "use") {
                self.read_use(Reach::Exported);
            }
        } else if self.is_word(0, "use") {
            self.read_use(Reach::Private);
        } else if self.is_word(0, "mod") && self.is_sign(2, '{') {
            let name = self.token(1).and_then(Token::word).unwrap_or_default().to_owned();
            self.depth += 1;
            self.within.push(InnerModule { name, depth: self.depth });
            self.at += 3;
        } else if self.token(0).is_some_and(|token| token.word().is_some()) {
            self.read_path();
        } else {
            self.count_brace();
            self.at += 1;
        }
    }

    /// Skips the brackets of `pub(crate)`, `pub(in crate::a)`.
    fn skip_scope(&mut self) {
        let names = ["crate", "super", "self", "in"];
        if self.is_sign(0, '(') && names.iter().any(|name| self.is_word(1, name)) {
            let end = self.tokens[self.at..].iter().position(|token| token.is_sign(')'));
            self.at += end.map_or(1, |end| end + 1);
        }
    }

    fn count_brace(&mut self) {
        if self.is_sign(0, '{') {
            self.depth += 1;
        } else if self.is_sign(0, '}') {
            self.within.pop_if(|module| module.depth == self.depth);
            self.depth = self.depth.saturating_sub(1);
        }
    }

    fn read_path(&mut self) {
        let segments = self.segments();
        let before = self.at.checked_sub(segments.len() * 2);
        let is_part =
            before.is_some_and(|at| self.tokens[at].is_sign('.') || self.tokens[at] == Token::PathSeparator);
        if segments.len() > 1 && !is_part {
            let path = NamedPath { within: self.inner_names(), segments };
            self.paths.inline.push(path);
        }
    }

    fn segments(&mut self) -> Vec<String> {
        let mut segments = Vec::new();
        while let Some(word) = self.token(0).and_then(Token::word) {
            segments.push(word.to_owned());
            self.at += 1;
            let goes_on = self.token(0) == Some(&Token::PathSeparator)
                && self.token(1).is_some_and(|token| token.word().is_some());
            if !goes_on {
                break;
            }
            self.at += 1;
        }
        segments
    }

    fn inner_names(&self) -> Vec<String> {
        self.within.iter().map(|module| module.name.clone()).collect()
    }

    fn read_use(&mut self, reach: Reach) {
        self.at += 1;
        self.read_tree(&[], reach);
    }

    /// A part of a `use`, up to its comma, brace or semicolon.
    fn read_tree(&mut self, prefix: &[String], reach: Reach) {
        if self.token(0) == Some(&Token::PathSeparator) {
            self.at += 1;
        }
        let segments = [prefix, &self.segments()].concat();
        if self.token(0) == Some(&Token::PathSeparator) {
            self.at += 1;
        }
        if self.is_sign(0, '{') {
            self.at += 1;
            while !self.is_sign(0, '}') && self.at < self.tokens.len() {
                self.read_tree(&segments, reach);
                self.at += usize::from(self.is_sign(0, ','));
            }
            self.at += 1;
        } else {
            self.add_import(segments, reach);
        }
    }

    fn add_import(&mut self, mut segments: Vec<String>, reach: Reach) {
        let is_all = self.is_sign(0, '*');
        self.at += usize::from(is_all);
        if segments.last().is_some_and(|last| last == "self") && segments.len() > 1 {
            segments.pop();
        }
        let mut name = if is_all { "*".into() } else { segments.last().cloned().unwrap_or_default() };
        if self.is_word(0, "as") {
            name = self.token(1).and_then(Token::word).unwrap_or_default().to_owned();
            self.at += 2;
        }
        let path = NamedPath { within: self.inner_names(), segments };
        self.paths.imports.push(Import { path, name, reach });
    }
}

fn texts(paths: &Paths) -> Vec<String> {
    let of = |path: &NamedPath| [path.within.join("/"), path.segments.join("::")].join(" ");
    let imports = paths
        .imports
        .iter()
        .map(|import| format!("{:?} {} as {}", import.reach, of(&import.path), import.name));
    imports.chain(paths.inline.iter().map(of)).collect()
}

#[test]
fn trees_of_imports_are_read() {
    let text = "use crate::a::{self, b::C as D, e::*};\npub(crate) use super::f;\nuse ::g::{h,};";
    let expected = [
        "Private  crate::a as a",
        "Private  crate::a::b::C as D",
        "Private  crate::a::e as *",
        "Exported  super::f as f",
        "Private  g::h as h",
    ];
    assert_eq!(texts(&Paths::of(text)), expected);
}

#[test]
fn paths_in_code_are_read() {
    let text = "fn f(x: super::A) { x.b::<C>(); crate::d::e!(); }\nmod g { pub(in crate::h) fn i() { self::j() } }\nk::l();";
    assert_eq!(texts(&Paths::of(text)), [" super::A", " crate::d::e", "g self::j", " k::l"]);
}
