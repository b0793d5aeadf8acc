//! Arguments that contradict each other, or the targets.

use std::fmt;

/// The defect, in a sentence.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WrongArguments(pub String);

impl fmt::Display for WrongArguments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for WrongArguments {}
