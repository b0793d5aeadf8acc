//! Replays the corpora of the fuzz targets of the on-disk format (`fuzz/`), whole and truncated, and random input too.

#![expect(clippy::unwrap_used, reason = "helpers of a test may fail by a panic")]

use proptest::collection::vec;
use proptest::prelude::{ProptestConfig, any};

#[path = "../../../fuzz/harness/format.rs"]
mod harness;

#[path = "../../../fuzz/harness/replay.rs"]
mod corpus;

fn replay(target: &str, run: fn(&[u8])) {
    corpus::replay(target, 4, |bytes| {
        run(bytes);
        (0..bytes.len()).step_by(bytes.len() / 64 + 1).for_each(|length| run(&bytes[..length]));
    });
}

#[test]
fn superblock_corpus_is_read_or_refused() {
    replay("superblock", harness::superblock);
}

#[test]
fn batch_header_corpus_is_read_or_refused() {
    replay("batch_header", harness::batch_header);
}

#[test]
fn summary_corpus_is_read_or_refused() {
    replay("summary", harness::summary);
}

#[test]
fn journal_block_corpus_is_read_or_refused() {
    replay("journal_block", harness::journal_block);
}

#[test]
fn recovery_corpus_is_recovered_or_refused() {
    replay("recovery", harness::recovery);
}

proptest::proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn random_structures_are_read_or_refused(bytes in vec(any::<u8>(), 0..600)) {
        harness::superblock(&bytes);
        harness::batch_header(&bytes);
        harness::summary(&bytes);
        harness::journal_block(&bytes);
    }

    #[test]
    fn random_structures_anywhere_do_no_harm_to_recovery(
        structures in vec((0_u8..3, 0_u8..120, vec(0_u8..4, 28..200)), 0..12)
    ) {
        let mut input = Vec::new();
        for (kind, place, body) in structures {
            input.extend([kind, place, 0]);
            input.extend(u16::try_from(body.len()).unwrap().to_le_bytes());
            input.extend(body);
        }
        harness::recovery(&input);
    }
}
