//! The formats of traces as arguments name them.

use kickcache_model::trace_file::Format;

pub(crate) fn parse_format(text: &str) -> Result<Format, String> {
    let names = || Format::ALL.map(Format::name).join(", ");
    let found = Format::ALL.into_iter().find(|format| format.name() == text);
    found.ok_or_else(|| format!("`{text}` is not a format; use one of {}", names()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_format_is_one_of_the_known() {
        assert!(parse_format("pcap").unwrap_err().contains("blktrace"));
    }
}
