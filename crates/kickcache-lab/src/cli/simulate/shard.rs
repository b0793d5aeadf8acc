//! A part of the runs of a simulation, so that several machines share them.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

const SHARDS_MAX: usize = 1_000_000;

/// Together the parts hold every run once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Shard {
    index: usize,
    count: usize,
}

impl Shard {
    pub(crate) const WHOLE: Shard = Shard { index: 0, count: 1 };

    /// The numbers of its runs, of `total`.
    pub(crate) const fn runs(self, total: usize) -> Range<usize> {
        self.start(self.index, total)..self.start(self.index + 1, total)
    }

    const fn start(self, index: usize, total: usize) -> usize {
        // Each shard has `total / count` runs, and the first `total % count` shards have one more.
        let more = total % self.count;
        total / self.count * index + if index < more { index } else { more }
    }

    /// Whether there are other shards.
    pub(crate) fn is_part(self) -> bool {
        self.count > 1
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.count)
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Shard, String> {
        let parts = text.split_once('/').and_then(|(index, count)| {
            Some(Shard { index: index.parse().ok()?, count: count.parse().ok()? })
        });
        parts.filter(|shard| shard.count <= SHARDS_MAX && shard.index < shard.count).ok_or_else(|| {
            format!(
                "`{text}` is not a shard; write INDEX/COUNT with an index from 0 and a count up to {SHARDS_MAX}, \
                 such as 0/4, 1/4, 2/4 and 3/4"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_run_is_in_one_shard() {
        for total in 0..40 {
            for count in 1..13 {
                let runs: Vec<usize> =
                    (0..count).flat_map(|index| Shard { index, count }.runs(total)).collect();
                assert_eq!(runs, (0..total).collect::<Vec<usize>>(), "{total} in {count}");
                let sizes = (0..count).map(|index| Shard { index, count }.runs(total).len());
                let (least, most) = (sizes.clone().min().unwrap(), sizes.max().unwrap());
                assert!(most - least <= 1, "{total} in {count}: {least} to {most}");
            }
        }
    }

    #[test]
    fn a_shard_is_an_index_below_a_count() {
        assert_eq!("3/4".parse(), Ok(Shard { index: 3, count: 4 }));
        assert_eq!("0/1".parse::<Shard>().unwrap().to_string(), "0/1");
        for bad in ["", "4", "4/4", "-1/4", "1/0", "0/0", "a/b", "1/2/3", "0/1000001"] {
            assert!(bad.parse::<Shard>().unwrap_err().contains("INDEX/COUNT"), "{bad}");
        }
    }
}
