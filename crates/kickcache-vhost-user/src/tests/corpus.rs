//! Replays the fuzz targets' corpus, and throws random bytes at the same places.

use super::harness;

fn replay(target: &str, run: fn(&[u8])) {
    crate::corpus::replay(target, 10, run);
}

#[test]
fn the_corpus_of_rings_does_no_harm() {
    replay("vhost_user_ring", harness::ring);
}

#[test]
fn the_corpus_of_messages_does_no_harm() {
    replay("vhost_user_messages", harness::messages);
}

proptest::proptest! {
    #[test]
    fn random_rings_do_no_harm(bytes: Vec<u8>) {
        harness::ring(&bytes);
    }

    #[test]
    fn random_descriptors_do_no_harm(
        choice: u8,
        descriptors in proptest::collection::vec((0_u64..0x20_0000, 0_u32..0x4000, 0_u16..8, 0_u16..20), 16),
        heads in proptest::collection::vec(0_u16..18, 16),
        index in 0_u16..40,
    ) {
        let mut memory = vec![choice];
        for (address, length, flags, next) in descriptors {
            memory.extend_from_slice(&address.to_le_bytes());
            memory.extend_from_slice(&length.to_le_bytes());
            memory.extend_from_slice(&flags.to_le_bytes());
            memory.extend_from_slice(&next.to_le_bytes());
        }
        memory.resize(1 + 0x1000, 0);
        memory.extend_from_slice(&[0, 0]);
        memory.extend_from_slice(&index.to_le_bytes());
        heads.iter().for_each(|head| memory.extend_from_slice(&head.to_le_bytes()));
        harness::ring(&memory);
    }

    #[test]
    fn random_messages_do_no_harm(bytes: Vec<u8>) {
        harness::messages(&bytes);
    }
}
