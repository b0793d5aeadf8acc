//! Types of keys and signatures, and the supported ones.

use std::fmt;

use rustls::pki_types::PrivateKeyDer;

use crate::der::{BIT_STRING, Elements, FIELD_0, INTEGER, OBJECT_ID, OCTET_STRING, SEQUENCE, dotted};

pub(crate) const SUPPORTED: &str = "RSA of 2048 to 4096 bits, ECDSA with P-256 or P-384, Ed25519";
/// The least and the most bits of an RSA key that can sign here; a peer's may have up to twice the most.
const RSA_BITS_MIN: u64 = 2048;
const RSA_BITS_MAX: u64 = 4096;

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum KeyType {
    Rsa {
        bits: u64,
    },
    RsaPss,
    /// The object identifier of the curve; empty if there is none.
    Ec(String),
    Ed25519,
    Other(String),
}

impl KeyType {
    /// The type of a private key in PKCS#8, PKCS#1 or SEC1; `None` if it is damaged.
    pub(crate) fn of_private_key(key: &PrivateKeyDer<'_>) -> Option<KeyType> {
        let mut fields = Elements(Elements(key.secret_der()).expect(SEQUENCE)?);
        fields.expect(INTEGER)?;
        match key {
            PrivateKeyDer::Pkcs1(_) => Some(KeyType::Rsa { bits: bits(fields.expect(INTEGER)?) }),
            PrivateKeyDer::Sec1(_) => {
                fields.expect(OCTET_STRING)?;
                let curve = fields.optional(FIELD_0).and_then(|field| Elements(field).expect(OBJECT_ID));
                Some(KeyType::Ec(curve.map(dotted).unwrap_or_default()))
            }
            PrivateKeyDer::Pkcs8(_) => {
                let algorithm = fields.expect(SEQUENCE)?;
                let mut rsa = Elements(Elements(fields.expect(OCTET_STRING)?).next()?.content);
                rsa.expect(INTEGER);
                KeyType::of_algorithm(algorithm, || rsa.expect(INTEGER))
            }
            _ => None,
        }
    }

    /// The type in the public key of a certificate (`SubjectPublicKeyInfo`, its content).
    pub(crate) fn of_public_key(info: &[u8]) -> Option<KeyType> {
        let mut fields = Elements(info);
        let algorithm = fields.expect(SEQUENCE)?;
        let key = fields.expect(BIT_STRING)?;
        KeyType::of_algorithm(algorithm, || {
            Elements(Elements(key.get(1..)?).expect(SEQUENCE)?).expect(INTEGER)
        })
    }

    /// The type that the content of an algorithm identifier names, without the size of an RSA key.
    pub(crate) fn of_identifier(algorithm: &[u8]) -> Option<KeyType> {
        KeyType::of_algorithm(algorithm, || Some(&[]))
    }

    fn of_algorithm<'a>(algorithm: &[u8], modulus: impl FnOnce() -> Option<&'a [u8]>) -> Option<KeyType> {
        let mut fields = Elements(algorithm);
        let identifier = dotted(fields.expect(OBJECT_ID)?);
        Some(match identifier.as_str() {
            "1.2.840.113549.1.1.1" => KeyType::Rsa { bits: bits(modulus()?) },
            "1.2.840.113549.1.1.10" => KeyType::RsaPss,
            "1.2.840.10045.2.1" => KeyType::Ec(fields.optional(OBJECT_ID).map(dotted).unwrap_or_default()),
            "1.3.101.112" => KeyType::Ed25519,
            _ => KeyType::Other(identifier),
        })
    }

    pub(crate) fn can_sign(&self) -> bool {
        match self {
            KeyType::Rsa { bits } => (RSA_BITS_MIN..=RSA_BITS_MAX).contains(bits),
            KeyType::Ec(curve) => matches!(curve.as_str(), "1.2.840.10045.3.1.7" | "1.3.132.0.34"),
            KeyType::Ed25519 => true,
            KeyType::RsaPss | KeyType::Other(_) => false,
        }
    }

    /// Whether signatures by a key of this type, of an authority or a peer, can be verified.
    pub(crate) fn can_be_verified(&self) -> bool {
        match self {
            KeyType::Rsa { bits } => (RSA_BITS_MIN..=2 * RSA_BITS_MAX).contains(bits),
            KeyType::RsaPss | KeyType::Ec(_) | KeyType::Ed25519 | KeyType::Other(_) => self.can_sign(),
        }
    }
}

impl fmt::Display for KeyType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeyType::Rsa { bits: 0 } => f.write_str("RSA"),
            KeyType::Rsa { bits } => write!(f, "RSA of {bits} bits"),
            KeyType::RsaPss => f.write_str("RSA-PSS"),
            KeyType::Ec(curve) => match curve_name(curve) {
                Some(name) => write!(f, "ECDSA with {name}"),
                None if curve.is_empty() => f.write_str("ECDSA with a curve of its own"),
                None => write!(f, "ECDSA with the curve {curve}"),
            },
            KeyType::Ed25519 => f.write_str("Ed25519"),
            KeyType::Other(identifier) => match other_name(identifier) {
                Some(name) => f.write_str(name),
                None => write!(f, "the type {identifier}"),
            },
        }
    }
}

fn curve_name(identifier: &str) -> Option<&'static str> {
    Some(match identifier {
        "1.2.840.10045.3.1.1" => "P-192",
        "1.3.132.0.33" => "P-224",
        "1.2.840.10045.3.1.7" => "P-256",
        "1.3.132.0.34" => "P-384",
        "1.3.132.0.35" => "P-521",
        "1.3.132.0.10" => "secp256k1",
        "1.3.36.3.3.2.8.1.1.7" => "brainpoolP256r1",
        "1.3.36.3.3.2.8.1.1.11" => "brainpoolP384r1",
        "1.3.36.3.3.2.8.1.1.13" => "brainpoolP512r1",
        "1.2.156.10197.1.301" => "SM2",
        _ => return None,
    })
}

fn other_name(identifier: &str) -> Option<&'static str> {
    Some(match identifier {
        "1.2.840.10040.4.1" => "DSA",
        "1.2.840.113549.1.3.1" => "Diffie-Hellman",
        "1.3.101.110" => "X25519",
        "1.3.101.111" => "X448",
        "1.3.101.113" => "Ed448",
        "2.16.840.1.101.3.4.3.17" => "ML-DSA-44",
        "2.16.840.1.101.3.4.3.18" => "ML-DSA-65",
        "2.16.840.1.101.3.4.3.19" => "ML-DSA-87",
        _ => return None,
    })
}

pub(crate) fn signature_name(algorithm: &[u8]) -> String {
    let identifier = Elements(algorithm).expect(OBJECT_ID).map(dotted).unwrap_or_default();
    let name = match identifier.as_str() {
        "1.2.840.113549.1.1.2" => "MD2 with RSA",
        "1.2.840.113549.1.1.4" => "MD5 with RSA",
        "1.2.840.113549.1.1.5" | "1.3.14.3.2.29" => "SHA-1 with RSA",
        "1.2.840.113549.1.1.10" => "RSA-PSS",
        "1.2.840.113549.1.1.11" => "SHA-256 with RSA",
        "1.2.840.113549.1.1.12" => "SHA-384 with RSA",
        "1.2.840.113549.1.1.13" => "SHA-512 with RSA",
        "1.2.840.113549.1.1.14" => "SHA-224 with RSA",
        "1.2.840.10045.4.1" => "SHA-1 with ECDSA",
        "1.2.840.10045.4.3.1" => "SHA-224 with ECDSA",
        "1.2.840.10045.4.3.2" => "SHA-256 with ECDSA",
        "1.2.840.10045.4.3.3" => "SHA-384 with ECDSA",
        "1.2.840.10045.4.3.4" => "SHA-512 with ECDSA",
        "1.2.840.10040.4.3" => "SHA-1 with DSA",
        "2.16.840.1.101.3.4.3.2" => "SHA-256 with DSA",
        _ => {
            let of_key = other_name(&identifier);
            return of_key.map_or_else(|| format!("the algorithm {identifier}"), str::to_owned);
        }
    };
    name.into()
}

fn bits(number: &[u8]) -> u64 {
    let mut digits = number.iter().skip_while(|digit| **digit == 0);
    let Some(first) = digits.next() else { return 0 };
    u64::from(8 - first.leading_zeros()) + 8 * digits.count() as u64
}
