//! Names of tests are short, plain sentences.

use std::sync::LazyLock;

use regex::Regex;

use crate::source::{Source, source};
use crate::workspace::expect_none;

const WORDS_MAX: usize = 10;
const LENGTH_MAX: usize = 64;

static TEST: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"#\[test\]\s*(?:#\[[^\]]*\]\s*)*(?:async )?fn (\w+)").unwrap());
static HABIT: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?:^|_)(?:what|who|whom|whose|whoever|nobody|somebody|nothing|tells?|told|says?|said|asks?|asked|knows?|forgets?|forgotten|taken_for|in_vain|anew|stands?|stood|beside|that_of|the_one|of_it)(?:_|$)").unwrap()
});

fn poor_names(source: &Source) -> Vec<String> {
    let names = TEST.captures_iter(&source.text).filter_map(|found| found.get(1));
    let judged = names.filter_map(|name| Some((name, fault(name.as_str())?)));
    let found = judged.map(|(name, fault)| {
        let line = source.text[..name.start()].matches('\n').count() + 1;
        source.finding(line, &format!("the test `{}` {fault}", name.as_str()))
    });
    found.collect()
}

fn fault(name: &str) -> Option<String> {
    if name.len() > LENGTH_MAX || name.split('_').count() > WORDS_MAX {
        return Some(format!("has a long name; use at most {WORDS_MAX} words and {LENGTH_MAX} characters"));
    }
    let habit = HABIT.find(name)?;
    Some(format!("has `{}` in its name; name the thing", habit.as_str().trim_matches('_')))
}

#[test]
fn test_names_are_short_and_plain() {
    expect_none(".rs", poor_names);
}

#[test]
fn long_and_unclear_test_names_are_found() {
    let test =
        |name: &str| poor_names(&source("crates/x/src/a.rs", &format!("\n#[test]\nfn {name}() {{}}\n")));
    assert_eq!(test("a_b_c_d_e_f_g_h_i_j"), Vec::<String>::new());
    assert_eq!(test("a_b_c_d_e_f_g_h_i_j_k").len(), 1);
    assert_eq!(test(&"a".repeat(65)).len(), 1);
    let found = test("a_client_is_told_of_it");
    assert_eq!(
        found,
        ["crates/x/src/a.rs:3: the test `a_client_is_told_of_it` has `told` in its name; name the thing"]
    );
}
