//! The feed of a recording.

use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::control::wire::{Reply, write_line};
use crate::recording::parcel::{COUNT_MAX, More, pack};
use crate::recording::ring::{Recording, SLOT_COUNT};

const PAUSE_MAX: Duration = Duration::from_millis(200);
const PAUSE_MIN: Duration = Duration::from_millis(20);
/// Without accesses, an empty parcel is sent after this time.
const BEAT: Duration = Duration::from_secs(1);

/// Sends a recording until the client ends it or disconnects, or the server of the volume ends it.
pub(super) fn feed(mut stream: UnixStream, reply: &Reply, mut recording: Recording) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    write_line(&mut stream, reply)?;
    let (mut bytes, mut pause, mut beat) = (Vec::new(), PAUSE_MIN, Instant::now());
    loop {
        // Read before the ring is emptied: if the recording has ended by now, the ring holds all of its
        // remaining accesses.
        let is_ended = recording.is_ended();
        let count = pack(&mut recording, More::Yes, &mut bytes);
        if count > 0 || beat.elapsed() >= BEAT {
            stream.write_all(&bytes)?;
            beat = Instant::now();
        }
        if count == COUNT_MAX {
            pause = PAUSE_MIN;
            continue;
        }
        if is_ended || is_over(&mut stream, pause)? {
            return finish(&mut stream, &mut recording, &mut bytes);
        }
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

/// Sends the rest of the ring, up to a limit, and the mark of the end.
fn finish(stream: &mut UnixStream, recording: &mut Recording, bytes: &mut Vec<u8>) -> io::Result<()> {
    for _ in 0..SLOT_COUNT / COUNT_MAX {
        if pack(recording, More::Yes, bytes) == 0 {
            break;
        }
        stream.write_all(bytes)?;
    }
    pack(recording, More::No, bytes);
    stream.write_all(bytes)
}

/// Waits for at most `pause`; returns whether the client has ended the recording.
fn is_over(stream: &mut UnixStream, pause: Duration) -> io::Result<bool> {
    let span = Timespec::try_from(pause).ok();
    let is_ready = {
        let mut fds = [PollFd::from_borrowed_fd(stream.as_fd(), PollFlags::IN)];
        matches!(poll(&mut fds, span.as_ref()), Ok(count) if count > 0)
    };
    if !is_ready {
        return Ok(false);
    }
    match stream.read(&mut [0; 64]) {
        Ok(count) => Ok(count == 0),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::thread::JoinHandle;

    use kickcache_engine::request::Operation;
    use kickcache_engine::units::ByteExtent;

    use super::*;
    use crate::control::recording_client::RecordingClient;
    use crate::control::wire::RecordingTitle;
    use crate::recording::access::{RecordedAccess, RecordingEntry};
    use crate::recording::ring::{Ends, Recorder, ring};

    struct Scene {
        recorder: Recorder,
        client: RecordingClient,
        thread: JoinHandle<io::Result<()>>,
    }

    fn scene() -> Scene {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let Ends { recorder, recording } = ring();
        let title = RecordingTitle { volume: "vm1".into(), volume_bytes: 1, started_nanos: 2 };
        let reply = Reply::Recording(title.clone());
        let thread = std::thread::spawn(move || feed(ours, &reply, recording));
        let mut byte = [0];
        while byte != *b"\n" {
            theirs.read_exact(&mut byte).unwrap();
        }
        Scene { recorder, client: RecordingClient::new(theirs, title, Vec::new()), thread }
    }

    fn note(recorder: &mut Recorder, count: u64) {
        let access =
            |at| RecordedAccess::of(at, Operation::Read, ByteExtent { start: at, length: 1 }).unwrap();
        (0..count).for_each(|at| recorder.note(access(at)));
    }

    fn rest(client: &mut RecordingClient) -> (u64, u64) {
        let mut count = 0;
        loop {
            let Some(parcel) = client.next(Duration::from_secs(60)).unwrap() else { continue };
            count +=
                parcel.noted.iter().filter(|noted| matches!(noted, RecordingEntry::Access(_))).count() as u64;
            if parcel.more == More::No {
                return (count, parcel.lost);
            }
        }
    }

    #[test]
    fn records_before_the_end_are_sent() {
        let Scene { mut recorder, mut client, thread } = scene();
        note(&mut recorder, 3 * COUNT_MAX + 5);
        client.finish().unwrap();
        assert_eq!(rest(&mut client), (3 * COUNT_MAX + 5, 0));
        thread.join().unwrap().unwrap();
        assert!(!recorder.is_wanted());
    }

    #[test]
    fn a_volume_that_is_served_no_more_ends_its_recording() {
        let Scene { mut recorder, mut client, thread } = scene();
        note(&mut recorder, 3);
        drop(recorder);
        assert_eq!(rest(&mut client), (3, 0));
        thread.join().unwrap().unwrap();
    }

    #[test]
    fn a_client_that_is_gone_ends_the_recording() {
        let Scene { recorder, client, thread } = scene();
        drop(client);
        let _ = thread.join().unwrap();
        assert!(!recorder.is_wanted());
    }

    #[test]
    fn a_client_that_does_not_read_loses_records_without_delay() {
        let Scene { mut recorder, mut client, thread } = scene();
        note(&mut recorder, 2 * SLOT_COUNT);
        client.finish().unwrap();
        let (count, lost) = rest(&mut client);
        assert!(lost > 0, "the ring and the socket hold less");
        assert_eq!(count + lost, 2 * SLOT_COUNT);
        thread.join().unwrap().unwrap();
    }
}
