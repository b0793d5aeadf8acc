//! Replays the fuzz targets' corpus, and random bytes.

use crate as nbd;

#[path = "../../../../../fuzz/harness/nbd.rs"]
mod harness;

fn replay(target: &str, run: fn(&[u8])) {
    crate::corpus::replay(target, 10, |bytes| {
        run(bytes);
        (0..bytes.len().min(512)).for_each(|length| run(&bytes[..length]));
    });
}

#[test]
fn handshake_corpus_is_understood_in_any_pieces() {
    replay("nbd_handshake", harness::handshake);
}

#[test]
fn transmission_corpus_is_understood_in_any_pieces() {
    replay("nbd_transmission", harness::transmission);
}

proptest::proptest! {
    #[test]
    fn random_bytes_instead_of_a_handshake_are_harmless(bytes: Vec<u8>) {
        harness::handshake(&bytes);
    }

    #[test]
    fn random_bytes_behind_client_flags_are_harmless(flags in 0_u8..4, bytes: Vec<u8>) {
        harness::handshake(&[&[0, 0, 0, flags], &bytes[..]].concat());
    }

    #[test]
    fn random_bytes_instead_of_requests_are_harmless(bytes: Vec<u8>) {
        harness::transmission(&bytes);
    }

    #[test]
    fn random_options_are_harmless(options: Vec<(u8, Vec<u8>)>) {
        let mut stream = vec![0, 0, 0, 3];
        for (option, data) in options {
            stream.extend_from_slice(b"IHAVEOPT");
            stream.extend_from_slice(&u32::from(option % 16).to_be_bytes());
            stream.extend_from_slice(&u32::try_from(data.len()).unwrap().to_be_bytes());
            stream.extend_from_slice(&data);
        }
        harness::handshake(&stream);
    }

    #[test]
    fn random_requests_are_harmless(
        choice: u8,
        requests: Vec<(u8, u8, u64, u64, u32)>,
        shift in 0_u32..64,
    ) {
        let extended = choice & 3 >= 2;
        let mut stream = vec![choice];
        for (kind, flags, cookie, offset, length) in requests {
            let magic: u32 = if extended { 0x21e4_1c71 } else { 0x2560_9513 };
            stream.extend_from_slice(&magic.to_be_bytes());
            stream.extend_from_slice(&[0, flags, 0, kind % 10]);
            stream.extend_from_slice(&cookie.to_be_bytes());
            stream.extend_from_slice(&(offset >> shift).to_be_bytes());
            if extended {
                stream.extend_from_slice(&(u64::from(length) >> (shift / 2)).to_be_bytes());
            } else {
                stream.extend_from_slice(&(length >> (shift / 2)).to_be_bytes());
            }
        }
        harness::transmission(&stream);
    }
}
