//! The way of the log to standard error, or to the journal.
//!
//! A thread that logs never waits for the reader of the log and never fails with it. Lines that
//! find no room, or cannot be written, are counted, and the count is logged before a later line.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use tracing_subscriber::fmt::MakeWriter;

use crate::log::line_format::LineFormat;

/// The most lines that wait to be written.
const LINES_MAX: usize = 1024;
/// The most bytes of a line; the rest is cut.
const LINE_BYTES_MAX: usize = 16 << 10;
/// How long the end of the process waits for lines that are not written.
const END_MAX: Duration = Duration::from_secs(1);

/// The queue for lines of the log; clones share one queue.
#[derive(Clone)]
pub(crate) struct Outlet {
    shared: Arc<Shared>,
}

struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
    format: LineFormat,
}

#[derive(Default)]
struct Queue {
    entries: VecDeque<Entry>,
    /// Lines that were not queued since the last entry.
    dropped: u64,
    ending: bool,
    /// The thread has written or lost all lines.
    done: bool,
}

enum Entry {
    Line(Vec<u8>),
    /// The number of lines lost at this place.
    Gap(u64),
}

impl Outlet {
    pub(super) fn to_stderr(format: LineFormat) -> io::Result<Outlet> {
        Outlet::start(RawStderr, format)
    }

    pub(super) fn start(sink: impl Write + Send + 'static, format: LineFormat) -> io::Result<Outlet> {
        let shared = Arc::new(Shared { queue: Mutex::default(), changed: Condvar::new(), format });
        let outlet = Outlet { shared: Arc::clone(&shared) };
        thread::Builder::new().name("log".into()).spawn(move || shared.write_all(sink))?;
        Ok(outlet)
    }

    pub(crate) fn is_text(&self) -> bool {
        matches!(self.shared.format, LineFormat::Timed | LineFormat::Untimed)
    }

    /// Waits until all lines are written, for a bounded time; later lines are dropped.
    pub(crate) fn end(&self) {
        let mut queue = self.shared.lock();
        queue.ending = true;
        self.shared.changed.notify_all();
        let waited = self.shared.changed.wait_timeout_while(queue, END_MAX, |queue| !queue.done);
        drop(waited);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, line: &[u8]) {
        let mut queue = self.lock();
        let gap = usize::from(queue.dropped > 0);
        if queue.ending || queue.entries.len() + gap >= LINES_MAX {
            queue.dropped += 1;
            return;
        }
        if queue.dropped > 0 {
            let dropped = std::mem::take(&mut queue.dropped);
            queue.entries.push_back(Entry::Gap(dropped));
        }
        queue.entries.push_back(Entry::Line(line[..line.len().min(LINE_BYTES_MAX)].to_vec()));
        self.changed.notify_all();
    }

    fn take(&self) -> Option<Entry> {
        let mut queue = self.lock();
        loop {
            if let Some(entry) = queue.entries.pop_front() {
                return Some(entry);
            }
            if queue.dropped > 0 {
                return Some(Entry::Gap(std::mem::take(&mut queue.dropped)));
            }
            if queue.ending {
                queue.done = true;
                self.changed.notify_all();
                return None;
            }
            queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn write_all(&self, sink: impl Write) {
        let mut page = Page { sink, torn: false };
        let mut lost = 0;
        while let Some(entry) = self.take() {
            let line = match entry {
                Entry::Gap(count) => {
                    lost += count;
                    None
                }
                Entry::Line(line) => Some(line),
            };
            if lost > 0 && page.write(self.format.gap(lost).as_bytes()) {
                lost = 0;
            }
            if line.is_some_and(|line| !page.write(&line)) {
                lost += 1;
            }
        }
    }
}

struct Page<W> {
    sink: W,
    /// A line was written in part: the next one begins on a new line.
    torn: bool,
}

impl<W: Write> Page<W> {
    /// Writes a line; `false` if it was not written whole.
    fn write(&mut self, line: &[u8]) -> bool {
        if self.torn && self.sink.write_all(b"\n").is_err() {
            return false;
        }
        self.torn = false;
        let mut rest = line;
        while !rest.is_empty() {
            match self.sink.write(rest) {
                Ok(count) if count > 0 => rest = &rest[count..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(_) | Err(_) => {
                    self.torn = rest.len() < line.len();
                    return false;
                }
            }
        }
        true
    }
}

/// Standard error without the lock of the standard library; if it is non-blocking, a write waits until it has room.
struct RawStderr;

impl Write for RawStderr {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        use rustix::event::{PollFd, PollFlags, poll};
        let stderr = io::stderr();
        loop {
            match rustix::io::write(stderr.as_fd(), bytes) {
                Err(rustix::io::Errno::AGAIN) => {
                    poll(&mut [PollFd::new(&stderr.as_fd(), PollFlags::OUT)], None)?;
                }
                written => return Ok(written?),
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Treats each write as one line.
pub(crate) struct LineWriter<'a>(&'a Shared);

impl Write for LineWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.put(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Outlet {
    type Writer = LineWriter<'a>;

    fn make_writer(&'a self) -> LineWriter<'a> {
        LineWriter(&self.shared)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{self, Receiver, Sender};
    use std::time::Instant;

    use super::*;

    /// A sink that completes each write with the next ordered result, and waits for that order.
    struct ScriptedSink {
        orders: Receiver<io::Result<()>>,
        written: Arc<Mutex<String>>,
    }

    impl Write for ScriptedSink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            // The test has ended if its sender is dropped.
            self.orders.recv().unwrap_or_else(|_| Err(io::ErrorKind::BrokenPipe.into()))?;
            self.written.lock().unwrap().push_str(std::str::from_utf8(bytes).unwrap());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn told() -> (Outlet, Sender<io::Result<()>>, Arc<Mutex<String>>) {
        let ((orders, taken), written) = (mpsc::channel(), Arc::default());
        let sink = ScriptedSink { orders: taken, written: Arc::clone(&written) };
        (Outlet::start(sink, LineFormat::Untimed).unwrap(), orders, written)
    }

    fn put(outlet: &Outlet, line: &str) {
        outlet.make_writer().write_all(line.as_bytes()).unwrap();
    }

    #[test]
    fn lines_without_room_are_counted_at_their_place() {
        let (outlet, orders, written) = told();
        put(&outlet, "first\n");
        while !outlet.shared.lock().entries.is_empty() {
            thread::yield_now();
        }
        (0..LINES_MAX + 12).for_each(|_| put(&outlet, "x\n"));
        (0..2).for_each(|_| orders.send(Ok(())).unwrap());
        while outlet.shared.lock().entries.len() > LINES_MAX - 2 {
            thread::yield_now();
        }
        put(&outlet, "last\n");
        (0..LINES_MAX + 9).for_each(|_| orders.send(Ok(())).unwrap());
        outlet.end();
        let written = written.lock().unwrap();
        let expected =
            format!("first\n{} WARN 12 lines of the log were lost\nlast\n", "x\n".repeat(LINES_MAX));
        assert!(*written == expected, "{}", &written[written.len().saturating_sub(200)..]);
    }

    #[test]
    fn lines_that_cannot_be_written_are_counted() {
        let (outlet, orders, written) = told();
        let full = || Err(io::ErrorKind::StorageFull.into());
        ["a\n", "b\n", "c\n"].iter().for_each(|line| put(&outlet, line));
        // The writes of `a`, of the gap line and of `b` fail; then the gap line and `c` are written.
        [full(), full(), full(), Ok(()), Ok(())].into_iter().for_each(|order| orders.send(order).unwrap());
        outlet.end();
        assert_eq!(*written.lock().unwrap(), " WARN 2 lines of the log were lost\nc\n");
    }

    #[test]
    fn an_absent_reader_delays_the_end_by_a_bounded_time() {
        let (outlet, _orders, written) = told();
        put(&outlet, "a\n");
        let began = Instant::now();
        outlet.end();
        assert!((END_MAX..END_MAX * 5).contains(&began.elapsed()));
        assert_eq!(*written.lock().unwrap(), "");
    }

    #[test]
    fn half_a_line_is_not_glued_to_the_next() {
        struct PartialSink(Vec<u8>, usize);
        impl Write for PartialSink {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                let count = bytes.len().min(std::mem::take(&mut self.1));
                self.0.extend_from_slice(&bytes[..count]);
                if count == 0 { Err(io::ErrorKind::StorageFull.into()) } else { Ok(count) }
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let mut page = Page { sink: PartialSink(Vec::new(), 2), torn: false };
        assert!(!page.write(b"abcd\n"));
        page.sink.1 = 1;
        assert!(!page.write(b"efgh\n"), "there was room for the end of the line only");
        page.sink.1 = 100;
        assert!(page.write(b"ijkl\n"));
        assert_eq!(page.sink.0, b"ab\nijkl\n");
    }
}
