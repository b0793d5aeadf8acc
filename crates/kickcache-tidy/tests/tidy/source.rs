//! A file of the workspace.

pub(crate) struct Source {
    /// From the root of the workspace.
    pub(crate) path: String,
    pub(crate) text: String,
}

impl Source {
    /// Numbers are from 1.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(index, line)| (index + 1, line))
    }

    pub(crate) fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    pub(crate) fn is_test(&self) -> bool {
        self.path.contains("/tests/") || self.path.ends_with("/tests.rs") || self.path.contains("/benches/")
    }

    /// A test module next to code needs no header.
    pub(crate) fn is_test_module(&self) -> bool {
        self.is_test() && self.path.contains("/src/")
    }

    /// The lines before the first module of tests; none if the whole file is tests.
    pub(crate) fn product_lines(&self) -> Vec<(usize, &str)> {
        let lines: Vec<_> = self.lines().collect();
        let starts_tests =
            |pair: &[(usize, &str)]| pair[0].1 == "#[cfg(test)]" && pair[1].1.starts_with("mod ");
        let end = lines.windows(2).position(starts_tests).unwrap_or(lines.len());
        if self.is_test() { Vec::new() } else { lines[..end].to_vec() }
    }

    /// Product lines without comments.
    pub(crate) fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        self.product_lines().into_iter().map(|(number, line)| (number, code_of(line)))
    }

    pub(crate) fn finding(&self, line: usize, what: &str) -> String {
        format!("{}:{line}: {what}", self.path)
    }
}

/// The `//` of an address does not count.
pub(crate) fn code_of(line: &str) -> &str {
    let comment = line.match_indices("//").find(|(at, _)| !line[..*at].ends_with(':'));
    comment.map_or(line, |(at, _)| &line[..at])
}

/// For the tests of the rules.
pub(crate) fn source(path: &str, text: &str) -> Source {
    Source { path: path.into(), text: text.into() }
}
