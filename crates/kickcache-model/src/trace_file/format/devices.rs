//! The devices of a trace.

/// Devices by name, numbered as they come.
#[derive(Debug, Default)]
pub(crate) struct Devices {
    names: Vec<String>,
    last: usize,
}

/// More devices than any known trace has.
const DEVICE_COUNT_MAX: usize = 4_096;

impl Devices {
    pub(crate) fn number(&mut self, name: &str) -> Result<u32, String> {
        if self.names.get(self.last).is_none_or(|last| last != name) {
            self.last = match self.names.iter().position(|known| known == name) {
                Some(found) => found,
                None if self.names.len() == DEVICE_COUNT_MAX => {
                    return Err(format!("device {name:?} is one more than the {DEVICE_COUNT_MAX} allowed"));
                }
                None => {
                    self.names.push(name.to_owned());
                    self.names.len() - 1
                }
            };
        }
        Ok(u32::try_from(self.last).expect("at most 4096"))
    }
}
