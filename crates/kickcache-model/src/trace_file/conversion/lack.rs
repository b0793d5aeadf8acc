//! Properties that a format cannot express, and their counts.

use std::fmt::Write as _;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Lack {
    /// Flushes: they are left out.
    Flush,
    /// Discards: they are left out.
    Discard,
    /// Zeroes: they become writes.
    Zeroes,
    /// FUA: such writes become plain ones.
    Fua,
    /// Parts of sectors: extents grow to whole ones.
    Sector,
    /// Parts of seconds: times are cut.
    Second,
    /// Times: accesses are replayed as fast as possible.
    Time,
    /// The fact that the recorder lost records.
    Lost,
}

impl Lack {
    const ALL: [Lack; 8] = [
        Lack::Flush,
        Lack::Discard,
        Lack::Zeroes,
        Lack::Fua,
        Lack::Sector,
        Lack::Second,
        Lack::Time,
        Lack::Lost,
    ];

    fn sentence(self, count: u64, format: &str) -> String {
        let s = if count == 1 { "" } else { "s" };
        let mut text = format!("{count} ");
        let rest = match self {
            Lack::Flush => {
                format!("flush{} left out: `{format}` has none", if count == 1 { "" } else { "es" })
            }
            Lack::Discard => format!("discard{s} left out: `{format}` has none"),
            Lack::Zeroes => format!("write{s} of zeroes became plain writes: `{format}` has no other"),
            Lack::Fua => format!("write{s} with FUA became plain writes: `{format}` has no FUA"),
            Lack::Sector => format!(
                "access{} grew to whole sectors of 512 bytes, which `{format}` counts in",
                if count == 1 { "" } else { "es" }
            ),
            Lack::Second => format!("time{s} cut to whole seconds, which `{format}` counts in"),
            Lack::Time => format!("time{s} left out: `{format}` has none; `iolog` has"),
            Lack::Lost => format!("record{s} lost by the recorder, which `{format}` cannot express"),
        };
        let _ = write!(text, "{rest}");
        text
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Lacks {
    counts: [u64; Lack::ALL.len()],
}

impl Lacks {
    pub(crate) fn add_many(&mut self, lack: Lack, count: u64) {
        if let Some(index) = Lack::ALL.iter().position(|other| *other == lack) {
            self.counts[index] += count;
        }
    }

    pub fn count(&self, lack: Lack) -> u64 {
        Lack::ALL.iter().zip(self.counts).filter(|(other, _)| **other == lack).map(|(_, count)| count).sum()
    }

    pub fn sentences(&self, format: &str) -> Vec<String> {
        let found = Lack::ALL.iter().zip(self.counts).filter(|(_, count)| *count > 0);
        found.map(|(lack, count)| lack.sentence(count, format)).collect()
    }
}
