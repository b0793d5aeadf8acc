//! The elements of DER, as far as keys and certificates need them.

pub(crate) const INTEGER: u8 = 0x02;
pub(crate) const BIT_STRING: u8 = 0x03;
pub(crate) const OCTET_STRING: u8 = 0x04;
pub(crate) const OBJECT_ID: u8 = 0x06;
pub(crate) const SEQUENCE: u8 = 0x30;
pub(crate) const SET: u8 = 0x31;
/// The tag `[0]` of an optional field with elements of its own.
pub(crate) const FIELD_0: u8 = 0xa0;

/// The elements of some DER, up to the first damaged element.
#[derive(Clone, Copy)]
pub(crate) struct Elements<'a>(pub(crate) &'a [u8]);

#[derive(Clone, Copy)]
pub(crate) struct Element<'a> {
    pub(crate) tag: u8,
    pub(crate) content: &'a [u8],
}

impl<'a> Elements<'a> {
    /// Removes the next element; returns its content, if it has this tag.
    pub(crate) fn expect(&mut self, tag: u8) -> Option<&'a [u8]> {
        self.next().filter(|element| element.tag == tag).map(|element| element.content)
    }

    /// Removes the next element and returns its content, if it has this tag; otherwise the element stays.
    pub(crate) fn optional(&mut self, tag: u8) -> Option<&'a [u8]> {
        let mut behind = *self;
        let content = behind.expect(tag)?;
        *self = behind;
        Some(content)
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = Element<'a>;

    fn next(&mut self) -> Option<Element<'a>> {
        let (&[tag, first], mut rest) = self.0.split_first_chunk::<2>()?;
        let mut length = usize::from(first);
        if first & 0x80 != 0 {
            let (digits, behind) =
                rest.split_at_checked(usize::from(first & 0x7f)).filter(|(digits, _)| digits.len() <= 3)?;
            length = digits.iter().fold(0, |length, &digit| length << 8 | usize::from(digit));
            rest = behind;
        }
        let (content, behind) = rest.split_at_checked(length)?;
        self.0 = behind;
        Some(Element { tag, content })
    }
}

pub(crate) fn dotted(content: &[u8]) -> String {
    let mut arcs: Vec<u128> = Vec::new();
    let mut arc = 0_u128;
    for byte in content.iter().take(64) {
        arc = arc.wrapping_shl(7) | u128::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            if arcs.is_empty() {
                let first = (arc / 40).min(2);
                arcs.push(first);
                arc -= first * 40;
            }
            arcs.push(arc);
            arc = 0;
        }
    }
    arcs.iter().map(ToString::to_string).collect::<Vec<_>>().join(".")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn object_identifiers_are_decoded() {
        assert_eq!(dotted(&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 5]), "1.2.840.113549.1.1.5");
        assert_eq!(dotted(&[0x2b, 0x65, 0x71]), "1.3.101.113");
        assert_eq!(dotted(&[0x88, 0x37]), "2.999");
        assert_eq!(dotted(&[]), "");
    }

    #[test]
    fn damaged_elements_end_the_list() {
        let whole = [SEQUENCE, 5, INTEGER, 1, 7, SET, 0];
        assert_eq!(Elements(Elements(&whole).expect(SEQUENCE).unwrap()).count(), 2);
        assert!((0..whole.len()).all(|length| Elements(&whole[..length]).count() == 0));
        assert!(Elements(&[SET, 0x84, 0xff, 0xff, 0xff, 0xff]).next().is_none());
        let mut elements = Elements(&[INTEGER, 0, SET, 0]);
        assert!(elements.optional(SET).is_none() && elements.optional(INTEGER).is_some());
        assert!(elements.expect(SET).is_some());
    }
}
