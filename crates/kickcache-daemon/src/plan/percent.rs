//! Bytes of a name or a path in a URI (RFC 3986).

use std::fmt::Write as _;

/// The bytes as text: ASCII letters, digits and `/-._~:@,+=` as they are, each other byte as a `%` and two
/// hexadecimal digits.
pub(super) fn encode(bytes: &[u8]) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~:@,+=".contains(&byte);
    let mut out = String::with_capacity(bytes.len());
    for &byte in bytes {
        if is_plain(byte) {
            out.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

/// The text that [`encode`] encoded.
///
/// # Errors
/// The defect of the text.
pub(super) fn decode(text: &str) -> Result<String, &'static str> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut left = text.as_bytes();
    while let Some((&first, rest)) = left.split_first() {
        if first != b'%' {
            bytes.push(first);
            left = rest;
            continue;
        }
        let digits = rest.get(..2).filter(|digits| digits.iter().all(u8::is_ascii_hexdigit));
        let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(byte.ok_or("a % must precede two hexadecimal digits")?);
        left = &rest[2..];
    }
    let text = String::from_utf8(bytes).map_err(|_| "names and paths must be UTF-8")?;
    if text.contains('\0') { Err("names and paths have no zero byte") } else { Ok(text) }
}
