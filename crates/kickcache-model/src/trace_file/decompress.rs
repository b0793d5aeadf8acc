//! Compressed files as plain bytes: xz, gzip and zstd, told by their first bytes.

use std::io::{self, BufReader, Cursor, Read};

use flate2::read::MultiGzDecoder;
use lzma_rust2::XzReader;

use crate::trace_file::zstd::Zstd;

const XZ: &[u8] = &[0xfd, b'7', b'z', b'X', b'Z', 0];
const GZIP: &[u8] = &[0x1f, 0x8b];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
/// Memory that unpacking may take: what the strongest usual settings need.
const XZ_KIB_MAX: u32 = 256 << 10;

/// Unpacks what is packed, and passes the rest on.
pub(crate) fn open(mut reader: Box<dyn Read>) -> io::Result<Box<dyn Read>> {
    let mut head = Vec::new();
    reader.by_ref().take(XZ.len() as u64).read_to_end(&mut head)?;
    let (is_xz, is_gzip, is_zstd) = (head.starts_with(XZ), head.starts_with(GZIP), head.starts_with(ZSTD));
    let whole = BufReader::new(Cursor::new(head).chain(reader));
    if is_xz {
        return Ok(unpacked("xz", XzReader::new_mem_limit(whole, true, XZ_KIB_MAX)));
    }
    if is_gzip {
        return Ok(unpacked("gzip", MultiGzDecoder::new(whole)));
    }
    if is_zstd {
        return Ok(unpacked("zstd", Zstd::new(whole)));
    }
    Ok(Box::new(whole))
}

fn unpacked(packer: &'static str, reader: impl Read + 'static) -> Box<dyn Read> {
    Box::new(Unpacked { packer, reader })
}

/// Says in words that people know what an unpacker found.
struct Unpacked<R> {
    packer: &'static str,
    reader: R,
}

impl<R: Read> Read for Unpacked<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let packer = self.packer;
        self.reader.read(buffer).map_err(|error| match error.kind() {
            _ if error.raw_os_error().is_some() => error,
            io::ErrorKind::Interrupted => error,
            kind @ (io::ErrorKind::OutOfMemory | io::ErrorKind::Unsupported) => {
                io::Error::new(kind, format!("{packer} cannot unpack it here: {error}"))
            }
            kind => io::Error::new(kind, format!("{packer} cannot unpack it: it is damaged or cut off")),
        })
    }
}
