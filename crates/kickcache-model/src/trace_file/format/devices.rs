//! The devices of a trace.

use std::collections::HashMap;

use crate::quote::quote;

/// Devices by name, numbered in the order of their appearance.
#[derive(Debug, Default)]
pub(crate) struct Devices {
    numbers: HashMap<String, u32>,
}

/// The most devices of a trace.
const DEVICE_COUNT_MAX: usize = 1 << 20;
/// Bytes of the longest name of a device.
const NAME_BYTES_MAX: usize = 4_096;

impl Devices {
    pub(crate) fn number(&mut self, name: &str) -> Result<u32, String> {
        if let Some(number) = self.numbers.get(name) {
            return Ok(*number);
        }
        if name.len() > NAME_BYTES_MAX {
            return Err(format!(
                "device {} was found; a name of at most {NAME_BYTES_MAX} bytes was expected",
                quote(name)
            ));
        }
        if self.numbers.len() == DEVICE_COUNT_MAX {
            return Err(format!("device {} is one more than the {DEVICE_COUNT_MAX} allowed", quote(name)));
        }
        let number = u32::try_from(self.numbers.len()).expect("at most 2^20");
        self.numbers.insert(name.to_owned(), number);
        Ok(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_keep_their_numbers_however_many_there_are() {
        let mut devices = Devices::default();
        for _ in 0..2 {
            for number in 0..50_000 {
                assert_eq!(devices.number(&format!("vol-{number}")), Ok(number));
            }
        }
        let said = devices.number(&"x".repeat(NAME_BYTES_MAX + 1)).unwrap_err();
        assert!(said.len() < 200 && said.contains("at most 4096 bytes"), "{said}");
    }
}
