//! A cache device with clean and dirty blocks, made by a server in this process.

use std::fs;
use std::ops::Range;
use std::path::PathBuf;

use kickcache_engine::units::BLOCK_BYTES;
use kickcache_nbd::client::{Client, ConnectOptions};
use kickcache_units::Size;

use crate::plan::address::NbdAddress;
use crate::plan::cache_spec::CacheSpec;
use crate::plan::cutoff::Cutoff;
use crate::plan::frontends::FrontendSpecs;
use crate::plan::origin_source::OriginSource;
use crate::plan::volume_spec::VolumeSpec;
use crate::serve::config::ServerConfig;
use crate::serve::server::Server;
use crate::words::ModeWord;

pub(super) const BLOCKS: u64 = 1024;
pub(super) const BLOCK: usize = BLOCK_BYTES;
/// Written one by one at the end of an image that is [`Ending::Cut`], each but the last one flushed.
const LATE: Range<u64> = 700..705;

/// A cache device with clean and dirty blocks, and the origin below it.
pub(super) struct Image {
    pub(super) folder: tempfile::TempDir,
    pub(super) expected: Vec<u8>,
}

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Ending {
    Clean,
    /// The image is as the last write left it.
    Cut,
}

/// The content of a block: no two are alike.
fn content(block: u64, version: u64) -> [u8; BLOCK] {
    let mut bytes = [0; BLOCK];
    for (at, word) in bytes.chunks_exact_mut(8).enumerate() {
        let mixed = (block << 32 | version << 12 | at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        word.copy_from_slice(&mixed.to_le_bytes());
    }
    bytes
}

impl Image {
    pub(super) fn cache(&self) -> PathBuf {
        self.folder.path().join("cache")
    }

    pub(super) fn origin(&self) -> PathBuf {
        self.folder.path().join("origin")
    }

    pub(super) fn make(ending: Ending) -> Image {
        let folder = tempfile::Builder::new().tempdir_in("/var/tmp").unwrap();
        let expected: Vec<u8> = (0..BLOCKS).flat_map(|block| content(block, 0)).collect();
        let mut image = Image { folder, expected };
        fs::write(image.origin(), &image.expected).unwrap();
        for life in 1..=3 {
            let server = Server::start(image.config()).unwrap();
            let mut client = image.client();
            image.work(&mut client, life);
            if ending == Ending::Cut && life == 3 {
                image.write_late(&mut client);
                // The server continues with writeback and stops in order; the copies are of this moment.
                fs::copy(image.cache(), image.folder.path().join("cut")).unwrap();
                fs::copy(image.origin(), image.folder.path().join("origin cut")).unwrap();
            }
            client.disconnect().unwrap();
            server.stop();
            server.join().unwrap();
        }
        if ending == Ending::Cut {
            fs::rename(image.folder.path().join("cut"), image.cache()).unwrap();
            fs::rename(image.folder.path().join("origin cut"), image.origin()).unwrap();
        }
        image
    }

    fn config(&self) -> ServerConfig {
        let volume = VolumeSpec {
            mode: ModeWord::WriteBack,
            sequential_cutoff: Cutoff::Off,
            idle_after: std::time::Duration::from_secs(600),
            dirty_limit: "90%".parse().unwrap(),
            frontends: FrontendSpecs::nbd(vec![NbdAddress::Unix(self.folder.path().join("socket"))]),
            ..VolumeSpec::new("v", OriginSource::Path(self.origin()))
        };
        ServerConfig::new(CacheSpec {
            size: Some(Size::from_bytes(8 << 20)),
            ..CacheSpec::new(&self.cache(), vec![volume])
        })
    }

    fn client(&self) -> Client {
        let options = ConnectOptions { export: "v".into(), ..ConnectOptions::default() };
        Client::connect_unix(self.folder.path().join("socket"), &options).unwrap()
    }

    fn work(&mut self, client: &mut Client, life: u64) {
        let mut piece = vec![0; 8 * BLOCK];
        for block in (0..BLOCKS / 2).step_by(8) {
            client.read_at(block * 4096, &mut piece).unwrap();
        }
        for round in 0..3 {
            for block in (life..300).step_by(7) {
                self.write(client, block, life * 10 + round);
            }
            client.flush().unwrap();
        }
        client.trim(200 * 4096, 20 * 4096).unwrap();
        client.read_at(200 * 4096, &mut piece).unwrap();
        let mut whole = vec![0; 20 * BLOCK];
        client.read_at(200 * 4096, &mut whole).unwrap();
        self.expected[200 * BLOCK..220 * BLOCK].copy_from_slice(&whole);
        for block in 600..620 {
            self.write(client, block, life);
        }
        client.flush().unwrap();
    }

    /// The end of a flush reaches the log only with the next write to it.
    fn write_late(&mut self, client: &mut Client) {
        for block in LATE {
            client.flush().unwrap();
            self.write(client, block, 1);
        }
    }

    fn write(&mut self, client: &mut Client, block: u64, version: u64) {
        let bytes = content(block, version);
        client.write_at(block * 4096, &bytes).unwrap();
        let at = usize::try_from(block).unwrap() * BLOCK;
        self.expected[at..at + BLOCK].copy_from_slice(&bytes);
    }
}
