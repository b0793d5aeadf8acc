//! Compressed files as plain bytes: xz, gzip and zstd, told by their first bytes.

use std::io::{self, BufReader, Cursor, Read};

use flate2::read::MultiGzDecoder;
use lzma_rust2::XzReader;
use ruzstd::decoding::StreamingDecoder;

const XZ: &[u8] = &[0xfd, b'7', b'z', b'X', b'Z', 0];
const GZIP: &[u8] = &[0x1f, 0x8b];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
/// Memory that unpacking may take: what the strongest usual settings need.
const XZ_KIB_MAX: u32 = 256 << 10;
const ZSTD_WINDOW_MAX: u64 = 128 << 20;

/// Unpacks what is packed, and passes the rest on.
pub(crate) fn open(mut reader: Box<dyn Read>) -> io::Result<Box<dyn Read>> {
    let mut head = Vec::new();
    reader.by_ref().take(XZ.len() as u64).read_to_end(&mut head)?;
    let (is_xz, is_gzip, is_zstd) = (head.starts_with(XZ), head.starts_with(GZIP), head.starts_with(ZSTD));
    let whole = BufReader::new(Cursor::new(head).chain(reader));
    if is_xz {
        return Ok(Box::new(XzReader::new_mem_limit(whole, true, XZ_KIB_MAX)));
    }
    if is_gzip {
        return Ok(Box::new(MultiGzDecoder::new(whole)));
    }
    if is_zstd {
        let decoder = StreamingDecoder::new_with_max_window_size(whole, ZSTD_WINDOW_MAX);
        return Ok(Box::new(decoder.map_err(io::Error::other)?));
    }
    Ok(Box::new(whole))
}
