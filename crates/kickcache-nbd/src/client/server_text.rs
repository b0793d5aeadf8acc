//! A server's message, made safe to show on a terminal.

pub(super) fn server_text(bytes: &[u8]) -> String {
    let mut shown = String::new();
    for c in String::from_utf8_lossy(bytes).chars() {
        if c.is_control() {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_cannot_steer_the_terminal() {
        assert_eq!(server_text(b"no \x1b[31mred\x07\r\n\xff"), "no \\u{1b}[31mred\\u{7}\\r\\n\u{fffd}");
        assert_eq!(server_text("größer".as_bytes()), "größer");
    }
}
