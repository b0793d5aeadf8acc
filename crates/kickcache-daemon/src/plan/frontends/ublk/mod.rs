//! The settings of ublk.

pub mod id;
pub mod queues;

use serde::de::MapAccess;

use crate::plan::frontends::spec::FrontendSpec;
use crate::plan::frontends::ublk::id::{ANY, Choice, UblkId};
use crate::plan::frontends::ublk::queues::{QueueCount, QueueDepth};

pub(in crate::plan) const KEYS: &[&str] = &[ID, QUEUES, DEPTH];
const ID: &str = "ublk";
const QUEUES: &str = "ublk-queues";
const DEPTH: &str = "ublk-depth";

/// Which block device of this host a volume is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, clap::Args)]
#[group(skip)]
pub struct UblkSpec {
    /// Block device of this host, /dev/ublkbN [default N: a free one]; Linux 6.4 or later with ublk_drv, root
    #[arg(id = "ublk", long = ID, value_name = "N", requires = "cache", num_args = 0..=1, require_equals = true, default_missing_value = ANY)]
    pub id: Option<UblkId>,
    /// Queues of the block device, 1 to 16; one thread serves them all [default: 1]
    #[arg(id = "ublk_queues", long = QUEUES, value_name = "N", requires = "ublk", allow_hyphen_values = true)]
    pub queues: Option<QueueCount>,
    /// Depth of each queue of the block device, 1 to 1024; all queues together at most 2048 [default: 128]
    #[arg(id = "ublk_depth", long = DEPTH, value_name = "N", requires = "ublk", allow_hyphen_values = true)]
    pub depth: Option<QueueDepth>,
}

impl UblkSpec {
    pub(super) fn read<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        match key {
            QUEUES => self.queues = Some(map.next_value()?),
            DEPTH => self.depth = Some(map.next_value()?),
            _ => self.id = map.next_value::<Choice>()?.0,
        }
        Ok(())
    }
}

impl FrontendSpec for UblkSpec {
    fn is_reachable(&self) -> bool {
        self.id.is_some()
    }

    fn announcements(&self, _volume: &str) -> Vec<String> {
        self.id.map(|_| "a block device of this host, over ublk".into()).into_iter().collect()
    }

    fn check(&self) -> Result<(), String> {
        if self.id.is_none() && (self.queues.is_some() || self.depth.is_some()) {
            return Err("ublk-queues and ublk-depth are settings of a block device, and it is none; write ublk = true or its number, \
                        or leave them out"
                .into());
        }
        queues::check(self.queues.unwrap_or_default(), self.depth.unwrap_or_default())
    }
}
