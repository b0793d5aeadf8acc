//! The header of a recording.

use flate2::Crc;

pub(crate) const MAGIC: [u8; 8] = *b"KCTRACE\n";
/// The version that is written; others are not read.
pub(crate) const VERSION: u16 = 1;
/// Bytes before the name.
pub(crate) const FIXED_BYTES: usize = 36;
/// Bytes of the checksum behind the name.
pub(crate) const CHECKSUM_BYTES: usize = 4;
/// Bytes of the longest name; a longer one is cut.
pub(crate) const NAME_BYTES_MAX: usize = 255;
/// Bytes of a volume's block, as the header records them.
const BLOCK_BYTES: u32 = 4096;

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RecordingHeader {
    /// The volume's name; empty if unknown.
    pub volume: String,
    /// Bytes of the volume; 0 if unknown.
    pub volume_bytes: u64,
    /// When the recording began, in nanoseconds since the beginning of 1970, UTC; 0 if unknown. Times of records count
    /// from here, in all files of the recording.
    pub started: u64,
    /// The number of this file in the recording, from 0.
    pub part: u32,
}

impl RecordingHeader {
    pub fn to_bytes(&self) -> Vec<u8> {
        let name = cut(&self.volume);
        let length = u16::try_from(name.len()).expect("at most 255");
        let mut bytes = MAGIC.to_vec();
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend(length.to_le_bytes());
        bytes.extend(BLOCK_BYTES.to_le_bytes());
        bytes.extend(self.started.to_le_bytes());
        bytes.extend(self.volume_bytes.to_le_bytes());
        bytes.extend(self.part.to_le_bytes());
        debug_assert_eq!(bytes.len(), FIXED_BYTES);
        bytes.extend(name.as_bytes());
        let checksum = checksum(&bytes);
        bytes.extend(checksum.to_le_bytes());
        bytes
    }

    pub(crate) fn of(bytes: &[u8]) -> Result<RecordingHeader, String> {
        let fixed = bytes.get(..FIXED_BYTES).ok_or_else(|| "the header is cut off".to_owned())?;
        let version = u16::from_le_bytes([fixed[8], fixed[9]]);
        if version != VERSION {
            return Err(format!(
                "version {version} of the format was found, but this kickcache reads {VERSION}; use a newer one"
            ));
        }
        let whole = bytes.get(..length(fixed)).ok_or_else(|| "the header is cut off".to_owned())?;
        let (body, found) = whole.split_at(whole.len() - CHECKSUM_BYTES);
        if found != checksum(body).to_le_bytes() {
            return Err("the header is damaged: its checksum is wrong".into());
        }
        Ok(RecordingHeader {
            volume: String::from_utf8_lossy(&body[FIXED_BYTES..]).into_owned(),
            started: long(fixed, 16),
            volume_bytes: long(fixed, 24),
            part: word(fixed, 32),
        })
    }
}

/// Bytes of the whole header, with name and checksum, by its first [`FIXED_BYTES`].
pub(crate) fn length(fixed: &[u8]) -> usize {
    FIXED_BYTES + usize::from(u16::from_le_bytes([fixed[10], fixed[11]])) + CHECKSUM_BYTES
}

/// CRC-32 as zip and Ethernet have it.
pub(crate) fn checksum(bytes: &[u8]) -> u32 {
    let mut checksum = Crc::new();
    checksum.update(bytes);
    checksum.sum()
}

pub(crate) fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

pub(crate) fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

fn cut(name: &str) -> &str {
    let end = (0..=NAME_BYTES_MAX.min(name.len())).rev().find(|end| name.is_char_boundary(*end));
    &name[..end.unwrap_or_default()]
}
