//! The known contents of a device that is not a cache device, by its first bytes.

/// The number of first bytes of a device that [`name`] needs.
pub const LOOK_BYTES: usize = 68 << 10;

/// The offset, the bytes and the name of each signature; the first match counts.
const SIGNATURES: [(usize, &[u8], &str); 22] = [
    (1080, b"\x53\xef", "an ext2, ext3 or ext4 file system"),
    (0, b"XFSB", "an XFS file system"),
    (65_600, b"_BHRfS_M", "a Btrfs file system"),
    (1024, b"\x10\x20\xf5\xf2", "an F2FS file system"),
    (0, b"LUKS\xba\xbe", "a LUKS volume"),
    (512, b"LABELONE", "an LVM physical volume"),
    (0, b"LABELONE", "an LVM physical volume"),
    (4096, b"\xfc\x4e\x2b\xa9", "a member of an md array"),
    (4120, b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca", "a bcache device"),
    (4086, b"SWAPSPACE2", "a swap area"),
    (32_769, b"CD001", "an ISO 9660 file system"),
    (0, b"hsqs", "a squashfs file system"),
    (0, b"QFI\xfb", "a qcow2 image"),
    (0, b"KDMV", "a VMDK image"),
    (3, b"NTFS    ", "an NTFS file system"),
    (82, b"FAT32", "a FAT file system"),
    (54, b"FAT1", "a FAT file system"),
    (3, b"EXFAT   ", "an exFAT file system"),
    (512, b"EFI PART", "a GPT partition table"),
    (0, b"\x1f\x8b", "gzip data"),
    (0, b"\xfd7zXZ", "xz data"),
    (510, b"\x55\xaa", "a partition table (MBR)"),
];

pub fn name(bytes: &[u8]) -> &'static str {
    let stands =
        |offset: usize, magic: &[u8]| bytes.get(offset..).is_some_and(|rest| rest.starts_with(magic));
    let known = SIGNATURES.iter().find(|(offset, magic, _)| stands(*offset, magic));
    let is_text = |byte: &u8| byte.is_ascii_graphic() || byte.is_ascii_whitespace();
    match known {
        Some((_, _, name)) => name,
        None if bytes.iter().all(|byte| *byte == 0) => "zeroes in the beginning and other data behind",
        None if bytes[..bytes.len().min(512)].iter().all(is_text) => "text",
        None => "data",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(offset: usize, magic: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; LOOK_BYTES];
        bytes[offset..offset + magic.len()].copy_from_slice(magic);
        bytes
    }

    #[test]
    fn common_formats_of_other_devices_have_names() {
        for (offset, magic, expected) in SIGNATURES {
            assert_eq!(name(&with(offset, magic)), expected);
        }
        assert_eq!(name(b"to do: buy a disk\n"), "text");
        assert_eq!(name(&[7; 600]), "data");
        assert_eq!(name(&with(600, b"x")), "data");
        assert_eq!(name(&[0; 600]), "zeroes in the beginning and other data behind");
    }

    #[test]
    fn a_gpt_disk_is_not_named_by_its_protective_mbr() {
        let mut bytes = with(510, b"\x55\xaa");
        bytes[512..520].copy_from_slice(b"EFI PART");
        assert_eq!(name(&bytes), "a GPT partition table");
    }
}
