//! The server's interface for the rest of the program: start, requests, stop.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use kickcache_engine::cache_engine::CacheEngine;
use kickcache_engine::config::{EngineSettings, Mode};
use kickcache_engine::device::Device;
use kickcache_engine::time::Instant;
use kickcache_engine::units::VolumeId;

pub use crate::devices::cache_device::successor::SuccessorSpec;
use crate::devices::origin_records::OriginRecords;
use crate::plan::Exposure;
use crate::plan::write_budget::WriteBudget;
use crate::recording::ring::{Ends, Recording, ring};
use crate::serve::config::{ServerConfig, StatePlace};
use crate::serve::control::DeviceInUse;
pub use crate::serve::control::{
    Activities, Errors, FaultCount, MemoryUse, NamedSettings, Orphan, Recorded, Recovery, ServerHealth,
    ServerSample, ServerStatus, TakeoverBegun, TakeoverProgress, TakeoverStage, Trouble, VolumeInfo,
};
use crate::serve::core::engine_span;
use crate::serve::error::ServeError;
use crate::serve::startup;
use crate::serve::stop_wish::StopWish;
pub use crate::serve::times::{Activity, LatencySum};
use crate::serve::verbs::Control;
use crate::serve::verbs::Verbs;
pub use crate::serve::verbs::exchange::UncleanBlocks;
use crate::serve::verbs::takeover_order::TakeoverOrder;
use crate::wakeup::Wakeup;
use crate::whole_path::shown_path;
use crate::words::ModeWord;

/// How long samples, vitals and pulses wait for a loop: a loop that hangs must not hide the other loops.
const SAMPLE_MAX: Duration = Duration::from_secs(2);

/// The parameters that a new volume shares with the served volumes.
#[derive(Clone)]
pub(crate) struct ServerContext {
    pub(crate) cache: PathBuf,
    pub(crate) engine: EngineSettings,
    pub(crate) state: StatePlace,
    pub(crate) exposure: Exposure,
    pub(crate) stop_wish: StopWish,
}

#[derive(Debug)]
pub struct Server;

impl Server {
    /// Starts a server on a thread of its own; returns when the server listens.
    ///
    /// # Errors
    /// If the server cannot start.
    pub fn start(config: ServerConfig) -> Result<ServerHandle, ServeError> {
        let wakeup = Arc::new(Wakeup::new().map_err(ServeError::system("make an event descriptor"))?);
        let (sender, control) = mpsc::channel();
        let (tell, told) = mpsc::channel();
        let rung = Arc::clone(&wakeup);
        let surroundings = ServerContext {
            cache: config.cache.device.clone(),
            engine: config.engine,
            state: config.state.clone(),
            exposure: config.tls.exposure(config.exposure),
            stop_wish: config.stop_wish.clone(),
        };
        let thread = thread::Builder::new()
            .name("kickcache".into())
            .spawn(move || run(config, control, rung, &tell))
            .map_err(ServeError::system("start a thread"))?;
        match told.recv() {
            Ok(StartMessage { notes, device }) => {
                let link = Mutex::new(Link { sender, thread: Some(thread) });
                let notes = Mutex::new(notes);
                Ok(ServerHandle { shared: Arc::new(Shared { link, wakeup, notes, device, surroundings }) })
            }
            Err(_) => {
                Err(thread.join().unwrap_or(Err(ServeError::Stopped)).err().unwrap_or(ServeError::Stopped))
            }
        }
    }
}

fn run(
    config: ServerConfig,
    control: Receiver<Control>,
    wakeup: Arc<Wakeup>,
    tell: &Sender<StartMessage>,
) -> Result<Vec<UncleanBlocks>, ServeError> {
    let mut event_loop = startup::start(config, control, wakeup)?;
    // The starting thread may have ended.
    let _ = tell.send(StartMessage {
        notes: event_loop.notes.clone(),
        device: Arc::clone(&event_loop.takeover.device),
    });
    let end = event_loop.run();
    if matches!(end, Err(ServeError::GivenUp { .. })) || !event_loop.core.driver.is_idle(Device::Successor) {
        // Devices may yet write to the memory of the loop, and threads that wait for devices cannot be waited
        // for.
        std::mem::forget(event_loop);
    }
    end
}

struct StartMessage {
    notes: Option<Arc<OriginRecords>>,
    device: Arc<Mutex<PathBuf>>,
}

/// A running server. Clones refer to the same server, which stops when the last clone is dropped.
#[derive(Clone)]
pub struct ServerHandle {
    shared: Arc<Shared>,
}

struct Shared {
    link: Mutex<Link>,
    wakeup: Arc<Wakeup>,
    /// The records of the origins; `None` while volumes are served without a cache device.
    notes: Mutex<Option<Arc<OriginRecords>>>,
    device: Arc<Mutex<PathBuf>>,
    surroundings: ServerContext,
}

#[derive(Debug)]
struct Link {
    sender: Sender<Control>,
    thread: Option<JoinHandle<Result<Vec<UncleanBlocks>, ServeError>>>,
}

pub struct RecordingBegun {
    pub recorded: Recorded,
    pub recording: Recording,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Pulse {
    Turns(ServerHealth),
    /// The loop does not answer within `SAMPLE_MAX`.
    Silent,
    /// The loop has ended, with an error or on request.
    Ended,
}

impl ServerHandle {
    /// # Errors
    /// [`ServeError::Stopped`].
    pub fn status(&self) -> Result<ServerStatus, ServeError> {
        self.in_turn(|verbs, now| verbs.status(now))
    }

    /// State and counters for metrics.
    ///
    /// # Errors
    /// [`ServeError::Stopped`], also if the loop does not answer within `SAMPLE_MAX`.
    pub fn sample(&self) -> Result<ServerSample, ServeError> {
        let answered = self.begin_turn(|verbs, _| verbs.sample())?;
        answered.recv_timeout(SAMPLE_MAX).map_err(|_| ServeError::Stopped)
    }

    /// State and counters without the curves of other cache sizes.
    ///
    /// # Errors
    /// [`ServeError::Stopped`], also if the loop does not answer within `SAMPLE_MAX`.
    pub fn vitals(&self) -> Result<ServerStatus, ServeError> {
        let answered = self.begin_turn(|verbs, now| verbs.vitals(now))?;
        answered.recv_timeout(SAMPLE_MAX).map_err(|_| ServeError::Stopped)
    }

    pub fn pulse(&self) -> Pulse {
        let Ok(answered) = self.begin_turn(|verbs, now| verbs.health(now)) else { return Pulse::Ended };
        match answered.recv_timeout(SAMPLE_MAX) {
            Ok(beat) => Pulse::Turns(beat),
            Err(RecvTimeoutError::Timeout) => Pulse::Silent,
            Err(RecvTimeoutError::Disconnected) => Pulse::Ended,
        }
    }

    /// # Errors
    /// If no volume has the name, write-back cannot be recorded, or [`ServeError::Stopped`].
    pub fn set_mode(&self, volume: &str, mode: Mode) -> Result<(), ServeError> {
        // The record is written by this thread: a slow disk below the state directory would hold up the loop.
        if let (Some(notes), Mode::WriteBack) = (self.notes(), mode) {
            notes.expect_dirty(volume)?;
        }
        self.on_volume(volume, move |engine, id, now| engine.set_mode(now, id, mode))?;
        let word = ModeWord::from(mode).as_str();
        tracing::info!(event = "mode_changed", volume, "the mode of {volume} is now {word}");
        Ok(())
    }

    /// # Errors
    /// If no volume has the name, or [`ServeError::Stopped`].
    pub fn drain(&self, volume: &str) -> Result<(), ServeError> {
        let name = volume.to_owned();
        self.on_volume(volume, move |engine, id, now| {
            let volumes = engine.status().volumes;
            if !volumes.iter().any(|found| found.volume == id && found.is_draining) {
                tracing::info!(event = "drain_begun", volume = name, "the drain of {name} begins");
            }
            engine.drain(now, id);
        })
    }

    /// Stops caching reads of a volume for a time; a zero time ends the pause.
    ///
    /// # Errors
    /// If no volume has the name, or [`ServeError::Stopped`].
    pub fn pause_caching(&self, volume: &str, span: Duration) -> Result<(), ServeError> {
        let pause = engine_span(span);
        self.on_volume(volume, move |engine, id, now| engine.pause_caching(id, now.plus(pause)))?;
        match span.as_secs() {
            0 => {
                tracing::info!(event = "caching_resumed", volume, "reads of {volume} are cached again");
            }
            seconds => {
                tracing::info!(
                    event = "caching_paused",
                    volume,
                    "reads of {volume} are not cached for {seconds} s"
                );
            }
        }
        Ok(())
    }

    fn on_volume(
        &self,
        volume: &str,
        verb: impl FnOnce(&mut dyn CacheEngine, VolumeId, Instant) + Send + 'static,
    ) -> Result<(), ServeError> {
        let volume = volume.to_owned();
        self.in_turn(move |verbs, now| {
            let id = verbs.volume_id(&volume)?;
            verb(verbs.engine(), id, now);
            Ok(())
        })?
    }

    /// Changes modes, policies and client caps of volumes, all or none.
    ///
    /// # Errors
    /// If a volume is not served, write-back cannot be recorded, or [`ServeError::Stopped`].
    pub fn change_settings(&self, wanted: Vec<NamedSettings>) -> Result<(), ServeError> {
        if let Some(notes) = self.notes() {
            let writes_back = |wanted: &&NamedSettings| wanted.settings.mode == Mode::WriteBack;
            wanted.iter().filter(writes_back).try_for_each(|wanted| notes.expect_dirty(&wanted.volume))?;
        }
        self.in_turn(move |verbs, now| verbs.change_settings(now, &wanted))?
    }

    /// # Errors
    /// [`ServeError::Stopped`].
    pub fn set_write_budget(&self, budget: Option<WriteBudget>) -> Result<(), ServeError> {
        self.in_turn(move |verbs, now| verbs.set_write_budget(now, budget))
    }

    /// Begins to copy the cache device to another one, which then takes over. Waits without a limit for the
    /// preparation of the new device. `check` looks for further obstacles, on a thread that may wait.
    ///
    /// # Errors
    /// The error of `check`, the reason why the new device cannot take over, or [`ServeError::Stopped`].
    pub fn take_over(
        &self,
        spec: SuccessorSpec,
        check: impl FnOnce() -> Result<(), ServeError> + Send + 'static,
    ) -> Result<TakeoverBegun, ServeError> {
        self.begin_takeover(TakeoverOrder::now(spec, check))
    }

    /// Continues an earlier replacement if the new device is as expected.
    ///
    /// # Errors
    /// As [`ServerHandle::take_over`].
    pub fn go_on_taking_over(&self, with: &Path) -> Result<TakeoverBegun, ServeError> {
        self.begin_takeover(TakeoverOrder::earlier(self.device(), with.into()))
    }

    fn begin_takeover(&self, order: TakeoverOrder) -> Result<TakeoverBegun, ServeError> {
        let (answer, answered) = mpsc::channel();
        self.in_turn(move |verbs, _| verbs.begin_takeover(order, answer))?;
        answered.recv().map_err(|_| ServeError::Stopped)?
    }

    /// Checks for obstacles, without a change.
    ///
    /// # Errors
    /// As [`ServerHandle::take_over`], for errors that can be detected in advance.
    pub fn check_takeover(&self, spec: &SuccessorSpec) -> Result<TakeoverBegun, ServeError> {
        let DeviceInUse { superblock, cache } = self.in_turn(|verbs, _| verbs.device_to_replace())??;
        spec.check(&cache, &superblock, &self.shared.surroundings.state)?;
        let with = shown_path(&spec.path);
        Ok(TakeoverBegun { with, bytes: superblock.geometry.log().length })
    }

    pub(crate) fn notes(&self) -> Option<Arc<OriginRecords>> {
        self.shared.notes.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn keep_notes(&self, notes: Option<Arc<OriginRecords>>) {
        *self.shared.notes.lock().unwrap_or_else(PoisonError::into_inner) = notes;
    }

    pub(crate) fn context(&self) -> ServerContext {
        ServerContext { cache: self.device(), ..self.shared.surroundings.clone() }
    }

    /// The path of the cache device.
    pub fn device(&self) -> PathBuf {
        self.shared.device.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Records the requests of a volume, until the recording is dropped, the volume is removed or the server stops.
    ///
    /// # Errors
    /// If no volume has the name, the limit of recordings is reached, or [`ServeError::Stopped`].
    pub fn record(&self, volume: &str) -> Result<RecordingBegun, ServeError> {
        let Ends { recorder, mut recording } = ring();
        let shared = Arc::downgrade(&self.shared);
        recording.on_end(move || {
            if let Some(shared) = shared.upgrade() {
                // A stopped server has no recordings.
                let _ = ServerHandle { shared }.begin_turn(|verbs, _| verbs.end_recordings());
            }
        });
        let volume = volume.to_owned();
        let recorded = self.in_turn(move |verbs, now| verbs.begin_recording(now, &volume, recorder))??;
        Ok(RecordingBegun { recorded, recording })
    }

    /// Begins a clean stop; may be called again.
    pub fn stop(&self) {
        // A server that has stopped needs no second command.
        let _ = self.send(Control::Stop);
    }

    /// As [`ServerHandle::stop`]; a stop whose awaited devices the log has named ends without a further wait,
    /// and the cache device may be as after `kill -9`.
    pub fn insist(&self) {
        let _ = self.send(Control::Insist);
    }

    /// Waits for the end of the server and returns the dirty and unflushed blocks on the cache device. Only the first caller gets
    /// these blocks, or the error; others get an empty list at once.
    ///
    /// # Errors
    /// The error that ended the server; also that of a stop that was cut short, or left blocks behind.
    ///
    /// # Panics
    /// If the server's thread panicked.
    pub fn join(&self) -> Result<Vec<UncleanBlocks>, ServeError> {
        let thread = self.shared.link.lock().unwrap_or_else(PoisonError::into_inner).thread.take();
        match thread.map(JoinHandle::join) {
            None => Ok(Vec::new()),
            Some(Ok(result)) => result,
            Some(Err(panic)) => std::panic::resume_unwind(panic),
        }
    }

    /// Calls verbs in one turn of the loop, and waits for that.
    ///
    /// # Errors
    /// [`ServeError::Stopped`].
    pub(crate) fn in_turn<T: Send + 'static>(
        &self,
        verbs: impl FnOnce(&mut dyn Verbs, Instant) -> T + Send + 'static,
    ) -> Result<T, ServeError> {
        self.begin_turn(verbs)?.recv().map_err(|_| ServeError::Stopped)
    }

    /// Calls verbs in one turn of the loop; their result comes through the channel.
    fn begin_turn<T: Send + 'static>(
        &self,
        verbs: impl FnOnce(&mut dyn Verbs, Instant) -> T + Send + 'static,
    ) -> Result<Receiver<T>, ServeError> {
        let (answer, answered) = mpsc::channel();
        // The caller may have stopped waiting.
        let call = move |data_plane: &mut dyn Verbs, now| drop(answer.send(verbs(data_plane, now)));
        self.send(Control::Verbs(Box::new(call)))?;
        Ok(answered)
    }

    fn send(&self, control: Control) -> Result<(), ServeError> {
        let link = self.shared.link.lock().unwrap_or_else(PoisonError::into_inner);
        link.sender.send(control).map_err(|_| ServeError::Stopped)?;
        self.shared.wakeup.ring();
        Ok(())
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let link = self.link.get_mut().unwrap_or_else(PoisonError::into_inner);
        let _ = link.sender.send(Control::Stop);
        self.wakeup.ring();
    }
}
