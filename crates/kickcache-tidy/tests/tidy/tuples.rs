//! No tuples instead of a struct in signatures: a struct names its fields.

use std::collections::BTreeMap;

use crate::code::tokens::{Token, product_tokens};
use crate::source::{Source, source};
use crate::workspace::{expect_nothing, sources};

/// Tuples that are left, by crate: the numbers only go down.
const LEFT: [(&str, usize); 5] = [
    ("kickcache-command", 2),
    ("kickcache-daemon", 9),
    ("kickcache-faultsim", 17),
    ("kickcache-lab", 2),
    ("kickcache-model", 9),
];

const TEST_MODULES: [&str; 2] = [
    "crates/kickcache-engine/src/scene.rs",
    "crates/kickcache-daemon/src/serve/frontend/ublk/fake_kernel.rs",
];

/// The function's name for each tuple in the parameters and the result of a function.
fn tuples(text: &str) -> Vec<String> {
    let tokens = product_tokens(text);
    let starts = (0..tokens.len()).filter(|at| tokens[*at].is_word("fn"));
    let named = starts.filter_map(|at| Some((tokens.get(at + 1)?.word()?, signature(&tokens[at + 2..]))));
    let mut found = Vec::new();
    for (name, signature) in named {
        let opens = (1..signature.len()).filter(|at| signature[*at].is_sign('(') && is_tuple(signature, *at));
        found.extend(opens.map(|_| name.to_owned()));
    }
    found
}

/// From the generics or parameters up to the body.
fn signature(tokens: &[Token]) -> &[Token] {
    let mut depth = 0;
    let end = tokens.iter().position(|token| {
        depth += i32::from(token.is_sign('(') || token.is_sign('['))
            - i32::from(token.is_sign(')') || token.is_sign(']'));
        depth == 0 && (token.is_sign('{') || token.is_sign(';'))
    });
    &tokens[..end.unwrap_or(tokens.len())]
}

/// Whether brackets contain several members, and are neither those of `Fn(..)` or a pattern with a name, nor
/// the pair of an iterator.
fn is_tuple(signature: &[Token], open: usize) -> bool {
    let before = &signature[..open];
    let is_call = match before.last() {
        Some(Token::Word(word)) => !["mut", "dyn"].contains(&word.as_str()),
        Some(Token::Sign('>')) => !before.ends_with(&[Token::Sign('-'), Token::Sign('>')]),
        _ => false,
    };
    let members = members(&signature[open + 1..]);
    let is_item = before.ends_with(&[Token::Word("Item".into()), Token::Sign('=')]);
    !is_call && members > 1 && !(is_item && members == 2)
}

fn members(tokens: &[Token]) -> usize {
    let (mut depth, mut count, mut is_empty) = (0, 0, true);
    for (at, token) in tokens.iter().enumerate() {
        let is_arrow = at > 0 && ['-', '='].iter().any(|sign| tokens[at - 1].is_sign(*sign));
        match token {
            Token::Sign(')') if depth == 0 => break,
            Token::Sign(',') if depth == 0 => is_empty = true,
            Token::Sign('(' | '[' | '<') => depth += 1,
            Token::Sign('>') if is_arrow => {}
            Token::Sign(')' | ']' | '>') => depth -= 1,
            _ => {}
        }
        if !token.is_sign(',') || depth > 0 {
            count += usize::from(is_empty);
            is_empty = false;
        }
    }
    count
}

fn findings(source: &Source) -> Vec<String> {
    let is_for_tests = source.is_test() || TEST_MODULES.contains(&source.path.as_str());
    if !source.path.contains("/src/") || is_for_tests {
        return Vec::new();
    }
    let what =
        |name: &String| format!("{}: `{name}` has a tuple in its signature; give it a struct", source.path);
    tuples(&source.text).iter().map(what).collect()
}

fn differences(found: &[String], left: &[(&str, usize)]) -> Vec<String> {
    let crate_of = |finding: &str| finding.split('/').nth(1).unwrap_or_default().to_owned();
    let mut by_crate: BTreeMap<String, Vec<String>> = BTreeMap::new();
    found.iter().for_each(|finding| by_crate.entry(crate_of(finding)).or_default().push(finding.clone()));
    let mut differences = Vec::new();
    for (name, may) in left {
        let found = by_crate.remove(*name).unwrap_or_default();
        if found.len() > *may {
            differences.extend(found);
        } else if found.len() < *may {
            differences
                .push(format!("crates/{name}: {} tuples are left, LEFT says {may}; lower it", found.len()));
        }
    }
    differences.extend(by_crate.into_values().flatten());
    differences
}

#[test]
fn signatures_have_structs() {
    let found: Vec<String> = sources().iter().filter(|source| source.is_rust()).flat_map(findings).collect();
    expect_nothing(&differences(&found, &LEFT));
}

#[test]
fn the_remaining_list_may_only_shrink() {
    let found =
        |names: &[&str]| names.iter().map(|name| format!("crates/{name}/src/x.rs: y")).collect::<Vec<_>>();
    assert_eq!(differences(&found(&["a", "a", "b"]), &[("a", 2)]), found(&["b"]));
    assert_eq!(differences(&found(&["a", "a"]), &[("a", 1)]), found(&["a", "a"]));
    assert_eq!(
        differences(&found(&["a"]), &[("a", 2)]),
        ["crates/a: 1 tuples are left, LEFT says 2; lower it"]
    );
}

#[test]
fn tuples_in_signatures_are_found() {
    let found = |text: &str| tuples(text).len();
    for text in [
        "fn f() -> (A, B) {}",
        "fn f() -> Option<(A, B<C, D>)>;",
        "fn f(a: &[(A, B)]) {}",
        "fn f(a: &mut (A, B)) {}",
        "fn f<A: B>(self, (a, b): C) where A: D {}",
        "fn f() -> impl Iterator<Item = (A, B, C)> {}",
        "fn f(a: impl Fn((A, B)) -> C) {}",
    ] {
        assert_eq!(found(text), 1, "{text}");
    }
    for text in [
        "fn f(a: A, b: B) -> Result<(), C> { g((a, b)) }",
        "fn f(a: impl Fn(A, B) -> C) -> (D) {}",
        "fn f(A { b, c }: A, D(e, g): D) -> (Box<E, F>,) {}",
        "fn f() -> impl Iterator<Item = (A, &B)> + use<> {}",
        "#[cfg(test)]\nfn f() -> (A, B) {}",
        "type T = (A, B);",
    ] {
        assert_eq!(found(text), 0, "{text}");
    }
}

#[test]
fn tests_may_have_them() {
    let count = |path: &str| findings(&source(path, "fn f() -> (A, B) {}")).len();
    let paths =
        ["crates/a/src/b.rs", "crates/a/src/b/tests.rs", "crates/a/tests/it/b.rs", "crates/a/examples/b.rs"];
    assert_eq!(paths.map(count), [1, 0, 0, 0]);
}
