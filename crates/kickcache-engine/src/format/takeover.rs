//! The takeover of one cache device by another.

use alloc::string::{String, ToString};

use crate::format::bytes::{Reader, Writer};

/// Longest path of the other device, in bytes of UTF-8.
pub const OTHER_PATH_MAX: usize = 4_000;
const HEAD: usize = 24;

const BEGUN: u8 = 1;
const INCOMPLETE: u8 = 2;
const REPLACED: u8 = 3;

/// The other device of a replacement.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OtherDevice {
    /// The id of the replacement.
    pub uuid: [u8; 16],
    /// The path of the other device.
    pub path: String,
}

/// The state of a replacement in a superblock.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Takeover {
    /// No replacement.
    #[default]
    None,
    /// The other device is to take over.
    Begun(OtherDevice),
    /// This device is to take over from the other one, and its copy is not complete.
    Incomplete(OtherDevice),
    /// The other device is complete, and is the cache.
    Replaced(OtherDevice),
}

impl Takeover {
    /// Whether the device must not be served.
    pub fn is_barred(&self) -> bool {
        match self {
            Takeover::None | Takeover::Begun(_) => false,
            Takeover::Incomplete(_) | Takeover::Replaced(_) => true,
        }
    }

    /// The other device, if there is one.
    pub fn other(&self) -> Option<&OtherDevice> {
        match self {
            Takeover::None => None,
            Takeover::Begun(other) | Takeover::Incomplete(other) | Takeover::Replaced(other) => Some(other),
        }
    }

    pub(super) fn put(&self, writer: &mut Writer) {
        let (kind, other) = match self {
            Takeover::None => return,
            Takeover::Begun(other) => (BEGUN, other),
            Takeover::Incomplete(other) => (INCOMPLETE, other),
            Takeover::Replaced(other) => (REPLACED, other),
        };
        writer.put_u8(kind);
        writer.put_u8(0);
        let length = u16::try_from(other.path.len()).expect("at most 4000 bytes");
        writer.put(&length.to_le_bytes());
        writer.put_u32(0);
        writer.put(&other.uuid);
        writer.put(other.path.as_bytes());
    }

    pub(super) fn take(bytes: &[u8]) -> Option<Takeover> {
        let mut reader = Reader::bare(bytes);
        let kind = reader.take_u8()?;
        if kind == 0 {
            return Some(Takeover::None);
        }
        reader.take_u8()?;
        let length = usize::from(u16::from_le_bytes(reader.take(2)?.try_into().ok()?));
        reader.take_u32()?;
        let uuid = reader.take_uuid()?;
        let path = core::str::from_utf8(reader.take(length)?).ok()?.to_string();
        let other = OtherDevice { uuid, path };
        match kind {
            BEGUN => Some(Takeover::Begun(other)),
            INCOMPLETE => Some(Takeover::Incomplete(other)),
            REPLACED => Some(Takeover::Replaced(other)),
            _ => None,
        }
    }
}

const _: () = assert!(HEAD + OTHER_PATH_MAX <= 4_096);
