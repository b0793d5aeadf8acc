//! The superblock: identity of the device, its layout, and its volumes. Two copies; the newest wins.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::config::{VOLUME_COUNT_MAX, VOLUME_NAME_MAX};
use crate::error::Error;
use crate::format::bytes::{Reader, Writer};
use crate::format::durable_blocks::DurableBlocks;
use crate::format::geometry::Geometry;
use crate::format::growth;
use crate::format::takeover::Takeover;
use crate::format::version::{
    FORMAT_VERSION, FORMAT_VERSION_GROWN, FORMAT_VERSION_NEWEST, FORMAT_VERSION_OLDEST,
    FORMAT_VERSION_REPLACED,
};
use crate::units::{BLOCK_INDEX_LIMIT, BLOCK_SIZE, Generation, SEQUENCE_LIMIT, VolumeId};

/// Bytes of one copy.
pub const SUPERBLOCK_SIZE: usize = 16_384;
/// Byte offsets of the copies.
pub const SUPERBLOCK_OFFSETS: [u64; 2] = [0, 512 << 10];
/// Longest origin identity, in bytes of UTF-8.
pub const ORIGIN_IDENTITY_MAX: usize = 511;
/// The bytes that a superblock starts with.
pub const SUPERBLOCK_MAGIC: [u8; 8] = *b"KICKCACH";

const STARTS_END: usize = 80;
const JOURNAL_AT: usize = 85;
const GROWN_AT: usize = 96;
const VOLUMES_AT: usize = 128;
/// Recovery retires a segment with a higher generation than this.
pub const GENERATION_WORN_OUT: u32 = u32::MAX / 2;
/// Bytes of a volume in the table.
pub(crate) const VOLUME_BYTES: usize = 640;
const TAKEOVER_AT: usize = 12_288;

const _: () = assert!(VOLUMES_AT + VOLUME_COUNT_MAX * VOLUME_BYTES <= TAKEOVER_AT);
const _: () = assert!(16 + 64 + 512 <= VOLUME_BYTES);

/// A volume in the superblock.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VolumeRecord {
    /// The volume's id in keys and headers.
    pub id: VolumeId,
    /// The volume's name, unique on this cache device.
    pub name: String,
    /// Bytes of the origin, as recorded last.
    pub origin_size: u64,
    /// The identity for the recognition of the origin by the driver.
    pub origin_identity: String,
}

/// The content of a superblock.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Superblock {
    /// Format version that the device has.
    pub version: u32,
    /// Random id of this format of the device.
    pub uuid: [u8; 16],
    /// The copy with the larger epoch wins.
    pub epoch: u64,
    /// Number of the start: 1 when the device is formatted, and one more for each start and each takeover.
    pub starts: u64,
    /// Journal blocks that were durable at the last stop. Empty if this is unknown.
    pub journal: DurableBlocks,
    /// The layout.
    pub geometry: Geometry,
    /// Generation of never opened segments behind the formatted size; other segments begin at 0.
    pub unopened: Generation,
    /// The volumes.
    pub volumes: Vec<VolumeRecord>,
    /// The state of a replacement.
    pub takeover: Takeover,
}

impl Superblock {
    /// A new superblock for a device of `device_size` bytes.
    ///
    /// # Errors
    /// [`Error::DeviceSize`].
    pub fn new(uuid: [u8; 16], device_size: u64) -> Result<Superblock, Error> {
        Ok(Superblock {
            version: FORMAT_VERSION,
            uuid,
            epoch: 1,
            starts: 1,
            journal: DurableBlocks::default(),
            geometry: Geometry::for_device(device_size)?,
            unopened: Generation::new(0),
            volumes: Vec::new(),
            takeover: Takeover::None,
        })
    }

    /// Reads the newest valid copy.
    ///
    /// # Errors
    /// If no copy can be used, or the device must not be served.
    pub fn decode(copies: [&[u8]; 2], device_size: u64) -> Result<Superblock, Error> {
        let superblock = Superblock::decode_any(copies, device_size)?;
        match superblock.takeover {
            Takeover::None | Takeover::Begun(_) => Ok(superblock),
            Takeover::Incomplete(from) => Err(Error::Incomplete { path: from.path }),
            Takeover::Replaced(by) => Err(Error::Replaced { path: by.path }),
        }
    }

    /// Like [`Superblock::decode`], but also returns the superblock of a device that must not be served.
    ///
    /// # Errors
    /// If no copy can be used.
    pub fn decode_any(copies: [&[u8]; 2], device_size: u64) -> Result<Superblock, Error> {
        let chosen = match copies.map(decode_copy) {
            [Ok(first), Ok(second)] => newest(first, second)?,
            [Ok(only), Err(_)] | [Err(_), Ok(only)] => only,
            [Err(version @ Error::Version { .. }), Err(_)]
            | [Err(_), Err(version @ Error::Version { .. })] => {
                return Err(version);
            }
            [Err(Error::NoSuperblock { .. }), Err(other)] | [Err(other), Err(_)] => return Err(other),
        };
        chosen.geometry.check()?;
        if chosen.geometry.device_size > growth::size_max(&chosen.geometry) {
            let what = "it has grown further than its journal allows".to_string();
            return Err(Error::Superblock { what });
        }
        if chosen.geometry.device_size > device_size {
            let what = format!(
                "it was made for a device of {} bytes and this one has {device_size}; restore the device's size",
                chosen.geometry.device_size
            );
            return Err(Error::Superblock { what });
        }
        Ok(chosen)
    }

    /// The bytes of one copy, always [`SUPERBLOCK_SIZE`] long.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new(SUPERBLOCK_MAGIC, SUPERBLOCK_SIZE);
        writer.put_u32(self.written_version());
        writer.put(&self.uuid);
        writer.put_u64(self.epoch);
        writer.put_u64(self.geometry.device_size);
        writer.put_u64(self.geometry.segment_size);
        writer.put_u64(self.geometry.journal_size);
        writer.put_u32(self.geometry.segment_count);
        writer.put_u32(u32::try_from(self.volumes.len()).expect("at most 16 volumes"));
        writer.put_u64(self.starts);
        writer.skip_to(JOURNAL_AT);
        self.journal.put(&mut writer);
        if self.geometry.is_grown() {
            writer.skip_to(GROWN_AT);
            writer.put_u64(self.geometry.formatted_size);
            writer.put_u32(self.unopened.get());
        }
        for (number, volume) in self.volumes.iter().enumerate() {
            writer.skip_to(number.saturating_mul(VOLUME_BYTES).saturating_add(VOLUMES_AT));
            volume.put(&mut writer);
        }
        writer.skip_to(TAKEOVER_AT);
        self.takeover.put(&mut writer);
        writer.finish()
    }

    fn written_version(&self) -> u32 {
        match (self.takeover.is_barred(), self.geometry.is_grown()) {
            (true, _) => FORMAT_VERSION_REPLACED,
            (false, true) => FORMAT_VERSION_GROWN,
            (false, false) => FORMAT_VERSION,
        }
    }

    /// Records an extension of the device. `found` is the highest generation of its own structures in the new part.
    ///
    /// # Errors
    /// [`Error::Growth`].
    pub fn grow(&mut self, device_size: u64, found: Option<Generation>) -> Result<(), Error> {
        let geometry = growth::grown(&self.geometry, device_size)?;
        let unopened = found.map_or(0, |found| found.get().saturating_add(growth::GENERATION_GAP));
        if unopened >= GENERATION_WORN_OUT / 2 {
            let what =
                "the space that it grows into has structures that are not valid; overwrite this space with zeroes".to_string();
            return Err(Error::Growth { what });
        }
        self.geometry = geometry;
        if !mutant!(OldGenerationsUsedAgain) {
            self.unopened = self.unopened.max(Generation::new(unopened));
        }
        if self.version == FORMAT_VERSION {
            self.version = FORMAT_VERSION_GROWN;
        }
        Ok(())
    }

    /// The superblock of the complete successor of the device with this superblock.
    #[must_use]
    pub fn succeeded(&self) -> Superblock {
        let starts = self.starts.saturating_add(1);
        Superblock { starts, ..self.with_takeover(Takeover::None) }
    }

    /// The same superblock with another takeover state.
    #[must_use]
    pub fn with_takeover(&self, takeover: Takeover) -> Superblock {
        let mut superblock = Superblock { takeover, ..self.clone() };
        superblock.version = superblock.written_version();
        superblock
    }

    /// Adds a volume under the lowest free id.
    ///
    /// # Errors
    /// [`Error::Volume`] if the name, the origin's identity or its size is impossible, or all ids are in use.
    pub fn add_volume(
        &mut self,
        name: &str,
        origin_size: u64,
        origin_identity: &str,
    ) -> Result<VolumeId, Error> {
        let refuse = |what: String| Err(Error::Volume { name: name.to_string(), what });
        if name.is_empty() || name.len() > VOLUME_NAME_MAX {
            return refuse(format!("a name has 1 to {VOLUME_NAME_MAX} bytes, this one {}", name.len()));
        }
        if self.volume(name).is_some() {
            return refuse("the cache device has a volume of this name already".to_string());
        }
        if origin_identity.len() > ORIGIN_IDENTITY_MAX {
            return refuse(format!("the origin's path is longer than {ORIGIN_IDENTITY_MAX} bytes"));
        }
        if let Err(what) = check_size(origin_size) {
            return refuse(what);
        }
        let free = (0u8..).take(VOLUME_COUNT_MAX).map(VolumeId::new);
        let Some(id) = free.into_iter().find(|id| self.volumes.iter().all(|volume| volume.id != *id)) else {
            return refuse(format!("the cache device has {VOLUME_COUNT_MAX} volumes, the most there can be"));
        };
        self.volumes.push(VolumeRecord {
            id,
            name: name.to_string(),
            origin_size,
            origin_identity: origin_identity.to_string(),
        });
        Ok(id)
    }

    /// Records the origin of a volume under another identity.
    ///
    /// # Errors
    /// [`Error::Volume`] if there is no such volume, or the identity is too long.
    pub fn rename_origin(&mut self, volume: VolumeId, origin_identity: &str) -> Result<(), Error> {
        let record = self.volumes.iter_mut().find(|record| record.id == volume);
        let refuse = |name: &str, what: String| Err(Error::Volume { name: name.to_string(), what });
        match record {
            None => refuse("?", "the cache device has no volume of this number".to_string()),
            Some(record) if origin_identity.len() > ORIGIN_IDENTITY_MAX => {
                refuse(&record.name, format!("the origin's path is longer than {ORIGIN_IDENTITY_MAX} bytes"))
            }
            Some(record) => {
                record.origin_identity = origin_identity.to_string();
                Ok(())
            }
        }
    }

    /// Records that the origin of a volume was extended.
    ///
    /// # Errors
    /// [`Error::Volume`] if there is no such volume, or the size is impossible or less than the recorded one.
    pub fn grow_volume(&mut self, name: &str, origin_size: u64) -> Result<(), Error> {
        let refuse = |what: String| Err(Error::Volume { name: name.to_string(), what });
        let Some(record) = self.volumes.iter_mut().find(|volume| volume.name == name) else {
            return refuse("the cache device has no volume of this name".to_string());
        };
        if let Err(what) = check_size(origin_size) {
            return refuse(what);
        }
        if origin_size < record.origin_size {
            let known = record.origin_size;
            let what = format!("its origin has {origin_size} bytes and had {known}; a volume cannot shrink");
            return refuse(format!("{what}, give the origin its size back"));
        }
        record.origin_size = origin_size;
        Ok(())
    }

    /// The volume of a name.
    pub fn volume(&self, name: &str) -> Option<&VolumeRecord> {
        self.volumes.iter().find(|volume| volume.name == name)
    }
}

fn check_size(origin_size: u64) -> Result<(), String> {
    if origin_size == 0 || !origin_size.is_multiple_of(BLOCK_SIZE) {
        let what = "an origin needs a multiple of 4096 bytes";
        return Err(format!("{what}, this one has {origin_size}; extend a file with truncate -s %4096"));
    }
    if origin_size / BLOCK_SIZE >= BLOCK_INDEX_LIMIT {
        return Err(format!("an origin has at most 4 PiB, this one {origin_size} bytes"));
    }
    Ok(())
}

impl VolumeRecord {
    /// Appends the record to a structure.
    pub(crate) fn put(&self, writer: &mut Writer) {
        writer.put_u8(self.id.get());
        writer.put_u8(u8::try_from(self.name.len()).expect("at most 63 bytes"));
        let identity = u16::try_from(self.origin_identity.len()).expect("at most 511 bytes");
        writer.put(&identity.to_le_bytes());
        writer.put_u32(0);
        writer.put_u64(self.origin_size);
        let mut name = [0; 64];
        name.iter_mut().zip(self.name.bytes()).for_each(|(to, from)| *to = from);
        writer.put(&name);
        writer.put(self.origin_identity.as_bytes());
    }

    /// Reads a record that [`put`](Self::put) appended.
    pub(crate) fn take(bytes: &[u8]) -> Option<VolumeRecord> {
        let mut reader = Reader::bare(bytes);
        let id = VolumeId::new(reader.take_u8()?);
        let name_length = usize::from(reader.take_u8()?);
        let identity_length = usize::from(u16::from_le_bytes(reader.take(2)?.try_into().ok()?));
        reader.take_u32()?;
        let origin_size = reader.take_u64()?;
        let name = core::str::from_utf8(reader.take(64)?.get(..name_length)?).ok()?;
        let identity = core::str::from_utf8(reader.take(identity_length)?).ok()?;
        let fits =
            usize::from(id.get()) < VOLUME_COUNT_MAX && !name.is_empty() && check_size(origin_size).is_ok();
        fits.then(|| VolumeRecord {
            id,
            name: name.to_string(),
            origin_size,
            origin_identity: identity.to_string(),
        })
    }
}

fn decode_copy(bytes: &[u8]) -> Result<Superblock, Error> {
    let damaged = |what: &str| Error::Superblock { what: what.to_string() };
    if bytes.get(..8) != Some(&SUPERBLOCK_MAGIC) {
        return Err(Error::NoSuperblock { found: describe(bytes) });
    }
    let bytes = bytes.get(..SUPERBLOCK_SIZE).ok_or_else(|| damaged("it is cut short"))?;
    let mut reader = Reader::open(SUPERBLOCK_MAGIC, bytes)
        .ok_or_else(|| damaged("its checksum is wrong in both copies"))?;
    let found = reader.take_u32().ok_or_else(|| damaged("it is cut short"))?;
    if !(FORMAT_VERSION_OLDEST..=FORMAT_VERSION_NEWEST).contains(&found) {
        return Err(Error::Version { found, expected: FORMAT_VERSION_NEWEST });
    }
    decode_body(bytes, reader, found).ok_or_else(|| damaged("its volume table makes no sense"))
}

fn decode_body(bytes: &[u8], mut reader: Reader<'_>, version: u32) -> Option<Superblock> {
    let uuid = reader.take_uuid()?;
    let epoch = reader.take_u64()?;
    let device_size = reader.take_u64()?;
    let segment_size = reader.take_u64()?;
    let journal_size = reader.take_u64()?;
    let segment_count = reader.take_u32()?;
    let count = usize::try_from(reader.take_u32()?).ok()?;
    let starts = reader.take_u64()?;
    reader.take(JOURNAL_AT.saturating_sub(STARTS_END))?;
    let journal = DurableBlocks::take(&mut reader)?;
    if count > VOLUME_COUNT_MAX || starts >= SEQUENCE_LIMIT {
        return None;
    }
    let table = bytes.get(VOLUMES_AT..)?;
    let volumes: Vec<_> =
        table.chunks_exact(VOLUME_BYTES).take(count).map(VolumeRecord::take).collect::<Option<_>>()?;
    let is_repeated = |(index, volume): (usize, &VolumeRecord)| {
        volumes.iter().take(index).any(|other| other.id == volume.id || other.name == volume.name)
    };
    if epoch >= SEQUENCE_LIMIT || volumes.iter().enumerate().any(is_repeated) {
        return None;
    }
    let mut grown = Reader::bare(bytes.get(GROWN_AT..)?);
    let (formatted_size, unopened) = match version {
        FORMAT_VERSION_GROWN => (grown.take_u64()?, Generation::new(grown.take_u32()?)),
        // A replaced device or an incomplete successor that has not grown has zeroes here.
        FORMAT_VERSION_REPLACED => match (grown.take_u64()?, Generation::new(grown.take_u32()?)) {
            (0, unopened) => (device_size, unopened),
            (formatted_size, unopened) => (formatted_size, unopened),
        },
        _ => (device_size, Generation::new(0)),
    };
    let is_grown = formatted_size != device_size;
    if (version != FORMAT_VERSION_REPLACED && is_grown != (version == FORMAT_VERSION_GROWN))
        || unopened.get() > GENERATION_WORN_OUT
    {
        return None;
    }
    let geometry = Geometry { device_size, formatted_size, segment_size, segment_count, journal_size };
    let takeover = Takeover::take(bytes.get(TAKEOVER_AT..)?)?;
    if takeover.is_barred() != (version == FORMAT_VERSION_REPLACED) {
        return None;
    }
    Some(Superblock { version, uuid, epoch, starts, journal, geometry, unopened, volumes, takeover })
}

fn newest(first: Superblock, second: Superblock) -> Result<Superblock, Error> {
    if first.uuid != second.uuid || (first.epoch == second.epoch && first != second) {
        let what = "its two copies contradict each other; was the device copied onto itself?".to_string();
        return Err(Error::Superblock { what });
    }
    Ok(if second.epoch > first.epoch { second } else { first })
}

fn describe(bytes: &[u8]) -> String {
    let head = bytes.get(..8).unwrap_or(bytes);
    if head.iter().all(|byte| *byte == 0) {
        return "zeroes".to_string();
    }
    format!("found the bytes {head:02x?}")
}
