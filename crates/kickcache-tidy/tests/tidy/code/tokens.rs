//! The words and signs of Rust code.

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Token {
    /// A name, a keyword or a number.
    Word(String),
    /// `::`
    PathSeparator,
    Sign(char),
}

impl Token {
    pub(crate) fn word(&self) -> Option<&str> {
        match self {
            Token::Word(word) => Some(word),
            Token::PathSeparator | Token::Sign(_) => None,
        }
    }

    pub(crate) fn is_word(&self, word: &str) -> bool {
        self.word() == Some(word)
    }

    pub(crate) fn is_sign(&self, sign: char) -> bool {
        *self == Token::Sign(sign)
    }

    fn depth_change(&self) -> i32 {
        match self {
            Token::Sign('{' | '(' | '[') => 1,
            Token::Sign('}' | ')' | ']') => -1,
            Token::Word(_) | Token::PathSeparator | Token::Sign(_) => 0,
        }
    }
}

/// Without the code under `#[cfg(test)]`.
pub(crate) fn product_tokens(text: &str) -> Vec<Token> {
    let tokens = tokens(text);
    let mut kept = Vec::new();
    let mut rest = tokens.as_slice();
    while let [first, behind @ ..] = rest {
        rest = match after_test_attribute(rest) {
            Some(item) => after_item(item),
            None => {
                kept.push(first.clone());
                behind
            }
        };
    }
    kept
}

/// `None` if the tokens do not begin with `#[cfg(test)]`.
fn after_test_attribute(tokens: &[Token]) -> Option<&[Token]> {
    let [hash, open, cfg, left, test, right, close, item @ ..] = tokens else { return None };
    let is_cfg = hash.is_sign('#') && open.is_sign('[') && cfg.is_word("cfg") && left.is_sign('(');
    (is_cfg && test.is_word("test") && right.is_sign(')') && close.is_sign(']')).then_some(item)
}

/// The tokens after an item, or after a field, variant or arm.
fn after_item(mut tokens: &[Token]) -> &[Token] {
    while let [hash, open, ..] = tokens
        && hash.is_sign('#')
        && open.is_sign('[')
    {
        tokens = after_brackets(&tokens[1..]);
    }
    let items = ["fn", "impl", "struct", "enum", "mod", "use", "const", "static", "trait", "type"];
    let head = tokens.iter().take(6);
    let is_item = head.filter_map(Token::word).any(|word| items.contains(&word));
    let is_import = tokens.iter().take(6).any(|token| token.is_word("use"));
    let mut depth = 0;
    for (index, token) in tokens.iter().enumerate() {
        depth += token.depth_change();
        let ends_block = depth == 0 && token.is_sign('}') && !is_import;
        let ends_line = depth == 0 && (token.is_sign(';') || (token.is_sign(',') && !is_item));
        if depth < 0 {
            return &tokens[index..];
        }
        if ends_block || ends_line {
            return &tokens[index + 1..];
        }
    }
    &[]
}

fn after_brackets(tokens: &[Token]) -> &[Token] {
    let mut depth = 0;
    let end = tokens.iter().position(|token| {
        depth += token.depth_change();
        depth == 0
    });
    &tokens[end.map_or(tokens.len(), |end| end + 1)..]
}

fn tokens(text: &str) -> Vec<Token> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let is_inner = |c: char| c.is_alphanumeric() || c == '_';
        let length = skipped(rest);
        if length > 0 {
            rest = &rest[length..];
        } else if is_inner(first) {
            let end = rest.find(|c| !is_inner(c)).unwrap_or(rest.len());
            found.push(Token::Word(rest[..end].into()));
            rest = &rest[end..];
        } else if let Some(behind) = rest.strip_prefix("::") {
            found.push(Token::PathSeparator);
            rest = behind;
        } else {
            found.push(Token::Sign(first));
            rest = &rest[first.len_utf8()..];
        }
    }
    found
}

/// The length of the white space, comment, text, character or sign of a lifetime that code begins with;
/// otherwise 0.
fn skipped(code: &str) -> usize {
    if code.starts_with(char::is_whitespace) {
        return code.len() - code.trim_start().len();
    }
    if code.starts_with("//") {
        return code.find('\n').unwrap_or(code.len());
    }
    if code.starts_with("/*") {
        return code.find("*/").map_or(code.len(), |end| end + 2);
    }
    if code.starts_with('\'') {
        return character(code);
    }
    let prefix = ["br", "cr", "b", "c", "r", ""].into_iter().find(|prefix| {
        let behind = code.strip_prefix(prefix).unwrap_or_default();
        behind.starts_with('"') || (prefix.ends_with('r') && behind.trim_start_matches('#').starts_with('"'))
    });
    let Some(prefix) = prefix else { return 0 };
    let quoted = &code[prefix.len()..];
    let length = if prefix.ends_with('r') { raw_string(quoted) } else { quoted_length(quoted, '"') };
    prefix.len() + length
}

/// The length of a character in quotes, or of the sign of a lifetime.
fn character(code: &str) -> usize {
    let mut inner = code.chars().skip(1);
    match (inner.next(), inner.next()) {
        (Some('\\'), _) => quoted_length(code, '\''),
        (Some(only), Some('\'')) => 2 + only.len_utf8(),
        _ => 1,
    }
}

/// With the quotes.
fn quoted_length(code: &str, quote: char) -> usize {
    let mut is_escaped = false;
    let end = code.char_indices().skip(1).find(|(_, c)| {
        let ends = !is_escaped && *c == quote;
        is_escaped = !is_escaped && *c == '\\';
        ends
    });
    end.map_or(code.len(), |(at, _)| at + 1)
}

fn raw_string(code: &str) -> usize {
    let hashes = code.len() - code.trim_start_matches('#').len();
    let end = format!("\"{}", "#".repeat(hashes));
    let inner = &code[hashes + 1..];
    inner.find(&end).map_or(code.len(), |at| hashes + 1 + at + end.len())
}

#[test]
fn comments_texts_and_tests_are_left_out() {
    let words = |text: &str| {
        let tokens = product_tokens(text);
        tokens.iter().filter_map(Token::word).map(str::to_owned).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(words("a // b\n/* c */ d \"e \\\" \\\n f\" g 'h' '\\'' '\"' i r#\"j \" k\"# l"), "a d g i l");
    assert_eq!(words("fn f<'a>(b: &'a str) { b\"x\" }"), "fn f a b a str");
    assert_eq!(words("#[cfg(test)]\nuse a::{b, c};\nuse d;"), "use d");
    assert_eq!(words("#[cfg(test)]\n#[path = \"x\"]\nmod a { fn b() {} }\nfn c() {}"), "fn c");
    assert_eq!(words("struct A {\n#[cfg(test)]\nb: C,\nd: E }"), "struct A d E");
}
