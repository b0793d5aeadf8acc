//! Tests of the messages: each names its cause in words.

use std::path::Path;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::WebPkiClientVerifier;
use tempfile::TempDir;

use crate::certificates::Authority;
use crate::explanation::explain;
use crate::folder::{Folder, provider};
use crate::server::{PeerCheck, ServerCertificates};

const OWN: &str = "-CA ca-cert.pem -CAkey ca-key.pem -CAcreateserial -days 2";
const NAMES: &str = "subjectAltName=DNS:localhost\n";

fn authority(folder: &TempDir) -> Authority {
    let authority = Authority::new(folder.path());
    authority.issue("server", "localhost");
    authority
}

#[track_caller]
fn check_words(said: &str) {
    for word in ["Error", "::", "Other(", "Some(", "unexpected", "failed to parse", "Context"] {
        assert!(!said.contains(word), "{word} is not a word for a message: {said}");
    }
}

#[track_caller]
fn refusal(folder: &Path) -> String {
    let said = ServerCertificates::open(folder, PeerCheck::Required).unwrap_err().to_string();
    check_words(&said);
    said
}

fn on_peer(folder: &Path, name: &str) -> [String; 2] {
    let chain: Vec<CertificateDer<'_>> =
        CertificateDer::pem_file_iter(folder.join(format!("{name}-cert.pem")))
            .unwrap()
            .map(Result::unwrap)
            .collect();
    let roots = Folder::new(folder).authorities().unwrap();
    let server = WebPkiServerVerifier::builder_with_provider(Arc::clone(&roots), provider()).build().unwrap();
    let client = WebPkiClientVerifier::builder_with_provider(roots, provider()).build().unwrap();
    let (first, rest) = chain.split_first().unwrap();
    let (name, now) = (ServerName::try_from("localhost").unwrap(), UnixTime::now());
    let said = [
        server.verify_server_cert(first, rest, &name, &[], now).unwrap_err(),
        client.verify_client_cert(first, rest, now).err().unwrap_or(rustls::Error::HandshakeNotComplete),
    ];
    said.map(|error| {
        let said = explain(&error);
        check_words(&said);
        said
    })
}

#[test]
fn unsupported_keys_are_named_with_the_supported_ones() {
    let supported =
        "which is not supported; supported are RSA of 2048 to 4096 bits, ECDSA with P-256 or P-384, Ed25519";
    for (make, name) in [
        ("genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-521", "ECDSA with P-521"),
        ("genpkey -algorithm EC -pkeyopt ec_paramgen_curve:secp256k1", "ECDSA with secp256k1"),
        ("ecparam -genkey -noout -name secp521r1", "ECDSA with P-521"),
        ("genpkey -algorithm ED448", "Ed448"),
        ("genpkey -algorithm X25519", "X25519"),
        ("genrsa -traditional 1024", "RSA of 1024 bits"),
        ("genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:1024", "RSA of 1024 bits"),
        ("genpkey -algorithm RSA-PSS -pkeyopt rsa_keygen_bits:2048", "RSA-PSS"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let authority = authority(&folder);
        let (verb, rest) = make.split_once(' ').unwrap();
        let bits = rest.split(' ').next_back().filter(|_| verb == "genrsa");
        let make = match bits {
            Some(bits) => format!("genrsa -traditional -out server-key.pem {bits}"),
            None => format!("{make} -out server-key.pem"),
        };
        authority.run(&make);
        let said = refusal(folder.path());
        assert!(said.ends_with(&format!("server-key.pem: its key is {name}, {supported}")), "{said}");
    }
}

#[test]
fn supported_keys_of_every_form_are_accepted() {
    for make in [
        "genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-384 -out server-key.pem",
        "ecparam -genkey -name prime256v1 -out server-key.pem",
        "genpkey -algorithm ED25519 -out server-key.pem",
        "genrsa -traditional -out server-key.pem 2048",
        "genrsa -out server-key.pem 2048",
    ] {
        let folder = tempfile::tempdir().unwrap();
        let authority = authority(&folder);
        authority.run(make);
        authority.sign("server", OWN, NAMES);
        ServerCertificates::open(folder.path(), PeerCheck::Required)
            .unwrap_or_else(|error| panic!("{make}: {error}"));
    }
}

#[test]
fn files_of_other_kinds_are_named_with_the_conversion() {
    let folder = tempfile::tempdir().unwrap();
    let authority = authority(&folder);
    let place = |name: &str| folder.path().join(name);
    let key = std::fs::read(place("server-key.pem")).unwrap();
    let certificate = std::fs::read(place("server-cert.pem")).unwrap();
    authority.run("pkey -in server-key.pem -outform DER -out key.der");
    authority.run("pkey -in server-key.pem -aes256 -passout pass:x -out secret.pem");
    authority.run("ec -in server-key.pem -aes256 -passout pass:x -out secret-ec.pem");
    authority.run("pkcs12 -export -in server-cert.pem -inkey server-key.pem -passout pass:x -out both.p12");
    authority.run("x509 -in server-cert.pem -outform DER -out cert.der");
    authority.run("dsaparam -genkey -out dsa.pem 1024");
    std::fs::write(place("empty.pem"), "\n").unwrap();
    std::fs::write(place("cut.pem"), &key[..key.len() - 20]).unwrap();
    let password =
        "server-key.pem: its key has a password, which is not supported; remove it with `openssl pkey";
    for (source, target, expected) in [
        (
            "key.der",
            "server-key.pem",
            "it is DER, and PEM is expected; convert it with `openssl pkey -inform DER",
        ),
        ("secret.pem", "server-key.pem", password),
        ("secret-ec.pem", "server-key.pem", password),
        ("both.p12", "server-key.pem", "it is PKCS#12, and PEM is expected; convert it with `openssl pkcs12"),
        ("server-cert.pem", "server-key.pem", "there is no private key in it, but CERTIFICATE"),
        ("dsa.pem", "server-key.pem", "DSA"),
        ("empty.pem", "server-key.pem", "the file is empty; a private key in PEM is expected"),
        ("cut.pem", "server-key.pem", "it is damaged PEM: the line -----END that ends a section is missing"),
        (
            "cert.der",
            "server-cert.pem",
            "it is DER, and PEM is expected; convert it with `openssl x509 -inform DER",
        ),
        ("server-key.pem", "server-cert.pem", "there is no certificate in it, but PRIVATE KEY"),
        (
            "cert.der",
            "ca-cert.pem",
            "it is DER, and PEM is expected; convert it with `openssl x509 -inform DER",
        ),
    ] {
        let before = std::fs::read(place(target)).unwrap();
        let bytes = std::fs::read(place(source)).unwrap();
        std::fs::write(place(target), bytes).unwrap();
        let said = refusal(folder.path());
        assert!(said.contains(target) && said.contains(expected), "{source}: {said}");
        std::fs::write(place(target), before).unwrap();
    }
    assert!(std::fs::read(place("server-cert.pem")).unwrap() == certificate);
    ServerCertificates::open(folder.path(), PeerCheck::Required).unwrap();
}

#[test]
fn an_own_certificate_is_checked_before_use() {
    let folder = tempfile::tempdir().unwrap();
    let authority = authority(&folder);
    authority.sign("server", OWN, "");
    let said = refusal(folder.path());
    assert!(
        said.contains("server-cert.pem: its certificate is of version 1 or 2, without extensions"),
        "{said}"
    );
    authority.issue("other", "localhost");
    std::fs::copy(folder.path().join("other-cert.pem"), folder.path().join("server-cert.pem")).unwrap();
    let said = refusal(folder.path());
    assert!(
        said.ends_with("server-key.pem: that key is of another certificate; replace both files"),
        "{said}"
    );
    authority.run("req -x509 -newkey ed448 -nodes -days 2 -keyout ca-key.pem -out ca-cert.pem -subj /CN=a");
    let said = refusal(folder.path());
    assert!(
        said.contains("ca-cert.pem: the authority's key is Ed448, which is not supported; supported"),
        "{said}"
    );
    std::fs::write(
        folder.path().join("ca-crl.pem"),
        "-----BEGIN X509 CRL-----\nMAA=\n-----END X509 CRL-----\n",
    )
    .unwrap();
    let other = tempfile::tempdir().unwrap();
    self::authority(&other);
    std::fs::copy(other.path().join("ca-cert.pem"), folder.path().join("ca-cert.pem")).unwrap();
    let said = refusal(folder.path());
    assert!(said.ends_with("ca-crl.pem: it cannot be used: it is damaged"), "{said}");
}

#[test]
fn certificates_of_peers_are_refused_in_words() {
    let folder = tempfile::tempdir().unwrap();
    let authority = authority(&folder);
    authority.issue("intermediate", "localhost");
    let own = |extra: &str| format!("{OWN} {extra}");
    let any = |flags: &str, extensions: &str| {
        authority.issue("peer", "localhost");
        authority.sign("peer", flags, extensions);
        on_peer(folder.path(), "peer")
    };
    let of_authority = format!("{NAMES}basicConstraints=critical,CA:TRUE\n");
    let by_intermediate = "-CA intermediate-cert.pem -CAkey intermediate-key.pem -CAcreateserial -days 2";
    for (said, expected) in [
        (any(OWN, ""), "its certificate is of version 1 or 2, without extensions"),
        (any(OWN, &of_authority), "its certificate belongs to an authority (CA:TRUE), and a server"),
        (any(&own("-sha1"), NAMES), "its certificate is signed by SHA-1 with ECDSA, which is insecure"),
        (
            any(&own("-sha512"), NAMES),
            "its certificate is signed by SHA-512 with ECDSA, which is not supported",
        ),
        (
            any("-CA ca-cert.pem -CAkey ca-key.pem -CAcreateserial -days -1", NAMES),
            "its certificate has expired",
        ),
        (
            any(by_intermediate, NAMES),
            "its certificate is of no authority in ca-cert.pem, or an intermediate",
        ),
    ] {
        for said in said {
            assert!(said.starts_with(expected), "{said}, expected: {expected}");
        }
    }
    let [server, _] = any(OWN, &format!("{NAMES}extendedKeyUsage=clientAuth\n"));
    assert!(server.starts_with("its certificate is for another purpose: "), "{server}");
    let [server, _] = any(OWN, "subjectAltName=DNS:store.example.org\n");
    let expected = "its certificate is for another name: localhost was expected, and its alternative names are store.example.org";
    assert_eq!(server, expected);
}

#[test]
fn other_failures_have_words() {
    use rustls::{AlertDescription, Error, InvalidMessage, PeerIncompatible, PeerMisbehaved};
    let errors = [
        Error::AlertReceived(AlertDescription::UnknownCA),
        Error::AlertReceived(AlertDescription::Unknown(200)),
        Error::InvalidMessage(InvalidMessage::InvalidContentType),
        Error::PeerIncompatible(PeerIncompatible::NoSignatureSchemesInCommon),
        Error::PeerIncompatible(PeerIncompatible::NullCompressionRequired),
        Error::PeerMisbehaved(PeerMisbehaved::SignedHandshakeWithUnadvertisedSigScheme),
        Error::NoCertificatesPresented,
        Error::General("Debug(1)".into()),
    ];
    for error in errors {
        let said = explain(&error);
        check_words(&said);
        assert!(said.starts_with("it ") || said.starts_with("the connection"), "{said}");
    }
}
