//! The slow device of a volume, of any kind.

mod block_comparison;
mod hold;
mod local;
mod nbd;

pub(crate) use self::block_comparison::{ComparedBlocks, compare};
pub(crate) use self::hold::{hold, hold_too};
use kickcache_engine::samples::Sample;

use self::nbd::NbdOrigin;
use crate::devices::cache_device::carries_superblock;
use crate::driver::aligned_device::AlignedDevice;
use crate::driver::device::identity::Identified;
use crate::driver::device::{BlockFile, ZeroSpeed};
use crate::driver::executor::Medium;
use crate::driver::queued_device::QueuedDevice;
use crate::plan::origin_source::OriginSource;
use crate::plan::origin_source::outside::OutsideOrigin;
use crate::plan::volume_spec::VolumeSpec;
use crate::serve::error::ServeError;
use crate::serve::stop_wish::StopWish;

/// The most blocks of an origin that are compared before its use, and again after its server was lost.
pub(crate) const SAMPLES_MAX: u32 = 64;

/// Refuses an export of this process as an origin. The process must be serving already.
///
/// # Errors
/// [`ServeError::Volume`], or [`ServeError::System`] without random bytes.
pub(crate) fn check_not_own(spec: &VolumeSpec) -> Result<(), ServeError> {
    match &spec.origin {
        OriginSource::Nbd(uri) => nbd::check_not_own(spec, uri),
        OriginSource::Path(_) | OriginSource::Outside(_) => Ok(()),
    }
}

pub(crate) enum Origin {
    Local(BlockFile),
    Nbd(Box<NbdOrigin>),
    /// An origin that the caller of this crate implements.
    Outside(Box<dyn OutsideOrigin>),
}

impl Origin {
    /// Opens the origin of a volume.
    ///
    /// # Errors
    /// [`ServeError::Origin`], [`ServeError::Volume`] or [`ServeError::System`], or [`ServeError::Stopped`] after a stop
    /// request.
    pub(crate) fn open(spec: &VolumeSpec, wish: &StopWish) -> Result<Origin, ServeError> {
        match &spec.origin {
            OriginSource::Path(path) => {
                Ok(Origin::Local(local::open(&spec.name, path, spec.access, spec.claims)?))
            }
            OriginSource::Nbd(uri) => Ok(Origin::Nbd(Box::new(NbdOrigin::open(spec, uri, wish)?))),
            OriginSource::Outside(source) => Ok(Origin::Outside(source.open())),
        }
    }

    pub(crate) fn identified(&self) -> Identified {
        match self {
            Origin::Local(file) => file.identified(),
            Origin::Nbd(origin) => Identified::strong(origin.identity()),
            Origin::Outside(origin) => Identified::strong(origin.identity()),
        }
    }

    /// Other identities under which the origin may be served.
    pub(crate) fn other_names(&self) -> &[String] {
        match self {
            Origin::Nbd(origin) => origin.other_names(),
            Origin::Local(_) | Origin::Outside(_) => &[],
        }
    }

    /// Bytes, a multiple of 4096.
    pub(crate) fn size(&self) -> u64 {
        match self {
            Origin::Local(file) => file.size(),
            Origin::Nbd(origin) => origin.size(),
            Origin::Outside(origin) => origin.size(),
        }
    }

    /// Whether the origin is known to store zeroes faster than other data.
    pub(crate) fn zeroes(&self) -> ZeroSpeed {
        match self {
            Origin::Local(file) => file.zeroes(),
            Origin::Nbd(_) | Origin::Outside(_) => ZeroSpeed::Slow,
        }
    }

    pub(crate) fn local(&self) -> Option<&BlockFile> {
        match self {
            Origin::Local(file) => Some(file),
            Origin::Nbd(_) | Origin::Outside(_) => None,
        }
    }

    /// Whether the origin has a superblock of a cache device; `false` for an outside origin.
    ///
    /// # Errors
    /// If it cannot be read.
    pub(crate) fn carries_superblock(&self) -> Result<bool, ServeError> {
        match self {
            Origin::Local(file) => carries_superblock(file),
            Origin::Nbd(origin) => Ok(origin.looks_like_cache()),
            Origin::Outside(_) => Ok(false),
        }
    }

    /// Compares an origin that is not local with samples of its expected contents; may wait for the origin.
    ///
    /// # Errors
    /// A sentence, if the origin has other data, or does not answer.
    pub(crate) fn compare(&mut self, samples: &[Sample]) -> Result<(), String> {
        let device: &mut dyn QueuedDevice = match self {
            Origin::Local(_) => return Ok(()),
            Origin::Nbd(origin) => origin.as_mut(),
            Origin::Outside(origin) => origin.as_mut(),
        };
        device.begin_compare(samples);
        device.end_compare()
    }

    pub(crate) fn into_medium(self) -> Medium {
        match self {
            Origin::Local(file) => Medium::File(file),
            Origin::Nbd(origin) => {
                let block = origin.minimum_block();
                Medium::Queued(AlignedDevice::over(origin, block))
            }
            Origin::Outside(origin) => Medium::Queued(origin),
        }
    }
}
