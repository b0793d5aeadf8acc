//! A table with small reusable numbers.

use alloc::vec::Vec;

/// Values by number; a number is reused after its value was removed.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    entries: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Slab<T> {
    pub(crate) const fn new() -> Slab<T> {
        Slab { entries: Vec::new(), free: Vec::new() }
    }

    #[inline]
    pub(crate) fn insert(&mut self, value: T) -> u32 {
        if let Some(number) = self.free.pop() {
            self.entries[number as usize] = Some(value);
            return number;
        }
        self.entries.push(Some(value));
        u32::try_from(self.entries.len() - 1).expect("fewer than 2^32 things in flight")
    }

    pub(crate) fn remove(&mut self, number: u32) -> Option<T> {
        let value = self.entries.get_mut(number as usize)?.take()?;
        self.free.push(number);
        Some(value)
    }

    pub(crate) fn get(&self, number: u32) -> Option<&T> {
        self.entries.get(number as usize)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        self.entries.get_mut(number as usize)?.as_mut()
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Numbers and values, ascending by number.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (u32, &mut T)> {
        (0..).zip(&mut self.entries).filter_map(|(number, entry)| Some((number, entry.as_mut()?)))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        (0..).zip(&self.entries).filter_map(|(number, entry)| Some((number, entry.as_ref()?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_reused_only_after_its_removal() {
        let mut slab = Slab::new();
        let numbers = [1, 2, 3].map(|value| slab.insert(value));
        assert_eq!(slab.remove(numbers[1]), Some(2));
        assert_eq!((slab.remove(numbers[1]), slab.get(numbers[1])), (None, None));
        assert_eq!(slab.insert(4), numbers[1]);
        assert!(!numbers.contains(&slab.insert(5)));
        let values: Vec<_> = slab.iter().map(|(_, value)| *value).collect();
        assert_eq!((values, slab.len()), ([1, 4, 3, 5].to_vec(), 4));
    }
}
