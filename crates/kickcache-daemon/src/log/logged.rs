//! The log of a test.

use std::io;
use std::sync::{Arc, Mutex};

use crate::log::line_format::{Encoded, LineFormat};

#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl io::Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The lines that a function logs on this thread.
pub(crate) fn logged(log: impl FnOnce()) -> String {
    logged_as(LineFormat::Json, log)
}

pub(super) fn logged_as(format: LineFormat, log: impl FnOnce()) -> String {
    let written = Written::default();
    let writer = written.clone();
    let subscriber =
        tracing_subscriber::fmt().event_format(Encoded(format)).with_writer(move || writer.clone());
    tracing::subscriber::with_default(subscriber.finish(), log);
    let bytes = written.0.lock().unwrap().clone();
    String::from_utf8(bytes).unwrap()
}
