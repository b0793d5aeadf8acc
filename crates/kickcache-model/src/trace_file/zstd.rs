//! The frames of a zstd file one after the other, as `cat` and parallel packers put them together.

use std::io::{self, BufRead, Read};

use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

/// Bytes of the largest window that is accepted: that of the strongest usual settings.
const WINDOW_MAX: u64 = 128 << 20;

pub(crate) struct Zstd<R> {
    source: R,
    frame: FrameDecoder,
}

impl<R: BufRead> Zstd<R> {
    pub(crate) fn new(source: R) -> Zstd<R> {
        let mut frame = FrameDecoder::new();
        frame.set_max_window_size(WINDOW_MAX);
        Zstd { source, frame }
    }

    fn begin(&mut self) -> io::Result<()> {
        match self.frame.init(&mut self.source) {
            Ok(()) => Ok(()),
            Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                length, ..
            })) => io::copy(&mut self.source.by_ref().take(length.into()), &mut io::sink()).map(drop),
            Err(error @ FrameDecoderError::WindowSizeTooBig { .. }) => {
                Err(io::Error::new(io::ErrorKind::OutOfMemory, error))
            }
            Err(error) => Err(io::Error::other(error)),
        }
    }
}

impl<R: BufRead> Read for Zstd<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.frame.can_collect() == 0 {
            if !self.frame.is_finished() {
                let one = BlockDecodingStrategy::UptoBlocks(1);
                self.frame.decode_blocks(&mut self.source, one).map_err(io::Error::other)?;
            } else if self.source.fill_buf()?.is_empty() {
                return Ok(0);
            } else {
                self.begin()?;
            }
        }
        self.frame.read(buffer)
    }
}
