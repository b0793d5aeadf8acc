//! The directions of accesses, which have options of their own.

use std::ops::{Index, IndexMut};

use crate::workload::Kind;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Direction {
    Read,
    Write,
    Trim,
}

impl Direction {
    pub(crate) const fn kind(self) -> Kind {
        match self {
            Direction::Read => Kind::Read,
            Direction::Write => Kind::Write,
            Direction::Trim => Kind::Discard,
        }
    }
}

/// A value for each direction, in the order of fio's options.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct PerDirection<T>(pub(crate) [T; 3]);

impl<T> Index<Direction> for PerDirection<T> {
    type Output = T;

    fn index(&self, direction: Direction) -> &T {
        &self.0[direction as usize]
    }
}

impl<T> IndexMut<Direction> for PerDirection<T> {
    fn index_mut(&mut self, direction: Direction) -> &mut T {
        &mut self.0[direction as usize]
    }
}
