//! The words of the engine's settings, as flags, files and the control socket spell them.

use kickcache_engine::config::{Admission, Mode};
use serde::{Deserialize, Serialize};

/// A mode in full words; the usual short forms are accepted too.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, clap::ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ModeWord {
    /// Writes are acknowledged when cache device and origin have them
    #[default]
    #[value(alias = "wt", alias = "writethrough")]
    #[serde(alias = "wt", alias = "writethrough")]
    WriteThrough,
    /// Writes are acknowledged when the cache device has them, and written back later
    #[value(alias = "wb", alias = "writeback")]
    #[serde(alias = "wb", alias = "writeback")]
    WriteBack,
    /// Writes use the origin only; reads are cached
    #[value(alias = "wa", alias = "writearound")]
    #[serde(alias = "wa", alias = "writearound")]
    WriteAround,
    /// No new data is cached; cached blocks are still served
    Bypass,
}

impl ModeWord {
    pub const fn as_str(self) -> &'static str {
        match self {
            ModeWord::WriteThrough => "write-through",
            ModeWord::WriteBack => "write-back",
            ModeWord::WriteAround => "write-around",
            ModeWord::Bypass => "bypass",
        }
    }
}

impl From<ModeWord> for Mode {
    fn from(word: ModeWord) -> Mode {
        match word {
            ModeWord::WriteThrough => Mode::WriteThrough,
            ModeWord::WriteBack => Mode::WriteBack,
            ModeWord::WriteAround => Mode::WriteAround,
            ModeWord::Bypass => Mode::Bypass,
        }
    }
}

impl From<Mode> for ModeWord {
    fn from(mode: Mode) -> ModeWord {
        match mode {
            Mode::WriteThrough => ModeWord::WriteThrough,
            Mode::WriteBack => ModeWord::WriteBack,
            Mode::WriteAround => ModeWord::WriteAround,
            Mode::Bypass => ModeWord::Bypass,
        }
    }
}

/// Which misses are promoted, spelled out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, clap::ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AdmissionWord {
    /// All misses; under pressure only blocks that were requested before
    #[default]
    Pressure,
    /// All misses
    Always,
    /// Only blocks that were requested before: fewer writes to the cache device
    SecondTouch,
}

impl AdmissionWord {
    pub const fn as_str(self) -> &'static str {
        match self {
            AdmissionWord::Pressure => "pressure",
            AdmissionWord::Always => "always",
            AdmissionWord::SecondTouch => "second-touch",
        }
    }
}

impl From<AdmissionWord> for Admission {
    fn from(word: AdmissionWord) -> Admission {
        match word {
            AdmissionWord::Pressure => Admission::Pressure,
            AdmissionWord::Always => Admission::Always,
            AdmissionWord::SecondTouch => Admission::SecondTouch,
        }
    }
}
