//! Values in flight, by small numbers.

/// A number is used again once its value was removed; the number that was freed last is used first.
#[derive(Debug)]
pub(crate) struct Slots<T> {
    things: Vec<Option<T>>,
    unused: Vec<u32>,
}

impl<T> Default for Slots<T> {
    fn default() -> Slots<T> {
        Slots { things: Vec::new(), unused: Vec::new() }
    }
}

impl<T> Slots<T> {
    pub(crate) fn insert(&mut self, thing: T) -> u32 {
        if let Some(number) = self.unused.pop() {
            self.things[number as usize] = Some(thing);
            return number;
        }
        self.things.push(Some(thing));
        u32::try_from(self.things.len() - 1).expect("few are in flight")
    }

    /// # Panics
    /// If the number has no value.
    pub(crate) fn take(&mut self, number: u32) -> T {
        let thing = self.things[number as usize].take().expect("it is in flight");
        self.unused.push(number);
        thing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_has_one_owner_at_a_time() {
        let mut slots = Slots::default();
        let numbers = ["a", "b", "c"].map(|thing| slots.insert(thing));
        assert_eq!(numbers, [0, 1, 2]);
        assert_eq!((slots.take(2), slots.take(0)), ("c", "a"));
        assert_eq!((slots.insert("d"), slots.insert("e"), slots.insert("f")), (0, 2, 3));
        assert_eq!([0, 1, 2, 3].map(|number| slots.take(number)), ["d", "b", "e", "f"]);
    }
}
