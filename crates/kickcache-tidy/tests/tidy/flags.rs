//! No `bool` parameters: the call does not show the meaning of `true`.

use crate::code::tokens::{Token, product_tokens};
use crate::source::{Source, source};
use crate::workspace::expect_none;

/// Traits of other crates: their signatures cannot be changed here.
const FOREIGN_TRAITS: [&str; 1] = ["Visitor"];

/// The functions that take a `bool`, each with the parameter.
fn flags(text: &str) -> Vec<(String, String)> {
    let tokens = product_tokens(text);
    let mut found = Vec::new();
    let mut rest = tokens.as_slice();
    while let Some((first, behind)) = rest.split_first() {
        rest = behind;
        if first.is_word("impl") && is_foreign(behind) {
            rest = after_block(behind);
        } else if first.is_word("fn")
            && let Some(name) = behind.first().and_then(Token::word)
        {
            found.extend(bool_parameters(behind).into_iter().map(|parameter| (name.to_owned(), parameter)));
        }
    }
    found
}

fn is_foreign(head: &[Token]) -> bool {
    let mut before_for = head.iter().take_while(|token| !token.is_word("for") && !token.is_sign('{'));
    before_for.any(|token| FOREIGN_TRAITS.iter().any(|name| token.is_word(name)))
}

/// The tokens after the next braces.
fn after_block(tokens: &[Token]) -> &[Token] {
    let mut depth = 0;
    for (index, token) in tokens.iter().enumerate() {
        depth += i32::from(token.is_sign('{')) - i32::from(token.is_sign('}'));
        if depth == 0 && token.is_sign('}') {
            return &tokens[index + 1..];
        }
    }
    &[]
}

/// The tokens begin with the function's name.
fn bool_parameters(function: &[Token]) -> Vec<String> {
    let mut angle = 0;
    let open = function.iter().position(|token| {
        angle += i32::from(token.is_sign('<')) - i32::from(token.is_sign('>'));
        angle == 0 && token.is_sign('(')
    });
    let Some(open) = open else { return Vec::new() };
    let mut depth = 0;
    let inside = function[open..].iter().take_while(|token| {
        depth += i32::from(token.is_sign('(')) - i32::from(token.is_sign(')'));
        depth > 0
    });
    let inside: Vec<&Token> = inside.collect();
    let names = inside.windows(4).filter_map(|window| match window {
        [name, colon, flag, end] if colon.is_sign(':') && flag.is_word("bool") && end.is_sign(',') => {
            name.word()
        }
        _ => None,
    });
    let last = match inside.as_slice() {
        [.., name, colon, flag] if colon.is_sign(':') && flag.is_word("bool") => name.word(),
        _ => None,
    };
    names.chain(last).map(str::to_owned).collect()
}

fn findings(source: &Source) -> Vec<String> {
    if source.is_test() {
        return Vec::new();
    }
    let what = |(function, parameter): (String, String)| {
        let line = source.lines().find(|(_, line)| line.contains(&format!("fn {function}")));
        let advice = "take an enum, or make two functions of it";
        source.finding(
            line.map_or(1, |(number, _)| number),
            &format!("`{function}` takes a bool, `{parameter}`; {advice}"),
        )
    };
    flags(&source.text).into_iter().map(what).collect()
}

#[test]
fn no_function_takes_a_bool() {
    expect_none(".rs", findings);
}

#[test]
fn bool_parameters_are_found() {
    let text = "fn a(b: bool) -> bool {}\n\
                pub(crate) fn c<F: Fn(bool)>(&self, d: &mut [bool], e: bool, f: F) -> (bool, u8) { |g: bool| g }\n\
                struct H { i: bool, }\n\
                impl<'de> serde::de::Visitor<'de> for J { fn visit_bool(self, k: bool) {} fn l() { m() } }\n\
                impl J { fn n(\n    o: u8,\n    p: bool,\n) {} }\n\
                #[cfg(test)]\nmod tests { fn q(r: bool) {} }";
    let found: Vec<String> =
        flags(text).into_iter().map(|(function, flag)| format!("{function} {flag}")).collect();
    assert_eq!(found, ["a b", "c e", "n p"]);
    let found = findings(&source("crates/x/src/a.rs", "\nfn a(b: bool) {}\n"));
    assert_eq!(
        found,
        ["crates/x/src/a.rs:2: `a` takes a bool, `b`; take an enum, or make two functions of it"]
    );
    assert!(findings(&source("crates/x/src/a/tests.rs", "fn a(b: bool) {}")).is_empty(), "a test may");
}
