//! The format of a recording on the control connection: parcels of recorded accesses, little-endian.
//!
//! A parcel is a head of 16 bytes (count, 1 in the last one, accesses lost so far) and 24 bytes for each
//! access or gap.

use crate::recording::access::{BYTES, RecordingEntry, WORDS};
use crate::recording::ring::Recording;

const HEAD_BYTES: usize = 16;
/// The most entries of a parcel: accesses and gaps.
pub(crate) const COUNT_MAX: u64 = 4_096;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum More {
    Yes,
    No,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Parcel {
    pub noted: Vec<RecordingEntry>,
    /// Accesses lost since the recording began, those in gaps included.
    pub lost: u64,
    pub more: More,
}

/// Bytes that are no parcel.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the daemon sent bytes that are not part of a recording; is it another version of kickcache?")]
pub struct NoParcel;

/// Packs entries into a parcel; returns their number.
pub(crate) fn pack(recording: &mut Recording, more: More, bytes: &mut Vec<u8>) -> u64 {
    bytes.clear();
    bytes.resize(HEAD_BYTES, 0);
    let count =
        recording.take(COUNT_MAX, |words| words.iter().for_each(|word| bytes.extend(word.to_le_bytes())));
    let short = u32::try_from(count).expect("at most 4096");
    bytes[0..4].copy_from_slice(&short.to_le_bytes());
    bytes[4..8].copy_from_slice(&u32::from(more == More::No).to_le_bytes());
    bytes[8..16].copy_from_slice(&recording.lost().to_le_bytes());
    count
}

impl Parcel {
    /// Takes a parcel off the front of the received bytes; `None` if it is incomplete.
    pub(crate) fn take(bytes: &mut Vec<u8>) -> Result<Option<Parcel>, NoParcel> {
        let Some(head) = bytes.get(..HEAD_BYTES) else { return Ok(None) };
        let word = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let (count, last) = (word(0), word(4));
        let lost = u64::from(word(8)) | u64::from(word(12)) << 32;
        if u64::from(count) > COUNT_MAX || last > 1 {
            return Err(NoParcel);
        }
        let end = HEAD_BYTES + usize::try_from(count).expect("at most 4096") * BYTES;
        let Some(body) = bytes.get(HEAD_BYTES..end) else { return Ok(None) };
        let noted =
            body.chunks_exact(BYTES).map(|bytes| RecordingEntry::of_words(words(bytes)).ok_or(NoParcel));
        let noted = noted.collect::<Result<Vec<RecordingEntry>, NoParcel>>()?;
        bytes.drain(..end);
        Ok(Some(Parcel { noted, lost, more: if last == 1 { More::No } else { More::Yes } }))
    }
}

fn words(bytes: &[u8]) -> [u64; WORDS] {
    let word = |index: usize| bytes[8 * index..8 * index + 8].try_into().expect("eight bytes");
    std::array::from_fn(|index| u64::from_le_bytes(word(index)))
}

#[cfg(test)]
mod tests {
    use kickcache_engine::request::Operation;
    use kickcache_engine::units::ByteExtent;

    use super::*;
    use crate::recording::access::RecordedAccess;
    use crate::recording::ring::{Ends, ring};

    #[test]
    fn parcels_come_back_from_any_pieces() {
        let Ends { mut recorder, mut recording } = ring();
        let access =
            |at| RecordedAccess::of(at, Operation::Read, ByteExtent { start: at, length: 1 }).unwrap();
        (0..COUNT_MAX + 1).for_each(|at| recorder.note(access(at)));
        let (mut parcel, mut sent) = (Vec::new(), Vec::new());
        assert_eq!(pack(&mut recording, More::Yes, &mut parcel), COUNT_MAX);
        sent.extend(&parcel);
        assert_eq!(pack(&mut recording, More::No, &mut parcel), 1);
        sent.extend(&parcel);
        let (mut came, mut found) = (Vec::new(), Vec::new());
        for byte in sent {
            came.push(byte);
            found.extend(Parcel::take(&mut came).unwrap());
        }
        let counts: Vec<_> = found.iter().map(|parcel| (parcel.noted.len(), parcel.more)).collect();
        assert_eq!(counts, [(4096, More::Yes), (1, More::No)]);
        assert_eq!(found[1].noted, [RecordingEntry::Access(access(COUNT_MAX))]);
    }

    #[test]
    fn other_bytes_are_no_parcel() {
        assert_eq!(Parcel::take(&mut b"{\"reply\":\"done\"}".to_vec()), Err(NoParcel));
        assert_eq!(Parcel::take(&mut Vec::new()), Ok(None));
    }
}
