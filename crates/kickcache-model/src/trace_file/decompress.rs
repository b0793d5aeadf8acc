//! Compressed and archived files as plain bytes: xz, gzip, zstd and tar, in any order, detected by their first bytes.

use std::io::{self, BufReader, Cursor, Read};

use flate2::read::MultiGzDecoder;
use lzma_rust2::XzReader;

use crate::trace_file::archive::{self, Archive};
use crate::trace_file::zstd::Zstd;

const HEAD: u64 = 512;
/// The most nested layers, such as tar in gzip.
const LAYERS_MAX: u32 = 4;
/// The most KiB of memory that decompression of xz may take: that of the strongest usual settings.
const XZ_KIB_MAX: u32 = 256 << 10;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Packing {
    Xz,
    Gzip,
    Zstd,
    Tar,
    Other(&'static str),
}

const MARKS: [(&[u8], Packing); 9] = [
    (&[0xfd, b'7', b'z', b'X', b'Z', 0], Packing::Xz),
    (&[0x1f, 0x8b], Packing::Gzip),
    (&[0x28, 0xb5, 0x2f, 0xfd], Packing::Zstd),
    (b"BZh", Packing::Other("bzip2")),
    (b"PK\x03\x04", Packing::Other("zip")),
    (&[0x04, 0x22, 0x4d, 0x18], Packing::Other("lz4")),
    (&[b'7', b'z', 0xbc, 0xaf, 0x27, 0x1c], Packing::Other("7z")),
    (&[0x1f, 0x9d], Packing::Other("compress")),
    (b"LZIP", Packing::Other("lzip")),
];

fn packing(head: &[u8]) -> Option<Packing> {
    if archive::is_archive(head) {
        return Some(Packing::Tar);
    }
    MARKS.iter().find(|(mark, _)| head.starts_with(mark)).map(|(_, packing)| *packing)
}

pub(crate) fn open(reader: Box<dyn Read>) -> io::Result<Box<dyn Read>> {
    open_layers(reader, LAYERS_MAX)
}

fn open_layers(mut reader: Box<dyn Read>, layers: u32) -> io::Result<Box<dyn Read>> {
    let mut head = Vec::new();
    reader.by_ref().take(HEAD).read_to_end(&mut head)?;
    let found = packing(&head);
    let whole = BufReader::new(Cursor::new(head).chain(reader));
    let unsupported = |what: String| Err(io::Error::new(io::ErrorKind::Unsupported, what));
    let plain = match found {
        None => return Ok(Box::new(whole)),
        Some(_) if layers == 0 => {
            return unsupported(format!(
                "it is compressed more than {LAYERS_MAX} times; decompress it first"
            ));
        }
        Some(Packing::Other(name)) => {
            return unsupported(format!(
                "it is compressed by {name}, and xz, gzip, zstd or tar was expected; decompress it first"
            ));
        }
        Some(Packing::Xz) => unpacked("xz", XzReader::new_mem_limit(whole, true, XZ_KIB_MAX)),
        Some(Packing::Gzip) => unpacked("gzip", MultiGzDecoder::new(whole)),
        Some(Packing::Zstd) => unpacked("zstd", Zstd::new(whole)),
        // Each file of the archive may be compressed.
        Some(Packing::Tar) => return Ok(Box::new(Archive::new(Box::new(whole), open_layers, layers - 1))),
    };
    open_layers(plain, layers - 1)
}

fn unpacked(packer: &'static str, reader: impl Read + 'static) -> Box<dyn Read> {
    Box::new(Unpacked { packer, reader })
}

/// Translates the errors of an unpacker into plain messages; errors of the system stay as they are.
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
