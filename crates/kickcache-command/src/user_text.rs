//! Standard output and standard error for users: text from devices and other machines is escaped.

use std::io::{self, Write};

use kickcache_units::printable::{is_escaped, push_escaped};

/// Where a command prints.
pub trait Printer: Write {
    /// Writes a control sequence of the program itself.
    ///
    /// # Errors
    /// If the write fails.
    fn control(&mut self, sequence: &'static str) -> io::Result<()>;

    /// Writes text that is escaped already.
    ///
    /// # Errors
    /// If the write fails.
    fn escaped(&mut self, text: &Escaped) -> io::Result<()>;
}

/// Text that is escaped.
#[derive(Debug)]
pub struct Escaped(String);

impl Escaped {
    /// Applies a function that selects a part of the text.
    pub fn map(&self, choose: impl FnOnce(&str) -> String) -> Escaped {
        Escaped(choose(&self.0))
    }
}

const CHARACTER_BYTES_MAX: usize = 4;

/// Escapes the characters of [`is_escaped`], and bytes that are not UTF-8.
#[derive(Debug)]
pub struct UserText<W: Write> {
    sink: W,
    /// The first bytes of an incomplete character.
    partial: Vec<u8>,
}

/// Standard output.
pub fn stdout() -> UserText<io::Stdout> {
    UserText::new(io::stdout())
}

/// Standard error.
pub fn stderr() -> UserText<io::Stderr> {
    UserText::new(io::stderr())
}

impl UserText<Vec<u8>> {
    /// The text that was written.
    ///
    /// # Errors
    /// A write to memory does not fail.
    pub fn into_escaped(mut self) -> io::Result<Escaped> {
        self.flush()?;
        String::from_utf8(self.sink).map(Escaped).map_err(io::Error::other)
    }
}

impl<W: Write> UserText<W> {
    /// Writes escaped text to a sink.
    pub fn new(sink: W) -> UserText<W> {
        UserText { sink, partial: Vec::with_capacity(CHARACTER_BYTES_MAX) }
    }

    fn escape(&mut self, bytes: &[u8]) -> String {
        let mut bytes = [self.partial.as_slice(), bytes].concat();
        self.partial.clear();
        if let Err(error) = std::str::from_utf8(last_character(&bytes))
            && error.error_len().is_none()
        {
            let start = bytes.len() - last_character(&bytes).len() + error.valid_up_to();
            self.partial = bytes.split_off(start);
        }
        let mut text = String::with_capacity(bytes.len());
        for chunk in bytes.utf8_chunks() {
            for c in chunk.valid().chars() {
                if is_escaped(c) { push_escaped(&mut text, c) } else { text.push(c) }
            }
            chunk.invalid().iter().for_each(|byte| text.push_str(&format!("\\x{byte:02x}")));
        }
        text
    }

    fn end_character(&mut self) -> io::Result<()> {
        let partial = std::mem::take(&mut self.partial);
        let text: String = partial.iter().map(|byte| format!("\\x{byte:02x}")).collect();
        self.sink.write_all(text.as_bytes())
    }
}

fn last_character(bytes: &[u8]) -> &[u8] {
    let is_start = |byte: &u8| byte & 0xc0 != 0x80;
    let tail = &bytes[bytes.len().saturating_sub(CHARACTER_BYTES_MAX)..];
    tail.iter().rposition(is_start).map_or(&[], |start| &tail[start..])
}

impl<W: Write> Write for UserText<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = self.escape(bytes);
        self.sink.write_all(text.as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.end_character()?;
        self.sink.flush()
    }
}

impl<W: Write> Printer for UserText<W> {
    fn control(&mut self, sequence: &'static str) -> io::Result<()> {
        self.end_character()?;
        self.sink.write_all(sequence.as_bytes())
    }

    fn escaped(&mut self, text: &Escaped) -> io::Result<()> {
        self.end_character()?;
        self.sink.write_all(text.0.as_bytes())
    }
}

impl Printer for Vec<u8> {
    fn control(&mut self, sequence: &'static str) -> io::Result<()> {
        self.write_all(sequence.as_bytes())
    }

    fn escaped(&mut self, text: &Escaped) -> io::Result<()> {
        self.write_all(text.0.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(parts: &[&[u8]]) -> String {
        let mut out = UserText::new(Vec::new());
        parts.iter().for_each(|part| out.write_all(part).unwrap());
        out.flush().unwrap();
        String::from_utf8(out.sink).unwrap()
    }

    #[test]
    fn text_cannot_control_the_terminal() {
        let hostile = "v\u{1b}]0;OWNED\u{7}\u{1b}[31m\u{9b}2J\r\u{202e}x\n".as_bytes();
        let shown = "v\\u001b]0;OWNED\\u0007\\u001b[31m\\u009b2J\\r\\u202ex\n";
        assert_eq!(written(&[hostile]), shown);
        assert_eq!(written(&[b"a\x9b2J \xff\xc2"]), "a\\x9b2J \\xff\\xc2", "bytes of other encodings");
        assert_eq!(written(&["größer, 日本 🦀\t".as_bytes()]), "größer, 日本 🦀\t");
    }

    #[test]
    fn characters_in_two_writes_are_one() {
        let text = "ö日🦀\u{9b}\u{1b}é".as_bytes();
        let each: Vec<&[u8]> = text.chunks(1).collect();
        assert_eq!(written(&each), "ö日🦀\\u009b\\u001bé");
        for size in 2..text.len() {
            let parts: Vec<&[u8]> = text.chunks(size).collect();
            assert_eq!(written(&parts), "ö日🦀\\u009b\\u001bé", "in parts of {size}");
        }
        assert_eq!(written(&[b"\xc2", b"x\xe6\x97", b"\n"]), "\\xc2x\\xe6\\x97\n");
    }

    #[test]
    fn an_escaped_json_document_is_the_same_document() {
        let value = serde_json::json!({"name": "a\u{7f}\u{9b}\u{1b}\u{202e}\n"});
        let shown = written(&[serde_json::to_string(&value).unwrap().as_bytes()]);
        assert!(shown.is_ascii());
        assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), value);
    }

    #[test]
    fn control_sequences_of_the_program_pass() {
        let mut out = UserText::new(Vec::new());
        out.write_all(b"a").unwrap();
        out.control("\x1b[31m").unwrap();
        out.write_all(b"\x1b[31m").unwrap();
        assert_eq!(out.sink, b"a\x1b[31m\\u001b[31m");
    }
}
