//! A hint for flags with an optional value, which follows `=`.

use clap::error::{ContextKind, ContextValue, ErrorKind};

const FLAGS: [&str; 1] = ["--ublk"];

/// Adds the hint if a value behind one of [`FLAGS`] was not understood.
pub(crate) fn with_hint(mut error: clap::Error, words: &[String]) -> clap::Error {
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidArg).cloned() else { return error };
    let is_meant = |pair: &&[String]| FLAGS.contains(&pair[0].as_str()) && pair[1] == word;
    if error.kind() == ErrorKind::UnknownArgument
        && !word.starts_with('-')
        && let Some(pair) = words.windows(2).find(is_meant)
    {
        let tip = format!("the number follows `=`: {}={word}", pair[0]);
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    error
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::Cli;

    fn said(words: &[&str]) -> String {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        with_hint(Cli::try_parse_from(&words).unwrap_err(), &words).to_string()
    }

    #[test]
    fn a_number_without_an_equals_sign_gets_a_hint() {
        let serve = ["kickcache", "serve", "--cache", "/c", "--origin", "/o"];
        let with = |words: &[&str]| said(&[&serve, words].concat());
        assert!(
            with(&["--ublk", "3"]).contains("the number follows `=`: --ublk=3"),
            "{}",
            with(&["--ublk", "3"])
        );
        assert!(!with(&["--ublk", "--nonsense"]).contains("follows"), "{}", with(&["--ublk", "--nonsense"]));
        assert!(!with(&["--read-only", "3"]).contains("follows"));
    }
}
