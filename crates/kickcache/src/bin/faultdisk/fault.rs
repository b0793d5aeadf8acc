//! A fault: the operations of a disk that it matches, and its effect.

use std::time::Duration;

use anyhow::{Context, bail};
use kickcache_engine::units::ByteExtent;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Operation {
    Read,
    /// A write, a discard or a write of zeroes.
    Write,
    Flush,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Effect {
    Eio,
    NoSpace,
    /// A write or a flush is acknowledged and not done; a read is not affected.
    Lie,
    /// A bit of the read data is flipped.
    Rot,
    Hang,
    /// The connection is dropped.
    Gone,
    Delay(Duration),
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Fault {
    pub(crate) disk: String,
    /// `None` for any.
    operation: Option<Operation>,
    effect: Effect,
    /// `None` for any extent.
    extent: Option<ByteExtent>,
    /// Matching operations that still pass before the fault takes effect.
    after: u64,
    /// `None` for all.
    times: Option<u64>,
}

impl Fault {
    /// `DISK OPERATION EFFECT [OFFSET+LENGTH] [after N] [times N]`
    pub(crate) fn parse(words: &[&str]) -> anyhow::Result<Fault> {
        let [disk, operation, effect, rest @ ..] = words else {
            bail!("a fault needs a disk, an operation and an effect");
        };
        let mut fault = Fault {
            disk: (*disk).to_owned(),
            operation: parse_operation(operation)?,
            effect: parse_effect(effect)?,
            extent: None,
            after: 0,
            times: None,
        };
        let mut rest = rest.iter();
        while let Some(word) = rest.next() {
            match *word {
                "after" => fault.after = rest.next().context("after what?")?.parse()?,
                "times" => fault.times = Some(rest.next().context("how many times?")?.parse()?),
                extent => fault.extent = Some(parse_extent(extent)?),
            }
        }
        Ok(fault)
    }

    /// The effect on an operation that the fault matches; `None` while `after` lets operations pass, and once
    /// `times` is used up. Counts down `after`, then `times`.
    pub(crate) fn meet(&mut self, disk: &str, operation: Operation, extent: ByteExtent) -> Option<Effect> {
        let is_meant = self.disk == disk && self.operation.is_none_or(|meant| meant == operation);
        let is_there = self.extent.is_none_or(|own| extent.start < own.end() && own.start < extent.end());
        if !is_meant || !is_there || self.times == Some(0) {
            return None;
        }
        if self.after > 0 {
            self.after -= 1;
            return None;
        }
        self.times = self.times.map(|times| times - 1);
        Some(self.effect)
    }
}

fn parse_operation(word: &str) -> anyhow::Result<Option<Operation>> {
    Ok(match word {
        "read" => Some(Operation::Read),
        "write" => Some(Operation::Write),
        "flush" => Some(Operation::Flush),
        "any" => None,
        _ => bail!("`{word}` is not read, write, flush or any"),
    })
}

fn parse_effect(word: &str) -> anyhow::Result<Effect> {
    Ok(match word {
        "eio" => Effect::Eio,
        "enospc" => Effect::NoSpace,
        "lie" => Effect::Lie,
        "rot" => Effect::Rot,
        "hang" => Effect::Hang,
        "gone" => Effect::Gone,
        _ => match word.strip_prefix("delay=") {
            Some(milliseconds) => Effect::Delay(Duration::from_millis(milliseconds.parse()?)),
            None => bail!("`{word}` is not eio, enospc, lie, rot, hang, gone or delay=MILLISECONDS"),
        },
    })
}

fn parse_extent(word: &str) -> anyhow::Result<ByteExtent> {
    let (start, length) = word.split_once('+').with_context(|| format!("`{word}` is not OFFSET+LENGTH"))?;
    let (start, length): (u64, u64) = (start.parse()?, length.parse()?);
    start.checked_add(length).context("an extent ends below 2^64")?;
    Ok(ByteExtent { start, length })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(text: &str) -> anyhow::Result<Fault> {
        Fault::parse(&text.split(' ').collect::<Vec<_>>())
    }

    #[test]
    fn a_fault_matches_its_operations_as_often_as_given() {
        let mut eio = fault("cache read eio 4096+4096 after 1 times 2").unwrap();
        let mut meet =
            |offset| eio.meet("cache", Operation::Read, ByteExtent { start: offset, length: 4096 });
        assert_eq!([meet(0), meet(4096), meet(8191), meet(8192)], [None, None, Some(Effect::Eio), None]);
        assert_eq!([meet(1), meet(4096)], [Some(Effect::Eio), None]);
        let mut any = fault("origin any delay=5").unwrap();
        assert_eq!(any.meet("cache", Operation::Flush, ByteExtent { start: 0, length: 0 }), None);
        let delay = Some(Effect::Delay(Duration::from_millis(5)));
        assert_eq!(any.meet("origin", Operation::Flush, ByteExtent { start: 0, length: 0 }), delay);
    }

    #[test]
    fn nonsense_is_refused() {
        for text in
            ["", "a read", "a look eio", "a read burn", "a read eio 5", "a read eio after", "a read delay=x"]
        {
            assert!(fault(text).is_err(), "{text}");
        }
    }
}
