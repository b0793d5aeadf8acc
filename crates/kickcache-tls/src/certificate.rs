//! A certificate, as far as messages need it: X.509 in DER (RFC 5280, section 4.1).

use crate::der::{Elements, FIELD_0, INTEGER, SEQUENCE};
use crate::key_type::KeyType;

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Certificate {
    /// The version of the certificate, from 1.
    pub(crate) version: u8,
    pub(crate) key: KeyType,
}

impl Certificate {
    /// Parses a certificate; `None` if it is damaged.
    pub(crate) fn of(der: &[u8]) -> Option<Certificate> {
        let mut signed = Elements(Elements(der).expect(SEQUENCE)?);
        let mut fields = Elements(signed.expect(SEQUENCE)?);
        let version = match fields.optional(FIELD_0) {
            Some(field) => *Elements(field).expect(INTEGER)?.first()?,
            None => 0,
        };
        fields.expect(INTEGER)?;
        // The signature's algorithm, the issuer, the validity and the subject.
        for _ in 0..4 {
            fields.expect(SEQUENCE)?;
        }
        let key = KeyType::of_public_key(fields.expect(SEQUENCE)?)?;
        Some(Certificate { version: version.saturating_add(1), key })
    }
}
